"""Converters of layers that concatenate, pool, resize or reorder data."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .activations import activated
from .conv_ops import flat, strides_of
from .table import Context, layer


@layer("dropout", "cost", "silence", "empty")
def same(ctx, x):
    """Return the input unchanged: the layer has no effect at inference."""
    return x


@layer("shortcut")
def shortcut(ctx, x):
    own = ctx.image(x)
    if "from" not in ctx.section.options:
        raise TVMError("the option 'from' is missing")
    alpha, beta = ctx.section.float("alpha", 1.0), ctx.section.float("beta", 1.0)
    out = x if alpha == 1 else relay.multiply(x, ctx.like(alpha, x))
    for number in ctx.section.numbers("from"):
        added = _fitted(ctx, ctx.before(int(number), "from"), own)
        out = relay.add(out, added if beta == 1 else relay.multiply(added, ctx.like(beta, x)))
    return activated(ctx, out, ctx.section.text("activation", "linear"))


def _fitted(ctx: Context, x: RelayExpr, wanted: tuple[int, ...]) -> RelayExpr:
    """Adapt a tensor to the shape of the one it is added to: subsample a larger image or spread a smaller one, and pad
    or drop channels."""
    batch, channels, height, width = ctx.image(x)
    if (batch, channels, height, width) == wanted:
        return x
    step, spread = max(width // wanted[3], 1), max(wanted[3] // width, 1)
    if step != max(height // wanted[2], 1) or spread != max(wanted[2] // height, 1) or step > 1 and spread > 1:
        raise TVMError(f"images of {height} x {width} and {wanted[2]} x {wanted[3]} cannot be added")
    # The region that both tensors cover.
    high, wide = min(height, wanted[2]), min(width, wanted[3])
    deep = min(channels, wanted[1])
    out = relay.strided_slice(
        x, [0, 0, 0], [deep, (high - 1) * step + 1, (wide - 1) * step + 1], [1, step, step], [1, 2, 3]
    )
    if spread > 1:
        out = relay.nn.dilate(out, (1, 1, spread, spread))
    got = ctx.known_shape(ctx.made(out))
    missing = [w - g for w, g in zip(wanted, got)]
    if min(missing) < 0:
        raise TVMError(f"images of {height} x {width} and {wanted[2]} x {wanted[3]} cannot be added")
    return relay.nn.pad(out, tuple((0, m) for m in missing)) if any(missing) else out


@layer("route")
def route(ctx, x):
    numbers = [int(v) for v in ctx.section.numbers("layers")]
    if not numbers:
        raise TVMError("the option 'layers' is missing")
    groups, group = ctx.positive("groups", 1), ctx.section.int("group_id", 0)
    if not 0 <= group < groups:
        raise TVMError(f"group_id={group} is out of range for {groups} groups")
    parts = []
    for number in numbers:
        part = ctx.before(number, "layers")
        channels = ctx.known_shape(part)[1]
        if groups > 1:
            each = channels // groups
            part = relay.strided_slice(part, [group * each], [(group + 1) * each], [1], [1])
        parts.append(ctx.made(part))
    if len({(ctx.rank(p), *ctx.known_shape(p)[2:]) for p in parts}) > 1:
        sizes = ", ".join(" x ".join(str(d) for d in ctx.known_shape(p)[1:]) for p in parts)
        raise TVMError(f"tensors of shapes {sizes} cannot be concatenated along the channels")
    return parts[0] if len(parts) == 1 else relay.concatenate(parts, 1)


@layer("scale_channels")
def scale_channels(ctx, x):
    """Multiply another layer's output by one factor for each channel, or for each position with ``scale_wh``."""
    other = ctx.before(ctx.section.int("from", 0), "from")
    batch, channels, height, width = ctx.image(other)
    wanted = (batch, 1, height, width) if ctx.flag("scale_wh") else (batch, channels, 1, 1)
    if ctx.known_shape(x) != wanted:
        raise TVMError(f"expected factors of shape {wanted}, got {ctx.known_shape(x)}")
    return activated(ctx, relay.multiply(other, x), ctx.section.text("activation", "linear"))


@layer("sam")
def sam(ctx, x):
    other = ctx.before(ctx.section.int("from", 0), "from")
    if ctx.known_shape(other) != ctx.known_shape(x):
        raise TVMError(f"tensors of shapes {ctx.known_shape(x)} and {ctx.known_shape(other)} cannot be multiplied")
    return activated(ctx, relay.multiply(x, other), ctx.section.text("activation", "linear"))


@layer("upsample")
def upsample(ctx, x):
    ctx.image(x)
    stride, scale = ctx.section.int("stride", 2), ctx.section.float("scale", 1.0)
    if stride < 0:
        # A negative stride downsamples by summing each window.
        scale *= stride * stride
        out = relay.nn.avg_pool2d(x, (-stride, -stride), (-stride, -stride))
    elif stride:
        out = relay.nn.upsampling(x, stride, stride)
    else:
        raise TVMError("stride=0 is not supported")
    return out if scale == 1 else relay.multiply(out, ctx.like(scale, x))


