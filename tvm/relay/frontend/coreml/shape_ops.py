"""Converters of operations that reshape, slice, pad, tile or create tensors."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ..common import run_time
from .table import Bools, Context, Ints, Many, axis_of, check_count, constant, op


@op("reshape")
def reshape(ctx, x, shape):
    known = ctx.value(shape)
    if known is None:
        return run_time.reshaped(ctx, x, shape)
    wanted = [int(v) for v in known.reshape(-1)]
    if 0 in wanted and len(wanted) != ctx.rank(x):
        raise TVMError(f"the shape {wanted} copies dimensions, so it must have the rank {ctx.rank(x)} of the input")
    if wanted.count(-1) > 1 or any(v < -1 for v in wanted):
        raise TVMError(f"the shape {wanted} is not valid")
    sizes = ctx.shape(x)
    if all(isinstance(d, int) for d in sizes):
        full = [d if w == 0 else w for w, d in zip(wanted, [*sizes, *[1] * len(wanted)])]
        rest = math.prod(v for v in full if v != -1)
        if -1 not in full and rest != math.prod(sizes) or -1 in full and (not rest or math.prod(sizes) % rest):
            raise TVMError(f"a tensor of shape {sizes} cannot be reshaped to {wanted}")
    return relay.reshape(x, wanted)


@op("reshape_like")
def reshape_like(ctx, x, ref_tensors: Many, begins: Many, ends: Many, end_masks: Many):
    wanted: list = []
    for i, ref in enumerate(ref_tensors):
        sizes = ctx.known_shape(ref)
        begin, end, mask = (int(ctx.array(v[i], "a bound").reshape(-1)[0]) for v in (begins, ends, end_masks))
        wanted += sizes[begin:] if mask else sizes[begin:end]
    return reshape(ctx, x, run_time.number(wanted))


@op("transpose")
def transpose(ctx, x, perm: Ints):
    rank = ctx.rank(x)
    axes = [axis_of(a, rank) for a in perm]
    if sorted(axes) != list(range(rank)):
        raise TVMError(f"{perm} is not a permutation of {rank} dimensions")
    return relay.transpose(x, axes) if axes != list(range(rank)) else x


@op("expand_dims")
def expand_dims(ctx, x, axes: Ints):
    rank = ctx.rank(x) + len(axes)
    for axis in sorted(axis_of(a, rank) for a in axes):
        x = relay.expand_dims(x, axis)
    return x


@op("squeeze")
def squeeze(ctx, x, axes: Ints | None = None):
    """Remove dimensions of size 1 from the given axes, or from all axes."""
    sizes = ctx.shape(x)
    chosen = range(len(sizes)) if axes is None else {axis_of(a, len(sizes)) for a in axes}
    gone = [a for a in sorted(chosen) if sizes[a] == 1]
    return relay.squeeze(x, gone) if gone else x


@op("flatten2d")
def flatten2d(ctx, x, axis: int = 1):
    sizes = ctx.known_shape(x)
    if not -len(sizes) <= axis <= len(sizes):
        raise TVMError(f"axis {axis} is out of range for a tensor of {len(sizes)} dimensions")
    axis = axis + len(sizes) if axis < 0 else axis
    return relay.reshape(x, (math.prod(sizes[:axis]), math.prod(sizes[axis:])), True)


@op("shape")
def shape(ctx, x):
    return ctx.cast(run_time.shape_of(ctx, x), "int32")


# -- slices -----------------------------------------------------------------------------------------------------------


def _masked(values, mask, free) -> list[int]:
    return [f if m else int(v) for v, m, f in zip(values, mask, free)]


@op("slice_by_index")
def slice_by_index(ctx, x, begin, end, stride: Ints | None = None, begin_mask: Bools | None = None,
                   end_mask: Bools | None = None, squeeze_mask: Bools | None = None):  # fmt: skip
    rank = ctx.rank(x)
    stride = stride or [1] * rank
    masks = [m or [False] * rank for m in (begin_mask, end_mask, squeeze_mask)]
    lists = {"strides": stride, "masks of the beginning": masks[0], "masks of the end": masks[1],
             "masks of squeezing": masks[2]}  # fmt: skip
    for what, values in lists.items():
        if len(values) != rank:
            raise TVMError(f"{len(values)} {what} do not match {rank} dimensions")
    if any(s == 0 for s in stride):
        raise TVMError("a stride must not be 0")
    starts, ends = ctx.value(begin), ctx.value(end)
    if starts is not None and (ends is not None or all(a or b for a, b in zip(masks[1], masks[2]))):
        ends = starts if ends is None else ends
        out = _static_slice(ctx, x, starts.reshape(-1), ends.reshape(-1), stride, masks)
    else:
        out = _dynamic_slice(ctx, x, begin, end, stride, masks)
    single = [a for a in range(rank) if masks[2][a]]
    return relay.squeeze(ctx.made(out), single) if single else out


def _static_slice(ctx: Context, x, starts, ends, stride, masks):
    rank, far = ctx.rank(x), run_time.FAR
    if len(starts) != rank or len(ends) != rank:
        raise TVMError(f"{len(starts)} begins and {len(ends)} ends do not match {rank} dimensions")
    first = _masked(starts, masks[0], [0 if s > 0 else far for s in stride])
    last = _masked(ends, masks[1], [far if s > 0 else -far for s in stride])
    steps = list(stride)
    for axis in range(rank):
        if masks[2][axis]:
            size = ctx.shape(x)[axis]
            if isinstance(size, int) and not -size <= first[axis] < size:
                raise TVMError(f"index {first[axis]} is out of range for axis {axis} of size {size}")
            last[axis], steps[axis] = (first[axis] + 1) or far, 1
    return relay.strided_slice(x, first, last, steps)


def _dynamic_slice(ctx: Context, x, begin, end, stride, masks):
    rank = ctx.rank(x)
    if any(s < 0 for s in stride):
        raise TVMError("a negative stride with slice bounds computed at run time is not supported")
    begin, end = (run_time.vector(ctx, v) for v in (begin, end))
    if any(masks[2]):
        following = relay.add(begin, run_time.number(1))
        # An index of -1 selects the last element; the end of its slice is the end of the axis, not 0.
        following = relay.where(relay.equal(following, run_time.number(0)), run_time.number(run_time.FAR), following)
        end = relay.where(constant(masks[2]), following, end)
    begin = relay.where(constant(masks[0]), run_time.number(0), begin)
    end = relay.where(constant(masks[1]), run_time.number(run_time.FAR), end)
    if any(a and b for a, b in zip(masks[1], masks[2])):
        raise TVMError(
            "squeeze_mask and end_mask are set for the same axis, which is not supported with bounds "
            "computed at run time"
        )
    out = run_time.sliced(ctx, x, ctx.made(begin), ctx.made(end), None, run_time.number(stride))
    sizes = [1 if masks[2][a] else None for a in range(rank)]
    return run_time.sharpened(ctx, out, sizes)


@op("slice_by_size")
def slice_by_size(ctx, x, begin, size):
    rank, starts, counts = ctx.rank(x), ctx.value(begin), ctx.value(size)
    if starts is None or counts is None:
        return _dynamic_slice_by_size(ctx, x, begin, size)
    if starts.size != rank or counts.size != rank:
        raise TVMError(f"{starts.size} begins and {counts.size} sizes do not match {rank} dimensions")
    first = [int(v) for v in starts.reshape(-1)]
    last = [run_time.FAR if c == -1 else f + int(c) for f, c in zip(first, counts.reshape(-1))]
    for axis, (f, c, d) in enumerate(zip(first, counts.reshape(-1), ctx.shape(x))):
        if isinstance(d, int) and not (0 <= f <= d and (c == -1 or 0 <= f + c <= d)):
            raise TVMError(f"a slice of {c} elements at offset {f} exceeds axis {axis} of size {d}")
    return relay.strided_slice(x, first, last, [1] * rank)


def _dynamic_slice_by_size(ctx: Context, x, begin, size):
    begin, counts = (run_time.vector(ctx, v) for v in (begin, size))
    behind = relay.where(relay.less(counts, run_time.number(0)), run_time.number(run_time.FAR),
                         relay.add(begin, counts))  # fmt: skip
    known = ctx.numbers(counts)
    out = run_time.sliced(ctx, x, begin, ctx.made(behind), None, None)
    return run_time.sharpened(ctx, out, [k if isinstance(k, int) and k >= 0 else None for k in known])


@op("slice_update")
def slice_update(ctx, x, update, begin: Ints, end: Ints, stride: Ints | None = None, begin_mask: Bools | None = None,
                 end_mask: Bools | None = None, squeeze_mask: Bools | None = None):  # fmt: skip
    sizes = ctx.known_shape(x)
    check_count("the index tensor", sizes)
    flat = np.arange(math.prod(sizes), dtype="int64").reshape(sizes)
    rank, free = len(sizes), [False] * len(sizes)
    lists = (begin, end, stride or [1] * rank, begin_mask or free, end_mask or free, squeeze_mask or free)
    if any(len(values) != rank for values in lists):
        raise TVMError(f"the parameters of a slice must have {rank} elements each, got {[len(v) for v in lists]}")
    index = [first if single else slice(None if opened else first, None if closed else last, step)
             for first, last, step, opened, closed, single in zip(*lists)]  # fmt: skip
    places = flat[tuple(index)]
    if places.size != math.prod(ctx.known_shape(update)):
        raise TVMError(f"an update of shape {ctx.known_shape(update)} does not match a slice of shape {places.shape}")
    row, new = relay.reshape(x, (-1,)), relay.reshape(update, (-1,))
    return relay.reshape(relay.scatter_elements(row, constant(places.reshape(-1)), new, 0), sizes)


@op("concat")
def concat(ctx, values: Many, axis: int, interleave: bool = False):
    axis = axis_of(axis, ctx.rank(values[0]))
    dtype = ctx.dtype(values[0])
    values = [ctx.cast(v, dtype) for v in values]
    if not interleave:
        return relay.concatenate(values, axis) if len(values) > 1 else values[0]
    stacked = ctx.made(relay.stack(values, axis + 1))
    sizes = ctx.known_shape(stacked)
    return relay.reshape(stacked, (*sizes[:axis], sizes[axis] * sizes[axis + 1], *sizes[axis + 2 :]), True)


@op("split")
def split(ctx, x, axis: int, num_splits: int | None = None, split_sizes: Ints | None = None):
    axis = axis_of(axis, ctx.rank(x))
    size = ctx.known_size(x, axis)
    if split_sizes:
        if sum(split_sizes) != size or any(s < 0 for s in split_sizes):
            raise TVMError(f"split_sizes {split_sizes} do not add up to {size}")
        places = [int(v) for v in np.cumsum(split_sizes)[:-1]]
        return relay.split(x, places, axis) if places else [x]
    if not num_splits or num_splits < 0 or size % num_splits:
        raise TVMError(f"{size} elements cannot be split into {num_splits} equal parts")
    return relay.split(x, num_splits, axis) if num_splits > 1 else [x]


@op("stack")
def stack(ctx, values: Many, axis: int):
    return relay.stack(values, axis_of(axis, ctx.rank(values[0]) + 1))


@op("tile")
def tile(ctx, x, reps):
    known = ctx.value(reps)
    if known is None:
        return run_time.tiled(ctx, x, reps)
    counts = [int(v) for v in known.reshape(-1)]
    if len(counts) != ctx.rank(x) or any(c < 1 for c in counts):
        raise TVMError(f"repetitions {counts} are not valid for a tensor of {ctx.rank(x)} dimensions")
    check_count("the output", [c * (d if isinstance(d, int) else 1) for c, d in zip(counts, ctx.shape(x))])
    return relay.tile(x, counts)


@op("reverse")
def reverse(ctx, x, axes: Ints | None = None):
    rank = ctx.rank(x)
    for axis in range(rank) if axes is None else {axis_of(a, rank) for a in axes}:
        x = relay.reverse(x, axis)
    return x


@op("reverse_sequence")
def reverse_sequence(ctx, x, lengths, seq_axis: int = 0, batch_axis: int = 0):
    rank = ctx.rank(x)
    return relay.reverse_sequence(x, ctx.indices(lengths), axis_of(seq_axis, rank), axis_of(batch_axis, rank))


# -- padding ----------------------------------------------------------------------------------------------------------

_PADDING = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@op("pad")
def pad(ctx, x, pad, mode: str = "constant", constant_val: float = 0.0):
    rank, known = ctx.rank(x), ctx.value(pad)
    if mode not in _PADDING:
        raise TVMError(f"the padding mode '{mode}' is not supported")
    fill = ctx.like(constant_val, x)
    if known is None:
        pairs = relay.reshape(relay.transpose(relay.reshape(run_time.vector(ctx, pad), (rank, 2)), (1, 0)), (-1,))
        return run_time.padded(ctx, x, ctx.made(pairs), None, fill, _PADDING[mode])
    amounts = [int(v) for v in known.reshape(-1)]
    return padded(ctx, x, amounts, _PADDING[mode], fill)


def padded(ctx: Context, x, amounts: list[int], mode: str, fill):
    """Pad the last dimensions; ``amounts`` has two values for each."""
    rank, count = ctx.rank(x), len(amounts) // 2
    if len(amounts) % 2 or count > rank or any(not 0 <= a < 1 << 31 for a in amounts):
        raise TVMError(f"padding amounts {amounts} are not valid for a tensor of {rank} dimensions")
    pairs = [(0, 0)] * (rank - count) + list(zip(amounts[0::2], amounts[1::2]))
    if mode == "reflect":
        for size, amount in zip(ctx.shape(x), pairs):
            if isinstance(size, int) and max(amount) >= size:
                raise TVMError(f"reflection padding of {max(amount)} must be smaller than the axis size {size}")
        return relay.nn.mirror_pad(x, pairs, "REFLECT")
    return relay.nn.pad(x, pairs, fill, mode)


# -- blocks -----------------------------------------------------------------------------------------------------------


def _blocks(ctx: Context, x, block: int, divided: tuple[int, ...]) -> None:
    if block < 1 or ctx.rank(x) != 4:
        raise TVMError(f"a block size of {block} with a tensor of {ctx.rank(x)} dimensions is not supported")
    for axis in divided:
        step = block * block if axis == 1 else block
        if ctx.known_size(x, axis) % step:
            raise TVMError(f"the size {ctx.known_size(x, axis)} of axis {axis} is not divisible by {step}")


@op("depth_to_space")
def depth_to_space(ctx, x, block_size: int):
    _blocks(ctx, x, block_size, (1,))
    return relay.nn.depth_to_space(x, block_size, "NCHW", "DCR")


@op("pixel_shuffle")
def pixel_shuffle(ctx, x, upscale_factor: int):
    _blocks(ctx, x, upscale_factor, (1,))
    return relay.nn.depth_to_space(x, upscale_factor, "NCHW", "CRD")


@op("space_to_depth")
def space_to_depth(ctx, x, block_size: int):
    _blocks(ctx, x, block_size, (2, 3))
    return relay.nn.space_to_depth(x, block_size, "NCHW")


@op("pixel_unshuffle")
def pixel_unshuffle(ctx, x, downscale_factor: int):
    _blocks(ctx, x, downscale_factor, (2, 3))
    n, c, h, w = ctx.known_shape(x)
    f = downscale_factor
    parts = relay.reshape(x, (n, c, h // f, f, w // f, f))
    return relay.reshape(relay.transpose(parts, (0, 1, 3, 5, 2, 4)), (n, c * f * f, h // f, w // f))


@op("space_to_batch")
def space_to_batch(ctx, x, block_shape: Ints, paddings: Ints):
    """Move blocks of the spatial dimensions to the batch.

    The positions within a block come first in the new batch axis.
    """
    x = ctx.made(relay.nn.pad(x, [(0, 0), (0, 0), tuple(paddings[:2]), tuple(paddings[2:])], ctx.like(0, x)))
    (n, c, h, w), (p, q) = ctx.known_shape(x), block_shape
    if h % p or w % q:
        raise TVMError(f"{h} x {w} is not divisible by blocks of {p} x {q}")
    parts = relay.transpose(relay.reshape(x, (n, c, h // p, p, w // q, q)), (3, 5, 0, 1, 2, 4))
    return relay.reshape(parts, (n * p * q, c, h // p, w // q))


@op("batch_to_space")
def batch_to_space(ctx, x, block_shape: Ints, crops: Ints):
    (n, c, h, w), (p, q) = ctx.known_shape(x), block_shape
    if n % (p * q):
        raise TVMError(f"a batch of {n} is not divisible by blocks of {p} x {q}")
    parts = relay.transpose(relay.reshape(x, (p, q, n // (p * q), c, h, w)), (2, 3, 4, 0, 5, 1))
    out = relay.reshape(parts, (n // (p * q), c, h * p, w * q))
    top, bottom, left, right = crops
    return relay.strided_slice(out, [top, left], [h * p - bottom, w * q - right], [1, 1], [2, 3])


@op("sliding_windows")
def sliding_windows(ctx, x, axis: int, size: int, stride: int = 1):
    axis, length = axis_of(axis, ctx.rank(x)), ctx.known_size(x, axis_of(axis, ctx.rank(x)))
    if not 0 < size <= length or stride < 1:
        raise TVMError(f"windows of {size} elements with stride {stride} over {length} elements are not supported")
    count = (length - size) // stride + 1
    check_count("the windows", [count, size])
    places = np.arange(count)[:, None] * stride + np.arange(size)[None]
    return relay.take(x, constant(places, "int32"), axis)


# -- constants and fills ----------------------------------------------------------------------------------------------


@op("fill")
def fill(ctx, shape, value=None):
    value = constant(0.0, "float32") if value is None else value
    value = relay.reshape(value, ()) if ctx.rank(value) else value
    known = ctx.value(shape)
    if known is None:
        return run_time.filled(ctx, ctx.made(value), shape)
    sizes = [int(v) for v in known.reshape(-1)]
    check_count("the output", sizes)
    return relay.full(value, sizes, ctx.dtype(value))


@op("fill_like")
def fill_like(ctx, ref_tensor, value=None):
    return fill(ctx, run_time.shape_of(ctx, ref_tensor), value)


@op("range_1d")
def range_1d(ctx, end, start, step):
    known = [ctx.value(v) for v in (start, end, step)]
    if any(v is None for v in known):
        return run_time.ranged(ctx, start, end, step)
    first, last, by = (v.reshape(-1)[0].item() for v in known if v is not None)
    if not by or not math.isfinite((last - first) / by):
        raise TVMError(f"a range from {first} to {last} with step {by} is not finite")
    check_count("a range", [max(math.ceil((last - first) / by), 0)])
    return constant(np.arange(first, last, by), ctx.dtype(start))


@op("band_part")
def band_part(ctx, x, lower: int = -1, upper: int = -1):
    rows, columns = (ctx.known_size(x, a) for a in (-2, -1))
    check_count("the band mask", [rows, columns])
    away = np.arange(rows)[:, None] - np.arange(columns)[None]
    keep = np.ones((rows, columns), bool)
    keep &= (away <= lower) if lower >= 0 else keep
    keep &= (-away <= upper) if upper >= 0 else keep
    return relay.where(constant(keep), x, ctx.like(0, x))


@op("one_hot")
def one_hot(ctx, indices, one_hot_vector_size: int, axis: int = -1, on_value=None, off_value=None):
    rank = ctx.rank(indices)
    check_count("an axis", [one_hot_vector_size])
    axis = axis_of(axis, rank + 1)
    on, off = (constant(default, "int32") if v is None else relay.reshape(v, ()) for v, default in
               ((on_value, 1), (off_value, 0)))  # fmt: skip
    places = np.arange(one_hot_vector_size).reshape([-1 if i == axis else 1 for i in range(rank + 1)])
    hit = relay.equal(relay.expand_dims(ctx.indices(indices), axis), constant(places, ctx.dtype(ctx.indices(indices))))
    return relay.where(hit, on, off)


__all__ = ["band_part", "batch_to_space", "concat", "depth_to_space", "expand_dims", "fill", "flatten2d", "one_hot",
           "pad", "padded", "pixel_shuffle", "range_1d", "reshape", "reverse", "reverse_sequence", "shape",
           "slice_by_index", "slice_by_size", "sliding_windows", "space_to_depth", "split", "squeeze", "stack", "tile",
           "transpose"]  # fmt: skip
