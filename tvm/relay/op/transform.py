"""Operators that move elements: shapes, slices, joins, gathers. Their types are those of their computations."""

from __future__ import annotations

import math

from ... import te, tir, topi
from ...dtype import canonical
from ...ir import primop
from ...ir.prim import Any_, PrimExpr, convert
from ...ir.tensor_type import TensorType
from ...topi.assumptions import agree, assume
from ...topi.broadcast import becomes
from ...topi.utils import simplify
from ..expr import Constant, RelayExpr, TupleWrapper, const
from .dynamic import is_dynamic
from .dynamic_shapes import SHAPES
from .record import BROADCAST, COMM_REDUCE, ELEMWISE, INJECTIVE, OPAQUE, as_expr, call, op
from .rules import broadcast_dims, dims, normalize_axis, product, same_as_first, tensor


def _ints(values) -> tuple:
    """Numbers out of a list, an array or a constant; symbolic sizes stay as they are."""
    if isinstance(values, Constant):
        values = values.data.numpy().ravel()
    if isinstance(values, (int, PrimExpr)):
        return (values,)
    return tuple(v if isinstance(v, PrimExpr) and not hasattr(v, "value") else int(v) for v in values)


def new_shape(shape: tuple, wanted, allowzero: bool = False) -> list:
    """Classic reshape codes: 0 keeps a dimension, -1 is found, -2 keeps the rest, -3 joins two, -4 splits one.

    Parameters
    ----------
    shape : tuple
        The shape of the tensor.
    wanted : list of int
        The codes.
    allowzero : bool, optional
        Whether 0 stands for a dimension of no elements.

    Returns
    -------
    list

    Raises
    ------
    TypeError
        The elements do not fill the shape, or a code asks for a dimension that is not there.
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
            raise TypeError(f"reshape: {value} in {codes} asks for more dimensions than the {len(source)} there are")
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
        # Dimensions that stay count on neither side, so they may be unknown.
        stays, stayed = {new for new, _ in copied}, {old for _, old in copied}
        rest = product(d for j, d in enumerate(out) if j != unknown and j not in stays)
        total = product(d for k, d in enumerate(source) if k not in stayed)
        if isinstance(total, int) and isinstance(rest, int):
            if rest == 0 or total % rest:
                raise TypeError(f"reshape: {total} elements cannot be put into shape {list(wanted)}")
            out[unknown] = total // rest
        else:
            out[unknown] = total // rest if not isinstance(rest, int) or rest != 1 else total
            assume(primop.equal(convert(total % rest), 0), f"elements that fill the shape {list(wanted)}")
            return out
    have, need = product(source), product(out)
    if not agree(have, need, f"elements of the data against those of the shape {list(wanted)}"):
        raise TypeError(f"reshape: {have} elements cannot be put into shape {out}")
    return out


def _reshape_type(attrs, types):
    t = tensor(types[0])
    # Sizes that are joined and parted again are what they were.
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
    """The same elements in another shape."""
    if is_dynamic(newshape):
        return call("dyn.reshape", data, newshape, allowzero=bool(allowzero))
    return call("reshape", data, newshape=_ints(newshape), allowzero=bool(allowzero))


@op(
    "expand_dims",
    1,
    pattern=BROADCAST,
    reshape_only=True,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.expand_dims(inputs[0], attrs.axis, attrs.num_newaxis),
)
def expand_dims(data, axis, num_newaxis=1):
    """Dimensions of size one before ``axis``."""
    if is_dynamic(axis):
        return call("dyn.expand_dims", data, axis, num_newaxis=int(num_newaxis))
    return call("expand_dims", data, axis=_ints(axis)[0], num_newaxis=int(num_newaxis))


@op(
    "squeeze",
    1,
    pattern=INJECTIVE,
    reshape_only=True,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.squeeze(inputs[0], attrs.axis),
)
def squeeze(data, axis=None):
    """Without dimensions of size one."""
    if is_dynamic(axis):
        return call("dyn.squeeze", data, axis)
    return call("squeeze", data, axis=None if axis is None else _ints(axis))


@op(
    "transpose",
    1,
    pattern=INJECTIVE,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.transpose(inputs[0], attrs.axes),
)
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


@op(
    "split",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.split(inputs[0], attrs.indices_or_sections, attrs.axis),
)
def split(data, indices_or_sections, axis=0):
    """A tensor cut along an axis, into equal parts or at places."""
    at = int(indices_or_sections) if isinstance(indices_or_sections, int) else _ints(indices_or_sections)
    made = call("split", data, indices_or_sections=at, axis=int(axis))
    return TupleWrapper(made, at if isinstance(at, int) else len(at) + 1)


@op(
    "strided_slice",
    1,
    pattern=INJECTIVE,
    moves_only=True,
    compute=lambda attrs, inputs, out: topi.strided_slice(
        inputs[0], attrs.begin, attrs.end, attrs.strides, attrs.axes, attrs.slice_mode
    ),
)
def strided_slice(data, begin, end, strides=None, axes=None, slice_mode="end"):
    """Every strides-th element from begin to end, for each axis."""
    if is_dynamic(begin, end, strides):
        strides = strides if strides is not None else const([1] * _length(begin), "int64")
        bounds = [v if isinstance(v, RelayExpr) else const(list(v), "int64") for v in (begin, end, strides)]
        return call(
            "dyn.strided_slice", data, *bounds, axes=None if axes is None else _ints(axes), slice_mode=slice_mode
        )
    strides = (1,) if strides is None else _ints(strides)
    return call(
        "strided_slice",
        data,
        begin=_ints(begin),
        end=_ints(end),
        strides=strides,
        axes=None if axes is None else _ints(axes),
        slice_mode=slice_mode,
    )


@op(
    "take",
    2,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.take(inputs[0], inputs[1], attrs.axis, attrs.batch_dims, attrs.mode),
)
def take(data, indices, axis=None, batch_dims=0, mode="clip"):
    """Elements (or slices along an axis) at places."""
    return call("take", data, indices, axis=None if axis is None else int(axis), batch_dims=int(batch_dims), mode=mode)


@op("gather", 2, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.gather(inputs[0], attrs.axis, inputs[1]))
def gather(data, axis, indices):
    """One element along an axis for each place of ``indices``."""
    return call("gather", data, indices, axis=int(axis))


@op(
    "gather_nd",
    2,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.gather_nd(inputs[0], inputs[1], attrs.batch_dims),
)
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
    have, want = dims(tensor(types[0])), tuple(attrs.shape)
    if len(have) > len(want) or not all(map(becomes, have[::-1], want[::-1])):
        raise TypeError(f"a tensor of shape {have} cannot be broadcast to {want}")
    return TensorType(attrs.shape, tensor(types[0]).dtype)


@op(
    "broadcast_to",
    1,
    pattern=BROADCAST,
    type_rule=_broadcast_to_type,
    compute=lambda attrs, inputs, out: topi.broadcast_to(inputs[0], out.shape),
)
def broadcast_to(data, shape):
    """The tensor repeated along its dimensions of size one."""
    if is_dynamic(shape):
        return call("dyn.broadcast_to", data, shape)
    return call("broadcast_to", data, shape=_ints(shape))


@op("tile", 1, pattern=BROADCAST, compute=lambda attrs, inputs, out: topi.tile(inputs[0], attrs.reps))
def tile(data, reps):
    """The tensor repeated as a whole."""
    if is_dynamic(reps):
        return call("dyn.tile", data, reps)
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
    return te.compute(out.shape, lambda *i: inputs[0]().astype(out.dtype), name="T_full", tag="broadcast")


@op("full", 1, pattern=ELEMWISE, type_rule=_full_type, compute=_full_compute)
def full(fill_value, shape=(), dtype=""):
    """One value everywhere."""
    fill = fill_value if isinstance(fill_value, RelayExpr) else const(fill_value, dtype or None)
    if is_dynamic(shape):
        return call("dyn.full", fill, shape, dtype=canonical(dtype) if dtype else "")
    return call("full", fill, shape=_ints(shape), dtype=canonical(dtype) if dtype else "")


def zeros(shape, dtype):
    """Zeros.

    Parameters
    ----------
    shape : tuple of int or PrimExpr
        The size of each dimension.
    dtype : str
        The element type.
    """
    return full(const(0, dtype), shape, dtype)


def ones(shape, dtype):
    """Ones.

    Parameters
    ----------
    shape : tuple of int or PrimExpr
        The size of each dimension.
    dtype : str
        The element type.
    """
    return full(const(1, dtype), shape, dtype)


@op(
    "layout_transform",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.layout_transform(inputs[0], attrs.src_layout, attrs.dst_layout),
)
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


@op(
    "ndarray_size",
    1,
    pattern=OPAQUE,
    type_rule=lambda attrs, types: TensorType((), attrs.dtype),
    compute=lambda attrs, inputs, out: topi.ndarray_size(inputs[0], attrs.dtype),
)
def ndarray_size(data, dtype="int32"):
    """The number of elements, as a tensor."""
    return call("ndarray_size", data, dtype=canonical(dtype))


def _like_second(attrs, types):
    return TensorType(dims(tensor(types[1])), tensor(types[0]).dtype)


@op(
    "cast_like",
    2,
    pattern=ELEMWISE,
    type_rule=lambda attrs, types: TensorType(tensor(types[0]).shape, tensor(types[1]).dtype),
    compute=lambda attrs, inputs, out: topi.cast(inputs[0], out.dtype),
)
def cast_like(data, dtype_like):
    """The same numbers as the element type of another tensor."""
    return call("cast_like", data, dtype_like)


@op("reinterpret", 1, pattern=ELEMWISE, compute=lambda attrs, inputs, out: topi.reinterpret(inputs[0], attrs.dtype))
def reinterpret(data, dtype):
    """The same bits as another element type of equal width."""
    return call("reinterpret", data, dtype=canonical(dtype))


def _full_like_type(attrs, types):
    if dims(tensor(types[1], "the value")) != ():
        raise TypeError(f"the value is a scalar, got shape {dims(types[1])}")
    return tensor(types[0])


@op(
    "full_like",
    2,
    pattern=ELEMWISE,
    type_rule=_full_like_type,
    compute=lambda attrs, inputs, out: te.compute(
        out.shape, lambda *i: inputs[1]().astype(out.dtype), name="T_full_like", tag="broadcast"
    ),
)
def full_like(data, fill_value):
    """One value everywhere, in the shape and type of another tensor."""
    fill = fill_value if isinstance(fill_value, RelayExpr) else const(fill_value)
    return call("full_like", data, fill)


def _number(value):
    """A Python number out of a number or a constant; None if it is only known when running."""
    if isinstance(value, Constant):
        value = value.data.numpy().item()
    return None if isinstance(value, RelayExpr) else value


def _arange_type(attrs, types):
    if types:
        return TensorType((Any_(),), attrs.dtype)
    if attrs.step == 0:
        raise ValueError("arange: the step is zero")
    count = max(0, math.ceil((attrs.stop - attrs.start) / attrs.step))
    return TensorType((count,), attrs.dtype)


def _arange_compute(attrs, inputs, out):
    start, step = (inputs[0](), inputs[2]()) if inputs else (attrs.start, attrs.step)
    floats = isinstance(start, float) or isinstance(step, float)
    # Steps are counted in a type that holds them exactly, as the numbers given are not yet of the result's type.
    kind = out.dtype if inputs or not floats or out.dtype.startswith("float") else "float64"

    def element(i):
        first, each = (x.astype(kind) if inputs else tir.const(x, kind) for x in (start, step))
        return (first + i.astype(kind) * each).astype(out.dtype)

    return te.compute(out.shape, element, name="T_arange", tag="injective")


@op("arange", -1, pattern=INJECTIVE, type_rule=_arange_type, compute=_arange_compute, dynamic_shape=SHAPES["arange"])
def arange(start, stop=None, step=None, dtype="float32"):
    """Numbers from start to stop (not included), ``step`` apart."""
    start, stop = (0, start) if stop is None else (start, stop)
    step = 1 if step is None else step
    numbers = [_number(v) for v in (start, stop, step)]
    dtype = canonical(dtype)
    if None in numbers:
        parts = [v if isinstance(v, RelayExpr) else const(v, dtype) for v in (start, stop, step)]
        return call("arange", *parts, dtype=dtype)
    return call("arange", start=numbers[0], stop=numbers[1], step=numbers[2], dtype=dtype)


def _reshape_like_type(attrs, types):
    data, like = tensor(types[0]), tensor(types[1])
    x, y = dims(data), dims(like)
    part = y[_clamp(attrs.rhs_begin, len(y)) : _clamp(attrs.rhs_end, len(y))]
    begin, end = _clamp(attrs.lhs_begin, len(x)), _clamp(attrs.lhs_end, len(x))
    have, need = product(x[begin:end]), product(part)
    if not agree(have, need, "elements of the data against those of the shape"):
        raise TypeError(f"{have} elements cannot take the shape {part}")
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
    """The elements in the shape of another tensor, or some dimensions in the shape of some of its."""
    return call(
        "reshape_like", data, shape_like, lhs_begin=lhs_begin, lhs_end=lhs_end, rhs_begin=rhs_begin, rhs_end=rhs_end
    )


def _reverse_shape(attrs, types):
    data = tensor(types[0])
    codes, turned, i = list(attrs.newshape), [], len(attrs.newshape)
    while i > 0:
        # The two sizes after -4 belong to it.
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
    """reshape whose codes are read from the last dimension to the first."""
    return call("contrib_reverse_reshape", data, newshape=_ints(newshape))


@op(
    "broadcast_to_like",
    2,
    pattern=BROADCAST,
    type_rule=_like_second,
    compute=lambda attrs, inputs, out: topi.broadcast_to(inputs[0], out.shape),
)
def broadcast_to_like(data, broadcast_type):
    """The tensor repeated to the shape of another."""
    return call("broadcast_to_like", data, broadcast_type)


@op(
    "collapse_sum_like",
    2,
    pattern=COMM_REDUCE,
    type_rule=_like_second,
    compute=lambda attrs, inputs, out: topi.collapse_sum(inputs[0], out.shape),
)
def collapse_sum_like(data, collapse_type):
    """The sum over the axes along which the other tensor would be broadcast."""
    return call("collapse_sum_like", data, collapse_type)


@op(
    "collapse_sum_to",
    1,
    pattern=COMM_REDUCE,
    compute=lambda attrs, inputs, out: topi.collapse_sum(inputs[0], attrs.shape),
)
def collapse_sum_to(data, shape):
    """The sum over the axes along which ``shape`` would be broadcast to the data's."""
    return call("collapse_sum_to", data, shape=_ints(shape))


