"""Models with open sizes, written node by node as ONNX: standard topologies with random weights and sane statistics.

    python -m benchmarks.vm_models FOLDER [NAME ...]

Only NumPy and onnx are needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

Sizes = tuple[int, ...]


class Graph:
    """Nodes and weights of a model as they are written; every method gives the name of a value."""

    def __init__(self) -> None:
        from onnx import helper, numpy_helper

        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes: list = []
        self.weights: list = []
        self.rng = np.random.default_rng(0)

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes) -> str:
        name = f"v{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(self.helper.make_node(kind, list(inputs), names, **attributes))
        return name

    def const(self, value) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(self.numpy_helper.from_array(np.asarray(value), name))
        return name

    def random(self, *shape: int, scale: float = 0.02) -> str:
        return self.const((scale * self.rng.standard_normal(shape)).astype("float32"))

    def linear(self, x: str, wide: int, out: int) -> str:
        return self.node("Add", self.node("MatMul", x, self.random(wide, out)), self.random(out))

    def conv(self, x: str, channels: int, out: int, kernel: int = 1, stride: int = 1, groups: int = 1) -> str:
        """A convolution with its bias, as exporters write it after folding the normalization."""
        scale = (2 / (kernel * kernel * channels / groups)) ** 0.5
        weight = self.random(out, channels // groups, kernel, kernel, scale=scale)
        pad = kernel // 2
        return self.node("Conv", x, weight, self.random(out, scale=0.1), kernel_shape=[kernel] * 2,
                         strides=[stride] * 2, pads=[pad] * 4, group=groups)

    def model(self, inputs: dict[str, tuple[str, list]], output: str, dims: list):
        from onnx import TensorProto

        helper = self.helper
        infos = [helper.make_tensor_value_info(n, getattr(TensorProto, t), s) for n, (t, s) in inputs.items()]
        graph = helper.make_graph(self.nodes, "net", infos,
                                  [helper.make_tensor_value_info(output, TensorProto.FLOAT, dims)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# ---- networks for images ----


def _classified(g: Graph, x: str, channels: int, image: list):
    x = g.node("Flatten", g.node("GlobalAveragePool", x), axis=1)
    out = g.node("Gemm", x, g.random(1000, channels), g.random(1000), transB=1)
    return g.model({"data": ("FLOAT", image)}, out, ["n", 1000])


def mobilenet_v2(image: list):
    g = Graph()

    def relu6(x: str) -> str:
        return g.node("Clip", x, g.const(np.float32(0)), g.const(np.float32(6)))

    x, channels = relu6(g.conv("data", 3, 32, 3, 2)), 32
    for factor, out, count, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                      (6, 160, 3, 2), (6, 320, 1, 1)):  # fmt: skip
        for i in range(count):
            stride, wide = first if i == 0 else 1, channels * factor
            y = relu6(g.conv(x, channels, wide)) if factor > 1 else x
            y = g.conv(relu6(g.conv(y, wide, wide, 3, stride, wide)), wide, out)
            x = g.node("Add", x, y) if stride == 1 and channels == out else y
            channels = out
    return _classified(g, relu6(g.conv(x, channels, 1280)), 1280, image)


def resnet50(image: list, blocks: tuple[int, ...] = (3, 4, 6, 3)):
    g = Graph()
    x = g.node("Relu", g.conv("data", 3, 64, 7, 2))
    x, channels = g.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 64
    for wide, count, first in zip((64, 128, 256, 512), blocks, (1, 2, 2, 2)):
        for i in range(count):
            stride, out = first if i == 0 else 1, 4 * wide
            y = g.node("Relu", g.conv(x, channels, wide))
            y = g.conv(g.node("Relu", g.conv(y, wide, wide, 3, stride)), wide, out)
            short = g.conv(x, channels, out, 1, stride) if i == 0 else x
            # Sums of many blocks keep their size; the factor is exact in half precision.
            x, channels = g.node("Relu", g.node("Mul", g.node("Add", y, short), g.const(np.float32(0.6875)))), out
    return _classified(g, x, channels, image)


# ---- text ----


def bert(tokens: list, layers: int = 12, wide: int = 768, heads: int = 12, words: int = 30522):
    """BERT-base: 12 layers of width 768 with 12 heads."""
    g = Graph()

    def norm(x: str) -> str:
        return g.node("LayerNormalization", x, g.const(np.ones(wide, "float32")), g.random(wide), axis=-1,
                      epsilon=1e-12)  # fmt: skip

    def split(x: str) -> str:
        shape = g.const(np.array([0, 0, heads, wide // heads]))
        return g.node("Transpose", g.node("Reshape", x, shape), perm=[0, 2, 1, 3])

    def gelu(x: str) -> str:
        half = g.node("Mul", x, g.node("Add", g.node("Erf", g.node("Div", x, g.const(np.float32(2**0.5)))),
                                       g.const(np.float32(1))))  # fmt: skip
        return g.node("Mul", half, g.const(np.float32(0.5)))

    length = g.node("Gather", g.node("Shape", "input_ids"), g.const(np.array([1])), axis=0)
    places = g.node("Slice", g.const(np.arange(512)[None]), g.const(np.array([0])), length, g.const(np.array([1])))
    said, order = g.node("Gather", g.random(words, wide), "input_ids"), g.node("Gather", g.random(512, wide), places)
    x = norm(g.node("Add", said, order))
    mask = g.node("Unsqueeze", g.node("Cast", "attention_mask", to=1), g.const(np.array([1, 2])))
    mask = g.node("Mul", g.node("Sub", g.const(np.float32(1)), mask), g.const(np.float32(-1e9)))
    for _ in range(layers):
        q, k, v = (split(g.linear(x, wide, wide)) for _ in range(3))
        scores = g.node("MatMul", q, g.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g.node("Add", g.node("Div", scores, g.const(np.float32((wide // heads) ** 0.5))), mask)
        y = g.node("Transpose", g.node("MatMul", g.node("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        y = g.linear(g.node("Reshape", y, g.const(np.array([0, 0, wide]))), wide, wide)
        x = norm(g.node("Add", y, x))
        y = g.linear(gelu(g.linear(x, wide, 4 * wide)), 4 * wide, wide)
        x = norm(g.node("Add", y, x))
    ids = ("INT64", tokens)
    return g.model({"input_ids": ids, "attention_mask": ids}, x, [*tokens, wide])


# ---- recurrences as loops ----


def _cell(g: Graph, kind: str, x: str, state: list[str], wide: int) -> list[str]:
    """The states after one step of an LSTM or a GRU."""
    count = 4 if kind == "lstm" else 3
    a = g.node("Add", g.node("MatMul", x, "wx"), "b")
    r = g.node("MatMul", state[0], "wh")
    if kind == "lstm":
        total = g.node("Add", a, r)
        g.nodes.append(g.helper.make_node("Split", [total], [f"s{i}" for i in range(4)], axis=-1))
        i, f, o = (g.node("Sigmoid", f"s{n}") for n in (0, 1, 3))
        c = g.node("Add", g.node("Mul", f, state[1]), g.node("Mul", i, g.node("Tanh", "s2")))
        return [g.node("Mul", o, g.node("Tanh", c)), c]
    for value, name in ((a, "a"), (r, "r")):
        g.nodes.append(g.helper.make_node("Split", [value], [f"{name}{i}" for i in range(count)], axis=-1))
    z, reset = (g.node("Sigmoid", g.node("Add", f"a{n}", f"r{n}")) for n in (0, 1))
    new = g.node("Tanh", g.node("Add", "a2", g.node("Mul", reset, "r2")))
    return [g.node("Add", g.node("Mul", z, state[0]), g.node("Mul", g.node("Sub", "one", z), new))]


def recurrence(kind: str, wide: int = 256):
    """A recurrence over the first axis of ``x`` (time x batch x width) as a Loop; the result is the last state."""
    from onnx import TensorProto

    outer, inner = Graph(), Graph()
    count = 4 if kind == "lstm" else 3
    states = ["h", "c"][: 2 if kind == "lstm" else 1]
    shared = {"wx": (wide, count * wide), "wh": (wide, count * wide), "b": (count * wide,)}
    for name, shape in shared.items():
        outer.weights.append(outer.numpy_helper.from_array(
            (wide**-0.5 * outer.rng.standard_normal(shape)).astype("float32"), name))  # fmt: skip
    if kind == "gru":
        outer.weights.append(outer.numpy_helper.from_array(np.float32(1), "one"))
    helper = outer.helper
    x = inner.node("Gather", "x", "step", axis=0)
    new = _cell(inner, kind, x, [f"{s}_in" for s in states], wide)
    go = inner.node("Identity", "go_in")
    tensor = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node(n.op_type, [f"in_{i}" if i.startswith("v") else i for i in n.input],
                          [f"in_{o}" if o.startswith("v") else o for o in n.output],
                          **{a.name: helper.get_attribute_value(a) for a in n.attribute}) for n in inner.nodes],
        "step_of", [tensor("step", TensorProto.INT64, []), tensor("go_in", TensorProto.BOOL, []),
                    *(tensor(f"{s}_in", TensorProto.FLOAT, ["n", wide]) for s in states)],
        [tensor(f"in_{go}", TensorProto.BOOL, []),
         *(tensor(f"in_{v}", TensorProto.FLOAT, ["n", wide]) for v in new)])  # fmt: skip
    dims = outer.node("Shape", "x")
    steps = outer.node("Gather", dims, outer.const(np.array(0)), axis=0)
    first = outer.node("Concat", outer.node("Gather", dims, outer.const(np.array([1])), axis=0),
                       outer.const(np.array([wide])), axis=0)  # fmt: skip
    zero = outer.node("ConstantOfShape", first)
    out = outer.node("Loop", steps, outer.const(np.array(True)), *(zero for _ in states), body=body,
                     outputs=len(states))
    return outer.model({"x": ("FLOAT", ["steps", "n", wide])}, out, ["n", wide])


# ---- the table ----


class Case(NamedTuple):
    """A model, and the shapes of its inputs that it is measured at."""

    make: Callable
    shapes: list[dict[str, Sizes]]


def _images(*sizes: Sizes) -> list[dict[str, Sizes]]:
    return [{"data": (n, 3, h, w)} for n, h, w in sizes]


def _texts(*sizes: Sizes) -> list[dict[str, Sizes]]:
    return [{"input_ids": s, "attention_mask": s} for s in sizes]


_BATCHES = _images((1, 224, 224), (3, 224, 224), (8, 224, 224))
_PICTURES = _images((1, 224, 224), (1, 240, 320), (3, 192, 192))
_STEPS: list[dict[str, Sizes]] = [{"x": (steps, n, 256)} for steps, n in ((16, 1), (100, 1), (47, 4))]
_BATCH, _OPEN = ["n", 3, 224, 224], ["n", 3, "h", "w"]
CASES: dict[str, Case] = {
    "mobilenet_v2": Case(lambda: mobilenet_v2(_BATCH), _BATCHES),
    "mobilenet_v2_image": Case(lambda: mobilenet_v2(_OPEN), _PICTURES),
    "resnet50": Case(lambda: resnet50(_BATCH), _BATCHES),
    "resnet50_image": Case(lambda: resnet50(_OPEN), _PICTURES),
    "bert_base": Case(lambda: bert(["n", "length"]), _texts((1, 16), (1, 47), (1, 128), (1, 384), (1, 512), (3, 128))),
    "lstm": Case(lambda: recurrence("lstm"), _STEPS),
    "gru": Case(lambda: recurrence("gru"), _STEPS),
}


def model_path(folder: str | Path, name: str) -> Path:
    """The file of a model, which is made where it is missing."""
    import onnx

    path = Path(folder) / f"{name}.open.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        onnx.save(CASES[name].make(), str(part))
        part.replace(path)
    return path


def sample(shapes: dict[str, Sizes]) -> dict[str, np.ndarray]:
    """Inputs of these shapes, the same for all programs."""
    rng = np.random.default_rng(0)
    made: dict[str, np.ndarray] = {}
    for name, shape in shapes.items():
        if name == "input_ids":
            made[name] = rng.integers(0, 30000, shape)
        elif name == "attention_mask":
            made[name] = np.ones(shape, "int64")
        else:
            made[name] = rng.standard_normal(shape, dtype="float32")
    return made


if __name__ == "__main__":
    for wanted in sys.argv[2:] or CASES:
        print(model_path(sys.argv[1], wanted))
