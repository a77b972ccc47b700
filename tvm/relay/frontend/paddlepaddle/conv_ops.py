"""Converters of convolution."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.deformable import masked_deformable
from ..common.windows import same_padded
from .shape_ops import channels_last, first_of, last_of
from .table import Context, op

_CONV = {2: relay.nn.conv2d, 3: relay.nn.conv3d}
_TRANSPOSED = {2: relay.nn.conv2d_transpose, 3: relay.nn.conv3d_transpose}
# Attributes that PaddlePaddle's oneDNN passes set, and their supported values.
_FUSED = {"fuse_relu": False, "fuse_activation": "", "fuse_residual_connection": False, "fuse_brelu": False,
          "use_mkldnn": False}  # fmt: skip


def steps(ctx: Context, name: str, n: int) -> list[int]:
    """Return an attribute with a positive integer for each spatial dimension."""
    found = ctx.attr(name, [1] * n)
    if len(found) != n or min(found) < 1:
        raise TVMError(f"the attribute '{name}' must be {n} positive integers, got {found}")
    return found


def padding(ctx: Context, x: RelayExpr, kernel: list[int], strides: list[int], fill: float = 0) -> tuple:
    """Return the data and the padding before and after each spatial dimension.

    ``kernel`` is the extent of the dilated kernel. If the padding depends on dynamic dimensions, the returned data is
    already padded.
    """
    n, rule = len(kernel), ctx.attr("padding_algorithm", "EXPLICIT")
    if rule == "VALID":
        return x, [0] * n, [0] * n
    if rule == "SAME":
        sizes = ctx.shape(x)[2:]
        if not all(isinstance(d, int) for d in sizes) and max(strides) > 1:
            x = same_padded(ctx, x, kernel, strides, [1] * n, True, ctx.like(fill, x))
            return x, [0] * n, [0] * n
        sizes = sizes if max(strides) > 1 else [0] * n
        total = [max((-(-d // s) - 1) * s + k - d, 0) for d, s, k in zip(sizes, strides, kernel)]
        return x, [t // 2 for t in total], [t - t // 2 for t in total]
    if rule != "EXPLICIT":
        raise TVMError(f"the attribute 'padding_algorithm' must be EXPLICIT, SAME or VALID, got {rule!r}")
    given = ctx.attr("paddings", [0] * n)
    if len(given) == 2 * (n + 2):
        # The list includes the paddings of batch and channels.
        given = given[2:-2] if channels_last(ctx) else given[4:]
    if len(given) not in (n, 2 * n) or min(given) < 0:
        raise TVMError(f"the attribute 'paddings' must be {n} or {2 * n} non-negative integers, got {given}")
    return (x, given, given) if len(given) == n else (x, given[::2], given[1::2])


def _biased(ctx: Context, out: RelayExpr) -> RelayExpr:
    bias = ctx.maybe("Bias")
    return out if bias is None else relay.nn.bias_add(out, relay.reshape(bias, (-1,)))


@op("conv2d", "depthwise_conv2d", "conv3d")
def conv(ctx):
    ctx.refuse(**_FUSED)
    last, weight = channels_last(ctx), ctx.get("Filter")
    x, shape = first_of(ctx, ctx.get("Input"), last), ctx.known_shape(weight)
    n, kernel = len(shape) - 2, list(shape[2:])
    if n not in _CONV or ctx.rank(x) != n + 2:
        raise TVMError(f"a filter of {len(shape)} dimensions does not match data of {ctx.rank(x)} dimensions")
    strides, dilations, groups = steps(ctx, "strides", n), steps(ctx, "dilations", n), ctx.attr("groups", 1)
    if ctx.attr("padding_algorithm", "EXPLICIT") == "SAME":
        # PaddlePaddle ignores dilations with padding SAME.
        dilations = [1] * n
    if groups < 1 or shape[0] % groups or ctx.known_size(x, 1) != shape[1] * groups:
        raise TVMError(
            f"a filter of shape {shape} in {groups} groups does not match {ctx.known_size(x, 1)} input channels"
        )
    x, before, after = padding(ctx, x, kernel, strides)
    out = _CONV[n](x, weight, strides=tuple(strides), padding=(*before, *after), dilation=tuple(dilations),
                   groups=groups, channels=shape[0], kernel_size=tuple(kernel))  # fmt: skip
    return last_of(ctx, _biased(ctx, out), last)


@op("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose", "conv2d_transpose_bias")
def conv_transpose(ctx):
    ctx.refuse(**_FUSED)
    last, weight = channels_last(ctx), ctx.get("Filter")
    x, shape = first_of(ctx, ctx.get("Input"), last), ctx.known_shape(weight)
    n = len(shape) - 2
    if n not in _TRANSPOSED or ctx.rank(x) != n + 2:
        raise TVMError(f"a filter of {len(shape)} dimensions does not match data of {ctx.rank(x)} dimensions")
    strides, dilations, groups = steps(ctx, "strides", n), steps(ctx, "dilations", n), ctx.attr("groups", 1)
    if groups < 1 or shape[0] % groups or ctx.known_size(x, 1) != shape[0]:
        raise TVMError(
            f"a filter of shape {shape} in {groups} groups does not match {ctx.known_size(x, 1)} input channels"
        )
    kernel = [(k - 1) * d + 1 for k, d in zip(shape[2:], dilations)]
    if dilations != [1] * n:
        weight = relay.nn.dilate(weight, [1, 1, *dilations])
    _, before, after = padding(ctx, x, kernel, strides)
    extra = _extra(ctx, x, kernel, strides, before, after)
    out = _TRANSPOSED[n](x, weight, strides=tuple(strides), padding=(*before, *after), output_padding=tuple(extra),
                         channels=shape[1] * groups, kernel_size=tuple(kernel), groups=groups)  # fmt: skip
    return last_of(ctx, _biased(ctx, out), last)


def _extra(ctx: Context, x: RelayExpr, kernel: list, strides: list, before: list, after: list) -> list[int]:
    """Return the additional output size at the end: the attribute, or the amount that yields the requested size."""
    n = len(kernel)
    sizes = ctx.ints(ctx.vector("output_size", "OutputSizeTensor", "OutputSizeTensorList"), "the output size") or []
    if not sizes:
        extra = ctx.attr("output_padding", []) or [0] * n
    else:
        rows = zip(sizes, ctx.spatial(x), strides, kernel, before, after)
        extra = [o - ((d - 1) * s + k - b - a) for o, d, s, k, b, a in rows]
    if len(extra) != n or any(not 0 <= e < s for e, s in zip(extra, strides)):
        raise TVMError(f"output size {sizes} or output padding {extra} does not match strides {strides}")
    return extra


@op("deformable_conv", "deformable_conv_v1")
def deformable_conv(ctx):
    x, offset, weight, mask = ctx.get("Input"), ctx.get("Offset"), ctx.get("Filter"), ctx.maybe("Mask")
    outputs, _, *kernel = ctx.known_shape(weight)
    groups, sets = ctx.attr("groups", 1), ctx.attr("deformable_groups", 1)
    pads = ctx.attr("paddings", [0, 0])
    if len(pads) != 2 or min(pads) < 0 or len(kernel) != 2 or min(groups, sets) < 1:
        raise TVMError(f"paddings {pads}, groups {groups} and deformable_groups {sets} are not supported")
    window = {
        "strides": tuple(steps(ctx, "strides", 2)),
        "padding": (*pads, *pads),
        "dilation": tuple(steps(ctx, "dilations", 2)),
        "deformable_groups": sets,
    }
    if mask is not None:
        return masked_deformable(ctx, x, offset, mask, weight, groups, **window)
    return relay.nn.deformable_conv2d(
        x, offset, weight, groups=groups, channels=outputs, kernel_size=tuple(kernel), **window
    )


__all__ = ["padding", "steps"]
