"""Write small graphs of one TensorFlow operator each, with inputs and the outputs of TensorFlow, to
tests/relay/frontend/tensorflow/cases.npz.

Run it with a Python that has TensorFlow: ``python tools/tensorflow_reference.py [NAME ...]``. A case is one line: the
operator, its call, and its inputs; a number or an array among the arguments is a constant of the graph. Existing cases
of the file are kept, except those that are named; ``all`` writes all of them.
"""

from __future__ import annotations

import os
import sys
import zlib
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

FILE = Path(__file__).resolve().parent.parent / "tests" / "relay" / "frontend" / "tensorflow" / "cases.npz"
raw = tf.raw_ops
CASES: dict[str, tuple] = {}


class Drawn:
    """An input of a graph; its value is drawn from the name of the case."""

    def __init__(self, *shape, dtype="float32", low=None, high=None, open_shape=None):
        self.shape, self.dtype, self.low, self.high, self.open_shape = shape, dtype, low, high, open_shape

    def value(self, state) -> np.ndarray:
        if self.dtype.startswith("float"):
            low, high = -4.0 if self.low is None else self.low, 4.0 if self.high is None else self.high
            return state.uniform(low, high, self.shape).astype(self.dtype)
        if self.dtype == "bool":
            return state.randint(0, 2, self.shape).astype("bool")
        low, high = -9 if self.low is None else self.low, 9 if self.high is None else self.high
        return state.randint(low, high + 1, self.shape).astype(self.dtype)


def f(*shape, **rest) -> Drawn:
    return Drawn(*shape, **rest)


def i(*shape, dtype="int32", **rest) -> Drawn:
    return Drawn(*shape, dtype=dtype, **rest)


def b(*shape) -> Drawn:
    return Drawn(*shape, dtype="bool")


def case(name: str, build, *inputs: Drawn) -> None:
    """Register a case; ``name`` is the operator, or the operator and a variant, separated by a slash."""
    key = name if name not in CASES else next(f"{name}.{k}" for k in range(2, 99) if f"{name}.{k}" not in CASES)
    CASES[key] = (build, inputs)


def written(again: set[str]) -> dict[str, np.ndarray]:
    out: dict[str, np.ndarray] = {}
    if FILE.exists() and "all" not in again:
        with np.load(FILE) as kept:
            out = {k: kept[k] for k in kept if (n := k.rpartition("|")[0]) in CASES and n not in again}
    there = {k.rpartition("|")[0] for k in out}
    for name, (build, inputs) in CASES.items():
        if name in there:
            continue
        state = np.random.RandomState(zlib.crc32(name.encode()) & 0x7FFFFFFF)
        with tf.Graph().as_default() as graph:
            values = [s.value(state) for s in inputs]
            holders = [
                tf.compat.v1.placeholder(s.dtype, s.shape if s.open_shape is None else s.open_shape, f"x{k}")
                for k, s in enumerate(inputs)
            ]
            results = build(*holders)
            results = list(results) if isinstance(results, (list, tuple)) else [results]
            results = [tf.identity(r, f"y{k}") for k, r in enumerate(results) if r is not None]
            with tf.compat.v1.Session() as session:
                session.run(tf.compat.v1.tables_initializer())
                got = session.run(results, dict(zip(holders, values)))
            data = graph.as_graph_def()
        data.ClearField("versions")
        for node in [*data.node, *(n for fn in data.library.function for n in fn.node_def)]:
            node.device = ""
            node.ClearField("experimental_debug_info")
            for attr in ("_output_shapes", "_XlaMustCompile", "_read_only_resource_inputs", "config_proto", "config"):
                if attr in node.attr:
                    del node.attr[attr]
        out[f"{name}|graph"] = np.frombuffer(data.SerializeToString(), "uint8")
        for k, value in enumerate(values):
            out[f"{name}|x{k}"] = value
        for k, value in enumerate(got):
            out[f"{name}|y{k}"] = np.asarray(value)
    return out


# -- elements ---------------------------------------------------------------------------------------------------------

for _n in (
    "Abs Ceil Cos Cosh Erf Erfc Exp Expm1 Floor Neg Rint Round Sigmoid Sign Sin Sinh Square Tan Tanh Atan Asinh"
).split():
    case(_n, lambda x, n=_n: getattr(raw, n)(x=x), f(3, 5))
for _n in "Relu Relu6 Elu Selu Softplus Softsign".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(features=x), f(3, 5, low=-9, high=9))
for _n in "Log Sqrt Rsqrt Reciprocal Inv".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(x=x), f(7, low=0.1, high=9))
for _n in "Acos Asin Atanh".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(x=x), f(7, low=-0.9, high=0.9))
case("Acosh", lambda x: raw.Acosh(x=x), f(7, low=1.1, high=9))
case("Log1p", lambda x: raw.Log1p(x=x), f(7, low=-0.9, high=9))
case("Log1p/small", lambda x: raw.Log1p(x=x), f(7, low=-1e-6, high=1e-6))
case("Expm1/small", lambda x: raw.Expm1(x=x), f(7, low=-1e-6, high=1e-6))
case("Abs/int", lambda x: raw.Abs(x=x), i(5))
case("Neg/int64", lambda x: raw.Neg(x=x), i(5, dtype="int64"))
case("LeakyRelu", lambda x: raw.LeakyRelu(features=x), f(3, 5))
case("LeakyRelu/alpha", lambda x: raw.LeakyRelu(features=x, alpha=0.01), f(3, 5))
case("LogicalNot", lambda x: raw.LogicalNot(x=x), b(5))
case("Invert", lambda x: raw.Invert(x=x), i(5))
for _n in "IsFinite IsInf IsNan".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(x=raw.RealDiv(x=x, y=tf.constant([0.0, 1, 0, 2, 0]))), f(5))
for _a, _b in (
    ("float32", "int32"),
    ("int32", "float32"),
    ("float32", "bool"),
    ("bool", "float32"),
    ("float32", "float16"),
    ("int64", "uint8"),
    ("float32", "float64"),
):
    case(f"Cast/{_a} {_b}", lambda x, d=_b: raw.Cast(x=x, DstT=d), Drawn(3, 5, dtype=_a, low=0, high=100))
