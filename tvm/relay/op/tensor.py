"""Element-wise operators, defined by a table."""

from __future__ import annotations

from ... import topi
from ...dtype import canonical
from ...ir.tensor_type import TensorType
from ..expr import OPERATOR, Constant, RelayExpr
from .record import BROADCAST, COMM_REDUCE, ELEMWISE, OPAQUE, as_expr, call, device_text, op
from .rules import (
    bool_like_first,
    broadcast,
    broadcast_bool,
    check_real,
    numbers_like_first,
    same_as_first,
    tensor,
)

_FLOAT = (
    "log log2 log10 log1p exp sqrt rsqrt sigmoid tanh sinh cosh sin cos tan asin acos atan asinh acosh atanh erf "
    "fast_exp fast_tanh fast_erf"
).split()
_NUMBER = ["negative"]
_UNARY = [*_FLOAT, *_NUMBER, *"sign abs floor ceil trunc round bitwise_not".split()]
_TESTS = ("isnan", "isfinite", "isinf", "logical_not")
_ARITHMETIC = "add subtract multiply divide floor_divide trunc_divide mod floor_mod trunc_mod power maximum minimum"
_BINARY = [*_ARITHMETIC.split(), *"bitwise_and bitwise_or bitwise_xor left_shift right_shift".split()]
_COMPARE = "equal not_equal less less_equal greater greater_equal".split()
_LOGICAL = "logical_and logical_or logical_xor".split()


def _sentence(name: str) -> str:
    """Return the first sentence of the docstring of an operator's computation."""
    return getattr(topi, name).__doc__.partition("\n")[0]


def _of_floats(name: str):
    """Return a type rule and computation for functions of real numbers. As in Apache TVM, type inference accepts
    integers; computing them raises an error."""

    def computed(data):
        check_real(data.dtype, name)
        return getattr(topi, name)(data)

    return computed


def _unary(name: str, type_rule):
    function = _of_floats(name) if name in _FLOAT else getattr(topi, name)

    @op(name, 1, pattern=ELEMWISE, type_rule=type_rule, compute=lambda attrs, inputs, out: function(inputs[0]))
    def build(data):
        return call(name, data)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = build.op.description = _sentence(name)
    return build


def _two(lhs, rhs) -> tuple[RelayExpr, RelayExpr]:
    """Convert two operands to expressions; a Python number gets the element type of the other operand."""
    from ..expr import _operand

    if isinstance(lhs, RelayExpr):
        return lhs, _operand(rhs, lhs) if not isinstance(rhs, RelayExpr) else rhs
    if isinstance(rhs, RelayExpr):
        return _operand(lhs, rhs), rhs
    return as_expr(lhs), as_expr(rhs)


def _binary(name: str, type_rule):
    function = getattr(topi, name)

    @op(
        name,
        2,
        pattern=BROADCAST,
        type_rule=type_rule,
        infer_inputs=_like_the_other,
        compute=lambda attrs, inputs, out: function(inputs[0], inputs[1]),
    )
    def build(lhs, rhs):
        return call(name, *_two(lhs, rhs))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = build.op.description = f"{_sentence(name)} The tensors are broadcast to one shape."
    return build


def _like_the_other(attrs, types):
    known = next((t for t in types if isinstance(t, TensorType)), None)
    if known is None:
        raise TypeError("the types of both inputs are unknown; annotate a variable")
    return [known, known]


for _name in _UNARY:
    globals()[_name] = _unary(_name, numbers_like_first if _name in _NUMBER else same_as_first)
for _name in _TESTS:
    globals()[_name] = _unary(_name, bool_like_first)
for _name in _BINARY:
    globals()[_name] = _binary(_name, broadcast)
for _name in _COMPARE:
    globals()[_name] = _binary(_name, broadcast_bool)
for _name in _LOGICAL:
    globals()[_name] = _binary(_name, broadcast)


@op(
    "clip",
    1,
    pattern=ELEMWISE,
    type_rule=same_as_first,
    compute=lambda attrs, inputs, out: topi.clip(inputs[0], attrs.a_min, attrs.a_max),
)
def clip(a, a_min, a_max):
    """Clip every element to [a_min, a_max]."""
    return call("clip", a, a_min=float(a_min), a_max=float(a_max))


