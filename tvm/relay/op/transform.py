"""Operators that move elements: shapes, slices, joins, gathers. Their types are those of their computations."""

from __future__ import annotations

from ... import topi
from ...dtype import canonical
from ...ir.prim import PrimExpr
from ...ir.tensor_type import TensorType
from ..expr import Constant, RelayExpr, TupleWrapper, const
from .record import BROADCAST, ELEMWISE, INJECTIVE, OPAQUE, as_expr, call, op
from .rules import broadcast_dims, dims, product, tensor


def _ints(values) -> tuple:
    """Numbers out of a list, an array or a constant; symbolic sizes stay as they are."""
    if isinstance(values, Constant):
        values = values.data.numpy()
    if isinstance(values, (int, PrimExpr)):
        return (values,)
    return tuple(v if isinstance(v, PrimExpr) and not hasattr(v, "value") else int(v) for v in values)


def new_shape(shape: tuple, wanted, allowzero: bool = False) -> list:
    """Classic reshape codes: 0 keeps a dimension, -1 is found, -2 keeps the rest, -3 joins two, -4 splits one."""
    out: list = []
    source = list(shape)
    at = 0
    unknown = None
    codes = list(wanted)
    i = 0
    while i < len(codes):
        code = codes[i]
        value = code if not hasattr(code, "value") else code.value
        if value == 0 and not allowzero:
            out.append(source[at])
            at += 1
        elif value == -1:
            if unknown is not None:
                raise ValueError("reshape: only one dimension can be -1")
            unknown = len(out)
            out.append(1)
            at += 1
        elif value == -2:
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
        rest = product(d for j, d in enumerate(out) if j != unknown)
        total = product(source)
        if isinstance(total, int) and isinstance(rest, int):
            if rest == 0 or total % rest:
                raise TypeError(f"reshape: {total} elements cannot be put into shape {list(wanted)}")
            out[unknown] = total // rest
        else:
            out[unknown] = total // rest if not isinstance(rest, int) or rest != 1 else total
    have, need = product(source), product(out)
    if isinstance(have, int) and isinstance(need, int) and have != need:
        raise TypeError(f"reshape: {have} elements cannot be put into shape {out}")
    return out


def _reshape_type(attrs, types):
    t = tensor(types[0])
    return TensorType(new_shape(dims(t), attrs.newshape, attrs.allowzero), t.dtype)


@op("reshape", 1, pattern=INJECTIVE, type_rule=_reshape_type, reshape_only=True,
    compute=lambda attrs, inputs, out: topi.reshape(inputs[0], out.shape))
def reshape(data, newshape, allowzero=False):
    """The same elements in another shape."""
    if isinstance(newshape, RelayExpr) and not isinstance(newshape, Constant):
        raise TypeError(
            "reshape: the shape must be known when compiling; run DynamicToStatic, or use the virtual machine"
        )
    return call("reshape", data, newshape=_ints(newshape), allowzero=bool(allowzero))


@op("expand_dims", 1, pattern=BROADCAST, reshape_only=True,
    compute=lambda attrs, inputs, out: topi.expand_dims(inputs[0], attrs.axis, attrs.num_newaxis))
def expand_dims(data, axis, num_newaxis=1):
    """Dimensions of size one before ``axis``."""
    return call("expand_dims", data, axis=_ints(axis)[0], num_newaxis=int(num_newaxis))


@op("squeeze", 1, pattern=INJECTIVE, reshape_only=True,
    compute=lambda attrs, inputs, out: topi.squeeze(inputs[0], attrs.axis))
def squeeze(data, axis=None):
    """Without dimensions of size one."""
    return call("squeeze", data, axis=None if axis is None else _ints(axis))


@op("transpose", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.transpose(inputs[0], attrs.axes))
def transpose(data, axes=None):
    """Dimensions in another order."""
    return call("transpose", data, axes=None if axes is None else _ints(axes))


@op("concatenate", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.concatenate(inputs, attrs.axis))
def concatenate(data, axis):
    """Tensors one after the other along an axis."""
    return call("concatenate", as_expr(list(data) if isinstance(data, (list, tuple)) else data), axis=int(axis))


@op("stack", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.stack(inputs, attrs.axis))
def stack(data, axis):
    """Tensors side by side along a new axis."""
    return call("stack", as_expr(list(data) if isinstance(data, (list, tuple)) else data), axis=int(axis))


@op("split", 1, pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.split(inputs[0], attrs.indices_or_sections, attrs.axis))
def split(data, indices_or_sections, axis=0):
    """A tensor cut along an axis, into equal parts or at places."""
    at = int(indices_or_sections) if isinstance(indices_or_sections, int) else _ints(indices_or_sections)
    made = call("split", data, indices_or_sections=at, axis=int(axis))
    return TupleWrapper(made, at if isinstance(at, int) else len(at) + 1)


@op("strided_slice", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.strided_slice(
    inputs[0], attrs.begin, attrs.end, attrs.strides, attrs.axes, attrs.slice_mode))
