"""Convolutions."""

from __future__ import annotations

from .... import topi
from ....ir.prim import PrimExpr
from ....ir.tensor_type import TensorType
from ....topi.nn.convolution import SPATIAL
from ....topi.nn.utils import pads
from ..record import OUT_ELEMWISE_FUSABLE, op
from ..rules import dims, tensor
from .window import window_call


def _by_name(t: TensorType, layout: str, what: str) -> dict:
    shape = dims(t)
    if len(shape) != len(layout):
        raise TypeError(f"{what} has {len(shape)} dimensions, its layout {layout} has {len(layout)}")
    return dict(zip(layout, shape))


def check_window(attrs, window: tuple) -> None:
    """The window that the weight has is the one that is said, and has points."""
    if attrs.kernel_size is not None and tuple(int(k) for k in attrs.kernel_size) != window:
        raise TypeError(f"kernel_size says {tuple(attrs.kernel_size)}, the weight has {window}")
    if any(isinstance(k, int) and k < 1 for k in window):
        raise TypeError(f"the window of the weight must have at least 1 point along each dimension, got {window}")


def conv_type(attrs, types):
    """The shape of a convolution's result, in the data's layout."""
    data_type, weight_type = tensor(types[0], "the data"), tensor(types[1], "the weight")
    n = len(attrs.data_layout) - 2
    names = SPATIAL[n]
    data = _by_name(data_type, attrs.data_layout, "the data")
    weight = _by_name(weight_type, attrs.kernel_layout, "the weight")
    check_window(attrs, tuple(weight[c] for c in names))
    per_group = weight["I"]
    filters = weight["O"]
    if is_depthwise_layout(attrs):
        filters, per_group = weight["O"] * weight["I"], 1
    if isinstance(data["C"], int) and isinstance(per_group, int) and data["C"] != per_group * attrs.groups:
        raise TypeError(
            f"the data has {data['C']} channels, but the weight takes {per_group} for each of {attrs.groups} groups"
        )
    if isinstance(filters, int) and filters % attrs.groups:
        raise TypeError(f"{filters} filters cannot be divided into {attrs.groups} groups")
    if attrs.channels is not None and int(attrs.channels) != filters:
        raise TypeError(f"channels says {attrs.channels}, the weight makes {filters}")
    out = {"N": data["N"], "C": filters}
    sizes = [(weight[c] - 1) * d + 1 for c, d in zip(names, attrs.dilation)]
    before, after = pads(attrs.padding, sizes, n, "padding")
    for c, k, s, lo, hi in zip(names, sizes, attrs.strides, before, after):
        if isinstance(data[c], PrimExpr):
            out[c] = data[c] if s == 1 and lo + hi == k - 1 else (data[c] + (lo + hi - k)) // s + 1
            continue
        out[c] = (data[c] + lo + hi - k) // s + 1
        if out[c] < 1:
            raise TypeError(
                f"the kernel ({k} with dilation) is larger than the padded data ({data[c] + lo + hi}) along {c}"
            )
    return TensorType([out[c] for c in attrs.data_layout], attrs.out_dtype or data_type.dtype)


def is_depthwise_layout(attrs) -> bool:
    """HWOI: the kernel of a depthwise convolution as TensorFlow has it."""
    return attrs.groups > 1 and attrs.kernel_layout == "HWOI"


def conv_inputs(attrs, types):
    """The weight's type from the attributes, for graphs built before their parameters."""
    data = tensor(types[0], "the data")
    if attrs.channels is None or attrs.kernel_size is None:
        raise TypeError("the weight's type is not known; give channels and kernel_size, or annotate it")
    layout = attrs.data_layout
    by_name = dict(zip(layout, dims(data)))
    names = SPATIAL[len(layout) - 2]
    sizes = {"O": int(attrs.channels), "I": by_name["C"] // attrs.groups, **dict(zip(names, attrs.kernel_size))}
    if is_depthwise_layout(attrs):
        sizes["O"], sizes["I"] = by_name["C"], int(attrs.channels) // by_name["C"]
    return [data, TensorType([int(sizes[c]) for c in attrs.kernel_layout], data.dtype)]


def _conv_compute(attrs, inputs, out):
    data, weight = inputs
    channels = data.shape[attrs.data_layout.index("C")]
    filters = out.shape[attrs.data_layout.index("C")]
    depthwise = attrs.groups > 1 and getattr(channels, "value", 0) == attrs.groups and len(attrs.data_layout) == 4
    if depthwise and attrs.data_layout == "NCHW" and attrs.kernel_layout == "OIHW" and int(filters) == attrs.groups:
        return topi.nn.depthwise_conv2d_nchw(data, weight, attrs.strides, attrs.padding, attrs.dilation, out.dtype)
    if is_depthwise_layout(attrs):
        return topi.nn.depthwise_conv2d_nhwc(
            data, weight, attrs.strides, attrs.padding, attrs.dilation, "HWOI", out.dtype
        )
    return topi.nn.conv(
        data,
        weight,
        attrs.strides,
        attrs.padding,
        attrs.dilation,
        attrs.groups,
        attrs.data_layout,
        attrs.kernel_layout,
        out.dtype,
        f"conv{len(attrs.data_layout) - 2}d",
    )


_FACTS = {
    "pattern": OUT_ELEMWISE_FUSABLE,
    "type_rule": conv_type,
    "infer_inputs": conv_inputs,
    "compute": _conv_compute,
}


@op("nn.conv1d", 2, **_FACTS)
def conv1d(
    data,
    weight,
    strides=1,
    padding=0,
    dilation=1,
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCW",
    kernel_layout="OIW",
    out_layout="",
    out_dtype="",
):
    """Cross-correlation along one dimension."""
    return window_call("nn.conv1d", 1, locals())


@op("nn.conv2d", 2, **_FACTS)
def conv2d(
    data,
    weight,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCHW",
    kernel_layout="OIHW",
    out_layout="",
    out_dtype="",
):
    """Cross-correlation along two dimensions."""
    return window_call("nn.conv2d", 2, locals())


@op("nn.conv3d", 2, **_FACTS)
def conv3d(
    data,
    weight,
    strides=(1, 1, 1),
    padding=(0, 0, 0),
    dilation=(1, 1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCDHW",
    kernel_layout="OIDHW",
    out_layout="",
    out_dtype="",
):
    """Cross-correlation along three dimensions."""
    return window_call("nn.conv3d", 3, locals())
