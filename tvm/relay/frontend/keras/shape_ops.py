"""Converters of layers that move, repeat, crop, pad or merge elements."""

from __future__ import annotations

import math
from typing import Any

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.resize import resized
from .table import Context, as_list, check_count, layer


@layer("Flatten")
def flatten(ctx, x):
    rank = ctx.rank(x)
    if ctx.channels_first() and rank > 2:
        x = relay.transpose(x, (0, *range(2, rank), 1))
    shape = ctx.shape(ctx.infer(x))
    sizes = [ctx.known_size(x, i) for i in range(1, rank)] if rank > 1 else [1]
    return relay.reshape(x, (shape[0] if isinstance(shape[0], int) else -1, math.prod(sizes)))


@layer("Reshape")
def reshape(ctx, x):
    target = list(ctx.get("target_shape", []))
    sizes = [ctx.known_size(x, i) for i in range(1, ctx.rank(x))]
    if not all(type(d) is int for d in target) or target.count(-1) > 1:
        raise TVMError(f"target_shape must be a list of integers, got {target}")
    known = math.prod(d for d in target if d != -1)
    if -1 in target:
        if known == 0 or math.prod(sizes) % known:
            raise TVMError(f"cannot reshape data of shape {sizes} to {target}")
        target[target.index(-1)] = math.prod(sizes) // known
    if math.prod(target) != math.prod(sizes) or min(target, default=0) < 0:
        raise TVMError(f"cannot reshape data of shape {sizes} to {target}")
    return relay.reshape(x, (ctx.sizes(x)[0], *target))


@layer("Permute")
def permute(ctx, x):
    dims = list(ctx.get("dims", []))
    if sorted(dims) != list(range(1, ctx.rank(x))):
        raise TVMError(f"dims {dims} is not a permutation of the axes 1 to {ctx.rank(x) - 1}")
    return relay.transpose(x, (0, *dims))


@layer("RepeatVector")
def repeat_vector(ctx, x):
    count = ctx.get("n", 1)
    check_count("a repeated vector", [*ctx.known_shape(x), count])
    return relay.repeat(relay.expand_dims(x, 1), count, 1)


def _pairs(ctx: Context, key: str, count: int, default: Any) -> list[tuple[int, int]]:
    """Return a setting with the numbers of elements before and after along each spatial axis."""
    found = ctx.get(key, default)
    if isinstance(found, int):
        found = [(found, found)] * count
    elif count == 1:
        found = [found]
    out = [(v, v) if isinstance(v, int) else tuple(v) for v in found]
    if len(out) != count or any(len(p) != 2 or not all(type(v) is int and v >= 0 for v in p) for p in out):
        raise TVMError(f"{key} must be pairs of non-negative integers for {count} axes, got {found!r}")
    return out


def _spatial(ctx: Context, x: RelayExpr, count: int) -> range:
    if ctx.rank(x) != count + 2:
        raise TVMError(f"the data must have {count + 2} dimensions, got {ctx.rank(x)}")
    return range(2, count + 2) if ctx.channels_first() else range(1, count + 1)


def _cropping(count: int):
    def convert(ctx, x):
        axes, pairs = _spatial(ctx, x, count), _pairs(ctx, "cropping", count, 1)
        ends = [ctx.known_size(x, a) - after for a, (_, after) in zip(axes, pairs)]
        if any(end <= before for end, (before, _) in zip(ends, pairs)):
            raise TVMError(f"cropping {pairs} removes all elements of the shape {ctx.shape(x)}")
        return relay.strided_slice(x, [b for b, _ in pairs], ends, [1] * count, list(axes))

    return convert


def _padding(count: int):
    def convert(ctx, x):
        axes, pairs = _spatial(ctx, x, count), _pairs(ctx, "padding", count, 1)
        widths = [(0, 0)] * (count + 2)
        for axis, pair in zip(axes, pairs):
            widths[axis] = pair
        return relay.nn.pad(x, tuple(widths))

    return convert


def _upsampling(count: int):
    def convert(ctx, x):
        axes = _spatial(ctx, x, count)
        factors = ctx.numbers_of("size", count, 2)
        mode = ctx.get("interpolation", "nearest")
        if mode == "nearest":
            for axis, factor in zip(axes, factors):
                x = x if factor == 1 else relay.repeat(x, factor, axis)
            return x
        sizes = [ctx.known_size(x, a) for a in axes]
        return image_resized(ctx, x, list(axes), [s * f for s, f in zip(sizes, factors)], mode)

    return convert


def image_resized(ctx: Context, x: RelayExpr, axes: list[int], out: list[int], mode: str, antialias=False) -> RelayExpr:
    """Resize axes as ``keras.ops.image.resize`` does."""
    if mode not in ("nearest", "bilinear", "bicubic") or antialias and mode != "bilinear":
        raise TVMError(f"interpolation '{mode}'{' with antialias' if antialias else ''} is not supported")
    check_count("a resized image", out)
    rules = {
        "mode": mode, "coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.5, "exclude_outside": 1,
        "antialias": int(antialias), "ratio_steps": 1024,
    }  # fmt: skip
    if mode == "nearest":
        rules |= {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}
    if mode == "bilinear" and not antialias:
        rules["exclude_outside"] = 0
    scales = [o / ctx.known_size(x, a) for o, a in zip(out, axes)]
    return resized(ctx, x, out, scales, rules, axes=axes)


