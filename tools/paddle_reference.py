"""Write test cases of PaddlePaddle programs and their outputs to tests/relay/frontend/paddle.

cases.npz has the outputs for the programs of paddle_cases.py, networks.npz programs of whole networks and their outputs
with seeded weights; pir.json.xz has the same cases as programs of PaddlePaddle 3's intermediate representation,
pir_networks.npz the same networks.

    python tools/paddle_reference.py cases [part]  # with paddlepaddle 3 and TVM Classic's dependencies
    python tools/paddle_reference.py pir           # likewise
    python tools/paddle_reference.py pir_networks  # likewise
    python tools/paddle_reference.py networks      # with paddlepaddle 2.6, which still saves such programs
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

os.environ["FLAGS_enable_pir_api"] = "1" if sys.argv[1:2] == ["pir_networks"] else "0"
ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "relay" / "frontend" / "paddle"
sys.path[:0] = [str(ROOT), str(FOLDER)]


def completed(protos: dict):
    """Return an operator with all outputs that PaddlePaddle's kernels write, also those that are not compared."""

    def complete(row):
        kind, inputs, outputs, attrs = row
        own = dict(outputs)
        for slot in protos[kind].outputs:
            if slot.name not in own and not slot.dispensable and kind not in ("while", "conditional_block"):
                # Statistics are updated in place.
                same = inputs.get(slot.name.removesuffix("Out")) if slot.name.endswith("Out") else None
                own[slot.name] = same or [f"{kind}_{next(iter(outputs.values()), ['x'])[0]}_{slot.name}"]
        return kind, inputs, own, attrs

    return complete


def outputs(case, paddle, protos: dict) -> list:
    data = case.program(framed=False, complete=completed(protos))
    program = paddle.static.Program.parse_from_string(data)
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        for name, array in case.weights.items():
            scope.var(name).get_tensor().set(array, paddle.CPUPlace())
        executor = paddle.static.Executor(paddle.CPUPlace())
        feeds = dict(case.feeds)
        for name in case.one_sequence:
            feeds[name] = paddle.base.create_lod_tensor(feeds[name], [[len(feeds[name])]], paddle.CPUPlace())
        found = executor.run(program, feed=feeds, fetch_list=list(case.fetches), return_numpy=not case.one_sequence)
        return list(found)


# -- networks ---------------------------------------------------------------------------------------------------------


def layers(paddle) -> dict:
    """Return small versions of networks of PaddlePaddle's model zoos, each with the type and the shape of its input."""
    nn, models = paddle.nn, paddle.vision.models

    class Encoder(nn.Layer):
        """Token and position embeddings, two attention layers, and a vector for the whole text, as in ERNIE."""

        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 32), nn.Embedding(16, 32)
            self.norm = nn.LayerNorm(32)
            layer = nn.TransformerEncoderLayer(32, 4, 64, activation="gelu")
            self.encoder, self.pooler = nn.TransformerEncoder(layer, 2), nn.Linear(32, 32)

        def forward(self, ids):
            places = paddle.cumsum(paddle.ones_like(ids), axis=1) - 1
            mask = ((ids == 0).astype("float32") * -1e4).unsqueeze([1, 2])
            x = self.encoder(self.norm(self.words(ids) + self.places(places)), mask)
            return x, paddle.tanh(self.pooler(x[:, 0]))

    class Reader(nn.Layer):
        """A text recognizer: convolutions, a bidirectional LSTM over the columns, scores of characters."""

        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2D(3, 8, 3, stride=2, padding=1),
                nn.BatchNorm2D(8),
                nn.Hardswish(),
                nn.MaxPool2D(2, 2),
                nn.Conv2D(8, 12, 3, padding=1, groups=4),
                nn.BatchNorm2D(12),
                nn.ReLU(),
                nn.MaxPool2D((4, 1), (4, 1)),
            )
            self.lstm, self.head = nn.LSTM(12, 10, 2, direction="bidirect"), nn.Linear(20, 17)
            self.softmax = nn.Softmax(2)

        def forward(self, x):
            x = self.body(x).squeeze(2).transpose([0, 2, 1])
            return self.softmax(self.head(self.lstm(x)[0]))

    class Sentiment(nn.Layer):
        """A sentiment classifier: embeddings, a GRU, the mean over the words."""

        def __init__(self):
            super().__init__()
            self.words, self.gru, self.head = nn.Embedding(40, 12), nn.GRU(12, 9), nn.Linear(9, 2)
            self.softmax = nn.LogSoftmax()

        def forward(self, ids):
            return self.softmax(self.head(self.gru(self.words(ids))[0].mean(1)))

    image = ("float32", (1, 3, 64, 64))
    return {
        "resnet18": (models.resnet18(num_classes=10), *image),
        "mobilenet_v1": (models.mobilenet_v1(scale=0.25, num_classes=10), *image),
        "mobilenet_v2": (models.mobilenet_v2(scale=0.25, num_classes=10), *image),
        "mobilenet_v3_small": (models.mobilenet_v3_small(scale=0.5, num_classes=10), *image),
        "squeezenet1_1": (models.squeezenet1_1(num_classes=10), *image),
        "shufflenet_v2": (models.shufflenet_v2_x0_25(num_classes=10), *image),
        "encoder": (Encoder(), "int64", (2, 9)),
        "reader": (Reader(), "float32", (1, 3, 16, 40)),
        "sentiment": (Sentiment(), "int64", (2, 7)),
    }