case("Bitcast", lambda x: raw.Bitcast(input=x, type="int32"), f(5))
case("ClipByValue", lambda x: tf.clip_by_value(x, -1.0, 2.0), f(3, 5))

for _n in "Add AddV2 Sub Mul Maximum Minimum SquaredDifference".split():
    case(_n, lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), f(3, 5), f(3, 5))
    case(f"{_n}/broadcast", lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), f(2, 1, 5), f(3, 1))
    case(f"{_n}/int", lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), i(5), i())
case("RealDiv", lambda x, y: raw.RealDiv(x=x, y=y), f(3, 5), f(5, low=0.5))
case("Div", lambda x, y: raw.Div(x=x, y=y), f(3, 5), f(5, low=0.5))
case("Div/int", lambda x, y: raw.Div(x=x, y=y), i(7), i(7, low=1))
for _n in "TruncateDiv FloorDiv FloorMod TruncateMod Mod".split():
    case(f"{_n}/int", lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), i(9), i(9, low=1))
    if "Div" not in _n or _n == "FloorDiv":
        case(_n, lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), f(9), f(9, low=0.5))
case("Pow", lambda x, y: raw.Pow(x=x, y=y), f(9, low=0.1), f(9))
case("Atan2", lambda x, y: raw.Atan2(y=x, x=y), f(9), f(9))
for _n in "DivNoNan MulNoNan Xdivy Xlogy Xlog1py".split():
    case(_n, lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), f(5, low=0.5), f(5, low=0.5))
case("DivNoNan/zero", lambda x: raw.DivNoNan(x=x, y=tf.constant([0.0, 1, 0, 2, 3])), f(5))
case("MulNoNan/zero", lambda x: raw.MulNoNan(x=x, y=tf.constant([0.0, 1, 0, 2, 3])), f(5))
case("Xlogy/zero", lambda y: raw.Xlogy(x=tf.constant([0.0, 1, 0, 2, 3]), y=y), f(5, low=0.5))
for _n in "Equal NotEqual Less LessEqual Greater GreaterEqual".split():
    case(_n, lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), i(3, 5, low=0, high=2), i(5, low=0, high=2))
case("ApproximateEqual", lambda x, y: raw.ApproximateEqual(x=x, y=y, tolerance=2.0), f(9), f(9))
for _n in "LogicalAnd LogicalOr".split():
    case(_n, lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), b(3, 5), b(5))
for _n in "BitwiseAnd BitwiseOr BitwiseXor".split():
    case(_n, lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), i(9), i(9))
for _n in "LeftShift RightShift".split():
    case(_n, lambda x, y, n=_n: getattr(raw, n)(x=x, y=y), i(9), i(9, low=0, high=5))
case("AddN", lambda x, y, z: raw.AddN(inputs=[x, y, z]), f(3), f(3), f(3))
case("Select", lambda c, x, y: raw.Select(condition=c, x=x, y=y), b(3, 5), f(3, 5), f(3, 5))
case("Select/rows", lambda c, x, y: raw.Select(condition=c, x=x, y=y), b(3), f(3, 5), f(3, 5))
case("SelectV2", lambda c, x, y: raw.SelectV2(condition=c, t=x, e=y), b(3, 1), f(5), f(1))


def quantized(steps: np.ndarray, kind):
    """Return a constant of quantized integers."""
    return tf.constant(steps.astype(kind.name[1:]).view(kind.as_numpy_dtype), kind)


_RANGES = {"quint8": (0, 256), "qint8": (-128, 128), "quint16": (0, 1 << 16), "qint16": (-(1 << 15), 1 << 15),
           "qint32": (-(1 << 31), 1 << 31)}  # fmt: skip
for _kind in (tf.quint8, tf.qint8, tf.quint16, tf.qint16, tf.qint32):
    _steps = np.random.RandomState(5).randint(*_RANGES[_kind.name], (3, 5), "int64")
    for _mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        if _kind in (tf.quint8, tf.qint8) or _mode == "MIN_COMBINED":
            case(f"Dequantize/{_kind.name}_{_mode}",
                 lambda low, high, kind=_kind, mode=_mode, steps=_steps: raw.Dequantize(
                     input=quantized(steps, kind), min_range=low, max_range=high, mode=mode),
                 f(low=-3.0, high=-1.0), f(low=1.0, high=5.0))  # fmt: skip
_STEPS = [[[-127, 5], [3, 127], [0, 9]], [[1, -2], [-3, 4], [100, -100]]]
case("Dequantize/axis", lambda low, high: raw.Dequantize(
    input=quantized(np.array(_STEPS), tf.qint8), min_range=low, max_range=high, mode="SCALED", narrow_range=True,
    axis=1),
    f(3, low=-3.0, high=-1.0), f(3, low=1.0, high=5.0))  # fmt: skip
case("FakeQuantWithMinMaxArgs", lambda x: raw.FakeQuantWithMinMaxArgs(inputs=x, min=-3.0, max=2.5), f(3, 5))
case(
    "FakeQuantWithMinMaxArgs/narrow",
    lambda x: raw.FakeQuantWithMinMaxArgs(inputs=x, min=-3.0, max=2.5, num_bits=4, narrow_range=True),
    f(3, 5),
)
case("FakeQuantWithMinMaxVars", lambda x: raw.FakeQuantWithMinMaxVars(inputs=x, min=-1.0, max=2.5), f(3, 5))
case(
    "FakeQuantWithMinMaxVarsPerChannel",
    lambda x: raw.FakeQuantWithMinMaxVarsPerChannel(inputs=x, min=[-1.0, -2, -3], max=[2.5, 1, 3]),
    f(5, 3),
)