def _cast_type(attrs, types):
    return TensorType(tensor(types[0]).shape, attrs.dtype)


@op(
    "cast",
    1,
    pattern=ELEMWISE,
    type_rule=_cast_type,
    compute=lambda attrs, inputs, out: topi.cast(inputs[0], attrs.dtype),
)
def cast(data, dtype):
    """Convert the elements to another type."""
    return call("cast", data, dtype=canonical(dtype))


_OPERATORS = {name: globals()[name] for name in (*_BINARY, *_COMPARE, "negative", "cast")}


def _python_operator(name: str, *operands):
    return _OPERATORS[name](*operands)


OPERATOR.give(_python_operator)


@op("copy", 1, pattern=ELEMWISE, type_rule=same_as_first, compute=lambda attrs, inputs, out: topi.identity(inputs[0]))
def copy(data):
    """Copy a tensor."""
    return call("copy", data)


def _int32(attrs, types):
    if tensor(types[0]).dtype != "int32":
        raise TypeError(f"the data must be int32, got {types[0].dtype}")
    return types[0]


@op(
    "fixed_point_multiply",
    1,
    pattern=ELEMWISE,
    type_rule=_int32,
    compute=lambda attrs, inputs, out: topi.fixed_point_multiply(inputs[0], attrs.multiplier, attrs.shift),
)
def fixed_point_multiply(data, multiplier, shift):
    """Multiply int32 elements by multiplier * 2 ^ (shift - 31), rounded half up."""
    return call("fixed_point_multiply", data, multiplier=int(multiplier), shift=int(shift))


def _per_axis_compute(attrs, inputs, out):
    return topi.fixed_point_multiply_per_axis(*inputs, attrs.is_lshift_required, attrs.is_rshift_required, attrs.axes)


@op("fixed_point_multiply_per_axis", 4, pattern=BROADCAST, type_rule=_int32, compute=_per_axis_compute)
def fixed_point_multiply_per_axis(x, y, lshift, rshift, is_lshift_required, is_rshift_required, axis):
    """Multiply int32 elements by fixed-point numbers, one for each index along axes."""
    axes = (int(axis),) if isinstance(axis, int) else tuple(int(a) for a in axis)
    return call(
        "fixed_point_multiply_per_axis",
        x,
        y,
        lshift,
        rshift,
        is_lshift_required=bool(is_lshift_required),
        is_rshift_required=bool(is_rshift_required),
        axes=axes,
    )


@op("einsum", 1, pattern=COMM_REDUCE, compute=lambda attrs, inputs, out: topi.einsum(attrs.equation, *inputs))
def einsum(data, equation):
    """Compute an Einstein summation, whose equation names dimensions by letters, such as ij,jk->ik."""
    return call("einsum", as_expr(list(data) if isinstance(data, (list, tuple)) else data), equation=str(equation))


@op(
    "device_copy",
    1,
    pattern=OPAQUE,
    type_rule=same_as_first,
    compute=lambda attrs, inputs, out: topi.identity(inputs[0]),
)
def device_copy(data, src_device, dst_device):
    """Copy a tensor to another device."""
    return call("device_copy", data, src_device=device_text(src_device), dst_device=device_text(dst_device))


def zeros_like(data):
    """Create a tensor of zeros with the shape and type of another tensor."""
    return call("zeros_like", data)


def ones_like(data):
    """Create a tensor of ones with the shape and type of another tensor."""
    return call("ones_like", data)


for _name, _value, _build in (("zeros_like", 0, zeros_like), ("ones_like", 1, ones_like)):
    op(
        _name,
        1,
        pattern=ELEMWISE,
        type_rule=same_as_first,
        compute=lambda attrs, inputs, out, value=_value: topi.full_like(inputs[0], value),
    )(_build)

__all__ = [
    *_UNARY,
    *_TESTS,
    *_BINARY,
    *_COMPARE,
    *_LOGICAL,
    "clip",
    "cast",
    "copy",
    "zeros_like",
    "ones_like",
    "fixed_point_multiply",
    "fixed_point_multiply_per_axis",
    "einsum",
    "device_copy",
    "Constant",
]
