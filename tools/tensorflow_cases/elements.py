"""Elementwise operators, quantization, and operators that return their input."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from .case import Drawn, b, case, f, i

raw = tf.raw_ops

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