def _slice_like_type(attrs, types):
    data, like = tensor(types[0]), tensor(types[1])
    x, y = list(dims(data)), dims(like)
    axes = attrs.axes if attrs.axes is not None else tuple(range(len(y)))
    if attrs.axes is None and len(y) > len(x):
        raise TypeError(f"the other tensor has {len(y)} dimensions, the data {len(x)}")
    for axis in axes:
        axis = normalize_axis(axis, len(x))
        if axis >= len(y):
            raise TypeError(f"axis {axis} is not one of the {len(y)} dimensions of the other tensor")
        if isinstance(x[axis], int) and isinstance(y[axis], int) and y[axis] > x[axis]:
            raise TypeError(f"{y[axis]} elements along axis {axis} cannot be taken from {x[axis]}")
        assume(convert(y[axis]) <= convert(x[axis]), f"no more elements along axis {axis} than the data has")
        x[axis] = y[axis]
    return TensorType(x, data.dtype)


@op(
    "slice_like",
    2,
    pattern=INJECTIVE,
    type_rule=_slice_like_type,
    compute=lambda attrs, inputs, out: te.compute(
        out.shape, lambda *i: inputs[0](*i), name="T_slice_like", tag="injective"
    ),
)
def slice_like(data, shape_like, axes=None):
    """The first elements along axes, as many as another tensor has."""
    return call("slice_like", data, shape_like, axes=_ints(axes) if axes else None)