def plain(data: bytes) -> bytes:
    """Return a program without its debugging information."""
    from paddle.base.proto import framework_pb2

    program = framework_pb2.ProgramDesc()
    program.ParseFromString(data)
    for block in program.blocks:
        for node in block.ops:
            kept = [a for a in node.attrs if not a.name.startswith(("op_", "with_quant"))]
            del node.attrs[:]
            node.attrs.extend(kept)
    return program.SerializeToString()


def network(paddle, layer, dtype: str, shape: tuple) -> tuple[bytes, list]:
    """Return the program of a layer, and its outputs with seeded weights and inputs."""
    import tempfile

    from paddle_networks import feeds, weights

    with tempfile.TemporaryDirectory() as folder:
        layer.eval()
        spec = [paddle.static.InputSpec([None, *shape[1:]], dtype, "x")]
        paddle.jit.save(paddle.jit.to_static(layer, input_spec=spec, full_graph=True), f"{folder}/model")
        data = plain(Path(folder, "model.pdmodel").read_bytes())
    paddle.enable_static()
    program, scope = paddle.static.Program.parse_from_string(data), paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        for name, array in weights(data).items():
            scope.var(name).get_tensor().set(array, paddle.CPUPlace())
        names = [o.input("X")[0] for o in program.global_block().ops if o.type == "fetch"]
        found = paddle.static.Executor(paddle.CPUPlace()).run(program, feed=feeds(dtype, shape), fetch_list=names)
    paddle.disable_static()
    return data, found


def write_networks(paddle) -> int:
    import numpy as np

    paddle.disable_static()
    found = {}
    for name, (layer, dtype, shape) in layers(paddle).items():
        data, outputs_of = network(paddle, layer, dtype, shape)
        found[f"{name}|program"] = np.frombuffer(data, "uint8")
        found[f"{name}|{dtype}|shape"] = np.array(shape)
        found.update({f"{name}|{i}": np.asarray(v) for i, v in enumerate(outputs_of)})
        print(name, len(data), [v.shape for v in outputs_of])
    # PaddlePaddle 2.6 contains a compression library that conflicts with Python's.
    np.savez(FOLDER / "networks.npz", **found)
    again = "import sys, numpy; numpy.savez_compressed(sys.argv[1], **dict(numpy.load(sys.argv[1])))"
    return subprocess.run([sys.executable, "-c", again, str(FOLDER / "networks.npz")], check=True).returncode


