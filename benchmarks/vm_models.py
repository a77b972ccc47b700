"""Models with dynamic shapes as ONNX, written node by node: standard topologies with random weights and sane
statistics.

    python -m benchmarks.vm_models FOLDER [NAME ...]

Needs only NumPy and onnx.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

Sizes = tuple[int, ...]


class Graph:
    """Nodes and weights of a model under construction; every method returns the name of a value."""

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
        """Add a convolution with bias, as exporters write it after folding the normalization."""
        scale = (2 / (kernel * kernel * channels / groups)) ** 0.5
        weight = self.random(out, channels // groups, kernel, kernel, scale=scale)
        pad = kernel // 2
        return self.node(
            "Conv",
            x,
            weight,
            self.random(out, scale=0.1),
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[pad] * 4,
            group=groups,
        )

    def model(self, inputs: dict[str, tuple[str, list]], output: str, dims: list, more: dict[str, list] | None = None):
        """Return the model of these inputs; ``more`` are further outputs with their sizes."""
        from onnx import TensorProto

        helper = self.helper
        infos = [helper.make_tensor_value_info(n, getattr(TensorProto, t), s) for n, (t, s) in inputs.items()]
        given = {output: dims, **(more or {})}
        outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in given.items()]
        graph = helper.make_graph(self.nodes, "net", infos, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# ---- image networks ----


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


def detector(image: list, classes: int = 21, boxes: int = 6):
    """Return an SSD-style detector: a MobileNet with six boxes at each position of three feature maps, whose sizes
    follow from the image, and non-maximum suppression of each class; the output is the list of remaining boxes."""
    g = Graph()

    def whole(*values: int) -> str:
        return g.const(np.array(values, "int64"))

    def number(value: float) -> str:
        return g.const(np.float32(value))

    def relu6(x: str) -> str:
        return g.node("Clip", x, number(0), number(6))

    def block(x: str, channels: int, out: int, stride: int) -> str:
        x = relu6(g.conv(x, channels, channels, 3, stride, channels))
        return relu6(g.conv(x, channels, out))

    def places(at: str, axis: int, stride: int) -> str:
        size = g.node("Squeeze", g.node("Slice", g.node("Shape", at), whole(axis), whole(axis + 1)), whole(0))
        steps = g.node("Range", number(0), g.node("Cast", size, to=1), number(1))
        return g.node("Mul", g.node("Add", steps, number(0.5)), number(stride))

    def anchors(at: str, stride: int) -> str:
        """Return center and size of every box of a map: h x w x boxes x 4."""
        y = g.node("Unsqueeze", places(at, 2, stride), whole(1, 2, 3))
        x = g.node("Unsqueeze", places(at, 3, stride), whole(0, 2, 3))
        sizes = 2.0 * stride * g.rng.uniform(0.7, 1.6, (boxes, 2))
        row = g.const(np.concatenate([np.zeros((boxes, 2)), sizes], 1).astype("float32"))
        first, second = (g.const(np.eye(4, dtype="float32")[i]) for i in (0, 1))
        middle = g.node("Add", g.node("Mul", y, first), g.node("Mul", x, second))
        return g.node("Reshape", g.node("Add", middle, row), whole(-1, 4))

    def head(at: str, channels: int, count: int, scale: float) -> str:
        weight = g.random(boxes * count, channels, 3, 3, scale=scale * (1 / (9 * channels)) ** 0.5)
        x = g.node("Conv", at, weight, g.random(boxes * count), kernel_shape=[3, 3], pads=[1] * 4)
        return g.node("Reshape", g.node("Transpose", x, perm=[0, 2, 3, 1]), whole(0, -1, count))

    x, channels, maps = relu6(g.conv("data", 3, 32, 3, 2)), 32, []
    for out, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
                        (1024, 1)):  # fmt: skip
        if channels == 512 and stride == 2:
            maps.append((x, channels, 16))
        x, channels = block(x, channels, out, stride), out
    maps.append((x, channels, 32))
    maps.append((block(relu6(g.conv(x, channels, 256)), 256, 512, 2), 512, 64))
    moved = g.node("Concat", *(head(at, c, 4, 1.0) for at, c, _ in maps), axis=1)
    scores = g.node("Softmax", g.node("Concat", *(head(at, c, classes, 2.0) for at, c, _ in maps), axis=1), axis=-1)
    known = g.node("Concat", *(anchors(at, stride) for at, _, stride in maps), axis=0)
    middle, size = (g.node("Slice", known, whole(a), whole(a + 2), whole(1)) for a in (0, 2))
    shift, growth = (g.node("Slice", moved, whole(a), whole(a + 2), whole(2)) for a in (0, 2))
    middle = g.node("Add", middle, g.node("Mul", g.node("Mul", shift, number(0.1)), size))
    half = g.node("Mul", g.node("Mul", g.node("Exp", g.node("Mul", growth, number(0.2))), size), number(0.5))
    corners = g.node("Concat", g.node("Sub", middle, half), g.node("Add", middle, half), axis=2)
    of_class = g.node("Slice", g.node("Transpose", scores, perm=[0, 2, 1]), whole(1), whole(classes), whole(1))
    picked = g.node("NonMaxSuppression", corners, of_class, whole(100), g.const(np.float32([0.45])),
                    g.const(np.float32([0.3])))  # fmt: skip
    which = g.node("Squeeze", g.node("Slice", picked, whole(2), whole(3), whole(1)), whole(1))
    out = g.node("Gather", g.node("Squeeze", corners, whole(0)), which, axis=0)
    return g.model({"data": ("FLOAT", image)}, out, ["found", 4])


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
            # The factor keeps the magnitude of the sum of many blocks; it is exact in float16.
            x, channels = g.node("Relu", g.node("Mul", g.node("Add", y, short), g.const(np.float32(0.6875)))), out
    return _classified(g, x, channels, image)


# ---- language models ----


def bert(tokens: list, layers: int = 12, wide: int = 768, heads: int = 12, words: int = 30522):
    """Return BERT-base: 12 layers of width 768 with 12 heads."""
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


def gpt2(layers: int = 12, wide: int = 768, heads: int = 12, words: int = 50257, most: int = 1024):
    """Return one step of GPT-2 (124 million weights) with the keys and values of the previous tokens: the logits,
    and the keys and values for the next step."""
    g = Graph()
    each = wide // heads

    def norm(x: str) -> str:
        return g.node("LayerNormalization", x, g.const(np.ones(wide, "float32")), g.random(wide), axis=-1, epsilon=1e-5)

    def gelu(x: str) -> str:
        cube = g.node("Mul", g.node("Mul", x, x), x)
        inner = g.node("Add", x, g.node("Mul", cube, g.const(np.float32(0.044715))))
        bent = g.node("Tanh", g.node("Mul", inner, g.const(np.float32((2 / np.pi) ** 0.5))))
        return g.node("Mul", g.node("Mul", x, g.const(np.float32(0.5))), g.node("Add", bent, g.const(np.float32(1))))

    def length(x: str, axis: int) -> str:
        return g.node("Gather", g.node("Shape", x), g.const(np.array([axis])), axis=0)

    past = length("past_k_0", 2)
    total = g.node("Add", past, length("input_ids", 1))
    zero, one = g.const(np.array([0])), g.const(np.array([1]))
    embedding = g.random(words, wide)
    places = g.node("Slice", g.random(most, wide), past, total, zero)
    x = g.node("Add", g.node("Gather", embedding, "input_ids"), places)
    # A token attends to previous tokens and itself.
    later = g.const(np.triu(np.full((most, most), -1e9, "float32"), 1))
    mask = g.node("Slice", g.node("Slice", later, past, total, zero), zero, total, one)
    inputs: dict[str, tuple[str, list]] = {"input_ids": ("INT64", ["n", "words"])}
    presents: dict[str, list] = {}
    for layer in range(layers):
        joined = g.linear(norm(x), wide, 3 * wide)
        parts = [f"qkv{layer}_{i}" for i in range(3)]
        g.nodes.append(g.helper.make_node("Split", [joined], parts, axis=-1))
        split = g.const(np.array([0, 0, heads, each]))
        q, *new = (g.node("Transpose", g.node("Reshape", p, split), perm=[0, 2, 1, 3]) for p in parts)
        kept = []
        for name, value in zip("kv", new):
            inputs[f"past_{name}_{layer}"] = ("FLOAT", ["n", heads, "past", each])
            kept.append(g.node("Concat", f"past_{name}_{layer}", value, axis=2))
            presents[kept[-1]] = ["n", heads, "all", each]
        scores = g.node("MatMul", q, g.node("Transpose", kept[0], perm=[0, 1, 3, 2]))
        scores = g.node("Add", g.node("Div", scores, g.const(np.float32(each**0.5))), mask)
        y = g.node("Transpose", g.node("MatMul", g.node("Softmax", scores, axis=-1), kept[1]), perm=[0, 2, 1, 3])
        x = g.node("Add", x, g.linear(g.node("Reshape", y, g.const(np.array([0, 0, wide]))), wide, wide))
        x = g.node("Add", x, g.linear(gelu(g.linear(norm(x), wide, 4 * wide)), 4 * wide, wide))
    logits = g.node("MatMul", norm(x), g.node("Transpose", embedding, perm=[1, 0]))
    return g.model(inputs, logits, ["n", "words", words], presents)


# ---- recurrent networks as loops ----


def _cell(g: Graph, kind: str, x: str, state: list[str], wide: int) -> list[str]:
    """Return the states after one step of an LSTM or a GRU."""
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
    """Return a recurrence over the first axis of ``x`` (time x batch x width) as a Loop; the output is the last
    state."""
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
    out = outer.node(
        "Loop", steps, outer.const(np.array(True)), *(zero for _ in states), body=body, outputs=len(states)
    )
    return outer.model({"x": ("FLOAT", ["steps", "n", wide])}, out, ["n", wide])


# ---- the table ----


class Case(NamedTuple):
    """A model, and the shapes of its inputs at which it is measured.

    With ``steps``, one run is that number of steps, each of which takes the outputs of the previous one after its first
    output. ``fixed`` is whether known input sizes make all other sizes known.
    """

    make: Callable
    shapes: list[dict[str, Sizes]]
    steps: int = 1
    fixed: bool = True


def _images(*sizes: Sizes) -> list[dict[str, Sizes]]:
    return [{"data": (n, 3, h, w)} for n, h, w in sizes]


def _texts(*sizes: Sizes) -> list[dict[str, Sizes]]:
    return [{"input_ids": s, "attention_mask": s} for s in sizes]


def _steps_of_gpt2(*past: int) -> list[dict[str, Sizes]]:
    kept = [f"past_{name}_{layer}" for layer in range(12) for name in "kv"]
    return [{"input_ids": (1, 1), **dict.fromkeys(kept, (1, 12, p, 64))} for p in past]


_BATCHES = _images((1, 224, 224), (3, 224, 224), (8, 224, 224))
_PICTURES = _images((1, 224, 224), (1, 240, 320), (3, 192, 192))
_STEPS: list[dict[str, Sizes]] = [{"x": (steps, n, 256)} for steps, n in ((16, 1), (100, 1), (47, 4))]
_SCENES = _images((1, 320, 320), (1, 300, 300), (1, 256, 416))
_BATCH, _OPEN = ["n", 3, 224, 224], ["n", 3, "h", "w"]
CASES: dict[str, Case] = {
    "mobilenet_v2": Case(lambda: mobilenet_v2(_BATCH), _BATCHES),
    "mobilenet_v2_image": Case(lambda: mobilenet_v2(_OPEN), _PICTURES),
    "resnet50": Case(lambda: resnet50(_BATCH), _BATCHES),
    "resnet50_image": Case(lambda: resnet50(_OPEN), _PICTURES),
    "bert_base": Case(lambda: bert(["n", "length"]), _texts((1, 16), (1, 47), (1, 128), (1, 384), (1, 512), (3, 128))),
    "gpt2": Case(gpt2, _steps_of_gpt2(15, 64, 127)),
    "gpt2_decode": Case(gpt2, _steps_of_gpt2(1), steps=128),
    "detector": Case(lambda: detector([1, 3, "h", "w"]), _SCENES, fixed=False),
    "lstm": Case(lambda: recurrence("lstm"), _STEPS),
    "gru": Case(lambda: recurrence("gru"), _STEPS),
}


def model_path(folder: str | Path, name: str) -> Path:
    """Return the file of a model, which is created if it is missing."""
    import onnx

    path = Path(folder) / f"{name.removesuffix('_decode')}.open.onnx"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        onnx.save(CASES[name].make(), str(part))
        part.replace(path)
    return path


def sample(shapes: dict[str, Sizes]) -> dict[str, np.ndarray]:
    """Return inputs of these shapes, the same for all programs."""
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