@op(
    "strided_set",
    5,
    pattern=INJECTIVE,
    type_rule=same_as_first,
    compute=lambda attrs, inputs, out: topi.strided_set(*inputs),
)
def strided_set(data, v, begin, end, strides=None):
    """The tensor with a strided part replaced by ``v``."""
    begin, end = (x if isinstance(x, RelayExpr) else const(list(x), "int64") for x in (begin, end))
    if strides is None:
        strides = const([1] * _length(begin), "int64")
    strides = strides if isinstance(strides, RelayExpr) else const(list(strides), "int64")
    return call("strided_set", data, v, begin, end, strides)


def _length(values) -> int:
    """The number of elements of a list or of a vector."""
    if not isinstance(values, RelayExpr):
        return len(values)
    from ..infer import infer_type

    return int(infer_type(values).checked_type_.shape[0])


@op(
    "reverse_sequence",
    2,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.reverse_sequence(inputs[0], inputs[1], attrs.seq_axis, attrs.batch_axis),
)
def reverse_sequence(data, seq_lengths, seq_axis=1, batch_axis=0):
    """The first elements of each row backwards, as many as ``seq_lengths`` says."""
    return call("reverse_sequence", data, seq_lengths, seq_axis=int(seq_axis), batch_axis=int(batch_axis))