def write_cases(paddle, match: str) -> int:
    import numpy as np
    from paddle.base import framework
    from paddle_cases import CASES

    paddle.enable_static()
    protos = framework.OpProtoHolder.instance().op_proto_map
    found, wrong = {}, 0
    if match:
        with np.load(FOLDER / "cases.npz") as before:
            found = {key: before[key] for key in before}
    for name, case in CASES.items():
        if match not in name:
            continue
        try:
            for i, value in enumerate(outputs(case, paddle, protos)):
                found[f"{name}|{i}"] = np.asarray(value)
        except Exception as problem:
            wrong += 1
            print(f"{name}: {type(problem).__name__}: {str(problem)[-400:]}")
    np.savez_compressed(FOLDER / "cases.npz", **found)
    print(f"{len(CASES)} cases, {wrong} failed")
    return 1 if wrong else 0


# -- programs of the new representation -------------------------------------------------------------------------------


def translated(case, paddle, protos: dict, path: str) -> None:
    """Write a case as PaddlePaddle translates it. The translation needs all attributes, and accepts weights only as
    inputs."""
    from paddle.base import core

    program = paddle.static.Program.parse_from_string(case.program(framed=True, complete=completed(protos)))
    for block in program.blocks:
        for node in block.ops:
            for name, value in core.get_op_attrs_default_value(node.type.encode()).items():
                if not node.has_attr(name):
                    node._set_attr(name, value)
    for variable in program.list_vars():
        variable.persistable = False
    program.desc.flush()
    core.serialize_pir_program(paddle.pir.translate_to_pir(program.desc), path, 1, True, False, False)


def pir_network(paddle, layer, dtype: str, shape: tuple) -> tuple[bytes, list]:
    """Return the program of a layer as PaddlePaddle 3 saves it, and the outputs with seeded weights and inputs."""
    import tempfile

    from paddle_networks import feeds, weights

    from tvm.relay.frontend.paddlepaddle.pir import read_program

    layer.eval()
    with tempfile.TemporaryDirectory() as folder:
        spec = [paddle.static.InputSpec([None, *shape[1:]], dtype, "x")]
        paddle.jit.save(paddle.jit.to_static(layer, input_spec=spec, full_graph=True), f"{folder}/model")
        data = Path(folder, "model.json").read_bytes()
    drawn = weights(read_program(data, "model.json")[0])
    for parameter in layer.state_dict().values():
        if parameter.name in drawn:
            parameter.set_value(drawn[parameter.name])
    found = layer(paddle.to_tensor(feeds(dtype, shape)["x"]))
    return data, [v.numpy() for v in (found if isinstance(found, (tuple, list)) else [found])]


def write_pir_networks(paddle, match: str) -> int:
    import lzma

    import numpy as np

    found = {}
    for name, (layer, dtype, shape) in layers(paddle).items():
        data, outputs_of = pir_network(paddle, layer, dtype, shape)
        found[f"{name}|program"] = np.frombuffer(lzma.compress(data), "uint8")
        found[f"{name}|{dtype}|shape"] = np.array(shape)
        found.update({f"{name}|{i}": v for i, v in enumerate(outputs_of)})
    np.savez(FOLDER / "pir_networks.npz", **found)
    return 0


def write_pir(paddle, match: str) -> int:
    """Translate each case in its own process: PaddlePaddle's translation of some cases ends with a signal."""
    import json
    import lzma
    import tempfile

    from paddle.base import framework
    from paddle_cases import CASES

    paddle.enable_static()
    protos = framework.OpProtoHolder.instance().op_proto_map
    found: dict = {}
    missing: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, case in CASES.items():
            path = Path(folder, "case.json")
            path.unlink(missing_ok=True)
            if match in name:
                process = os.fork()
                if not process:
                    try:
                        translated(case, paddle, protos, str(path))
                    finally:
                        os._exit(0)
                os.waitpid(process, 0)
                if path.exists():
                    found[name] = json.loads(path.read_bytes())
                else:
                    missing.append(name)
    if not match:
        (FOLDER / "pir.json.xz").write_bytes(lzma.compress(json.dumps(found).encode(), preset=9))
    print(f"{len(found)} cases; not translated: {', '.join(missing)}")
    return 0


def main(what: str, match: str = "") -> int:
    import paddle

    if what == "networks":
        return write_networks(paddle)
    return {"cases": write_cases, "pir": write_pir, "pir_networks": write_pir_networks}[what](paddle, match)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
