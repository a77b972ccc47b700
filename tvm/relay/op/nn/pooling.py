"""Pooling."""

from __future__ import annotations

from .... import topi
from ....ir.prim import PrimExpr
from ....ir.tensor_type import TensorType
from ....topi.nn.utils import spatial
from ..record import OUT_ELEMWISE_FUSABLE, call, op
from ..rules import dims, tensor


def _pool_type(attrs, types):
    data = tensor(types[0])
    shape = list(dims(data))
    names = "HW"
    layout = [c for c in attrs.layout if c.isalpha()]
    before, after = attrs.padding[:2], attrs.padding[2:]
    for i, c in enumerate(names):
        at = layout.index(c)
        if isinstance(shape[at], PrimExpr):
            raise TypeError("pooling needs known height and width")
        span = shape[at] + before[i] + after[i] - ((attrs.pool_size[i] - 1) * attrs.dilation[i] + 1)
        if span < 0:
            raise TypeError(f"the window is larger than the padded data along {c}")
        shape[at] = (span + (attrs.strides[i] - 1 if attrs.ceil_mode else 0)) // attrs.strides[i] + 1
    return TensorType(shape, data.dtype)


def _pool(kind: str):
    def compute(attrs, inputs, out):
        count = getattr(attrs, "count_include_pad", True) if kind == "avg" else True
        return topi.nn.pool2d(inputs[0], attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding, kind,
                              attrs.ceil_mode, attrs.layout, count)

    return compute


def _padding(padding) -> tuple[int, ...]:
    values = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,)
    values = values * 4 if len(values) == 1 else values * 2 if len(values) == 2 else values
    if len(values) != 4:
        raise TypeError(f"padding takes 1, 2 or 4 numbers, got {len(values)}")
    return tuple(int(v) for v in values)


@op("nn.max_pool2d", 1, pattern=OUT_ELEMWISE_FUSABLE, type_rule=_pool_type, compute=_pool("max"))
def max_pool2d(data, pool_size=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0), layout="NCHW", out_layout="",
               ceil_mode=False):
    """The largest element of each window."""
    return call(
        "nn.max_pool2d",
        data,
        pool_size=spatial(pool_size, 2, "pool_size"),
        strides=spatial(strides, 2, "strides"),
        dilation=spatial(dilation, 2, "dilation"),
        padding=_padding(padding),
        layout=layout,
        out_layout=out_layout,
        ceil_mode=bool(ceil_mode),
    )


@op("nn.avg_pool2d", 1, pattern=OUT_ELEMWISE_FUSABLE, type_rule=_pool_type, compute=_pool("avg"))
def avg_pool2d(data, pool_size=(1, 1), strides=(1, 1), dilation=(1, 1), padding=(0, 0), layout="NCHW", out_layout="",
               ceil_mode=False, count_include_pad=False):
    """The mean of each window."""
    return call(
        "nn.avg_pool2d",
        data,
        pool_size=spatial(pool_size, 2, "pool_size"),
        strides=spatial(strides, 2, "strides"),
        dilation=spatial(dilation, 2, "dilation"),
        padding=_padding(padding),
        layout=layout,
        out_layout=out_layout,
        ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad),
    )


def _global_type(attrs, types):
    data = tensor(types[0])
    shape = list(dims(data))
    layout = [c for c in attrs.layout if c.isalpha()]
    for c in "HW":
        shape[layout.index(c)] = 1
    return TensorType(shape, data.dtype)


@op("nn.global_avg_pool2d", 1, pattern=OUT_ELEMWISE_FUSABLE, type_rule=_global_type,
    compute=lambda attrs, inputs, out: topi.nn.global_pool(inputs[0], "avg", attrs.layout))
def global_avg_pool2d(data, layout="NCHW", out_layout=""):
    """The mean over height and width."""
    return call("nn.global_avg_pool2d", data, layout=layout, out_layout=out_layout)


@op("nn.global_max_pool2d", 1, pattern=OUT_ELEMWISE_FUSABLE, type_rule=_global_type,
    compute=lambda attrs, inputs, out: topi.nn.global_pool(inputs[0], "max", attrs.layout))
def global_max_pool2d(data, layout="NCHW", out_layout=""):
    """The largest element over height and width."""
    return call("nn.global_max_pool2d", data, layout=layout, out_layout=out_layout)