@op("meshgrid", 1, pattern=INJECTIVE, compute=lambda attrs, inputs, out: topi.meshgrid(inputs, attrs.indexing))
def meshgrid(data, indexing="ij"):
    """Vectors spread over a grid of all their combinations."""
    data = list(data) if isinstance(data, (list, tuple)) else data
    count = len(data) if isinstance(data, list) else len(data.fields)
    return TupleWrapper(call("meshgrid", as_expr(data), indexing=indexing), count)


@op(
    "sliding_window",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.sliding_window(inputs[0], attrs.axis, attrs.window_shape, attrs.strides),
)
def sliding_window(data, axis, window_shape, strides):
    """All windows of a shape over the dimensions from ``axis`` on."""
    return call("sliding_window", data, axis=int(axis), window_shape=_ints(window_shape), strides=_ints(strides))


__all__ = [
    "arange",
    "broadcast_to",
    "broadcast_to_like",
    "cast_like",
    "collapse_sum_like",
    "collapse_sum_to",
    "concatenate",
    "expand_dims",
    "full",
    "full_like",
    "gather",
    "gather_nd",
    "layout_transform",
    "meshgrid",
    "ndarray_size",
    "new_shape",
    "ones",
    "reinterpret",
    "repeat",
    "reshape",
    "reshape_like",
    "reverse",
    "reverse_reshape",
    "reverse_sequence",
    "shape_of",
    "slice_like",
    "sliding_window",
    "split",
    "squeeze",
    "stack",
    "strided_set",
    "strided_slice",
    "take",
    "tile",
    "transpose",
    "where",
    "zeros",
]
