"""Converters of slicing, padding and slice assignment."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import run_time
from .shape_ops import channels_last
from .table import Context, axis_of, check_count, op
from .tensors import numpy_dtype


def _bounds(ctx: Context, parts: str, count: int) -> RelayExpr:
    """Return the starts, ends or strides of a slice, one for each axis."""
    found = ctx.vector(parts.lower(), f"{parts}Tensor", f"{parts}TensorList")
    if not ctx.length(found, parts.lower()) and parts in ("Strides", "Steps"):
        return run_time.number([1] * count)
    if ctx.length(found, parts.lower()) != count:
        raise TVMError(f"{ctx.length(found, parts.lower())} {parts.lower()} do not match {count} axes")
    return found


def place(size: int, start: int, end: int, step: int) -> range:
    """Return the indices of a slice along an axis, with Python's semantics."""
    if step == 0:
        raise TVMError("the stride of a slice must not be 0")
    return range(size)[slice(start, end, step)]


def _cut(ctx: Context, x: RelayExpr, axes: list[int], rows: list[list[int]]) -> RelayExpr:
    """Slice with constant bounds. Strides along dynamic dimensions must be positive."""
    shape = ctx.shape(x)
    begin, end, step = [], [], []
    for axis, b, e, s in zip(axes, *rows):
        size = shape[axis]
        if isinstance(size, int):
            at = place(size, b, e, s)
            b, e = at.start, at.stop
            # Index -1 as an end would count from the back, so write the position before the first element as -1 - size.
            e = e if e >= 0 else -1 - size
            b, e, s = (b, e, s) if len(at) else (0, 0, 1)
        elif s < 0:
            raise TVMError(
                "a negative stride along a dynamic dimension is not supported; pass static input shapes for the model"
            )
        begin.append(b)
        end.append(e)
        step.append(s)
    return relay.strided_slice(x, begin, end, step, axes) if axes else x


def sliced(ctx: Context) -> RelayExpr:
    x = ctx.get("Input")
    axes = [axis_of(a, ctx.rank(x)) for a in ctx.attr("axes", [])]
    names = ["Starts", "Ends"] + (["Strides"] if ctx.operator.type == "strided_slice" else [])
    rows = [_bounds(ctx, n, len(axes)) for n in names]
    rows += [run_time.number([1] * len(axes))] if len(rows) == 2 else []
    if not ctx.is_run_time_value(*rows):
        return _cut(ctx, x, axes, [ctx.ints(r, "the slice") or [] for r in rows])
    out = run_time.sliced(ctx, x, rows[0], rows[1], run_time.number(axes), rows[2])
    # Axes in decrease_axis are removed, so their dimension is 1.
    single = [axis_of(a, ctx.rank(x)) for a in ctx.attr("decrease_axis", [])]
    sizes = [1 if i in single else None if i in axes else d for i, d in enumerate(ctx.shape(x))]
    return run_time.sharpened(ctx, out, sizes)


@op("slice", "strided_slice")
def slice_(ctx):
    if ctx.has("Input") and isinstance(ctx.all("Input")[0], list):
        return _array_part(ctx, ctx.all("Input")[0])
    out = ctx.made(sliced(ctx))
    gone = sorted({axis_of(a, ctx.rank(out)) for a in ctx.attr("decrease_axis", [])})
    return relay.squeeze(out, gone) if gone else out


def _array_part(ctx: Context, array: list):
    """Slice a tensor array, or return one of its elements."""
    rows = [ctx.ints(_bounds(ctx, n, 1), "the slice") or [] for n in ("Starts", "Ends")]
    part = [array[i] for i in place(len(array), rows[0][0], rows[1][0], 1)]
    if not ctx.attr("decrease_axis", []):
        return {"Out": [part]}
    if len(part) != 1:
        raise TVMError(f"index {rows[0][0]} is out of range for a tensor array of length {len(array)}")
    return part[0]


