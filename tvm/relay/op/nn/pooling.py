"""Pooling over windows, over whole images (global), and to a given output size (adaptive), in 1 to 3 dimensions."""

from __future__ import annotations

from ....ir.prim import PrimExpr, convert
from ....ir.tensor_type import TensorType
from ....topi.assumptions import assume
from ....topi.nn.pooling import adaptive_pool_nd, pool_nd, spatial_or_none
from ....topi.nn.utils import pads, spread, spread_pads
from ..record import OUT_ELEMWISE_FUSABLE, call, op
from ..rules import dims, tensor

_LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def _spatial_names(layout: str, rank: int) -> tuple[str, list[int]]:
    """Return the names and indices of the spatial dimensions of a layout, which may have channel blocks (NCHW16c)."""
    letters = [c for c in layout if c.isalpha()]
    names = "".join(c for c in "DHW" if c in letters)
    if len(letters) != rank:
        raise TypeError(f"the data has {rank} dimensions, but its layout {layout} has {len(letters)}")
    return names, [letters.index(c) for c in names]


def _pool_type(attrs, types):
    data = tensor(types[0])
    shape = list(dims(data))
    names, places = _spatial_names(attrs.layout, len(shape))
    before, after = pads(attrs.padding, attrs.pool_size, len(names), "padding")
    for i, at in enumerate(places):
        span = shape[at] + before[i] + after[i] - ((attrs.pool_size[i] - 1) * attrs.dilation[i] + 1)
        if not isinstance(span, PrimExpr) and span < 0:
            raise TypeError(
                f"the window ({attrs.pool_size[i]} elements) is larger than the padded data along {names[i]}"
            )
        assume(convert(span) >= 0, f"padded data that holds the window ({attrs.pool_size[i]} points) along {names[i]}")
        shape[at] = (span + (attrs.strides[i] - 1 if attrs.ceil_mode else 0)) // attrs.strides[i] + 1
    return TensorType(shape, data.dtype)


def _pool_compute(kind: str):
    def compute(attrs, inputs, out):
        names, _ = _spatial_names(attrs.layout, len(inputs[0].shape))
        count = attrs.count_include_pad if kind == "avg" else True
        return pool_nd(
            inputs[0],
            attrs.pool_size,
            attrs.strides,
            attrs.dilation,
            attrs.padding,
            kind,
            attrs.ceil_mode,
            attrs.layout,
            count,
            names,
        )

    return compute


def _attributes(name, n, pool_size, strides, dilation, padding, layout, out_layout, ceil_mode) -> dict:
    before, after = spread_pads(padding, (1,) * n, n, name + ": padding")
    return {
        "pool_size": spread(pool_size, n, name + ": pool_size"),
        "strides": spread(strides, n, name + ": strides"),
        "dilation": spread(dilation, n, name + ": dilation"),
        "padding": (*before, *after),
        "layout": layout,
        "out_layout": out_layout,
        "ceil_mode": bool(ceil_mode),
    }


def _max_pool(n: int):
    name, ones, zeros, default = f"nn.max_pool{n}d", (1,) * n, (0,) * n, _LAYOUTS[n]

    @op(name, 1, pattern=OUT_ELEMWISE_FUSABLE, type_rule=_pool_type, compute=_pool_compute("max"))
    def build(
        data, pool_size=ones, strides=ones, dilation=ones, padding=zeros, layout=default, out_layout="", ceil_mode=False
    ):
        """Compute the maximum of each window."""
        return call(
            name, data, **_attributes(name, n, pool_size, strides, dilation, padding, layout, out_layout, ceil_mode)
        )

    build.__name__ = build.__qualname__ = name[3:]
    return build


def _avg_pool(n: int):
    name, ones, zeros, default = f"nn.avg_pool{n}d", (1,) * n, (0,) * n, _LAYOUTS[n]

    @op(name, 1, pattern=OUT_ELEMWISE_FUSABLE, type_rule=_pool_type, compute=_pool_compute("avg"))
    def build(
        data,
        pool_size=ones,
        strides=ones,
        dilation=ones,
        padding=zeros,
        layout=default,
        out_layout="",
        ceil_mode=False,
        count_include_pad=False,
    ):
        """Compute the mean of each window."""
        return call(
            name,
            data,
            **_attributes(name, n, pool_size, strides, dilation, padding, layout, out_layout, ceil_mode),
            count_include_pad=bool(count_include_pad),
        )

    build.__name__ = build.__qualname__ = name[3:]
    return build


def _sized_type(attrs, types):
    data = tensor(types[0])
    shape = list(dims(data))
    names, places = _spatial_names(attrs.layout, len(shape))
    wanted = getattr(attrs, "output_size", (1,) * len(names))
    for at, size in zip(places, spatial_or_none(wanted, len(names))):
        if size is not None:
            shape[at] = int(size)
    return TensorType(shape, data.dtype)


def _sized_compute(kind: str):
    def compute(attrs, inputs, out):
        names, _ = _spatial_names(attrs.layout, len(inputs[0].shape))
        return adaptive_pool_nd(inputs[0], getattr(attrs, "output_size", 1), kind, attrs.layout, names)

    return compute


_KINDS = {"max": "The largest element", "avg": "The mean"}


def _adaptive(kind: str, n: int):
    name, default = f"nn.adaptive_{kind}_pool{n}d", _LAYOUTS[n]

    @op(name, 1, pattern=OUT_ELEMWISE_FUSABLE, type_rule=_sized_type, compute=_sized_compute(kind))
    def build(data, output_size=None, layout=default, out_layout=""):
        size = (
            None
            if output_size is None or output_size == ()
            else tuple(None if s is None else int(s) for s in spatial_or_none(output_size, n))
        )
        return call(name, data, output_size=size, layout=layout, out_layout=out_layout)

    build.__name__ = build.__qualname__ = name[3:]
    build.__doc__ = build.op.description = (
        f"{_KINDS[kind]} of windows chosen so that the result has output_size points."
    )
    return build


def _global(kind: str, n: int):
    name, default = f"nn.global_{kind}_pool{n}d", _LAYOUTS[n]

    @op(name, 1, pattern=OUT_ELEMWISE_FUSABLE, type_rule=_sized_type, compute=_sized_compute(kind))
    def build(data, layout=default, out_layout=""):
        return call(name, data, layout=layout, out_layout=out_layout)

    build.__name__ = build.__qualname__ = name[3:]
    build.__doc__ = build.op.description = f"{_KINDS[kind]} over all spatial dimensions."
    return build


max_pool1d, max_pool2d, max_pool3d = (_max_pool(n) for n in (1, 2, 3))
avg_pool1d, avg_pool2d, avg_pool3d = (_avg_pool(n) for n in (1, 2, 3))
adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive("max", n) for n in (1, 2, 3))
adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (_adaptive("avg", n) for n in (1, 2, 3))
global_max_pool1d, global_max_pool2d, global_max_pool3d = (_global("max", n) for n in (1, 2, 3))
global_avg_pool1d, global_avg_pool2d, global_avg_pool3d = (_global("avg", n) for n in (1, 2, 3))