# -- state ------------------------------------------------------------------------------------------------------------

case("Identity", lambda x: raw.Identity(input=x), f(3))
case("StopGradient", lambda x: tf.stop_gradient(x), f(3))
case("PreventGradient", lambda x: raw.PreventGradient(input=x), f(3))
case("CheckNumerics", lambda x: raw.CheckNumerics(tensor=x, message=""), f(3))
case("Snapshot", lambda x: raw.Snapshot(input=x), f(3))
case("IdentityN", lambda x, y: raw.IdentityN(input=[x, y]), f(3), i(2))
case("EnsureShape", lambda x: raw.EnsureShape(input=x, shape=[None, 5]), f(3, 5))
case("PlaceholderWithDefault", lambda x: x + tf.compat.v1.placeholder_with_default(tf.constant([1.0, 2]), [2]), f(2))
for _t in ("float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "uint16", "bool"):
    case(f"Const/{_t}", lambda x, t=_t: tf.cast(tf.constant(np.array([[1, 0, 3]]).astype(t)), "float32") + x, f(2, 3))
case("Const/repeated", lambda x: tf.constant(3.0, shape=[4, 5]) * x, f(5))
case("Assert", lambda x: _guarded(x), f(3))


def _guarded(x):
    with tf.control_dependencies([tf.compat.v1.Assert(tf.reduce_all(x < 100), [x])]):
        return tf.identity(x) * 2


# -- shapes -----------------------------------------------------------------------------------------------------------

case("Reshape", lambda x: raw.Reshape(tensor=x, shape=[5, -1]), f(3, 5, 2))
case("Reshape/of shape", lambda x: tf.reshape(x, [tf.shape(x)[0], -1]), f(3, 5, 2, open_shape=[None, 5, 2]))
case(
    "Reshape/two open",
    lambda x: tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], 2, 3]),
    f(3, 5, 6, open_shape=[None, None, 6]),
)
case("Transpose", lambda x: raw.Transpose(x=x, perm=[2, 0, 1]), f(3, 5, 2))
case("Squeeze", lambda x: raw.Squeeze(input=x), f(3, 1, 2, 1))
case("Squeeze/axes", lambda x: raw.Squeeze(input=x, axis=[1, -1]), f(3, 1, 1, 1))
case("ExpandDims", lambda x: raw.ExpandDims(input=x, axis=-2), f(3, 5))
case("Tile", lambda x: raw.Tile(input=x, multiples=[2, 1, 3]), f(3, 1, 2))
case("Tile/open", lambda x: tf.tile(x, [tf.shape(x)[0], 1]), f(3, 2, open_shape=[None, 2]))
case("BroadcastTo", lambda x: raw.BroadcastTo(input=x, shape=[2, 3, 5]), f(3, 1))
case("BroadcastTo/open", lambda x: tf.broadcast_to(x, tf.concat([[2], tf.shape(x)], 0)), f(3, 5, open_shape=[None, 5]))
case("BroadcastArgs", lambda x: tf.broadcast_to(x, raw.BroadcastArgs(s0=[2, 1, 5], s1=[3, 1])), f(3, 5))
case("Shape", lambda x: raw.Shape(input=x), f(3, 5, open_shape=[None, 5]))
case("Shape/known", lambda x: raw.Shape(input=x, out_type="int64"), f(3, 5))
case("ShapeN", lambda x, y: raw.ShapeN(input=[x, y]), f(3, 5), f(2))
case("Size", lambda x: raw.Size(input=x), f(3, 5, open_shape=[None, 5]))
case("Rank", lambda x: raw.Rank(input=x), f(3, 5))
case("Slice", lambda x: raw.Slice(input=x, begin=[1, 0, 2], size=[-1, 2, 1]), f(3, 5, 4))
case("Slice/open", lambda x: tf.slice(x, [1, 0], [tf.shape(x)[0] - 2, 2]), f(5, 4, open_shape=[None, 4]))
case("Slice/open batch", lambda x: tf.slice(x, [0, 1], [-1, 2]), f(5, 4, open_shape=[None, 4]))
for _k, _s in enumerate(
    (
        lambda x: x[1:3],
        lambda x: x[..., 1],
        lambda x: x[:, ::-1],
        lambda x: x[::2, 4:1:-2, :],
        lambda x: x[-1, 1:],
        lambda x: x[:, tf.newaxis, ..., -2:],
        lambda x: x[tf.newaxis, 0, :, tf.newaxis],
        lambda x: x[1:-1, 10:2],
        lambda x: x[-9:2, ::3, -1::-1],
        lambda x: x[0, 0, 0],
    )
):
    case(f"StridedSlice/{_k}", _s, f(3, 6, 4))
