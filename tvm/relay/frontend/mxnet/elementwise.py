"""Converters of identity, cast, arithmetic and comparison operators.

Outputs of ``mx.nd`` operators have the element type of the inputs.
"""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common.formulas import polynomial
from .table import Context, op
from .unary_ops import rounded

# -- identity ---------------------------------------------------------------------------------------------------------


@op("_copy BlockGrad make_loss _np_copy _contrib_gradientmultiplier _copyto _CrossDeviceCopy", "scalar:float=1")
def identity(ctx, inputs, attrs):
    """Return the input unchanged: the operator only affects training or device placement."""
    return inputs[0]


@op("_npx_constraint_check", "msg:str=")
def constraint_check(ctx, inputs, attrs):
    """Return whether all elements are true. MXNet raises an error otherwise; a compiled model does not."""
    return relay.all(inputs[0])


@op("IdentityAttachKLSparseReg", "sparseness_target:float=0.1 penalty:float=0.001", takes=1)
def identity_with_penalty(ctx, inputs, attrs):
    return inputs[0]


@op("MakeLoss", "valid_thresh:float=0 normalization:batch|null|valid=null")
def make_loss(ctx, inputs, attrs):
    return inputs[0]


@op("_identity_with_attr_like_rhs", takes=1)
def identity_like(ctx, inputs, attrs):
    return inputs[0]


@op("LinearRegressionOutput MAERegressionOutput", takes=1)
def regression_output(ctx, inputs, attrs):
    return inputs[0]


@op("SVMOutput", "margin:float=1 regularization_coefficient:float=1 use_linear:bool=False", takes=1)
def svm_output(ctx, inputs, attrs):
    return inputs[0]


@op("LogisticRegressionOutput", takes=1)
def logistic_output(ctx, inputs, attrs):
    return relay.sigmoid(inputs[0])


@op("Dropout", "p:float=0.5 mode:training|always=training axes:dims=()")
def dropout(ctx, inputs, attrs):
    if attrs.mode == "always":
        raise TVMError("mode=always applies dropout at inference, which is not supported")
    return [inputs[0], relay.ones_like(inputs[0])]


@op("cast_storage", "stype:default|csr|row_sparse")
def cast_storage(ctx, inputs, attrs):
    return inputs[0]


@op("Cast", "dtype:dtype")
def cast(ctx, inputs, attrs):
    return converted(ctx, inputs[0], attrs.dtype)


def converted(ctx: Context, x: RelayExpr, dtype: str) -> RelayExpr:
    """Cast to an element type. As a boolean, a number is true if it is not zero."""
    if dtype == "bool" and ctx.dtype(x) != "bool":
        return relay.not_equal(x, ctx.like(0, x))
    return ctx.cast(x, dtype)


@op("amp_cast", "dtype:dtype")
def amp_cast(ctx, inputs, attrs):
    """Cast floating-point tensors; integers are unchanged."""
    return ctx.cast(inputs[0], attrs.dtype) if ctx.is_float(inputs[0]) else inputs[0]


_WIDTHS = ("float16", "bfloat16", "float32")


@op("amp_multicast", "num_outputs:int cast_narrow:bool=False")
def amp_multicast(ctx, inputs, attrs):
    """Cast all floating-point inputs to the widest type among them, or to the narrowest with ``cast_narrow``."""
    kinds = [ctx.dtype(x) for x in inputs if ctx.dtype(x) in _WIDTHS]
    if attrs.num_outputs != len(inputs):
        raise TVMError(f"the attribute num_outputs={attrs.num_outputs} does not match {len(inputs)} inputs")
    chosen = (min if attrs.cast_narrow else max)(kinds, key=_WIDTHS.index) if kinds else ""
    return [ctx.cast(x, chosen) if ctx.dtype(x) in _WIDTHS else x for x in inputs]


# -- two inputs -------------------------------------------------------------------------------------------------------


