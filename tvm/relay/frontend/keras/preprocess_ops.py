"""Converters of numeric preprocessing layers. Layers that read strings are not supported."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .shape_ops import image_resized
from .table import Context, as_numpy, axis_of, check_count, layer
from .weights import weight_array


def _setting(ctx: Context, key: str, x: RelayExpr, default: Any = None) -> Any:
    """Return a setting that is a number or a list of numbers, as a constant."""
    found = ctx.get(key, default)
    if isinstance(found, dict):
        config = found.get("config")
        found = config.get("value") if isinstance(config, dict) else None
    return const(np.asarray(found, as_numpy(ctx.dtype(x))))


@layer("Rescaling", masked=True)
def rescaling(ctx, x):
    x = ctx.cast(x, ctx.compute_dtype)
    return relay.add(relay.multiply(x, _setting(ctx, "scale", x, 1.0)), _setting(ctx, "offset", x, 0.0))


@layer("Normalization", masked=True)
def normalization(ctx, x):
    x = ctx.cast(x, ctx.compute_dtype)
    rank = ctx.rank(x)
    axes = ctx.get("axis", -1) if "axis" not in ctx.layer.config or ctx.layer.config["axis"] is not None else []
    axes = sorted(axis_of(a, rank) for a in ([axes] if isinstance(axes, int) else axes))
    shape = [ctx.known_size(x, i) if i in axes else 1 for i in range(rank)]
    dtype = as_numpy(ctx.dtype(x))
    if ctx.get("mean") is not None:
        mean, variance = (np.asarray(ctx.get(k), dtype) for k in ("mean", "variance"))
        mean, variance = (np.broadcast_to(v, shape) if v.size == 1 else v.reshape(shape) for v in (mean, variance))
    else:
        mean, variance = (weight_array(ctx.layer, k).astype(dtype).reshape(shape) for k in ("mean", "variance"))
    spread = np.maximum(np.sqrt(variance), dtype.type(1e-7)).astype(dtype)
    mean, spread = Constant(np.ascontiguousarray(mean)), Constant(np.ascontiguousarray(spread))
    if ctx.get("invert", False):
        return relay.add(mean, relay.multiply(x, spread))
    return relay.divide(relay.subtract(x, mean), spread)


def _image_axes(ctx: Context, x: RelayExpr) -> list[int]:
    rank = ctx.rank(x)
    if rank not in (3, 4):
        raise TVMError(f"the image must have 3 or 4 dimensions, got {rank}")
    return [rank - 2, rank - 1] if ctx.channels_first() else [rank - 3, rank - 2]


def _sizes(ctx: Context) -> tuple[int, int]:
    found = (ctx.get("height"), ctx.get("width"))
    if not all(type(v) is int and v >= 1 for v in found):
        raise TVMError(f"height and width must be positive integers, got {found}")
    return found


def _cropped(ctx: Context, x: RelayExpr, axes: list[int], sizes) -> RelayExpr:
    begins = [(ctx.known_size(x, a) - s) // 2 for a, s in zip(axes, sizes)]
    ends = [b + s for b, s in zip(begins, sizes)]
    return ctx.infer(relay.strided_slice(x, begins, ends, [1, 1], axes))


def _covering(ctx: Context, x: RelayExpr, axes: list[int], sizes) -> tuple[int, int]:
    """Return the size of the largest part of an image that has the aspect ratio of the output."""
    height, width = (ctx.known_size(x, a) for a in axes)
    crop_height = int(float(width * sizes[0]) / sizes[1])
    crop_width = int(float(height * sizes[1]) / sizes[0])
    return min(height, crop_height), min(width, crop_width)


@layer("CenterCrop", "RandomCrop")
def center_crop(ctx, x):
    x, sizes = ctx.cast(x, ctx.compute_dtype), _sizes(ctx)
    axes = _image_axes(ctx, x)
    if ctx.layer.kind == "RandomCrop" and ctx.version < 3:
        raise TVMError("RandomCrop of Keras 2 is not supported")
    if all(ctx.known_size(x, a) >= s for a, s in zip(axes, sizes)):
        return _cropped(ctx, x, axes, sizes)
    part = _cropped(ctx, x, axes, _covering(ctx, x, axes, sizes))
    return image_resized(ctx, part, axes, list(sizes), "bilinear")


@layer("Resizing")
def resizing(ctx, x):
    x, sizes = ctx.cast(x, ctx.compute_dtype), _sizes(ctx)
    axes, mode = _image_axes(ctx, x), ctx.get("interpolation", "bilinear")
    if ctx.get("pad_to_aspect_ratio", False):
        raise TVMError("pad_to_aspect_ratio=True is not supported")
    if ctx.get("crop_to_aspect_ratio", False):
        x = _cropped(ctx, x, axes, _covering(ctx, x, axes, sizes))
    return image_resized(ctx, x, axes, list(sizes), mode, bool(ctx.get("antialias", False)))


def encoded(ctx: Context, x: RelayExpr, depth: int, weights: RelayExpr | None = None) -> RelayExpr:
    """Encode integers as Keras' preprocessing layers do: unchanged, or as counts by value."""
    mode, dtype = ctx.get("output_mode", "int"), ctx.compute_dtype
    if ctx.get("sparse", False):
        raise TVMError("sparse=True is not supported")
    if mode == "int":
        return ctx.cast(x, "int32" if ctx.version >= 3 else "int64")
    rank = ctx.rank(x)
    check_count("the encoding", [*ctx.known_shape(x), depth])
    if mode == "one_hot" and rank > 1 and ctx.known_size(x, rank - 1) == 1 and weights is None:
        x = ctx.infer(relay.squeeze(x, [rank - 1]))
    dtype = dtype if dtype.startswith("float") else "float32"
    one, zero = const(1.0, dtype), const(0.0, dtype)
    spread = relay.one_hot(ctx.cast(x, "int32"), one, zero, depth, -1, dtype)
    if mode == "one_hot":
        return spread
    if rank == 0:
        return spread
    axis = max(ctx.rank(x) - 1, 0)
    if mode == "multi_hot":
        return spread if ctx.rank(x) <= 1 and rank <= 1 else relay.max(spread, axis)
    if mode != "count":
        raise TVMError(f"output_mode '{mode}' is not supported")
    if weights is not None:
        spread = relay.multiply(spread, relay.expand_dims(ctx.cast(weights, dtype), ctx.rank(weights)))
    return relay.sum(spread, axis)