case("StridedSlice/open", lambda x: x[1:, :-1, 0], f(3, 6, 4, open_shape=[None, None, 4]))
case("StridedSlice/open place", lambda x: x[tf.shape(x)[0] - 2], f(3, 6, open_shape=[None, 6]))
case("StridedSlice/open ends", lambda x: x[: tf.shape(x)[0] - 1, 1:], f(3, 6, open_shape=[None, 6]))
case("Split", lambda x: raw.Split(axis=1, value=x, num_split=3), f(2, 6))
case("SplitV", lambda x: raw.SplitV(value=x, size_splits=[1, -1, 2], axis=1, num_split=3), f(2, 6))
case("ConcatV2", lambda x, y: raw.ConcatV2(values=[x, y], axis=-1), f(2, 6), f(2, 1))
case("Concat", lambda x, y: raw.Concat(concat_dim=0, values=[x, y]), f(2, 6), f(1, 6))
case("Pack", lambda x, y: raw.Pack(values=[x, y], axis=-1), f(2, 3), f(2, 3))
case("Unpack", lambda x: raw.Unpack(value=x, num=3, axis=1), f(2, 3, 4))
case("Pad", lambda x: raw.Pad(input=x, paddings=[[1, 2], [0, 3]]), f(2, 3))
case("Pad/open", lambda x: tf.pad(x, [[0, 5 - tf.shape(x)[0]], [1, 0]]), f(2, 3, open_shape=[None, 3]))
case("PadV2", lambda x: raw.PadV2(input=x, paddings=[[1, 2], [0, 3]], constant_values=7.0), f(2, 3))
case("MirrorPad", lambda x: raw.MirrorPad(input=x, paddings=[[1, 1], [0, 2]], mode="REFLECT"), f(2, 3))
case("MirrorPad/symmetric", lambda x: raw.MirrorPad(input=x, paddings=[[1, 2], [0, 3]], mode="SYMMETRIC"), f(2, 3))
case("ReverseV2", lambda x: raw.ReverseV2(tensor=x, axis=[0, -1]), f(2, 3, 4))
case("Reverse", lambda x: raw.Reverse(tensor=x, dims=[True, False, True]), f(2, 3, 4))
case(
    "ReverseSequence", lambda x: raw.ReverseSequence(input=x, seq_lengths=[1, 3, 2], seq_dim=1, batch_dim=0), f(3, 4, 2)
)
case("Roll", lambda x: raw.Roll(input=x, shift=[1, -2], axis=[0, 1]), f(3, 4))
for _l in ("NHWC", "NCHW"):
    _s = (2, 4, 6, 3) if _l == "NHWC" else (2, 3, 4, 6)
    _d = (2, 2, 3, 8) if _l == "NHWC" else (2, 8, 2, 3)
    if _l == "NHWC":
        case("SpaceToDepth", lambda x: raw.SpaceToDepth(input=x, block_size=2), f(*_s))
        case("DepthToSpace", lambda x: raw.DepthToSpace(input=x, block_size=2), f(*_d))
case(
    "SpaceToBatchND",
    lambda x: raw.SpaceToBatchND(input=x, block_shape=[2, 3], paddings=[[0, 0], [1, 2]]),
    f(1, 4, 6, 2),
)
case("BatchToSpaceND", lambda x: raw.BatchToSpaceND(input=x, block_shape=[2, 2], crops=[[0, 1], [1, 0]]), f(8, 2, 3, 2))
case("Fill", lambda x: raw.Fill(dims=[2, 3], value=x), f())
case("Fill/open", lambda x: tf.fill(tf.shape(x), 3.0) + x, f(2, 3, open_shape=[None, 3]))
case("ZerosLike", lambda x: raw.ZerosLike(x=x), f(2, 3))
case("OnesLike", lambda x: raw.OnesLike(x=x), i(2, 3))
case("Range", lambda x: raw.Range(start=2, limit=11, delta=3) + x, i(3))
case("Range/open", lambda x: tf.range(tf.shape(x)[0]), f(4, open_shape=[None]))
case("LinSpace", lambda x: raw.LinSpace(start=0.5, stop=2.0, num=4) + x, f(4))

# -- reductions -------------------------------------------------------------------------------------------------------

for _n in "Sum Mean Prod Max Min EuclideanNorm".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(input=x, axis=[1, -1]), f(3, 5, 2))
    case(f"{_n}/keep", lambda x, n=_n: getattr(raw, n)(input=x, axis=0, keep_dims=True), f(3, 5))
case("Mean/int", lambda x: raw.Mean(input=x, axis=[0]), i(4, 3))
case("Sum/int", lambda x: raw.Sum(input=x, axis=[0]), i(4, 3))
for _n in "All Any".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(input=x, axis=[1]), b(3, 5))
case("L2Loss", lambda x: raw.L2Loss(t=x), f(3, 5))
for _n in "ArgMax ArgMin".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(input=x, dimension=1), f(3, 5))
    case(f"{_n}/int32", lambda x, n=_n: getattr(raw, n)(input=x, dimension=-1, output_type="int32"), f(3, 5, 2))
for _n in "Cumsum Cumprod".split():
    case(_n, lambda x, n=_n: getattr(raw, n)(x=x, axis=1), f(3, 5))
    case(f"{_n}/reverse", lambda x, n=_n: getattr(raw, n)(x=x, axis=0, exclusive=True, reverse=True), f(3, 5))
case("TopKV2", lambda x: raw.TopKV2(input=x, k=3), f(2, 7))
case("InTopK", lambda x, t: raw.InTopK(predictions=x, targets=t, k=2), f(4, 7), i(4, low=0, high=6))
case("InTopKV2", lambda x, t: raw.InTopKV2(predictions=x, targets=t, k=3), f(4, 7), i(4, low=0, high=6))
for _n in "Sum Prod Max Min Mean".split():
    case(f"Segment{_n}", lambda x, n=_n: getattr(raw, f"Segment{n}")(data=x, segment_ids=[0, 0, 2, 3, 3]), f(5, 3))
    if _n != "Mean":
        case(
            f"UnsortedSegment{_n}",
            lambda x, s, n=_n: getattr(raw, f"UnsortedSegment{n}")(data=x, segment_ids=s, num_segments=4),
            f(5, 3),
            i(5, low=0, high=3),
        )

# -- indexing ---------------------------------------------------------------------------------------------------------