for _count in (1, 2, 3):
    layer(f"Cropping{_count}D")(_cropping(_count))
    layer(f"ZeroPadding{_count}D")(_padding(_count))
    layer(f"UpSampling{_count}D")(_upsampling(_count))


# -- merging ----------------------------------------------------------------------------------------------------------


def _aligned(ctx: Context, inputs: Any) -> list[RelayExpr]:
    """Expand operands to the largest rank; dimensions of size 1 are inserted after the batch."""
    inputs = as_list(inputs)
    if len(inputs) < 2 and not inputs:
        raise TVMError("the layer has no operands")
    rank = max(map(ctx.rank, inputs))
    return [e if ctx.rank(e) == rank else relay.expand_dims(e, 1, rank - ctx.rank(e)) for e in inputs]


def _merge(function, average: bool = False):
    def convert(ctx, inputs):
        parts = _aligned(ctx, inputs)
        out = parts[0]
        for part in parts[1:]:
            out = function(out, part)
        masks = [m for m in as_list(ctx.mask) if m is not None]
        if masks and len(masks) == len(parts):
            ctx.result_mask = masks[0]
            for m in masks[1:]:
                ctx.result_mask = ctx.infer(relay.logical_or(ctx.result_mask, m))
        return relay.divide(out, ctx.like(len(parts), ctx.infer(out))) if average else out

    return convert


layer("Add")(_merge(relay.add))
layer("Subtract")(_merge(relay.subtract))
layer("Multiply")(_merge(relay.multiply))
layer("Maximum")(_merge(relay.maximum))
layer("Minimum")(_merge(relay.minimum))
layer("Average")(_merge(relay.add, average=True))


@layer("CustomScaleLayer")
def custom_scale(ctx, inputs):
    """Convert the layer of keras.applications' InceptionResNetV2 that adds a scaled branch to a shortcut."""
    parts, scale = as_list(inputs), ctx.get("scale")
    if len(parts) != 2:
        raise TVMError(f"the layer must have two operands, a shortcut and a branch, got {len(parts)}")
    if isinstance(scale, bool) or not isinstance(scale, (int, float)):
        raise TVMError(f"scale must be a number, got {scale!r}")
    return relay.add(parts[0], relay.multiply(parts[1], ctx.like(scale, parts[1])))


@layer("Concatenate")
def concatenate(ctx, inputs):
    parts = as_list(inputs)
    masks = as_list(ctx.mask)
    axis = ctx.get("axis", -1)
    if any(m is not None for m in masks) and len(masks) == len(parts):
        ctx.result_mask = _joined_mask(ctx, parts, masks, axis)
    return relay.concatenate(parts, axis)


def _joined_mask(ctx: Context, parts: list, masks: list, axis: int) -> RelayExpr:
    """Return the mask of concatenated data: the concatenated masks, reduced to the steps that are true for all
    elements.
    """
    spread = []
    for part, mask in zip(parts, masks):
        shape = ctx.known_shape(part)
        if mask is None:
            spread.append(relay.ones(shape, "bool"))
            continue
        mask = relay.reshape(mask, (*ctx.known_shape(mask), *([1] * (len(shape) - ctx.rank(mask)))))
        spread.append(relay.broadcast_to(mask, shape))
    return ctx.infer(relay.all(relay.concatenate(spread, axis), -1))


@layer("Dot")
def dot(ctx, inputs):
    from .core_ops import einsum

    a, b = as_list(inputs)
    axes = ctx.get("axes")
    axes = [axes, axes] if isinstance(axes, int) else list(axes)
    axes = [x % ctx.rank(e) for x, e in zip(axes, (a, b))]
    if ctx.get("normalize", False):
        a, b = (ctx.infer(_unit(ctx, e, x)) for e, x in zip((a, b), axes))
    left = ["b", *"cdefg"[: ctx.rank(a) - 1]]
    right = ["b", *"hijkl"[: ctx.rank(b) - 1]]
    left[axes[0]] = right[axes[1]] = "z"
    out = [c for c in left if c != "z"] + [c for c in right if c not in "bz"]
    made = einsum(ctx, f"{''.join(left)},{''.join(right)}->{''.join(out)}", a, b)
    return relay.expand_dims(made, 1) if len(out) == 1 else made


def _unit(ctx: Context, e: RelayExpr, axis: int) -> RelayExpr:
    square = relay.sum(relay.multiply(e, e), axis, True)
    return relay.multiply(e, relay.rsqrt(relay.maximum(square, ctx.like(1e-12, e))))


__all__ = ["image_resized"]