@op("crop_tensor", "crop")
def crop(ctx):
    x = ctx.get("X")
    y = ctx.maybe("Y")
    shape = ctx.vector("shape", "Shape", "ShapeTensor") if y is None else run_time.shape_of(ctx, y)
    offsets = ctx.vector("offsets", "Offsets", "OffsetsTensor")
    rank = ctx.rank(x)
    sizes, starts = ctx.ints(shape, "the shape") or [], ctx.ints(offsets, "the offsets") or [0] * rank
    if len(sizes) != rank or len(starts) != rank or min([0, *starts]) < 0:
        raise TVMError(f"a crop of shape {sizes} at offsets {starts} does not match {rank} dimensions")
    ends = [run_time.FAR if s == -1 else o + s for o, s in zip(starts, sizes)]
    return relay.strided_slice(x, starts, ends, [1] * rank, list(range(rank))) if rank else x


# -- padding ----------------------------------------------------------------------------------------------------------


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "edge": "edge", "circular": "wrap"}


def padded(ctx: Context, x: RelayExpr, pairs: list[tuple[int, int]], value: float, mode: str) -> RelayExpr:
    """Pad by constant amounts, two for each axis; negative amounts crop."""
    if mode not in _MODES:
        raise TVMError(f"the attribute 'mode' must be one of {', '.join(_MODES)}, got {mode!r}")
    for (low, high), size in zip(pairs, ctx.shape(x)):
        if isinstance(size, int):
            check_count("a padded axis", [size + low + high])
            if mode == "reflect" and max(low, high) >= size and max(low, high):
                raise TVMError(f"reflection padding of {low} and {high} must be smaller than the axis size {size}")
    if mode == "constant" and all(min(p) >= 0 for p in pairs):
        return relay.nn.pad(x, pairs, ctx.like(value, x)) if any(map(any, pairs)) else x
    amounts = run_time.number([p[0] for p in pairs] + [p[1] for p in pairs])
    return run_time.padded(ctx, x, amounts, None, ctx.like(value, x), _MODES[mode])


@op("pad")
def pad(ctx):
    x, amounts = ctx.get("X"), ctx.attr("paddings", [])
    if len(amounts) != 2 * ctx.rank(x):
        raise TVMError(f"{len(amounts)} padding amounts do not match {ctx.rank(x)} dimensions; expected two for each")
    return padded(ctx, x, list(zip(amounts[::2], amounts[1::2])), ctx.attr("pad_value", 0.0), "constant")


def _spatial(ctx: Context, x: RelayExpr, pairs: list[tuple[int, int]], value: float) -> RelayExpr:
    last = channels_last(ctx)
    if ctx.rank(x) != len(pairs) + 2:
        raise TVMError(f"{2 * len(pairs)} padding amounts do not match a tensor of {ctx.rank(x)} dimensions")
    rows = [(0, 0), *pairs, (0, 0)] if last else [(0, 0), (0, 0), *pairs]
    return padded(ctx, x, rows, value, ctx.attr("mode", "constant"))


@op("pad3d")
def pad3d(ctx):
    """Pad the spatial axes. The amounts start with those of the last axis."""
    x, amounts = ctx.get("X"), ctx.vector("paddings", "Paddings")
    n = ctx.length(amounts, "the paddings") // 2
    if not ctx.is_run_time_value(amounts):
        a = ctx.ints(amounts, "the paddings") or []
        return _spatial(ctx, x, list(zip(a[::2], a[1::2]))[::-1], ctx.attr("value", 0.0))
    if channels_last(ctx) or ctx.attr("mode", "constant") not in _MODES:
        raise TVMError("padding computed at run time needs channels as axis 1")
    order = [2 * (n - 1 - i) + side for side in (0, 1) for i in range(n)]
    none = run_time.number([0, 0])
    rows = [run_time.joined(ctx, [run_time.element(ctx, amounts, k) for k in order[s * n : s * n + n]]) for s in (0, 1)]
    whole = run_time.joined(ctx, [none, rows[0], none, rows[1]])
    mode = _MODES[ctx.attr("mode", "constant")]
    return run_time.padded(ctx, x, whole, None, ctx.like(ctx.attr("value", 0.0), x), mode)


