"""Operators of ONNX whose arguments are inputs of the model: for each a model, and arguments of odd, empty and hostile
sizes. Inputs have open sizes; how many dimensions there are is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

CODES = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "int64": TensorProto.INT64, "bool": TensorProto.BOOL}
FAR = 1 << 40


class Case(NamedTuple):
    """``inputs``: element type and number of dimensions (open sizes), or a list of sizes, of each input. ``feeds``
    gives arguments that onnxruntime takes too, ``refused`` such as are an error, whose words match ``words``."""

    node: Callable
    inputs: dict
    feeds: Callable
    refused: Callable = lambda rng: []
    outputs: int = 1
    opset: int = 18
    words: str = ""

    def model(self):
        outputs = [f"y{i}" for i in range(self.outputs)]
        node = self.node(list(self.inputs), outputs)
        inputs = [
            helper.make_tensor_value_info(n, CODES[t], [None] * s if isinstance(s, int) else s)
            for n, (t, s) in self.inputs.items()
            if n
        ]
        made = [helper.make_empty_tensor_value_info(o) for o in outputs]
        graph = helper.make_graph([node], "g", inputs, made)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)


def ints(*values):
    return np.array(values, "int64")


def data(rng, *shape):
    return rng.standard_normal(shape).astype("float32")


def node(name, **attrs):
    return lambda inputs, outputs: helper.make_node(name, inputs, outputs, "here", **attrs)


def sizes(rng, rank, low=0, high=6):
    return [int(d) for d in rng.integers(low, high, rank)]


def reshapes(rng):
    a, b, c = sizes(rng, 3, 1)
    empty = np.zeros((0, b), "float32")
    yield data(rng, a, b), ints(b, a, 1)
    yield data(rng, a, b * c), ints(0, b, -1)
    yield data(rng, a, b), ints(-1, 1, 1)
    yield empty, ints(0, b, a)


def slices(rng):
    x = data(rng, *sizes(rng, 2, 1, 8))
    for _ in range(4):
        starts, ends = rng.integers(-10, 10, 2), rng.integers(-10, 10, 2)
        steps = rng.choice([-3, -2, -1, 1, 2, 3, FAR], 2)
        yield x, starts, ends, rng.permutation([0, -1]).astype("int64"), steps.astype("int64")
    yield x, ints(-FAR, FAR), ints(FAR, -FAR), ints(0, 1), ints(1, -1)
    yield np.zeros((0, 3), "float32"), ints(0, 2), ints(5, -9), ints(0, 1), ints(1, -2)


def expands(rng):
    a, b = sizes(rng, 2, 1)
    yield data(rng, a, 1), ints(1 if rng.integers(2) else a, b)
    yield data(rng, 1, b), ints(a, 1)
    yield data(rng, 1, 1), ints(0, b)


def pads(mode):
    def feeds(rng):
        a, b = sizes(rng, 2, 3, 7)
        low = -1 if mode == "constant" else 0
        for _ in range(3):
            yield data(rng, a, b), rng.integers(low, 3, 4), np.float32(rng.standard_normal())

    return feeds


def splits(rng):
    a, b, c = sizes(rng, 3)
    yield data(rng, 3, a + b + c), ints(a, b, c)
    yield data(rng, 0, a), ints(a, 0, 0)


def split_refused(rng):
    x = data(rng, 2, 6)
    return [(x, ints(1, 2, 4)), (x, ints(1, 2, 2)), (x, ints(-1, 3, 4)), (x, ints(FAR, 0, -FAR + 6))]


def largest(rng):
    n = int(rng.integers(1, 8))
    for k in (0, 1, n):
        yield data(rng, 3, n), ints(k)
    yield np.zeros((2, 0), "float32"), ints(0)


def reductions(rng):
    a, b, c = sizes(rng, 3, 1)
    for axes in ((0, 1), (-1, 0), (2, 1)):
        yield data(rng, a, b, c), ints(*axes)
    yield np.zeros((a, 0, c), "float32"), ints(0, 2)


def boxes(rng):
    n = int(rng.integers(1, 12))
    corner = rng.random((1, n, 2)).astype("float32")
    whole = np.concatenate([corner, corner + rng.random((1, n, 2)).astype("float32")], 2)
    score = rng.permutation(2 * n).reshape(1, 2, n).astype("float32") / (2 * n)
    for limit in (0, 3, FAR):
        yield whole, score, ints(limit), np.array([0.3], "float32"), np.array([0.25], "float32")


def resizes(by_scales):
    def feeds(rng):
        a, b = sizes(rng, 2, 2, 7)
        x = data(rng, 1, 1, a, b)
        if by_scales:
            yield x, np.array([1, 1, *rng.choice([0.5, 1.0, 2.0, 3.0], 2)], "float32")
        else:
            yield x, ints(1, 1, *rng.integers(1, 9, 2))

    return feeds


def images(*shape, more=(), low=1):
    """Images of several sizes, each with arrays of ``more`` shapes; 0 in a shape is a size of its own."""

    def feeds(rng):
        for _ in range(4):
            x = data(rng, *(d or int(rng.integers(low, 12)) for d in shape))
            yield x, *(data(rng, *s) for s in more)

    return feeds


def grids(rank):
    def feeds(rng):
        for _ in range(2):
            n = int(rng.integers(1, 3))
            x = data(rng, n, 2, *sizes(rng, rank, 2, 6))
            # Points in the middle between two elements may go to either side.
            grid = rng.uniform(-1.3, 1.3, (n, *sizes(rng, rank, 1, 5), rank))
            yield x, grid.astype("float32")

    return feeds


def unpooled(rng):
    for _ in range(3):
        n, c, h, w = sizes(rng, 4, 1, 4)
        places = rng.permutation(n * c * 4 * h * w)[: n * c * h * w]
        yield data(rng, n, c, h, w), places.reshape(n, c, h, w)


IMAGE = {"x": ("float32", [None, 3, None, None])}
PICTURE = images(0, 3, 0, 0, low=3)
WEIGHT = {"w": ("float32", [4, 3, 3, 3])}
ANY = {"x": ("float32", 2)}
VECTOR = ("int64", [2])
CASES = {
    "reshape": Case(node("Reshape"), {**ANY, "s": ("int64", [3])}, reshapes,
                    lambda rng: [(data(rng, 2, 3), ints(2, 2, 2)), (data(rng, 2, 3), ints(-1, -3, -1))]),
    "expand": Case(node("Expand"), {**ANY, "s": VECTOR},
                   expands,
                   lambda rng: [(data(rng, 2, 3), ints(2, 4)), (data(rng, 2, 3), ints(-2, 3))]),
    "tile": Case(node("Tile"), {**ANY, "r": VECTOR},
                 lambda rng: [(data(rng, *sizes(rng, 2)), rng.integers(0, 4, 2)) for _ in range(3)],
                 lambda rng: [(data(rng, 2, 3), ints(-1, 2))]),
    "constant of shape": Case(node("ConstantOfShape"), {"s": ("int64", [3])},
                              lambda rng: [(ints(*sizes(rng, 3)),), (ints(0, 2, 3),)],
                              lambda rng: [(ints(2, -1, 2),)]),
    "range": Case(node("Range"), {n: ("int64", []) for n in ("start", "limit", "delta")},
                  lambda rng: [tuple(map(np.int64, row)) for row in ((0, 7, 2), (5, -4, -3), (3, 3, 1), (4, 0, 1))],
                  lambda rng: [tuple(map(np.int64, (0, 5, 0))), tuple(map(np.int64, (-(1 << 63), (1 << 63) - 1, 1)))]),
    "range of floats": Case(node("Range"), {n: ("float32", []) for n in ("start", "limit", "delta")},
                            lambda rng: [tuple(map(np.float32, row)) for row in ((0, 2, 0.5), (1, -1, -0.75))],
                            lambda rng: [tuple(map(np.float32, (0, far, 1))) for far in (np.nan, np.inf, -np.inf)]),
    "slice": Case(node("Slice"), {**ANY, **dict.fromkeys(("starts", "ends", "axes", "steps"), VECTOR)}, slices,
                  lambda rng: [(data(rng, 3, 4), ints(0, 0), ints(3, 3), ints(*axes), ints(1, step))
                               for axes, step in (((0, 1), 0), ((0, 2), 1), ((-3, 1), 1), ((1, -1), 1))],
                  words="stride along axis 1|Slice node 'here': an axis (is out of range|occurs twice)"),
    "split": Case(node("Split", axis=1), {**ANY, "s": ("int64", [3])}, splits, split_refused, outputs=3),
    "pad": Case(node("Pad"), {**ANY, "p": ("int64", [4]), "v": ("float32", [])}, pads("constant"),
                lambda rng: [(data(rng, 2, 3), ints(-3, 0, 0, 0), np.float32(0))]),
    "pad edge": Case(node("Pad", mode="edge"), {**ANY, "p": ("int64", [4]), "v": ("float32", [])}, pads("edge"),
                     lambda rng: [(data(rng, 0, 3), ints(1, 0, 0, 0), np.float32(0))]),
    "pad reflect": Case(node("Pad", mode="reflect"), {**ANY, "p": ("int64", [4]), "v": ("float32", [])},
                        pads("reflect"), lambda rng: [(data(rng, 0, 3), ints(1, 0, 0, 0), np.float32(0)),
                                                      (data(rng, 2, 3), ints(-5, 0, 0, 0), np.float32(0))]),
    "pad wrap": Case(node("Pad", mode="wrap"), {**ANY, "p": ("int64", [4]), "v": ("float32", [])}, pads("wrap"),
                     lambda rng: [(data(rng, 0, 3), ints(1, 0, 0, 0), np.float32(0))], opset=19),
    "pad axes": Case(lambda i, o: helper.make_node("Pad", ["x", "p", "", "a"], o, "here"),
                     {**ANY, "p": ("int64", [4]), "a": VECTOR},
                     lambda rng: [(data(rng, 3, 4), rng.integers(0, 3, 4), ints(*a)) for a in ((0, 1), (-1, 0))],
                     lambda rng: [(data(rng, 3, 4), ints(1, 1, 1, 1), ints(*a)) for a in ((0, 2), (-3, 0), (1, -1))],
                     words="Pad node 'here': an axis (is out of range for a tensor with 2|occurs twice)"),
    "cumulative sum": Case(node("CumSum"), {**ANY, "a": ("int64", [])},
                           lambda rng: [(data(rng, *sizes(rng, 2)), np.int64(a)) for a in (0, 1, -1, -2)],
                           lambda rng: [(data(rng, 2, 3), np.int64(a)) for a in (2, -3)],
                           words="CumSum node 'here': an axis is out of range for a tensor with 2 dimensions"),
    "fourier": Case(node("DFT"), {"x": ("float32", [None, None, None, 1]), "n": ("int64", []), "a": ("int64", [])},
                    lambda rng: [(data(rng, 2, 3, 4, 1), np.int64(n), np.int64(a)) for n, a in ((3, 1), (5, -2))],
                    lambda rng: [(data(rng, 2, 3, 4, 1), np.int64(n), np.int64(a))
                                 for n, a in ((3, 4), (3, 3), (3, -5), (0, 1), (-1, 1))], opset=20,
                    words="DFT node 'here': (an axis is out of range|the transform axis|the length of the transform)"),
    "frames": Case(node("STFT"), {"x": ("float32", [None, None, 1]), "s": ("int64", []), "w": ("float32", 1),
                                  "l": ("int64", [])},
                   lambda rng: [(data(rng, 2, 17, 1), np.int64(s), data(rng, 4), np.int64(4)) for s in (1, 3)],
                   lambda rng: [(data(rng, 1, n, 1), np.int64(s), data(rng, 4), np.int64(length))
                                for n, s, length in ((16, 0, 4), (16, -2, 4), (3, 2, 4), (16, 2, 0))],
                   words="STFT node 'here': the (step between frames|length of)"),
    "hann window": Case(node("HannWindow"), {"n": ("int64", [])}, lambda rng: [(np.int64(n),) for n in (1, 7)],
                        lambda rng: [(np.int64(-1),)], words="HannWindow node 'here': the size of the window must"),
    "mel weights": Case(node("MelWeightMatrix"), {**dict.fromkeys("ndr", ("int64", [])),
                                                  **dict.fromkeys("lu", ("float32", []))},
                        lambda rng: [(np.int64(8), np.int64(16), np.int64(8192), np.float32(0), np.float32(4096))],
                        lambda rng: [(*map(np.int64, row), np.float32(1), np.float32(4))
                                     for row in ((-1, 8, 16), (4, -8, 16), (4, 8, 0))],
                        words="MelWeightMatrix node 'here': the (number of bins|length of|sample rate) .*must be"),
    "top k": Case(node("TopK"), {**ANY, "k": ("int64", [1])}, largest,
                  lambda rng: [(data(rng, 2, 3), ints(k)) for k in (4, -1, FAR)], outputs=2),
    "one hot": Case(node("OneHot"), {"x": ("int64", 2), "d": ("int64", [1]), "v": ("float32", [2])},
                    lambda rng: [(rng.integers(-9, 9, sizes(rng, 2)), ints(n), data(rng, 2)) for n in (1, 5)],
                    lambda rng: [(ints(1, 2).reshape(1, 2), ints(-1), data(rng, 2))]),
    "squeeze": Case(node("Squeeze"), {"x": ("float32", 3), "a": VECTOR},
                    lambda rng: [(data(rng, 1, 4, 1), ints(0, 2)), (data(rng, 1, 1, 3), ints(-2, -3))],
                    lambda rng: [(data(rng, 1, 4, 1), ints(0, 1)), (data(rng, 1, 4, 1), ints(0, 7))]),
    "unsqueeze": Case(node("Unsqueeze"), {**ANY, "a": VECTOR},
                      lambda rng: [(data(rng, *sizes(rng, 2)), ints(*a)) for a in ((0, 3), (-1, 1), (2, 0))],
                      lambda rng: [(data(rng, n, n), ints(*a)) for n in (1, 2) for a in ((1, 1), (0, 4), (0, -5))],
                      words="Unsqueeze node 'here': an axis (is out of range for a tensor with 4|occurs twice)"),
    "reduce sum": Case(node("ReduceSum", keepdims=0), {"x": ("float32", 3), "a": VECTOR}, reductions,
                       lambda rng: [(data(rng, 2, 3, 4), ints(*a)) for a in ((1, 1), (0, 3), (-4, 0))],
                       words="ReduceSum node 'here': an axis (is out of range for a tensor with 3|occurs twice)"),
    "reduce max": Case(node("ReduceMax", keepdims=1), {"x": ("float32", 3), "a": VECTOR},
                       lambda rng: [f for f in reductions(rng) if f[0].size],
                       lambda rng: [(data(rng, 2, 3, 4), ints(*a)) for a in ((0, 3), (-4, 0))],
                       words="ReduceMax node 'here': an axis is out of range for a tensor with 3"),
    "reduce mean": Case(node("ReduceMean", keepdims=1), {"x": ("float32", 3), "a": VECTOR},
                        lambda rng: [f for f in reductions(rng) if f[0].size]),
    "non zero": Case(node("NonZero"), ANY, lambda rng: [
        ((data(rng, *sizes(rng, 2)) * rng.integers(0, 2)).astype("float32"),), (np.zeros((2, 0), "float32"),)]),
    "compress": Case(node("Compress", axis=1), {**ANY, "c": ("bool", 1)}, lambda rng: [
        (data(rng, 2, n), rng.integers(0, 2, max(n - 1, 0)).astype(bool)) for n in (1, 4, 7)]),
    "unique": Case(node("Unique"), ANY, lambda rng: [
        (rng.integers(-3, 3, s).astype("float32"),) for s in ((3, 4), (1, 1), (5, 7))], outputs=4),
    "unique rows": Case(node("Unique", axis=1, sorted=1), ANY, lambda rng: [
        (rng.integers(0, 2, s).astype("float32"),) for s in ((2, 7), (1, 1), (3, 4))], outputs=4),
    "non max suppression": Case(node("NonMaxSuppression"), {
        "b": ("float32", [None, None, 4]), "s": ("float32", 3), "n": ("int64", [1]), "i": ("float32", [1]),
        "t": ("float32", [1])}, boxes, lambda rng: [
            (np.zeros((1, 2, 4), "float32"), data(rng, 1, 1, 2), ints(1), np.array([o], "float32"), data(rng, 1))
            for o in (-0.5, 1.5, np.nan)], words="NonMaxSuppression node 'here': iou_threshold must be from 0 to 1"),
    "resize nearest": Case(node("Resize", mode="nearest", coordinate_transformation_mode="asymmetric",
                                nearest_mode="floor"), {"x": ("float32", 4), "": ("float32", 0),
                                                        "s": ("float32", [4])}, resizes(True),
                           lambda rng: [(data(rng, 1, 1, 2, 2), np.array([1, 1, s, 1], "float32"))
                                        for s in (0, -1, np.nan, np.inf)],
                           words="Resize node 'here': scales must be positive"),
    "resize linear": Case(node("Resize", mode="linear"), {"x": ("float32", 4), "": ("float32", 0),
                                                          "s": ("float32", [4])}, resizes(True)),
    "resize cubic": Case(lambda inputs, outputs: helper.make_node(
        "Resize", ["x", "", "", "s"], outputs, "here", mode="cubic"), {"x": ("float32", 4), "s": ("int64", [4])},
        resizes(False), lambda rng: [(data(rng, 1, 1, 2, 2), ints(1, 1, s, 2)) for s in (0, -1)],
        words="Resize node 'here': sizes must be positive"),
    "flatten": Case(node("Flatten", axis=2), {"x": ("float32", 4)},
                    lambda rng: [(data(rng, *sizes(rng, 4)),), (data(rng, 2, 0, 3, 1),)]),
    "matmul": Case(node("MatMul"), {"a": ("float32", 4), "b": ("float32", 3)}, lambda rng: [
        (data(rng, 2, p, 3, 4), data(rng, q, 4, 5)) for p, q in ((3, 3), (1, 3), (3, 1))],
        lambda rng: [(data(rng, 2, 2, 3, 4), data(rng, 3, 4, 5)), (data(rng, 1, 1, 3, 4), data(rng, 1, 5, 4))]),
    "same convolution": Case(node("Conv", auto_pad="SAME_UPPER", strides=[2, 3]), {**IMAGE, **WEIGHT},
                             images(0, 3, 0, 0, more=[(4, 3, 3, 3)])),
    "same convolution of even windows": Case(node("Conv", auto_pad="SAME_LOWER", strides=[3, 2]),
                                             {**IMAGE, "w": ("float32", [4, 3, 2, 4])},
                                             images(0, 3, 0, 0, more=[(4, 3, 2, 4)])),
    "same max pool": Case(node("MaxPool", auto_pad="SAME_LOWER", kernel_shape=[3, 2], strides=[2, 2]), IMAGE,
                          images(0, 3, 0, 0)),
    "same average": Case(node("AveragePool", auto_pad="SAME_UPPER", kernel_shape=[3, 4], strides=[2, 3]), IMAGE,
                         images(0, 3, 0, 0)),
    "same average with padding": Case(node("AveragePool", auto_pad="SAME_UPPER", kernel_shape=[3, 4], strides=[2, 3],
                                           count_include_pad=1), IMAGE, images(0, 3, 0, 0)),
    "same norm": Case(node("LpPool", auto_pad="SAME_UPPER", kernel_shape=[3, 2], strides=[2, 2], p=2), IMAGE,
                      images(0, 3, 0, 0)),
    "same transposed": Case(node("ConvTranspose", auto_pad="SAME_UPPER", strides=[2, 2]),
                            {**IMAGE, "w": ("float32", [3, 4, 3, 3])}, images(0, 3, 0, 0, more=[(3, 4, 3, 3)])),
    "upward max pool": Case(node("MaxPool", ceil_mode=1, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 0, 1]), IMAGE,
                            PICTURE),
    "upward max pool of long strides": Case(node("MaxPool", ceil_mode=1, kernel_shape=[2, 2], strides=[3, 4],
                                                 pads=[1, 1, 1, 1]), IMAGE, PICTURE),
    "upward max pool of integers": Case(node("MaxPool", ceil_mode=1, kernel_shape=[3, 2], strides=[2, 2],
                                             pads=[1, 1, 1, 0]), {"x": ("int8", [None, 3, None, None])}, lambda rng: [
        (rng.integers(-128, 0, (n, 3, *sizes(rng, 2, 3, 9))).astype("int8"),) for n in (1, 2)]),
    "upward average": Case(node("AveragePool", ceil_mode=1, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
                           IMAGE, PICTURE),
    "upward average with padding": Case(node("AveragePool", ceil_mode=1, kernel_shape=[3, 3], strides=[2, 2],
                                             pads=[1, 0, 1, 1], count_include_pad=1), IMAGE, PICTURE, opset=19),
    "grid sample": Case(node("GridSample", mode="bilinear", padding_mode="zeros"),
                        {"x": ("float32", 4), "g": ("float32", [None, None, None, 2])}, grids(2)),
    "grid sample cubic": Case(node("GridSample", mode="bicubic", padding_mode="border", align_corners=1),
                              {"x": ("float32", 4), "g": ("float32", [None, None, None, 2])}, grids(2)),
    "grid sample reflected": Case(node("GridSample", mode="linear", padding_mode="reflection"),
                                  {"x": ("float32", 5), "g": ("float32", [None, None, None, None, 3])}, grids(3),
                                  opset=20),
    "max unpool": Case(node("MaxUnpool", kernel_shape=[2, 2], strides=[2, 2]),
                       {"x": ("float32", 4), "i": ("int64", 4)}, unpooled),
    "gather from the end": Case(node("Gather", axis=1), {**ANY, "i": ("int64", 1)}, lambda rng: [
        (data(rng, 2, n), rng.integers(-n, n, 5)) for n in (1, 4, 7)]),
}  # fmt: skip
