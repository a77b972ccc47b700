"""Converters of pooling operators."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ..common import run_time
from . import run_time_windows
from .declared import shape_of_output
from .nn_ops import padded_for, window_of
from .reduce_ops import limits
from .shape_ops import padded
from .table import argument, check_steps, op


@op("GlobalAveragePool")
def global_average_pool(ctx, inputs, attrs):
    if ctx.rank(inputs[0]) == 4:
        return relay.nn.global_avg_pool2d(inputs[0])
    return relay.mean(inputs[0], axis=tuple(range(2, ctx.rank(inputs[0]))), keepdims=True)


@op("GlobalMaxPool")
def global_max_pool(ctx, inputs, attrs):
    if ctx.rank(inputs[0]) == 4:
        return relay.nn.global_max_pool2d(inputs[0])
    return relay.max(inputs[0], axis=tuple(range(2, ctx.rank(inputs[0]))), keepdims=True)


@op("GlobalLpPool")
def global_lp_pool(ctx, inputs, attrs):
    x = inputs[0]
    p = _exponent(attrs)
    total = relay.sum(_power(ctx, x, p), axis=tuple(range(2, ctx.rank(x))), keepdims=True)
    return relay.power(total, ctx.like(1 / p, x))


def _exponent(attrs) -> int:
    if attrs.get("p", 2) < 1:
        raise TVMError(f"p must be positive, got {attrs['p']}")
    return attrs.get("p", 2)


def _power(ctx, x, p):
    return relay.multiply(x, x) if p == 2 else relay.abs(x) if p == 1 else relay.power(relay.abs(x), ctx.like(p, x))


_MAX = {1: relay.nn.max_pool1d, 2: relay.nn.max_pool2d, 3: relay.nn.max_pool3d}
# Larger than any index: a slice with this end extends to the end of its axis.
_END = (1 << 31) - 1
_AVG = {1: relay.nn.avg_pool1d, 2: relay.nn.avg_pool2d, 3: relay.nn.avg_pool3d}


class Window:
    """The positions of a pooling window along each spatial dimension, including the end padding that ceil_mode adds.

    ``data`` is the tensor that the window reads. If the padding depends on dynamic dimensions, ``data`` is already
    padded with the value ``fill``.
    """

    def __init__(self, ctx, data, attrs, fill=0):
        self.kernel = list(attrs["kernel_shape"])
        n = len(self.kernel)
        self.strides, self.dilations = window_of(attrs, self.kernel)
        sizes = ctx.shape(data)[2:]
        if len(sizes) != n:
            raise TVMError(f"the window has {n} dimensions, but the data has {len(sizes)} spatial dimensions")
        self.data, amounts = padded_for(ctx, data, attrs, self.kernel, self.strides, self.dilations, fill)
        self.is_padded = self.data is not data
        self.before, self.after = amounts[:n], amounts[n:]
        self.sizes = ctx.shape(self.data)[2:]
        self.known = all(isinstance(d, int) for d in self.sizes)
        self.out, self.extra = [], [0] * n
        if self.known:
            self._count(bool(attrs.get("ceil_mode", 0)))
        elif attrs.get("ceil_mode", 0):
            self.extra = self._ceil_mode_padding()

    def _ceil_mode_padding(self) -> list[int]:
        """Return the end padding that gives the number of windows of ceil_mode for any dynamic size.

        ceil_mode adds a window for an incomplete stride, but no window that begins after the data.
        """
        reach = [(k - 1) * l for k, l in zip(self.kernel, self.dilations)]
        extra = [min(a + s - 1, r) - a for a, s, r in zip(self.after, self.strides, reach)]
        if min(extra) < 0:
            raise TVMError(
                f"the end padding {self.after} is larger than the window; this requires data with static shapes"
            )
        return extra

    def _count(self, ceil: bool) -> None:
        """Compute the number of windows and the padding of ceil_mode along each dimension."""
        self.extra = []
        for d, k, s, l, b, a in zip(self.sizes, self.kernel, self.strides, self.dilations, self.before, self.after):
            span = d + b + a - (k - 1) * l - 1
            count = span // s + 1
            if ceil:
                count = -(-span // s) + 1
                if (count - 1) * s >= d + b:
                    count -= 1
            if count < 1:
                raise TVMError(f"the window of size {k} is larger than the padded data of size {d + b + a}")
            self.out.append(count)
            self.extra.append(max((count - 1) * s + (k - 1) * l + 1 - (d + b + a), 0))

    def places(self):
        """Yield, for each element of the window, its offset and the slices of the padded data that it reads."""
        check_steps("a window", math.prod(self.kernel))
        if not self.known:
            raise TVMError("an unrolled window requires data with static shapes; pass the input shapes to from_onnx")
        for offset in np.ndindex(*self.kernel):
            begin = [o * l for o, l in zip(offset, self.dilations)]
            end = [b + (c - 1) * s + 1 for b, c, s in zip(begin, self.out, self.strides)]
            yield offset, begin, end

    def slices(self, data):
        axes = list(range(2, len(self.kernel) + 2))
        for _, begin, end in self.places():
            yield relay.strided_slice(data, begin, end, self.strides, axes)

    def pooled(self, data, function, **more):
        """Apply a pooling operator of Relay, with the padding of ceil_mode as additional end padding."""
        after = [a + e for a, e in zip(self.after, self.extra)]
        return function(
            data, tuple(self.kernel), tuple(self.strides), tuple(self.dilations), tuple(self.before + after), **more
        )

    def pad(self, ctx, data, value):
        amounts = [0, 0, *self.before, 0, 0, *(a + e for a, e in zip(self.after, self.extra))]
        return padded(ctx, data, amounts, value, "constant") if any(amounts) else data


@op("MaxPool")
def max_pool(ctx, inputs, attrs):
    data = inputs[0]
    window = Window(ctx, data, attrs, limits(ctx.dtype(data))[0])
    if ctx.wants(1):
        column_major = attrs.get("storage_order", 0)
        if all(isinstance(d, int) for d in ctx.shape(data)):
            return _max_with_indices(ctx, data, window, column_major)
        return _dynamic_max_with_indices(ctx, data, window, attrs, column_major)
    is_plain = ctx.is_float(data) or ctx.dtype(data) in ("int8", "uint8")
    if len(window.kernel) in _MAX and (is_plain or not window.known):
        return window.pooled(window.data, _MAX[len(window.kernel)])
    padded_data = window.pad(ctx, data, ctx.like(limits(ctx.dtype(data))[0], data))
    out = None
    for part in window.slices(padded_data):
        out = part if out is None else relay.maximum(out, part)
    return out


def _max_with_indices(ctx, data, window: Window, column_major: int):
    """Return the maxima and their indices in the flat input; the first of equal elements is chosen."""
    shape = ctx.known_shape(data)
    order = list(range(2, len(shape)))
    flat = np.arange(int(np.prod(shape)), dtype="int64").reshape(shape)
    if column_major:
        inner = np.arange(int(np.prod(shape[2:])), dtype="int64").reshape(shape[2:][::-1]).transpose()
        base = np.arange(shape[0] * shape[1], dtype="int64").reshape(shape[:2] + (1,) * len(order))
        flat = base * int(np.prod(shape[2:])) + inner
    amounts = [(0, 0), (0, 0)] + [(b, a + e) for b, a, e in zip(window.before, window.after, window.extra)]
    flat = np.pad(flat, amounts)
    padded_data = window.pad(ctx, data, ctx.like(limits(ctx.dtype(data))[0], data))
    best = place = None
    for (_, begin, end), part in zip(window.places(), window.slices(padded_data)):
        cut = (slice(None), slice(None), *(slice(b, e, s) for b, e, s in zip(begin, end, window.strides)))
        here = const(np.ascontiguousarray(flat[cut]))
        if best is None:
            best, place = part, here
        else:
            better = relay.greater(part, best)
            place = relay.where(better, here, place)
            best = relay.where(better, part, best)
    return [best, place]


def _dynamic_max_with_indices(ctx, data, window: Window, attrs, column_major: int):
    """Return the maxima and their indices for dynamic shapes, by windows over a tensor of the element indices."""
    n = len(window.kernel)
    if n not in _MAX:
        raise TVMError(
            f"pooling over {len(window.kernel)} dimensions requires data with static shapes; pass the input shapes to "
            "from_onnx"
        )
    check_steps("a window", math.prod(window.kernel))
    best, axes = ctx.made(window.pooled(window.data, _MAX[n])), list(range(2, n + 2))
    sizes = [run_time.size_of(ctx, data, axis) for axis in axes]
    row, count = None, run_time.number(1)
    for i in range(n) if column_major else reversed(range(n)):
        own = run_time.along(ctx, relay.multiply(run_time.counted(ctx, sizes[i]), count), i + 2, n + 2)
        row = own if row is None else relay.add(row, own)
        count = ctx.made(relay.multiply(count, sizes[i]))
    # Padding has the index -1 and is never chosen as maximum, even if the data contains equally low values.
    cut = Window(ctx, ctx.made(row), attrs, fill=-1)
    values = window.pad(ctx, window.data, ctx.like(limits(ctx.dtype(data))[0], data))
    places = cut.pad(ctx, cut.data, run_time.number(-1))
    place = relay.zeros_like(relay.cast(best, "int64"))
    for offset in reversed(list(np.ndindex(*window.kernel))):
        begin = [o * l for o, l in zip(offset, window.dilations)]
        cuts = [relay.strided_slice(e, begin, [_END] * n, window.strides, axes) for e in (values, places)]
        value, here = (relay.slice_like(e, best, axes) for e in cuts)
        hit = relay.logical_and(relay.equal(value, best), relay.greater_equal(here, run_time.number(0)))
        place = relay.where(hit, here, place)
    images = relay.multiply(run_time.size_of(ctx, data, 0), run_time.size_of(ctx, data, 1))
    first = relay.multiply(run_time.counted(ctx, ctx.made(images)), count)
    first = relay.reshape_like(first, data, 0, 1, 0, 2)
    return [best, relay.add(place, relay.expand_dims(first, 2, n))]


@op("AveragePool")
def average_pool(ctx, inputs, attrs):
    data = inputs[0]
    window = Window(ctx, data, attrs)
    include = bool(attrs.get("count_include_pad", 0))
    if not window.known:
        return _dynamic_average(ctx, data, window, attrs, include)
    # The Relay operator cannot count the explicit padding and at the same time ignore the padding of ceil_mode.
    if len(window.kernel) in _AVG and not (include and any(window.extra)):
        return window.pooled(data, _AVG[len(window.kernel)], count_include_pad=include)
    total = None
    for part in window.slices(window.pad(ctx, data, ctx.like(0, data))):
        total = part if total is None else relay.add(total, part)
    return relay.divide(total, const(_counts(window, include).astype(ctx.dtype(data))))


def _dynamic_average(ctx, data, window: Window, attrs, include: bool):
    """Convert average pooling of data with dynamic shapes."""
    if len(window.kernel) not in _AVG:
        raise TVMError(
            f"pooling over {len(window.kernel)} dimensions requires data with static shapes; pass the input shapes to "
            "from_onnx"
        )
    function, seen, is_counted = _AVG[len(window.kernel)], window.data, include
    if include and any(window.extra):
        # Pad the data explicitly where padding is counted; the padding of ceil_mode is left to the operator, uncounted.
        none = [0] * len(window.kernel)
        seen = ctx.made(padded(ctx, seen, [0, 0, *window.before, 0, 0, *window.after], ctx.like(0, data), "constant"))
        window.before, window.after, include = none, none, False
    out = window.pooled(seen, function, count_include_pad=include)
    if not window.is_padded or is_counted:
        return out
    # The data contains uncounted padding: divide by the fraction of counted elements in each window.
    row = ctx.made(relay.strided_slice(relay.ones_like(data), [0, 0], [1, 1], [1, 1], [0, 1]))
    share = Window(ctx, row, attrs)
    return relay.divide(out, share.pooled(share.data, function, count_include_pad=False))


def _counts(window: Window, include: bool):
    """Return the number of counted elements of each window: padding is counted if ``include``, that of
    ceil_mode never.
    """
    inside = np.ones(window.sizes)
    inside = np.pad(inside, list(zip(window.before, window.after)), constant_values=1.0 if include else 0.0)
    inside = np.pad(inside, [(0, e) for e in window.extra])
    total = 0
    for _, begin, end in window.places():
        total = total + inside[tuple(slice(b, e, s) for b, e, s in zip(begin, end, window.strides))]
    return total


@op("LpPool")
def lp_pool(ctx, inputs, attrs):
    x, p = inputs[0], _exponent(attrs)
    raised = ctx.made(_power(ctx, x, p))
    window = Window(ctx, raised, attrs)
    total = None
    if not window.known and len(window.kernel) in _AVG:
        mean = window.pooled(window.data, _AVG[len(window.kernel)], count_include_pad=True)
        total = relay.multiply(mean, ctx.like(math.prod(window.kernel), x))
        return relay.power(total, ctx.like(1 / p, x))
    for part in window.slices(window.pad(ctx, raised, ctx.like(0, x))):
        total = part if total is None else relay.add(total, part)
    return relay.power(total, ctx.like(1 / p, x))


@op("MaxRoiPool")
def max_roi_pool(ctx, inputs, attrs):
    pooled = attrs["pooled_shape"]
    if len(pooled) != 2 or min(pooled) < 1:
        raise TVMError(f"pooled_shape must be 2 positive numbers, got {pooled}")
    return relay.vision.roi_pool(inputs[0], inputs[1], tuple(pooled), attrs.get("spatial_scale", 1.0))


@op("MaxUnpool")
def max_unpool(ctx, inputs, attrs):
    x, places = inputs[:2]
    shape, given = ctx.shape(x), argument(inputs, 2)
    n = len(attrs["kernel_shape"])
    strides, amounts = window_of(attrs, attrs["kernel_shape"])[0], attrs.get("pads", [0] * 2 * n)
    if len(shape) != n + 2:
        raise TVMError(f"the window has {n} dimensions, but the data has {len(shape) - 2} spatial dimensions")
    late = given is not None and ctx.is_run_time_value(given) and ctx.declared() is None
    if late or not all(isinstance(d, int) for d in shape):
        grown = [run_time.size_of(ctx, x, i) for i in range(2)]
        for i, (s, k) in enumerate(zip(strides, attrs["kernel_shape"])):
            size = relay.subtract(run_time.size_of(ctx, x, i + 2), run_time.number(1))
            more = run_time.number(k - amounts[i] - amounts[i + n])
            grown.append(ctx.made(relay.add(relay.multiply(size, run_time.number(s)), more)))
        return run_time_windows.unpooled(ctx, x, places, grown, given)
    natural = [
        (d - 1) * s + k - amounts[i] - amounts[i + n]
        for i, (d, s, k) in enumerate(zip(shape[2:], strides, attrs["kernel_shape"]))
    ]
    natural = [*shape[:2], *natural]
    if given is None:
        wanted = natural
    elif ctx.value(given) is None:
        wanted = shape_of_output(ctx, "the output shape")
    else:
        wanted = ctx.ints(given, "the output shape")
    size = int(np.prod(natural))
    flat = relay.scatter_elements(
        relay.zeros((size,), ctx.dtype(x)), relay.reshape(places, (-1,)), relay.reshape(x, (-1,)), 0, "update"
    )
    # Indices refer to the inferred output shape; a larger requested shape is filled with zeros at the end.
    rest = [0] * len(natural) + [w - n for w, n in zip(wanted, natural)]
    return padded(ctx, relay.reshape(flat, natural), rest, ctx.like(0, x), "constant")


@op("Col2Im")
def col2im(ctx, inputs, attrs):
    """Add the columns to their source positions, one window element at a time."""
    data = inputs[0]
    if ctx.is_run_time_value(*inputs[1:3]) or not all(isinstance(d, int) for d in ctx.shape(data)):
        return run_time_windows.added_back(ctx, data, inputs[1], inputs[2], attrs)
    image, block = ctx.ints(inputs[1], "the image shape"), ctx.ints(inputs[2], "the block shape")
    n = len(image)
    strides, dilations = window_of(attrs, block)
    check_steps("a block", math.prod(block))
    amounts = attrs.get("pads", [0] * 2 * n)
    batch, columns, _ = ctx.known_shape(data)
    channels = columns // int(np.prod(block))
    padded_size = [d + amounts[i] + amounts[i + n] for i, d in enumerate(image)]
    counts = [(p - (k - 1) * l - 1) // s + 1 for p, k, l, s in zip(padded_size, block, dilations, strides)]
    parts = relay.reshape(data, (batch, channels, int(np.prod(block)), *counts))
    out = None
    for i, offset in enumerate(np.ndindex(*block)):
        part = relay.take(parts, const(i, "int64"), 2)
        for axis in range(n):
            part = _strided_scatter(
                ctx, part, axis + 2, strides[axis], offset[axis] * dilations[axis], padded_size[axis]
            )
        out = part if out is None else relay.add(out, part)
    return relay.strided_slice(
        out, amounts[:n], [b + d for b, d in zip(amounts, image)], [1] * n, list(range(2, n + 2))
    )


def _strided_scatter(ctx, x, axis: int, stride: int, start: int, size: int):
    """Move elements to the positions start, start + stride, ... of an axis that is otherwise zero."""
    count = ctx.known_size(x, axis)
    rank = ctx.rank(x)
    places = np.arange(size) - start
    hit = (places >= 0) & (places % stride == 0) & (places // stride < count)
    source = np.where(hit, places // stride, 0).astype("int64")
    mask = hit.reshape([size if i == axis else 1 for i in range(rank)])
    taken = relay.take(x, const(source), axis)
    return relay.where(const(mask), taken, relay.zeros_like(taken))