@layer("CategoryEncoding")
def category_encoding(ctx, x, count_weights=None):
    depth = ctx.get("num_tokens")
    if type(depth) is not int or depth < 1:
        raise TVMError(f"num_tokens must be a positive integer, got {depth!r}")
    ctx.layer.config.setdefault("output_mode", "multi_hot")
    return encoded(ctx, x, depth, count_weights)


@layer("Discretization")
def discretization(ctx, x):
    bounds = ctx.get("bin_boundaries")
    if not isinstance(bounds, list):
        raise TVMError("the layer has no bin_boundaries; call adapt() before saving the model")
    check_count("boundaries", [*ctx.known_shape(x), len(bounds)])
    places = const(np.asarray(bounds, as_numpy(ctx.dtype(x))))
    above = relay.greater_equal(relay.expand_dims(x, ctx.rank(x)), places)
    number = ctx.infer(relay.sum(relay.cast(above, "int64"), -1))
    return encoded(ctx, number, len(bounds) + 1)


@layer("IntegerLookup")
def integer_lookup(ctx, x):
    words = ctx.get("vocabulary")
    if not isinstance(words, list) or not all(type(w) is int for w in words) or not words:
        raise TVMError("the vocabulary of the layer must be a list of integers")
    if ctx.get("invert", False) or ctx.get("idf_weights") is not None or ctx.get("num_oov_indices", 1) != 1:
        raise TVMError("invert, idf_weights and a num_oov_indices other than 1 are not supported")
    mask, mode = ctx.get("mask_token"), ctx.get("output_mode", "int")
    words = [w for w in words if w not in (mask, ctx.get("oov_token", -1))]
    first = 2 if mask is not None and mode == "int" else 1
    check_count("a table", [*ctx.known_shape(x), len(words)])
    x = ctx.cast(x, "int64")
    equal = relay.equal(relay.expand_dims(x, ctx.rank(x)), const(np.asarray(words, "int64")))
    ranks = const(np.arange(first, first + len(words), dtype="int64"))
    found = relay.sum(relay.multiply(relay.cast(equal, "int64"), ranks), -1)
    out = relay.where(relay.any(equal, -1), found, const(np.int64(first - 1)))
    if mask is not None and mode == "int":
        out = relay.where(relay.equal(x, const(np.int64(mask))), const(np.int64(0)), out)
    return encoded(ctx, ctx.infer(out), first + len(words))