case("Gather", lambda x, p: raw.Gather(params=x, indices=p), f(5, 3), i(2, 4, low=0, high=4))
case("GatherV2", lambda x, p: raw.GatherV2(params=x, indices=p, axis=1), f(3, 5, 2), i(4, low=0, high=4))
case(
    "GatherV2/batch",
    lambda x, p: raw.GatherV2(params=x, indices=p, axis=2, batch_dims=1),
    f(3, 2, 5),
    i(3, 4, low=0, high=4),
)
case("GatherNd", lambda x, p: raw.GatherNd(params=x, indices=p), f(5, 3, 2), i(4, 2, low=0, high=2))
case("GatherNd/whole", lambda x, p: raw.GatherNd(params=x, indices=p), f(5, 3), i(2, 4, 1, low=0, high=2))
case("ScatterNd", lambda p, x: raw.ScatterNd(indices=p, updates=x, shape=[6, 3]), i(4, 1, low=0, high=5), f(4, 3))
for _n in "Add Sub Max Min".split():
    case(
        f"TensorScatter{_n}",
        lambda t, p, x, n=_n: getattr(raw, f"TensorScatter{n}")(tensor=t, indices=p, updates=x),
        f(6, 3),
        i(4, 1, low=0, high=5),
        f(4, 3),
    )
case(
    "TensorScatterUpdate",
    lambda t, x: raw.TensorScatterUpdate(tensor=t, indices=[[4], [1]], updates=x),
    f(6, 3),
    f(2, 3),
)
case("OneHot", lambda p: raw.OneHot(indices=p, depth=5, on_value=2.0, off_value=-1.0), i(2, 3, low=-1, high=5))
case("OneHot/axis", lambda p: raw.OneHot(indices=p, depth=5, on_value=1, off_value=0, axis=0), i(2, 3, low=0, high=4))
case("Where", lambda x: raw.Where(condition=x), b(3, 5))
case("Where/numbers", lambda x: raw.Where(condition=x), i(3, 5, low=0, high=1))
case(
    "SparseToDense",
    lambda x: raw.SparseToDense(
        sparse_indices=[[0, 1], [2, 0]], output_shape=[3, 4], sparse_values=x, default_value=7.0
    ),
    f(2),
)
case("InvertPermutation", lambda x: raw.InvertPermutation(x=[2, 0, 1]) + x, i(3))
case("UnravelIndex", lambda x: raw.UnravelIndex(indices=x, dims=[3, 4]), i(5, low=0, high=11))
case("LowerBound", lambda x: raw.LowerBound(sorted_inputs=[[1.0, 2, 2, 3]], values=x), f(1, 6, low=0, high=4))
case("UpperBound", lambda x: raw.UpperBound(sorted_inputs=[[1.0, 2, 2, 3]], values=x), f(1, 6, low=0, high=4))
case("Bucketize", lambda x: raw.Bucketize(input=x, boundaries=[-1.0, 0, 2]), f(3, 4))
case("Unique", lambda x: raw.Unique(x=x), i(9, low=0, high=4))
case("UniqueV2", lambda x: raw.UniqueV2(x=x, axis=tf.constant([], "int64")), i(9, low=0, high=4))
case("UniqueWithCounts", lambda x: raw.UniqueWithCounts(x=x), i(9, low=0, high=4))
case("ListDiff", lambda x, y: raw.ListDiff(x=x, y=y), i(9, low=0, high=9), i(4, low=0, high=9))
case("MatrixDiag", lambda x: raw.MatrixDiag(diagonal=x), f(2, 3))
case("MatrixDiagV3", lambda x: tf.linalg.diag(x), f(2, 3))
case("MatrixDiagPart", lambda x: raw.MatrixDiagPart(input=x), f(2, 3, 4))
case("MatrixDiagPartV3", lambda x: tf.linalg.diag_part(x), f(2, 4, 3))
case("MatrixSetDiag", lambda x, d: raw.MatrixSetDiag(input=x, diagonal=d), f(2, 3, 4), f(2, 3))
case("MatrixSetDiagV3", lambda x, d: tf.linalg.set_diag(x, d), f(2, 3, 3), f(2, 3))
case("MatrixBandPart", lambda x: raw.MatrixBandPart(input=x, num_lower=1, num_upper=0), f(2, 4, 5))
case("MatrixBandPart/all", lambda x: raw.MatrixBandPart(input=x, num_lower=-1, num_upper=2), f(4, 5))
case("Diag", lambda x: raw.Diag(diagonal=x), f(3))
case("DiagPart", lambda x: raw.DiagPart(input=x), f(3, 3))

# -- networks ---------------------------------------------------------------------------------------------------------

case("MatMul", lambda x, y: raw.MatMul(a=x, b=y), f(3, 5), f(5, 2))
case("MatMul/transposed", lambda x, y: raw.MatMul(a=x, b=y, transpose_a=True, transpose_b=True), f(5, 3), f(2, 5))
case("BatchMatMul", lambda x, y: raw.BatchMatMul(x=x, y=y, adj_y=True), f(2, 3, 5), f(2, 4, 5))
case("BatchMatMulV2", lambda x, y: raw.BatchMatMulV2(x=x, y=y), f(2, 1, 3, 5), f(4, 5, 2))
case("BatchMatMulV2/adj", lambda x, y: raw.BatchMatMulV2(x=x, y=y, adj_x=True), f(2, 5, 3), f(2, 5, 2))
case(
    "BatchMatMulV2/open",
    lambda x, y: raw.BatchMatMulV2(x=x, y=y, adj_y=True),
    f(2, 4, 3, 5, open_shape=[None, 4, 3, 5]),
    f(2, 4, 6, 5, open_shape=[None, 4, 6, 5]),
)
case("BatchMatMulV3", lambda x, y: raw.BatchMatMulV3(x=x, y=y, Tout="float32"), f(2, 3, 5), f(2, 5, 2))
for _k, (_e, _p, _q) in enumerate(
    (
        ("abc,cd->abd", (2, 3, 4), (4, 5)),
        ("abcd,cde->abe", (2, 3, 4, 2), (4, 2, 5)),
        ("aecd,abcd->acbe", (2, 3, 4, 5), (2, 6, 4, 5)),
        ("ij,kj->ik", (3, 4), (5, 4)),
        ("acbe,aecd->abcd", (2, 4, 6, 3), (2, 3, 4, 5)),
        ("ij,ij->i", (3, 4), (3, 4)),
    )
):
    case(f"Einsum/{_k}", lambda x, y, e=_e: raw.Einsum(inputs=[x, y], equation=e), f(*_p), f(*_q))
