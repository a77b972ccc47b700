"""Operators with data-dependent shapes: shape rules as expressions over the data, and computations for these shapes.

A rule ``(attrs, types, values) -> shapes`` reads elements of input ``i`` as ``values[i](*indices)``. A computation gets
the dimensions as variables in its output type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ... import te, tir, topi
from ...dtype import info
from ...ir import primop
from ...ir.prim import IntImm, PrimExpr, const, convert
from ...topi.assumptions import assume
from .record import DynamicShape

# More elements than any dimension has; bounds sizes so that their arithmetic does not overflow.
_MOST = 1 << 60


def _wide(value: Any) -> PrimExpr:
    return primop.cast("int64", convert(value))


def _number(value: int) -> PrimExpr:
    return const(value, "int64")


def _sizes(t: Any) -> list[PrimExpr]:
    return [_wide(d) for d in t.shape]


def _assume_all(conditions: Sequence[PrimExpr], what: str) -> None:
    """Add an assumption that all conditions on the sizes or axes of a tensor hold; there may be none."""
    if conditions:
        assume(tir.all(*conditions), what)


def _assume_no_overflow(numbers: Sequence[PrimExpr], what: str) -> None:
    """Add an assumption that sums of a few of these numbers do not overflow."""
    _assume_all([tir.all(n >= _number(-_MOST), n <= _number(_MOST)) for n in numbers], what)


def _product(sizes: Sequence[PrimExpr]) -> PrimExpr:
    return reduce(lambda a, b: a * b, sizes, _number(1))


def _elements(values: dict[int, Callable[..., PrimExpr]], index: int, types: Sequence[Any]) -> list[PrimExpr]:
    """Return the elements of an input that is a vector or a scalar."""
    if not types[index].shape:
        return [_wide(values[index]())]
    return [_wide(values[index](i)) for i in range(int(types[index].shape[0]))]


def _size_at(sizes: Sequence[PrimExpr], index: PrimExpr) -> PrimExpr:
    """Return the size at an index, or 0 if the index is out of range."""
    return reduce(lambda rest, k: tir.Select(primop.equal(index, k), sizes[k], rest), range(len(sizes)), _number(0))


def _reshaped(attrs, types, values) -> list[list[PrimExpr]]:
    """Compute the shape of a reshape: 0 keeps a dimension (unless ``allowzero``), -1 is inferred, -3 merges two
    dimensions."""
    old, codes = _sizes(types[0]), _elements(values, 1, types)
    kept, at = [], _number(0)
    for code in codes:
        joins = primop.equal(code, -3)
        own = code if attrs.allowzero else tir.Select(primop.equal(code, 0), _size_at(old, at), code)
        kept.append(tir.Select(joins, _size_at(old, at) * _size_at(old, at + _number(1)), own))
        at = at + tir.Select(joins, _number(2), _number(1))
    total, known = _product(old), _product([tir.Select(primop.equal(c, -1), _number(1), c) for c in kept])
    rest = te.indexdiv(total, te.max(known, 1))
    new = [tir.Select(primop.equal(c, -1), rest, c) for c in kept]
    _assume_all([c >= -1 for c in kept], "a new size must be -1 or not negative")
    found = [tir.Select(primop.equal(c, -1), _number(1), _number(0)) for c in kept]
    count = reduce(lambda a, b: a + b, found, _number(0))
    one = primop.equal(count, 1)
    is_unique = tir.any(primop.equal(count, 0), tir.all(one, known > 0))
    assume(is_unique, "at most one new size may be -1, and the others must then be positive")
    assume(primop.equal(_product(new), total), "the new shape must have as many elements as the data")
    return [new]


def _broadcast(attrs, types, values) -> list[list[PrimExpr]]:
    old, new = _sizes(types[0]), _elements(values, 1, types)
    for have, want in zip(old[::-1], new[::-1]):
        is_alike = tir.any(primop.equal(have, want), primop.equal(have, 1))
        assume(is_alike, "a broadcast dimension must have the new size or 1")
    return [new]


def _tiled(attrs, types, values) -> list[list[PrimExpr]]:
    old, times = _sizes(types[0]), _elements(values, 1, types)
    rank = max(len(old), len(times))
    old, times = [_number(1)] * (rank - len(old)) + old, [_number(1)] * (rank - len(times)) + times
    _assume_all([t >= 0 for t in times], "repetitions must not be negative")
    few = [t <= te.indexdiv(_number(_MOST), te.max(d, 1)) for d, t in zip(old, times)]
    _assume_all(few, "repeated dimensions must not overflow")
    return [[d * t for d, t in zip(old, times)]]


def _tiled_compute(attrs, inputs, out):
    data = inputs[0]
    skip = len(out.shape) - len(data.shape)
    # The index into an empty tensor would be a remainder of a division by zero, although no element is read.
    sizes = [_number(1) if isinstance(d, IntImm) and d.value == 0 else d for d in data.shape]
    return te.compute(
        out.shape, lambda *i: data(*[te.indexmod(at, d) for at, d in zip(i[skip:], sizes)]), name="T_tile",
        tag="injective",
    )  # fmt: skip


def _shape_from_input(index: int) -> Callable[..., list[list[PrimExpr]]]:
    """Return a rule for operators whose output shape is the value of an input."""

    def rule(attrs, types, values):
        sizes = _elements(values, index, types)
        _assume_all([d >= 0 for d in sizes], "sizes must not be negative")
        return [sizes]

    return rule


def _full_compute(attrs, inputs, out):
    return te.compute(out.shape, lambda *i: inputs[0]().astype(out.dtype), name="T_full", tag="broadcast")


# --- slices ----------------------------------------------------------------------------------------------------------


def _slice_axes(attrs, types) -> list[int]:
    rank, count = len(types[0].shape), int(types[1].shape[0])
    return [a % rank for a in attrs.axes] if attrs.axes is not None else list(range(count))


def _slice_ends(attrs, dim, begin, end, stride) -> tuple[PrimExpr, PrimExpr, PrimExpr]:
    """Return (first index, number of elements, stride) of a slice along one axis, with Python semantics."""
    low, high = tir.Select(stride > 0, _number(0), _number(-1)), tir.Select(stride > 0, dim, dim - 1)

    def inside(place):
        return te.min(te.max(tir.Select(place < 0, place + dim, place), low), high)

    first = inside(begin)
    if attrs.slice_mode == "size":
        last = tir.Select(end < 0, dim, te.min(first + end, dim))
        return first, te.max(last - first, 0), _number(1)
    span = tir.Select(stride > 0, inside(end) - first, first - inside(end))
    step = te.max(tir.Select(stride > 0, stride, 0 - stride), 1)
    # The stride may be close to the integer limit, so nothing may be added to it.
    return first, tir.Select(span > 0, te.indexdiv(te.max(span - 1, 0), step) + 1, _number(0)), stride


def _sliced(attrs, types, values) -> list[list[PrimExpr]]:
    sizes = _sizes(types[0])
    bounds = zip(*(_elements(values, i, types) for i in (1, 2, 3)))
    for axis, (begin, end, stride) in zip(_slice_axes(attrs, types), bounds):
        assume(primop.not_equal(stride, 0), f"the stride along axis {axis} must not be 0")
        sizes[axis] = _slice_ends(attrs, sizes[axis], begin, end, stride)[1]
    return [sizes]


def _sliced_compute(attrs, inputs, out):
    data, *bounds = inputs
    axes = _slice_axes(attrs, inputs)

    def element(*at):
        own = list(at)
        for number, axis in enumerate(axes):
            begin, end, stride = (_wide(b(number)) for b in bounds)
            dim = _wide(data.shape[axis])
            first, _, stride = _slice_ends(attrs, dim, begin, end, stride)
            own[axis] = te.max(te.min(first + at[axis] * stride, dim - 1), 0)
        return data(*own)

    return te.compute(out.shape, element, name="T_strided_slice", tag="injective")


# --- axes ------------------------------------------------------------------------------------------------------------


def _expanded(attrs, types, values) -> list[list[PrimExpr]]:
    old, (axis,), new = _sizes(types[0]), _elements(values, 1, types), attrs.num_newaxis
    axis = tir.Select(axis < 0, axis + (len(old) + 1), axis)
    assume(tir.all(axis >= 0, axis <= len(old)), f"the axis must be within the {len(old)} dimensions")
    sizes = []
    for i in range(len(old) + new):
        size = old[i - new] if i >= new else _number(1)
        if new > 0:
            size = tir.Select(axis + new > i, _number(1), size)
        sizes.append(tir.Select(axis > i, old[i], size) if i < len(old) else size)
    return [sizes]


def _squeezed(attrs, types, values) -> list[list[PrimExpr]]:
    old, axes = _sizes(types[0]), _elements(values, 1, types)
    rank, kept = len(old), len(old) - len(axes)
    if not axes:
        return [old]
    _assume_all([tir.all(a >= -rank, a < rank) for a in axes], f"axes must be within the {rank} dimensions")
    sizes, place = [_number(0)] * kept, _number(0)
    for i, size in enumerate(old):
        gone = tir.any(*[primop.equal(te.indexmod(a + rank, rank), i) for a in axes])
        assume(tir.any(tir.Not(gone), primop.equal(size, 1)), f"axis {i} must have size 1 if it is squeezed")
        sizes = [tir.Select(tir.all(tir.Not(gone), primop.equal(place, j)), size, s) for j, s in enumerate(sizes)]
        place = place + tir.Select(gone, _number(0), _number(1))
    assume(primop.equal(place, kept), f"the {len(axes)} axes must be different")
    return [sizes]


def _as_shape(attrs, inputs, out):
    return topi.reshape(inputs[0], out.shape)


# --- sizes along an axis -----------------------------------------------------------------------------------------


def _largest(attrs, types, values) -> list[list[PrimExpr]]:
    sizes, (k,) = _sizes(types[0]), _elements(values, 1, types)
    k = tir.Select(k < 1, sizes[attrs.axis], k)
    assume(k <= sizes[attrs.axis], "k must not be larger than the dimension")
    sizes[attrs.axis] = k
    return [sizes] * (2 if attrs.ret_type == "both" else 1)


def _largest_compute(attrs, inputs, out, gpu=None):
    shape = out.fields[0].shape if attrs.ret_type == "both" else out.shape
    return topi.topk(
        inputs[0], shape[attrs.axis], attrs.axis, attrs.ret_type, attrs.is_ascend, attrs.dtype, gpu=gpu
    )  # fmt: skip


def _one_hot_shape(attrs, types, values) -> list[list[PrimExpr]]:
    sizes, (depth,) = _sizes(types[0]), _elements(values, 3, types)
    assume(depth >= 0, "the number of classes must not be negative")
    sizes.insert(len(sizes) if attrs.axis < 0 else attrs.axis, depth)
    return [sizes]


def _one_hot_compute(attrs, inputs, out):
    axis = len(out.shape) - 1 if attrs.axis < 0 else attrs.axis
    on, off = (v().astype(attrs.dtype) for v in inputs[1:3])
    return topi.one_hot(inputs[0], on, off, out.shape[axis], axis, attrs.dtype)


def _padded(attrs, types, values) -> list[list[PrimExpr]]:
    old = _sizes(types[0])
    sizes = []
    for i, size in enumerate(old):
        before, after = (_wide(values[1](i, side)) for side in (0, 1))
        _assume_no_overflow([before, after], f"padding along axis {i} must not overflow")
        if attrs.pad_mode != "constant":
            room = size - 1 if attrs.pad_mode == "reflect" else size
            enough = tir.all(before <= room, after <= room) if attrs.pad_mode == "reflect" else size > 0
            assume(tir.any(enough, tir.all(primop.equal(before, 0), primop.equal(after, 0))),
                   f"axis {i} must have enough elements for the padding")  # fmt: skip
        sizes.append(size + before + after)
    _assume_all([d >= 0 for d in sizes], "negative padding must not exceed the size")
    return [sizes]


def _padded_compute(attrs, inputs, out):
    data, widths, value = inputs

    def element(*at):
        places = [i - _wide(widths(n, 0)) for n, i in enumerate(at)]
        dims = [_wide(d) for d in data.shape]
        if attrs.pad_mode == "constant":
            within = tir.all(*[tir.all(p >= 0, p < d) for p, d in zip(places, dims)])
            fill = (value() if not value.shape else value(0)).astype(data.dtype)
            return te.if_then_else(within, data(*places), fill)
        if attrs.pad_mode == "reflect":
            places = [tir.Select(p < 0, 0 - p, tir.Select(p >= d, 2 * d - 2 - p, p)) for p, d in zip(places, dims)]
        return data(*[te.max(te.min(p, d - 1), 0) for p, d in zip(places, dims)])

    return te.compute(out.shape, element, name="T_pad", tag="injective")


def _resized(attrs, types, values) -> list[list[PrimExpr]]:
    sizes, wanted = _sizes(types[0]), _elements(values, 1, types)
    _assume_all([d >= 1 for d in wanted], "image sizes must be at least 1")
    for letter, size in zip("HW", wanted):
        sizes[attrs.layout.index(letter)] = size
    return [sizes]


def _resized_compute(attrs, inputs, out):
    size = [out.shape[attrs.layout.index(letter)] for letter in "HW"]
    return topi.image.resize2d(
        inputs[0], inputs[2], size, attrs.layout, attrs.method, attrs.coordinate_transformation_mode,
        attrs.rounding_method, attrs.cubic_alpha, attrs.cubic_exclude, attrs.extrapolation_value, out.dtype,
    )  # fmt: skip


def enlarged(size: PrimExpr, scale: Any) -> PrimExpr:
    """Return a dynamic size multiplied by a factor and rounded half to even."""
    whole = scale if isinstance(scale, PrimExpr) else const(float(scale), "float64")
    return _wide(tir.nearbyint(primop.cast("float64", size) * primop.cast("float64", whole)))


# The resize method for each upsampling method.
METHODS = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "trilinear": "linear", "linear": "linear",
           "bicubic": "cubic", "cubic": "cubic"}  # fmt: skip


def upsampling_options(attrs) -> tuple[str, str, str]:
    """Return the method, coordinate transformation and rounding of the resize that is equivalent to an upsampling."""
    method, corners = METHODS[attrs.method], getattr(attrs, "align_corners", False)
    mode = "align_corners" if corners else getattr(attrs, "coordinate_transformation_mode", "asymmetric")
    rounding = "" if method != "nearest_neighbor" else "round" if corners else "floor"
    return method, "asymmetric" if "D" in attrs.layout and method == "nearest_neighbor" else mode, rounding


def upsampling_compute(attrs, inputs, out):
    """Compute an upsampling to a dynamic size."""
    letters = [c for c in attrs.layout if c.isalpha()]
    size = [out.shape[letters.index(c)] for c in "DHW" if c in letters]
    resize = topi.image.resize3d if len(size) == 3 else topi.image.resize2d
    method, mode, rounding = upsampling_options(attrs)
    return resize(inputs[0], None, size, attrs.layout, method, mode, rounding)


def _enlarged(letters: str) -> Callable[..., list[list[PrimExpr]]]:
    def rule(attrs, types, values):
        sizes = _sizes(types[0])
        for number, letter in enumerate(letters, 1):
            scale = values[number]() if not types[number].shape else values[number](0)
            at = attrs.layout.index(letter)
            sizes[at] = enlarged(sizes[at], scale)
        return [sizes]

    return rule


def _arange_shape(attrs, types, values) -> list[list[PrimExpr]]:
    """Compute the number of elements of ``arange``."""
    start, stop, step = (values[i]() if not types[i].shape else values[i](0) for i in range(3))
    assume(primop.not_equal(step, const(0, step.dtype)), "the step must not be 0")
    whole = [primop.cast("float64", v) for v in (start, stop, step)]
    most = const(float(_MOST), "float64")
    is_float = any(info(v.dtype).is_float for v in (start, stop, step))
    count = tir.ceil((whole[1] - whole[0]) / whole[2]) if is_float else whole[1] - whole[0]
    # Comparisons with NaN are false, so that a NaN count violates the assumption.
    assume(tir.all(count < most, count > -most), "the number of elements from start to stop must not overflow")
    if is_float:
        return [[te.max(_wide(count), 0)]]
    start, stop, step = (_wide(v) for v in (start, stop, step))
    size = te.max(tir.Select(step > 0, step, 0 - te.max(step, _number(1 - (1 << 63)))), 1)
    span = tir.Select(step > 0, stop - start, start - stop)
    # The step may be close to the integer limit, so nothing may be added to it.
    return [[tir.Select(span > 0, te.indexdiv(te.max(span - 1, 0), size) + 1, _number(0))]]


def _checked(attrs, types, values) -> list[list[PrimExpr]]:
    assume(primop.not_equal(primop.cast("int32", values[1]()), 0), attrs.words, is_message=True)
    return [_sizes(types[0])]


def _checked_compute(attrs, inputs, out):
    return te.compute(out.shape, lambda *i: inputs[0](*i), name="T_checked", tag="injective")


SHAPES = {
    "arange": DynamicShape((0, 1, 2), _arange_shape),
    "dyn.reshape": DynamicShape((1,), _reshaped),
    "dyn.broadcast_to": DynamicShape((1,), _broadcast),
    "dyn.tile": DynamicShape((1,), _tiled),
    "dyn.full": DynamicShape((1,), _shape_from_input(1)),
    "dyn.strided_slice": DynamicShape((1, 2, 3), _sliced),
    "dyn.topk": DynamicShape((1,), _largest),
    "dyn.one_hot": DynamicShape((3,), _one_hot_shape),
    "dyn.expand_dims": DynamicShape((1,), _expanded),
    "dyn.squeeze": DynamicShape((1,), _squeezed),
    "dyn.nn.pad": DynamicShape((1,), _padded),
    "dyn.image.resize2d": DynamicShape((1,), _resized),
    "dyn.nn.upsampling": DynamicShape((1, 2), _enlarged("HW")),
    "dyn.nn.upsampling3d": DynamicShape((1, 2, 3), _enlarged("DHW")),
    "dyn.sparse_to_dense": DynamicShape((3,), _shape_from_input(3)),
    "dyn.checked": DynamicShape((1,), _checked),
}

COMPUTED: dict[str, Callable[..., Any]] = {
    "dyn.reshape": _as_shape,
    "dyn.broadcast_to": lambda attrs, inputs, out: topi.broadcast_to(inputs[0], out.shape),
    "dyn.tile": _tiled_compute,
    "dyn.full": _full_compute,
    "dyn.strided_slice": _sliced_compute,
    "dyn.topk": _largest_compute,
    "dyn.one_hot": _one_hot_compute,
    "dyn.expand_dims": _as_shape,
    "dyn.squeeze": _as_shape,
    "dyn.nn.pad": _padded_compute,
    "dyn.image.resize2d": _resized_compute,
    "dyn.nn.upsampling": upsampling_compute,
    "dyn.nn.upsampling3d": upsampling_compute,
    "dyn.sparse_to_dense": lambda attrs, inputs, out: topi.sparse_to_dense(inputs[0], out.shape, *inputs[1:3]),
    "dyn.checked": _checked_compute,
}

__all__ = ["COMPUTED", "METHODS", "SHAPES", "enlarged", "upsampling_compute", "upsampling_options"]
