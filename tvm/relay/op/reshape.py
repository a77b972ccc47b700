"""Reshape operators."""

from __future__ import annotations

from ... import topi
from ...ir import primop
from ...ir.prim import PrimExpr, convert
from ...ir.tensor_type import TensorType
from ...topi.assumptions import agree, assume
from ...topi.utils import simplify
from ..expr import Constant
from .dynamic import is_dynamic
from .record import INJECTIVE, call, op
from .rules import dims, product, tensor


def ints(values) -> tuple:
    """Return integers from a list, an array or a constant; symbolic dimensions are unchanged."""
    if isinstance(values, Constant):
        values = values.data.numpy().ravel()
    if isinstance(values, (int, PrimExpr)):
        return (values,)
    return tuple(v if isinstance(v, PrimExpr) and not hasattr(v, "value") else int(v) for v in values)


def new_shape(shape: tuple, wanted, allowzero: bool = False) -> list:
    """Return the new shape for the reshape codes of Apache TVM: 0 keeps a dimension, -1 is inferred, -2 keeps the
    remaining dimensions, -3 merges two dimensions, -4 splits one.

    Parameters
    ----------
    shape : tuple
        The shape of the tensor.
    wanted : list of int
        The codes.
    allowzero : bool, optional
        Whether 0 is a dimension of size 0 instead of a code.

    Returns
    -------
    list
        The shape.

    Raises
    ------
    TypeError
        The number of elements differs, or a code refers to a dimension that does not exist.
    ValueError
        More than one dimension is -1.
    """
    out: list = []
    source = list(shape)
    at = 0
    unknown = None
    copied: list[tuple[int, int]] = []  # (place in the result, place in the data) of dimensions that stay
    codes = list(wanted)
    i = 0
    while i < len(codes):
        code = codes[i]
        value = code if not hasattr(code, "value") else code.value
        if at + (value == -3) >= len(source) and (value in (-3, -4) or value == 0 and not allowzero):
            raise TypeError(f"reshape: {value} in {codes} refers to more than the {len(source)} dimensions of the data")
        if value == 0 and not allowzero:
            copied.append((len(out), at))
            out.append(source[at])
            at += 1
        elif value == -1:
            if unknown is not None:
                raise ValueError("reshape: only one dimension can be -1")
            unknown = len(out)
            out.append(1)
            at += 1
        elif value == -2:
            copied += [(len(out) + k, at + k) for k in range(len(source) - at)]
            out.extend(source[at:])
            at = len(source)
        elif value == -3:
            out.append(source[at] * source[at + 1])
            at += 2
        elif value == -4:
            first, second = int(codes[i + 1]), int(codes[i + 2])
            total = source[at]
            first = total // second if first == -1 else first
            second = total // first if second == -1 else second
            out += [first, second]
            at += 1
            i += 2
        else:
            out.append(value)
            at += 1
        i += 1
    if unknown is not None:
        # Unchanged dimensions cancel out, so they may be dynamic.
        stays, stayed = {new for new, _ in copied}, {old for _, old in copied}
        rest = product(d for j, d in enumerate(out) if j != unknown and j not in stays)
        total = product(d for k, d in enumerate(source) if k not in stayed)
        if isinstance(total, int) and isinstance(rest, int):
            if rest == 0 or total % rest:
                raise TypeError(f"reshape: cannot reshape {total} elements to shape {list(wanted)}")
            out[unknown] = total // rest
        else:
            out[unknown] = total // rest if not isinstance(rest, int) or rest != 1 else total
            assume(primop.equal(convert(total % rest), 0), f"elements that fill the shape {list(wanted)}")
            return out
    have, need = product(source), product(out)
    if not agree(have, need, f"elements of the data against those of the shape {list(wanted)}"):
        raise TypeError(f"reshape: cannot reshape {have} elements to shape {out}")
    return out


def _reshape_type(attrs, types):
    t = tensor(types[0])
    # Simplification recovers the original dimensions after a merge and split.
    return TensorType([simplify(d) for d in new_shape(dims(t), attrs.newshape, attrs.allowzero)], t.dtype)


@op(
    "reshape",
    1,
    pattern=INJECTIVE,
    type_rule=_reshape_type,
    reshape_only=True,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.reshape(inputs[0], out.shape),
)
def reshape(data, newshape, allowzero=False):
    """Change the shape of a tensor without changing its elements."""
    if is_dynamic(newshape):
        return call("dyn.reshape", data, newshape, allowzero=bool(allowzero))
    return call("reshape", data, newshape=ints(newshape), allowzero=bool(allowzero))


def _reshape_like_type(attrs, types):
    data, like = tensor(types[0]), tensor(types[1])
    x, y = dims(data), dims(like)
    part = y[_clamp(attrs.rhs_begin, len(y)) : _clamp(attrs.rhs_end, len(y))]
    begin, end = _clamp(attrs.lhs_begin, len(x)), _clamp(attrs.lhs_end, len(x))
    have, need = product(x[begin:end]), product(part)
    if not agree(have, need, "elements of the data against those of the shape"):
        raise TypeError(f"cannot reshape {have} elements to shape {part}")
    return TensorType((*x[:begin], *part, *x[end:]), data.dtype)


def _clamp(place, rank: int) -> int:
    place = rank if place is None else place
    return place + rank if place < 0 else place


@op(
    "reshape_like",
    2,
    pattern=INJECTIVE,
    type_rule=_reshape_like_type,
    compute=lambda attrs, inputs, out: topi.reshape(inputs[0], out.shape),
)
def reshape_like(data, shape_like, lhs_begin=0, lhs_end=None, rhs_begin=0, rhs_end=None):
    """Reshape a tensor, or some of its dimensions, to the shape of another tensor, or of some of its dimensions."""
    return call(
        "reshape_like", data, shape_like, lhs_begin=lhs_begin, lhs_end=lhs_end, rhs_begin=rhs_begin, rhs_end=rhs_end
    )


def _reverse_shape(attrs, types):
    data = tensor(types[0])
    codes, turned, i = list(attrs.newshape), [], len(attrs.newshape)
    while i > 0:
        # The two sizes after the code -4 belong to it.
        if i >= 3 and codes[i - 3] == -4:
            turned += [-4, codes[i - 1], codes[i - 2]]
            i -= 3
        else:
            turned.append(codes[i - 1])
            i -= 1
    return TensorType(new_shape(dims(data)[::-1], turned)[::-1], data.dtype)


@op(
    "contrib_reverse_reshape",
    1,
    pattern=INJECTIVE,
    type_rule=_reverse_shape,
    reshape_only=True,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.reshape(inputs[0], out.shape),
)
def reverse_reshape(data, newshape):
    """Reshape a tensor with codes that are applied from the last dimension to the first."""
    return call("contrib_reverse_reshape", data, newshape=ints(newshape))