case(
    "Einsum/open",
    lambda x, y: raw.Einsum(inputs=[x, y], equation="abc,cde->abde"),
    f(2, 3, 4, open_shape=[None, 3, 4]),
    f(4, 5, 6),
)
case("Einsum/sum", lambda x: raw.Einsum(inputs=[x], equation="ijk->kj"), f(2, 3, 4))
case("BiasAdd", lambda x, y: raw.BiasAdd(value=x, bias=y), f(2, 3, 4), f(4))
case("BiasAdd/first", lambda x, y: raw.BiasAdd(value=x, bias=y, data_format="NCHW"), f(2, 3, 4, 5), f(3))
case("BiasAddV1", lambda x, y: raw.BiasAddV1(value=x, bias=y), f(2, 4), f(4))
case("Softmax", lambda x: raw.Softmax(logits=x), f(2, 3, 5))
case("LogSoftmax", lambda x: raw.LogSoftmax(logits=x), f(2, 5))
for _v in ("", "V2", "V3"):
    case(
        f"FusedBatchNorm{_v}",
        lambda x, n=f"FusedBatchNorm{_v}": getattr(raw, n)(
            x=x,
            scale=[1.0, 2, 0.5],
            offset=[0.1, -1, 3],
            mean=[0.2, 0, -1],
            variance=[1.0, 0.5, 2],
            epsilon=1e-3,
            is_training=False,
        )[0],
        f(2, 4, 5, 3),
    )
case(
    "FusedBatchNormV3/training",
    lambda x: raw.FusedBatchNormV3(x=x, scale=[1.0, 2, 0.5], offset=[0.1, -1, 3], mean=[], variance=[], epsilon=1e-3)[
        0
    ],
    f(2, 4, 5, 3),
)
case("LRN", lambda x: raw.LRN(input=x, depth_radius=2, bias=1.5, alpha=0.3, beta=0.7), f(1, 2, 3, 7))

