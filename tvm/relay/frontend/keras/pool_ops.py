"""Converters of pooling layers."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from .conv_ops import spatial_sizes, window_padding
from .table import layer, spatial_layout

_MAX = {1: relay.nn.max_pool1d, 2: relay.nn.max_pool2d, 3: relay.nn.max_pool3d}
_AVERAGE = {1: relay.nn.avg_pool1d, 2: relay.nn.avg_pool2d, 3: relay.nn.avg_pool3d}


def _pool(count: int, average: bool):
    def convert(ctx, x):
        first = ctx.channels_first()
        window = ctx.numbers_of("pool_size", count, 2)
        strides = ctx.numbers_of("strides", count, list(window))
        pads = window_padding(ctx.get("padding", "valid"), spatial_sizes(ctx, x, first), window, strides, (1,) * count)
        settings = {"pool_size": window, "strides": strides, "padding": pads, "layout": spatial_layout(count, first)}
        if average:
            return _AVERAGE[count](x, **settings, count_include_pad=False)
        return _MAX[count](x, **settings)

    return convert


def _global(count: int, average: bool):
    def convert(ctx, x):
        if ctx.rank(x) != count + 2:
            raise TVMError(f"the data must have {count + 2} dimensions, got {ctx.rank(x)}")
        first, keep = ctx.channels_first(), bool(ctx.get("keepdims", False))
        axes = tuple(range(2, count + 2) if first else range(1, count + 1))
        if not average:
            return relay.max(x, axes, keep)
        if count == 1 and ctx.mask is not None:
            # Masked time steps are excluded from the average.
            weights = ctx.infer(relay.expand_dims(relay.cast(ctx.mask, ctx.dtype(x)), 1 if first else 2))
            total = relay.sum(relay.multiply(x, weights), axes, keep)
            return relay.divide(total, relay.sum(weights, axes, keep))
        return relay.mean(x, axes, keep)

    return convert


def _adaptive(count: int, kind: str):
    build = getattr(relay.nn, f"adaptive_{kind}_pool{count}d")

    def convert(ctx, x):
        return build(x, ctx.numbers_of("output_size", count), spatial_layout(count, ctx.channels_first()))

    return convert


for _count in (1, 2, 3):
    layer(f"MaxPooling{_count}D", f"MaxPool{_count}D")(_pool(_count, False))
    layer(f"AveragePooling{_count}D", f"AvgPool{_count}D")(_pool(_count, True))
    layer(f"GlobalMaxPooling{_count}D", f"GlobalMaxPool{_count}D")(_global(_count, False))
    layer(f"GlobalAveragePooling{_count}D", f"GlobalAvgPool{_count}D")(_global(_count, True))
    layer(f"AdaptiveMaxPooling{_count}D")(_adaptive(_count, "max"))
    layer(f"AdaptiveAveragePooling{_count}D")(_adaptive(_count, "avg"))