def _window(ctx: Context, x: RelayExpr) -> dict:
    """Return the pooling arguments. Half of the padding is before the image."""
    _, _, height, width = ctx.image(x)
    strides = strides_of(ctx)
    size = ctx.positive("size", max(strides) if "size" not in ctx.section.options else 1)
    padding = ctx.section.int("padding", size - 1)
    if padding < 0:
        raise TVMError(f"padding={padding} must not be negative")
    before, after = padding // 2, []
    for length, stride in ((height, strides[0]), (width, strides[1])):
        count = (length + padding - size) // stride + 1
        if count < 1:
            raise TVMError(f"a window of size {size} does not fit an image of {height} x {width}")
        if before >= size or (count - 1) * stride >= length + before:
            raise TVMError(f"padding={padding} with window size {size} leaves windows outside the image")
        after.append(max((count - 1) * stride + size - length - before, 0))
    return {"pool_size": (size, size), "strides": strides, "padding": (before, before, *after)}


@layer("maxpool")
def maxpool(ctx, x):
    if ctx.flag("maxpool_depth"):
        return _over_channels(ctx, x)
    return relay.nn.max_pool2d(x, **_window(ctx, x))


def _over_channels(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return the maximum over groups of every ``out_channels``-th channel."""
    batch, channels, height, width = ctx.image(x)
    count = ctx.positive("out_channels", 1)
    if count > channels:
        raise TVMError(f"out_channels={count} must not exceed {channels} channels")
    missing = -channels % count
    if missing:
        x = relay.nn.pad(x, ((0, 0), (0, missing), (0, 0), (0, 0)), ctx.like(float("-inf"), x))
    return relay.max(relay.reshape(x, (batch, (channels + missing) // count, count, height, width)), axis=1)


@layer("local_avgpool")
def local_avgpool(ctx, x):
    return relay.nn.avg_pool2d(x, **_window(ctx, x), count_include_pad=False)


@layer("avgpool")
def avgpool(ctx, x):
    ctx.image(x)
    return relay.nn.global_avg_pool2d(x)


@layer("reorg")
def reorg(ctx, x):
    _, channels, height, width = ctx.image(x)
    stride = ctx.positive("stride", 1)
    if ctx.flag("reverse"):
        if channels % (stride * stride):
            raise TVMError(f"{channels} channels are not divisible by stride {stride} squared")
        return relay.nn.depth_to_space(x, stride)
    if channels % (stride * stride) or height % stride or width % stride:
        raise TVMError(f"{channels} channels of {height} x {width} are not divisible by stride {stride}")
    return relay.vision.yolo_reorg(x, stride)


@layer("reorg3d")
def reorg3d(ctx, x):
    _, channels, height, width = ctx.image(x)
    stride = ctx.positive("stride", 1)
    sizes = (channels % (stride * stride),) if ctx.flag("reverse") else (height % stride, width % stride)
    if any(sizes):
        raise TVMError(f"{channels} channels of {height} x {width} are not divisible by stride {stride}")
    return (relay.nn.depth_to_space if ctx.flag("reverse") else relay.nn.space_to_depth)(x, stride)


@layer("crop")
def crop(ctx, x):
    """Crop the center of the image, and rescale its values from 0..1 to -1..1."""
    _, _, height, width = ctx.image(x)
    rows, columns = ctx.positive("crop_height", 1), ctx.positive("crop_width", 1)
    if rows > height or columns > width:
        raise TVMError(f"cannot crop {rows} x {columns} from an image of {height} x {width}")
    top, left = (height - rows) // 2, (width - columns) // 2
    out = relay.strided_slice(x, [top, left], [top + rows, left + columns], [1, 1], [2, 3])
    return out if ctx.flag("noadjust") else relay.subtract(relay.multiply(out, ctx.like(2, x)), ctx.like(1, x))


@layer("softmax")
def softmax(ctx, x):
    groups, temperature = ctx.positive("groups", 1), ctx.section.float("temperature", 1.0)
    if not temperature > 0:
        raise TVMError(f"temperature={temperature} is not supported; it must be positive")
    if ctx.flag("spatial"):
        ctx.image(x)
        return relay.nn.softmax(x, axis=1)
    x = flat(ctx, x)
    batch, count = ctx.known_shape(x)
    if count % groups:
        raise TVMError(f"{count} elements are not divisible into {groups} groups")
    rows = relay.reshape(x, (batch * groups, count // groups))
    rows = rows if temperature == 1 else relay.divide(rows, ctx.like(temperature, x))
    return relay.reshape(relay.nn.softmax(rows), (batch, count))