for _k, (_s, _w, _a) in enumerate(
    (
        ((1, 7, 9, 3), (3, 3, 3, 4), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
        ((2, 7, 9, 3), (3, 2, 3, 4), {"strides": [1, 2, 3, 1], "padding": "SAME"}),
        ((1, 8, 9, 2), (3, 5, 2, 4), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
        ((1, 9, 9, 3), (3, 3, 3, 4), {"strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 2, 2, 1]}),
        (
            (1, 7, 9, 3),
            (3, 3, 3, 4),
            {"strides": [1, 1, 2, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 0, 1, 2, 0, 3, 0, 0]},
        ),
        ((1, 5, 6, 4), (1, 1, 2, 4), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    )
):
    _c = np.random.RandomState(_k).uniform(-1, 1, _w).astype("float32")
    case(f"Conv2D/{_k}", lambda x, w=_c, a=_a: raw.Conv2D(input=x, filter=w, **a), f(*_s))
_c = np.random.RandomState(3).uniform(-1, 1, (3, 3, 3, 4)).astype("float32")
case(
    "Conv2D/open",
    lambda x, w=_c: raw.Conv2D(input=x, filter=w, strides=[1, 2, 2, 1], padding="SAME"),
    f(2, 7, 8, 3, open_shape=[None, None, None, 3]),
)
case(
    "Conv2D/open batch",
    lambda x, w=_c: raw.Conv2D(input=x, filter=w, strides=[1, 2, 2, 1], padding="SAME"),
    f(2, 7, 8, 3, open_shape=[None, 7, 8, 3]),
)
case(
    "Conv2D/computed",
    lambda x, w: raw.Conv2D(input=x, filter=w, strides=[1, 1, 1, 1], padding="SAME"),
    f(1, 5, 6, 3),
    f(3, 3, 3, 2),
)
for _k, (_w, _a) in enumerate(
    (
        ((3, 3, 3, 1), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
        ((3, 2, 3, 2), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
    )
):
    _c = np.random.RandomState(_k).uniform(-1, 1, _w).astype("float32")
    case(
        f"DepthwiseConv2dNative/{_k}",
        lambda x, w=_c, a=_a: raw.DepthwiseConv2dNative(input=x, filter=w, **a),
        f(1, 7, 9, 3),
    )
for _k, (_o, _w, _x, _a) in enumerate(
    (
        ([1, 8, 9, 4], (3, 3, 4, 3), (1, 4, 5, 3), {"strides": [1, 2, 2, 1], "padding": "SAME"}),
        ([1, 9, 11, 4], (3, 3, 4, 3), (1, 4, 5, 3), {"strides": [1, 2, 2, 1], "padding": "VALID"}),
        ([1, 4, 5, 4], (2, 3, 4, 3), (1, 4, 5, 3), {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    )
):
    _c = np.random.RandomState(_k).uniform(-1, 1, _w).astype("float32")
    case(
        f"Conv2DBackpropInput/{_k}",
        lambda x, o=_o, w=_c, a=_a: raw.Conv2DBackpropInput(input_sizes=o, filter=w, out_backprop=x, **a),
        f(*_x),
    )
_c = np.random.RandomState(4).uniform(-1, 1, (2, 3, 3, 2, 4)).astype("float32")
case("Conv3D", lambda x, w=_c: raw.Conv3D(input=x, filter=w, strides=[1, 1, 2, 2, 1], padding="SAME"), f(1, 4, 5, 6, 2))
case(
    "Conv3D/valid",
    lambda x, w=_c: raw.Conv3D(input=x, filter=w, strides=[1, 1, 1, 1, 1], padding="VALID"),
    f(1, 4, 5, 6, 2),
)
case(
    "Conv3DBackpropInputV2",
    lambda x, w=_c: raw.Conv3DBackpropInputV2(
        input_sizes=[1, 4, 6, 6, 2], filter=w, out_backprop=x, strides=[1, 2, 2, 2, 1], padding="SAME"
    ),
    f(1, 2, 3, 3, 4),
)
_c = np.random.RandomState(5).uniform(-1, 1, (3, 2, 3)).astype("float32")
case(
    "Dilation2D",
    lambda x, w=_c: raw.Dilation2D(input=x, filter=w, strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding="SAME"),
    f(1, 7, 8, 3),
)
for _n in ("MaxPool", "AvgPool"):
    for _p in ("SAME", "VALID"):
        case(
            f"{_n}/{_p}",
            lambda x, n=_n, p=_p: getattr(raw, n)(
                **{"input" if n == "MaxPool" else "value": x}, ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding=p
            ),
            f(2, 7, 8, 3),
        )
        case(
            f"{_n}3D/{_p}",
            lambda x, n=_n, p=_p: getattr(raw, f"{n}3D")(
                input=x, ksize=[1, 2, 3, 2, 1], strides=[1, 1, 2, 2, 1], padding=p
            ),
            f(1, 3, 5, 6, 2),
        )
case(
    "MaxPoolV2",
    lambda x: raw.MaxPoolV2(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID"),
    f(1, 4, 5, 3),
)
case(
    "MaxPool/open",
    lambda x: raw.MaxPool(input=x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME"),
    f(1, 7, 8, 3, open_shape=[None, None, None, 3]),
)

# -- images -----------------------------------------------------------------------------------------------------------

for _n in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"):
    for _k, _a in enumerate(({}, {"align_corners": True}, {"half_pixel_centers": True})):
        for _o in ([9, 4], [3, 11]):
            case(
                f"{_n}/{_k} {_o[0]}", lambda x, n=_n, a=_a, o=_o: getattr(raw, n)(images=x, size=o, **a), f(2, 5, 6, 3)
            )
case("ResizeBilinear/int", lambda x: raw.ResizeBilinear(images=x, size=[7, 3]), i(1, 4, 5, 2))
for _m in ("bilinear", "nearest"):
    case(
        f"CropAndResize/{_m}",
        lambda x, m=_m: raw.CropAndResize(
            image=x,
            boxes=[[0.1, 0.2, 0.8, 0.9], [-0.2, 0.0, 1.3, 0.5], [0.9, 0.1, 0.2, 0.7]],
            box_ind=[1, 0, 1],
            crop_size=[4, 3],
            method=m,
            extrapolation_value=7.0,
        ),
        f(2, 6, 5, 3),
    )
_boxes = np.array(
    [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]], "float32"
)
case(
    "NonMaxSuppressionV2",
    lambda s: raw.NonMaxSuppressionV2(boxes=_boxes, scores=s, max_output_size=4, iou_threshold=0.5),
    f(6, low=0, high=1),
)
case(
    "NonMaxSuppressionV3",
    lambda s: raw.NonMaxSuppressionV3(
        boxes=_boxes, scores=s, max_output_size=4, iou_threshold=0.5, score_threshold=0.4
    ),
    f(6, low=0, high=1),
)
case(
    "NonMaxSuppressionV4",
    lambda s: raw.NonMaxSuppressionV4(
        boxes=_boxes, scores=s, max_output_size=5, iou_threshold=0.5, score_threshold=0.4, pad_to_max_output_size=True
    ),
    f(6, low=0, high=1),
)
for _k, (_sigma, _pad) in enumerate(((0.3, False), (0.1, True), (0.0, False), (0.0, True))):
    case(
        f"NonMaxSuppressionV5/{_k}",
        lambda s, g=_sigma, p=_pad: raw.NonMaxSuppressionV5(
            boxes=_boxes,
            scores=s,
            max_output_size=5,
            iou_threshold=0.5,
            score_threshold=0.2,
            soft_nms_sigma=g,
            pad_to_max_output_size=p,
        ),
        f(6, low=0, high=1),
    )

# -- control flow of TensorFlow 1 and 2 -------------------------------------------------------------------------------

v1 = tf.compat.v1


def _flow(name: str, build, *inputs: Drawn) -> None:
    """Register a case for each of the two versions of control flow."""

    def of(switch):
        def built(*holders):
            switch()
            return build(*holders)

        return built

    case(f"{name[0]}/{name[2]}", of(v1.disable_control_flow_v2), *inputs)
    case(f"{name[1]}/{name[2]}", of(v1.enable_control_flow_v2), *inputs)


def _loop(x, n, body, invariants=None):
    return v1.while_loop(
        lambda i, a: i < n, lambda i, a: (i + 1, body(i, a)), [tf.constant(0), x], shape_invariants=invariants
    )[1]


def _collected(x, n, size: int):
    rows = tf.TensorArray("float32", size=3, clear_after_read=False).unstack(x)
    return v1.while_loop(
        lambda i, s, t: i < n,
        lambda i, s, t: (i + 1, s + rows.read(i % 3), t.write(i, s + rows.read(i % 3))),
        [tf.constant(0), tf.zeros([4]), tf.TensorArray("float32", size=size)],
    )[2].stack()


_x, _n = f(3, 4), i(low=5, high=5)
for _k in range(2):
    _flow(
        ("Merge", "StatelessIf", f"known {_k}"),
        lambda x, k=_k: v1.cond(tf.constant(k > 0), lambda: x * 2, lambda: x + 1),
        _x,
    )
    _flow(
        ("Merge", "StatelessIf", f"late {_k}"),
        lambda x, p, k=_k: v1.cond(
            p > k, lambda: x * 2 + 1, lambda: tf.reduce_sum(x, 0, keepdims=True) + tf.zeros_like(x)
        ),
        _x,
        i(low=1, high=1),
    )
    _flow(
        ("Merge", "StatelessIf", f"nested {_k}"),
        lambda x, p, k=_k: v1.cond(
            p > k,
            lambda: (x * 2, tf.constant(1)),
            lambda: (v1.cond(tf.reduce_sum(x) > 0, lambda: x - 1, lambda: x + 5), tf.constant(2)),
        ),
        _x,
        i(low=1, high=1),
    )
_flow(("Exit", "StatelessWhile", "known"), lambda x: _loop(x, 4, lambda i, a: a * 2 + tf.cast(i, "float32")), _x)
_flow(("Exit", "StatelessWhile", "late"), lambda x, n: _loop(x, n, lambda i, a: a * 2 + tf.cast(i, "float32")), _x, _n)
_flow(("Exit", "StatelessWhile", "no step"), lambda x, n: _loop(x, n, lambda i, a: a * 2), _x, i(low=0, high=0))
_flow(
    ("Exit", "StatelessWhile", "nested"),
    lambda x, n: _loop(x, n, lambda i, a: _loop(a, i, lambda j, c: c + 1.0) * 0.5),
    _x,
    _n,
)
_flow(
    ("Exit", "StatelessWhile", "branch"),
    lambda x, n: _loop(x, n, lambda i, a: v1.cond(tf.equal(i % 2, 0), lambda: a + 1.0, lambda: a * 2.0)),
    _x,
    _n,
)
_flow(
    ("Exit", "StatelessWhile", "grows"),
    lambda x, n: _loop(x, n, lambda i, a: tf.concat([a, x[:1]], 0), [tf.TensorShape([]), tf.TensorShape([None, 4])]),
    _x,
    _n,
)
_flow(("TensorArrayWriteV3", "TensorListSetItem", "known"), lambda x: _collected(x, 3, 3), _x)
_flow(("TensorArrayWriteV3", "TensorListSetItem", "late"), lambda x, n: _collected(x, n, 6), _x, _n)
for _k in (-1, 1, 5):
    case(
        f"StatelessCase/{_k}",
        lambda x, n: tf.switch_case(n, [lambda: x + 1, lambda: x * 2, lambda: x - 3]),
        _x,
        i(low=_k, high=_k),
    )
v1.enable_control_flow_v2()

# -- lists and tables -------------------------------------------------------------------------------------------------


def _listed(x):
    return raw.TensorListFromTensor(tensor=x, element_shape=[4])


case(
    "TensorListStack",
    lambda x: raw.TensorListStack(input_handle=_listed(x), element_shape=[4], element_dtype="float32"),
    _x,
)
case(
    "TensorListGetItem",
    lambda x: raw.TensorListGetItem(input_handle=_listed(x), index=1, element_shape=[4], element_dtype="float32"),
    _x,
)
case(
    "TensorListGetItem/late",
    lambda x, n: raw.TensorListGetItem(input_handle=_listed(x), index=n, element_shape=[4], element_dtype="float32"),
    _x,
    i(low=2, high=2),
)
case(
    "TensorListGather",
    lambda x: raw.TensorListGather(input_handle=_listed(x), indices=[2, 0], element_shape=[4], element_dtype="float32"),
    _x,
)
case("TensorListLength", lambda x: raw.TensorListLength(input_handle=_listed(x)), _x)
case(
    "TensorListPushBack",
    lambda x: raw.TensorListStack(
        input_handle=raw.TensorListPushBack(input_handle=_listed(x), tensor=x[0] * 2),
        element_shape=[4],
        element_dtype="float32",
    ),
    _x,
)
case(
    "TensorListPopBack",
    lambda x: raw.TensorListPopBack(input_handle=_listed(x), element_shape=[4], element_dtype="float32")[1],
    _x,
)
case(
    "TensorListScatterV2",
    lambda x: raw.TensorListStack(
        input_handle=raw.TensorListScatterV2(tensor=x, indices=[2, 0, 3], element_shape=[4], num_elements=4),
        element_shape=[4],
        element_dtype="float32",
    ),
    _x,
)
case(
    "TensorListConcatV2",
    lambda x: raw.TensorListConcatV2(
        input_handle=_listed(x), element_shape=[4], leading_dims=tf.constant([], "int64"), element_dtype="float32"
    )[0],
    _x,
)
case(
    "TensorListSplit",
    lambda x: raw.TensorListGetItem(
        input_handle=raw.TensorListSplit(tensor=x, element_shape=[-1, 4], lengths=tf.constant([1, 2], "int64")),
        index=1,
        element_shape=[-1, 4],
        element_dtype="float32",
    ),
    _x,
)
case(
    "EmptyTensorList",
    lambda x: raw.TensorListStack(
        input_handle=raw.TensorListPushBack(
            input_handle=raw.EmptyTensorList(element_shape=[4], max_num_elements=-1, element_dtype="float32"),
            tensor=x[1],
        ),
        element_shape=[4],
        element_dtype="float32",
    ),
    _x,
)
case(
    "TensorListResize",
    lambda x: raw.TensorListStack(
        input_handle=raw.TensorListResize(input_handle=_listed(x), size=2), element_shape=[4], element_dtype="float32"
    ),
    _x,
)
case(
    "LookupTableFindV2",
    lambda k: tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([7, -2, 3], "int64"), tf.constant([0.5, 1.5, 2.5])), -1.0
    ).lookup(k),
    i(9, dtype="int64"),
)


if __name__ == "__main__":
    arrays = written(set(sys.argv[1:]))
    FILE.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(FILE, **arrays)
    print(f"{len(CASES)} cases, {FILE.stat().st_size / 1024:.0f} KiB")