def strided_slice(data, begin, end, strides=None, axes=None, slice_mode="end"):
    """Every strides-th element from begin to end, for each axis."""
    strides = (1,) if strides is None else _ints(strides)
    return call("strided_slice", data, begin=_ints(begin), end=_ints(end), strides=strides,
                axes=None if axes is None else _ints(axes), slice_mode=slice_mode)


@op("take", 2, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.take(
    inputs[0], inputs[1], attrs.axis, attrs.batch_dims, attrs.mode))
def take(data, indices, axis=None, batch_dims=0, mode="clip"):
    """Elements (or slices along an axis) at places."""
    return call("take", data, indices, axis=None if axis is None else int(axis), batch_dims=int(batch_dims), mode=mode)


@op("gather", 2, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.gather(inputs[0], attrs.axis, inputs[1]))
def gather(data, axis, indices):
    """One element along an axis for each place of ``indices``."""
    return call("gather", data, indices, axis=int(axis))


@op("gather_nd", 2, pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.gather_nd(inputs[0], inputs[1], attrs.batch_dims))
def gather_nd(data, indices, batch_dims=0, index_rank=None):
    """Slices at points; the first dimension of ``indices`` holds the coordinates."""
    return call("gather_nd", data, indices, batch_dims=int(batch_dims), index_rank=index_rank)


def _where_type(attrs, types):
    c, x, y = (tensor(t) for t in types)
    if x.dtype != y.dtype:
        raise TypeError(f"both choices must have one element type, got {x.dtype} and {y.dtype}")
    return TensorType(broadcast_dims(broadcast_dims(dims(c), dims(x)), dims(y)), x.dtype)


@op(
    "where",
    3,
    pattern=BROADCAST,
    type_rule=_where_type,
    compute=lambda attrs, inputs, out: topi.where(
        *[topi.broadcast_to(i, out.shape) if len(out.shape) else i for i in inputs]
    ),
)
def where(condition, x, y):
    """x where the condition holds, y elsewhere."""
    return call("where", condition, x, y)


def _broadcast_to_type(attrs, types):
    return TensorType(attrs.shape, tensor(types[0]).dtype)


@op("broadcast_to", 1, pattern=BROADCAST, type_rule=_broadcast_to_type,
    compute=lambda attrs, inputs, out: topi.broadcast_to(inputs[0], out.shape))
def broadcast_to(data, shape):
    """The tensor repeated along its dimensions of size one."""
    return call("broadcast_to", data, shape=_ints(shape))


@op("tile", 1, pattern=BROADCAST, compute=lambda attrs, inputs, out: topi.tile(inputs[0], attrs.reps))
def tile(data, reps):
    """The tensor repeated as a whole."""
    return call("tile", data, reps=_ints(reps))


@op(
    "repeat", 1, pattern=BROADCAST, compute=lambda attrs, inputs, out: topi.repeat(inputs[0], attrs.repeats, attrs.axis)
)
def repeat(data, repeats, axis):
    """Every element repeated along an axis."""
    return call("repeat", data, repeats=int(repeats), axis=int(axis))


@op("reverse", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.flip(inputs[0], attrs.axis))
def reverse(data, axis):
    """Backwards along an axis."""
    return call("reverse", data, axis=int(axis))


def _full_type(attrs, types):
    return TensorType(attrs.shape, attrs.dtype or tensor(types[0]).dtype)


def _full_compute(attrs, inputs, out):
    from ... import te

    return te.compute(out.shape, lambda *i: inputs[0]().astype(out.dtype), name="T_full", tag="broadcast")


@op("full", 1, pattern=ELEMWISE, type_rule=_full_type, compute=_full_compute)
def full(fill_value, shape=(), dtype=""):
    """One value everywhere."""
    fill = fill_value if isinstance(fill_value, RelayExpr) else const(fill_value, dtype or None)
    return call("full", fill, shape=_ints(shape), dtype=canonical(dtype) if dtype else "")


def zeros(shape, dtype):
    """Zeros."""
    return full(const(0, dtype), shape, dtype)


def ones(shape, dtype):
    """Ones."""
    return full(const(1, dtype), shape, dtype)


@op("layout_transform", 1, pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.layout_transform(inputs[0], attrs.src_layout, attrs.dst_layout))
def layout_transform(data, src_layout, dst_layout):
    """The tensor in another layout, such as NCHW to NCHW16c."""
    return call("layout_transform", data, src_layout=src_layout, dst_layout=dst_layout)


@op(
    "shape_of",
    1,
    pattern=OPAQUE,
    type_rule=lambda attrs, types: TensorType((len(tensor(types[0]).shape),), attrs.dtype),
    compute=lambda attrs, inputs, out: topi.shape(inputs[0], attrs.dtype),
)
def shape_of(data, dtype="int32"):
    """The shape of a tensor, as a tensor."""
    return call("shape_of", data, dtype=dtype)


__all__ = [
    "broadcast_to",
    "concatenate",
    "expand_dims",
    "full",
    "gather",
    "gather_nd",
    "layout_transform",
    "new_shape",
    "ones",
    "repeat",
    "reshape",
    "reverse",
    "shape_of",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "take",
    "tile",
    "transpose",
    "where",
    "zeros",
]
