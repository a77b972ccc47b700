"""Converters of binary ``mx.np`` operators.

Operands are promoted to a common element type, and comparisons return booleans.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .elementwise import _BINARY, _COMPARISONS, _LOGIC, _true
from .shape_ops import checked_dims
from .table import Context, axis_of, op

# Type promotion selects the rightmost type, so that an integer and a float become the float type.
_ORDER = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
_SCALAR = "scalar:float=1 is_int:bool=True"


def together(ctx: Context, inputs: list) -> list[RelayExpr]:
    """Promote two tensors to a common element type."""
    kinds = [ctx.dtype(x) for x in inputs]
    if any(k not in _ORDER for k in kinds):
        raise TVMError(f"the element types {kinds[0]} and {kinds[1]} are not supported")
    wide = max(kinds, key=_ORDER.index)
    return [ctx.made(ctx.cast(x, wide)) for x in inputs]


def _with(ctx: Context, x: RelayExpr, attrs, real: str = "float64") -> list[RelayExpr]:
    """Return a tensor and a scalar constant of its type.

    A scalar that is not an integer promotes integers to floats.
    """
    if not ctx.is_float(x) and (not attrs.is_int or ctx.dtype(x) == "bool"):
        x = ctx.made(relay.cast(x, "int64" if attrs.is_int else real))
    return [x, const(attrs.scalar if ctx.is_float(x) else int(attrs.scalar), ctx.dtype(x))]


def _arithmetic(kind: str):
    def compute(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
        if kind in ("div", "hypot", "arctan2", "copysign", "ldexp") and not ctx.is_float(a):
            a, b = ctx.made(relay.cast(a, "float32")), ctx.made(relay.cast(b, "float32"))
        return _BINARY[kind](ctx, a, b)

    return compute


def _compared(kind: str):
    return lambda ctx, a, b: _COMPARISONS[kind](a, b)


def _logical(kind: str):
    return lambda ctx, a, b: _LOGIC[kind](_true(ctx, a), _true(ctx, b))


def _bits(kind: str):
    def compute(ctx: Context, a: RelayExpr, b: RelayExpr) -> RelayExpr:
        if ctx.dtype(a) == "bool":
            return _LOGIC[kind.replace("bitwise", "logical")](a, b)
        return {"bitwise_and": relay.bitwise_and, "bitwise_or": relay.bitwise_or, "bitwise_xor": relay.bitwise_xor}[
            kind
        ](a, b)

    return compute


def _register(name: str, compute, two: bool = True, one: str = "", reverse: str = "") -> None:
    """Register operators:

    ``name`` takes two tensors, ``one`` a tensor and a scalar, ``reverse`` a scalar and a tensor.
    """
    if two:
        op(f"_npi_{name}")(lambda ctx, inputs, attrs: compute(ctx, *together(ctx, inputs)))
    # The quotient of integers is float32.
    real = "float32" if name == "true_divide" else "float64"
    if one:
        op(f"_npi_{one}", _SCALAR)(lambda ctx, inputs, attrs: compute(ctx, *_with(ctx, inputs[0], attrs, real)))
    if reverse:
        op(f"_npi_{reverse}", _SCALAR)(
            lambda ctx, inputs, attrs: compute(ctx, *_with(ctx, inputs[0], attrs, real)[::-1])
        )


for _name, _kind in (
    ("add", "add"),
    ("subtract", "sub"),
    ("multiply", "mul"),
    ("true_divide", "div"),
    ("mod", "mod"),
    ("power", "power"),
    ("arctan2", "arctan2"),
    ("copysign", "copysign"),
    ("ldexp", "ldexp"),
):
    _register(
        _name,
        _arithmetic(_kind),
        one=f"{_name}_scalar",
        reverse="" if _name in ("add", "multiply") else f"r{_name}_scalar",
    )
_register("hypot", _arithmetic("hypot"))
for _name, _kind in (
    ("equal", "equal"),
    ("not_equal", "not_equal"),
    ("greater", "greater"),
    ("less", "lesser"),
    ("greater_equal", "greater_equal"),
    ("less_equal", "lesser_equal"),
):
    _register(_name, _compared(_kind), one=f"{_name}_scalar")
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    _register(_name, _bits(_name), one=f"{_name}_scalar")


# -- concatenation ----------------------------------------------------------------------------------------------------


def _of_rank(ctx: Context, x: RelayExpr, rank: int, front: bool) -> RelayExpr:
    dims = ctx.known_shape(x)
    more = (1,) * (rank - len(dims))
    return x if not more else ctx.made(relay.reshape(x, (*more, *dims) if front else (*dims, *more)))


def _joined(inputs: list, axis: int) -> RelayExpr:
    return inputs[0] if len(inputs) == 1 else relay.concatenate(inputs, axis)


@op("_npi_vstack")
def vstack(ctx, inputs, attrs):
    return _joined([_of_rank(ctx, x, 2, True) for x in inputs], 0)


@op("_npi_hstack", "dim:int=1")
def hstack(ctx, inputs, attrs):
    rows = [_of_rank(ctx, x, 1, True) for x in inputs]
    return _joined(rows, 0 if ctx.rank(rows[0]) == 1 else 1)


@op("_npi_dstack", "dim:int=1")
def dstack(ctx, inputs, attrs):
    return _joined([_of_rank(ctx, _of_rank(ctx, x, 2, True), 3, False) for x in inputs], 2)


@op("_npi_column_stack")
def column_stack(ctx, inputs, attrs):
    return _joined([_of_rank(ctx, _of_rank(ctx, x, 1, True), 2, False) for x in inputs], 1)


@op("_np_atleast_1d")
def atleast_1d(ctx, inputs, attrs):
    return [_of_rank(ctx, x, 1, True) for x in inputs]


@op("_np_atleast_2d")
def atleast_2d(ctx, inputs, attrs):
    return [_of_rank(ctx, x, 2, True) for x in inputs]


@op("_np_atleast_3d")
def atleast_3d(ctx, inputs, attrs):
    return [_of_rank(ctx, _of_rank(ctx, x, 2, True), 3, False) for x in inputs]


# -- roll, rotate and difference --------------------------------------------------------------------------------------


def _rolled(ctx: Context, x: RelayExpr, shift: int, axis: int) -> RelayExpr:
    size = ctx.known_size(x, axis)
    cut = -shift % size if size else 0
    if not cut:
        return x
    parts = [relay.strided_slice(x, [b], [e], [1], [axis]) for b, e in ((cut, size), (0, cut))]
    return ctx.made(relay.concatenate(parts, axis))


@op("_np_roll", "shift:dims?=None axis:dims?=None")
def roll(ctx, inputs, attrs):
    x = inputs[0]
    shifts = attrs.shift or ()
    if attrs.axis is None:
        flat = ctx.made(relay.reshape(x, (-1,)))
        return relay.reshape(_rolled(ctx, flat, sum(shifts), 0), ctx.known_shape(x))
    shifts = shifts * len(attrs.axis) if len(shifts) == 1 else shifts
    if len(shifts) != len(attrs.axis):
        raise TVMError(f"shift={attrs.shift} and axis={attrs.axis} must have the same length")
    for shift, axis in zip(shifts, attrs.axis):
        x = _rolled(ctx, x, shift, axis_of(axis, ctx.rank(x)))
    return x


@op("_npi_rot90", "k:int=1 axes:dims?=None")
def rot90(ctx, inputs, attrs):
    x, rank = inputs[0], ctx.rank(inputs[0])
    a, b = (axis_of(v, rank) for v in (attrs.axes or (0, 1)))
    if a == b:
        raise TVMError(f"the attribute axes={attrs.axes} contains an axis twice")
    order = list(range(rank))
    order[a], order[b] = order[b], order[a]
    turn = attrs.k % 4
    if turn == 2:
        return relay.reverse(relay.reverse(x, a), b)
    if turn == 1:
        return relay.transpose(relay.reverse(x, b), order)
    return relay.reverse(relay.transpose(x, order), b) if turn == 3 else x


@op("_npi_diff", "n:int=1 axis:int=-1")
def diff(ctx, inputs, attrs):
    x = inputs[0]
    axis = axis_of(attrs.axis, ctx.rank(x))
    size = ctx.known_size(x, axis)
    checked_dims((attrs.n,), "n")
    if attrs.n >= size:
        raise TVMError(f"n={attrs.n} must be less than the axis size {size}")
    for k in range(attrs.n):
        ends = [relay.strided_slice(x, [b], [size - k - 1 + b], [1], [axis]) for b in (1, 0)]
        x = ctx.made(relay.subtract(*ends))
    return x


@op("_npi_polyval")
def polyval(ctx, inputs, attrs):
    factors, x = inputs
    count = ctx.known_size(factors, 0)
    out = relay.zeros_like(x)
    for k in range(count):
        out = relay.add(relay.multiply(out, x), relay.take(factors, const(k, "int32"), axis=0))
    return out