@op("pad2d")
def pad2d(ctx):
    x = ctx.get("X")
    a = ctx.ints(ctx.vector("paddings", "Paddings"), "the paddings") or []
    if len(a) != 4:
        raise TVMError(f"expected 4 padding amounts, got {a}")
    return _spatial(ctx, x, [(a[0], a[1]), (a[2], a[3])], ctx.attr("pad_value", 0.0))


@op("pad_constant_like")
def pad_constant_like(ctx):
    like, x = ctx.known_shape(ctx.get("X")), ctx.get("Y")
    pairs = [(0, a - b) for a, b in zip(like, ctx.known_shape(x))]
    if any(after < 0 for _, after in pairs):
        raise TVMError(f"a tensor of shape {ctx.known_shape(x)} is larger than the target shape {like}")
    return padded(ctx, x, pairs, ctx.attr("pad_value", 0.0), "constant")


# -- slice assignment -------------------------------------------------------------------------------------------------


def attribute_array(ctx: Context, dtype: str, shape: list[int]) -> np.ndarray:
    """Return the array stored in attributes. Older programs have a separate attribute for each element type."""
    names = {"bool": "bool_values", "float32": "fp32_values", "int32": "int32_values", "int64": "int64_values",
             "float64": "fp64_values", "float16": "fp16_values"}  # fmt: skip
    values = ctx.attr("values", []) or ctx.attr(names.get(dtype, ""), [])
    count = int(np.prod(shape))
    if count != len(values):
        raise TVMError(f"{len(values)} values do not match shape {shape}")
    return np.array(values).astype(numpy_dtype(dtype)).reshape(shape)


def _insert_axes(ctx: Context, value: RelayExpr, rank: int, gone: set[int]) -> RelayExpr:
    """Insert axes of size 1 for single indices into a value, so that it broadcasts to the slice."""
    kept = [a for a in range(rank) if a not in gone]
    own = ctx.rank(value)
    if own > len(kept):
        raise TVMError(f"a value of {own} dimensions cannot be assigned to a slice of {len(kept)} dimensions")
    start = kept[len(kept) - own] if own else rank
    for axis in range(start, rank):
        value = ctx.made(relay.expand_dims(value, axis - start)) if axis in gone else value
    return value


@op("set_value")
def set_value(ctx):
    """Assign a value to a slice.

    For each axis, compute the mask of assigned positions and the value's index for each.
    """
    x = ctx.get("Input")
    rank = ctx.rank(x)
    axes = [axis_of(a, rank) for a in ctx.attr("axes", [])]
    rows = [ctx.ints(_bounds(ctx, n, len(axes)), "the slice") or [] for n in ("Starts", "Ends", "Steps")]
    value = ctx.maybe("ValueTensor")
    if value is None:
        value = Constant(attribute_array(ctx, ctx.dtype(x), ctx.attr("shape", [1])))
    if ctx.attr("none_axes", []):
        raise TVMError("none_axes (new axes in an assigned slice) are not supported")
    value = _insert_axes(ctx, value, rank, {axis_of(a, rank) for a in ctx.attr("decrease_axes", [])})
    hit = None
    lead = rank - ctx.rank(value)
    for axis, b, e, s in zip(axes, *rows):
        size = ctx.known_size(x, axis)
        at = place(size, b, e, s)
        mask, source = np.zeros(size, bool), np.zeros(size, "int64")
        mask[list(at)], source[list(at)] = True, np.arange(len(at))
        here = const(mask.reshape([-1 if i == axis else 1 for i in range(rank)]))
        hit = here if hit is None else relay.logical_and(hit, here)
        own = axis - lead
        if own >= 0 and ctx.known_size(value, own) != 1:
            if ctx.known_size(value, own) != len(at):
                raise TVMError(f"{ctx.known_size(value, own)} elements cannot be assigned to {len(at)} positions")
            value = ctx.made(relay.take(value, const(source), own))
    value = value if ctx.dtype(value) == ctx.dtype(x) else relay.cast(value, ctx.dtype(x))
    return run_time.expanded(ctx, value, run_time.shape_of(ctx, x)) if hit is None else relay.where(hit, value, x)


__all__ = ["attribute_array", "padded", "place"]