def _mod(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """Return the remainder with the sign of the divisor. The remainder of a division by zero is zero."""
    zero = ctx.like(0, b)
    none = relay.equal(b, zero)
    if not ctx.is_float(b):
        out = relay.floor_mod(a, relay.where(none, ctx.like(1, b), b))
    else:
        rest = relay.mod(a, b)
        other = relay.logical_and(
            relay.not_equal(rest, zero), relay.not_equal(relay.less(rest, zero), relay.less(b, zero))
        )
        out = relay.where(other, relay.add(rest, b), rest)
    return relay.where(none, relay.zeros_like(out), out)


def _divide(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    return relay.divide(a, b) if ctx.is_float(b) else relay.trunc_divide(a, b)


def _hypot(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """Divide by the larger operand before squaring, to avoid overflow."""
    if not ctx.is_float(a):
        out = _hypot(ctx, *(ctx.made(relay.cast(x, "float32")) for x in (a, b)))
        return relay.cast(out, ctx.dtype(a))
    a, b = relay.abs(a), relay.abs(b)
    high, low = relay.maximum(a, b), relay.minimum(a, b)
    zero = relay.equal(high, relay.zeros_like(high))
    ratio = relay.divide(low, relay.where(zero, relay.ones_like(high), high))
    return relay.multiply(high, relay.sqrt(relay.add(relay.ones_like(ratio), relay.multiply(ratio, ratio))))


def _power(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    if ctx.is_float(a):
        return relay.power(a, b)
    wide = relay.power(relay.cast(a, "float64"), relay.cast(b, "float64"))
    return relay.cast(relay.trunc(wide), ctx.dtype(a))


def _copysign(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """Copy the sign, including that of a negative zero, which its reciprocal reveals."""
    zero, one = ctx.like(0, b), ctx.like(1, b)
    below = relay.where(relay.equal(b, zero), relay.less(relay.divide(one, b), zero), relay.less(b, zero))
    return relay.where(below, relay.negative(relay.abs(a)), relay.abs(a))


def _arctan2(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    zero, pi = ctx.like(0, a), ctx.like(math.pi, a)
    plain = relay.atan(relay.divide(a, relay.where(relay.equal(b, zero), ctx.like(1, a), b)))
    turned = relay.where(relay.less(a, zero), relay.negative(pi), pi)
    left = relay.where(relay.less(b, zero), relay.add(plain, turned), plain)
    upright = relay.multiply(relay.sign(a), ctx.like(math.pi / 2, a))
    return relay.where(relay.equal(b, zero), upright, left)


def _plain2(function):
    return lambda ctx, a, b: function(a, b)


_BINARY = {
    "add": _plain2(relay.add), "sub": _plain2(relay.subtract), "mul": _plain2(relay.multiply), "div": _divide,
    "mod": _mod, "power": _power, "maximum": _plain2(relay.maximum), "minimum": _plain2(relay.minimum),
    "hypot": _hypot, "copysign": _copysign, "arctan2": _arctan2,
    "ldexp": lambda ctx, a, b: relay.multiply(a, relay.power(ctx.like(2, b), b)),
}  # fmt: skip
_COMPARISONS = {
    "equal": relay.equal, "not_equal": relay.not_equal, "greater": relay.greater,
    "greater_equal": relay.greater_equal, "lesser": relay.less, "lesser_equal": relay.less_equal,
}  # fmt: skip
_LOGIC = {"logical_and": relay.logical_and, "logical_or": relay.logical_or, "logical_xor": relay.logical_xor}


def _true(ctx: Context, x: RelayExpr) -> RelayExpr:
    return relay.not_equal(x, ctx.like(0, x))


def binary(ctx: Context, name: str, a: RelayExpr, b: RelayExpr) -> RelayExpr:
    """Apply an ``mx.nd`` operator. Both operands have the same element type, which is also that of the output."""
    if name in _BINARY:
        return _BINARY[name](ctx, a, b)
    if name in _COMPARISONS:
        return relay.cast(_COMPARISONS[name](a, b), ctx.dtype(a))
    return relay.cast(_LOGIC[name](_true(ctx, a), _true(ctx, b)), ctx.dtype(a))


def _same_types(ctx: Context, inputs: list) -> None:
    a, b = (ctx.dtype(x) for x in inputs)
    if a != b:
        raise TVMError(f"the inputs have the element types {a} and {b}; the types must be equal")


def _two(name: str):
    def convert(ctx, inputs, attrs):
        """Convert a binary operator.

        Zero states of unknown batch size were created with batch size 1, so the operator broadcasts.
        """
        _same_types(ctx, inputs)
        return binary(ctx, name, *inputs)

    return convert


for _name in ("add", "sub", "mul", "div"):
    op(f"elemwise_{_name}")(_two(_name))
op("_grad_add")(_two("add"))
op("_scatter_elemwise_div")(_two("div"))
for _name in ("mod", "power", "maximum", "minimum", "hypot", *_COMPARISONS, *_LOGIC):
    op(f"_{_name}")(_two(_name))
    op(f"broadcast_{_name}")(_two(_name))
for _name in ("add", "sub", "mul", "div"):
    op(f"broadcast_{_name}")(_two(_name))


def scalar(ctx: Context, value: float, x: RelayExpr) -> RelayExpr:
    """Return a scalar constant of the tensor's element type. Values out of range of an integer type are clipped."""
    kind = ctx.dtype(x)
    if not ctx.is_float(x) and kind != "bool":
        limits = np.iinfo(kind)
        if not math.isfinite(value):
            raise TVMError(f"the attribute scalar={value} is not representable as {kind}")
        value = min(max(int(value), int(limits.min)), int(limits.max))
    return const(value, kind)


def _with_number(name: str, reverse: bool = False):
    def convert(ctx, inputs, attrs):
        x = inputs[0]
        number = scalar(ctx, attrs.scalar, x)
        return binary(ctx, name, number, x) if reverse else binary(ctx, name, x, number)

    return convert


_NUMBER = "scalar:float=1"
for _name, _kind in (
    ("plus", "add"),
    ("minus", "sub"),
    ("mul", "mul"),
    ("div", "div"),
    ("mod", "mod"),
    ("power", "power"),
    ("maximum", "maximum"),
    ("minimum", "minimum"),
    ("hypot", "hypot"),
    *((n, n) for n in (*_COMPARISONS, *_LOGIC)),
):
    op(f"_{_name}_scalar", _NUMBER)(_with_number(_kind))
for _name, _kind in (("rminus", "sub"), ("rdiv", "div"), ("rmod", "mod"), ("rpower", "power")):
    op(f"_{_name}_scalar", _NUMBER)(_with_number(_kind, True))
op("_scatter_plus_scalar", _NUMBER)(_with_number("add"))
op("_scatter_minus_scalar", _NUMBER)(_with_number("sub"))


@op("add_n")
def add_n(ctx, inputs, attrs):
    if not inputs:
        raise TVMError("expected at least 1 input, got none")
    out = inputs[0]
    for x in inputs[1:]:
        out = relay.add(out, x)
    return out


@op("_contrib_quadratic", "a:float=0 b:float=0 c:float=0")
def quadratic(ctx, inputs, attrs):
    return polynomial(ctx, inputs[0], (attrs.a, attrs.b, attrs.c))


@op("smooth_l1", "scalar:float=1")
def smooth_l1(ctx, inputs, attrs):
    """Return the smooth L1 function: quadratic near zero, linear elsewhere."""
    x, square = inputs[0], attrs.scalar * attrs.scalar
    size = relay.abs(x)
    near = relay.multiply(ctx.like(0.5 * square, x), relay.multiply(x, x))
    far = relay.subtract(size, ctx.like(0.5 / square if square else math.inf, x))
    return relay.where(relay.greater(size, ctx.like(1 / square if square else math.inf, x)), far, near)


@op("clip", "a_min:float a_max:float")
def clip(ctx, inputs, attrs):
    x = inputs[0]
    low, high = (scalar(ctx, v, x) if math.isfinite(v) or ctx.is_float(x) else None for v in (attrs.a_min, attrs.a_max))
    x = x if high is None else relay.minimum(x, high)
    return x if low is None else relay.maximum(x, low)


@op("hard_sigmoid", "alpha:float=0.2 beta:float=0.5")
def hard_sigmoid(ctx, inputs, attrs):
    x = inputs[0]
    return relay.clip(relay.add(relay.multiply(x, ctx.like(attrs.alpha, x)), ctx.like(attrs.beta, x)), 0.0, 1.0)


@op("_contrib_round_ste")
def round_ste(ctx, inputs, attrs):
    return rounded(ctx, inputs[0])


@op("_contrib_sign_ste")
def sign_ste(ctx, inputs, attrs):
    return relay.sign(inputs[0])


__all__ = ["binary", "converted", "scalar"]
