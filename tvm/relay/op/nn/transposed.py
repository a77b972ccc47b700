"""Transposed convolution operators."""

from __future__ import annotations

from .... import topi
from ....ir.prim import PrimExpr, convert
from ....ir.tensor_type import TensorType
from ....topi.assumptions import agree, assume, divides
from ....topi.nn.utils import pads
from ..record import OUT_ELEMWISE_FUSABLE, op
from ..rules import dims, product, tensor
from .convolution import check_window, in_layout, sizes_by_name, spatial_names
from .window import window_call


def _transposed_type(attrs, types):
    data_type, weight_type = tensor(types[0], "the data"), tensor(types[1], "the weight")
    names = spatial_names(attrs.data_layout)
    data = sizes_by_name(data_type, attrs.data_layout, "the data")
    weight = sizes_by_name(weight_type, attrs.kernel_layout, "the weight")
    check_window(attrs, tuple(weight[c] for c in names))
    if not agree(data["C"], weight["I"], "channels of the data against the weight's"):
        raise TypeError(f"the data has {data['C']} channels, but the weight requires {weight['I']}")
    if not divides(data["C"], attrs.groups, f"channels that divide into {attrs.groups} groups"):
        raise TypeError(f"{data['C']} channels cannot be divided into {attrs.groups} groups")
    filters = weight["O"] * attrs.groups
    if attrs.channels is not None and not agree(int(attrs.channels), filters, "channels against filters"):
        raise TypeError(f"channels is {attrs.channels}, but the weight has {filters} filters")
    out = {"N": data["N"], "C": filters}
    spans = [(weight[c] - 1) * d + 1 for c, d in zip(names, attrs.dilation)]
    before, after = pads(attrs.padding, spans, len(names), "padding")
    for c, k, s, lo, hi, e in zip(names, spans, attrs.strides, before, after, attrs.output_padding):
        if e and e >= max(s, attrs.dilation[names.index(c)]):
            raise TypeError(f"output_padding {e} along {c} must be smaller than the stride {s}")
        out[c] = (data[c] - 1) * s + (k - lo - hi + e)
        assume(convert(out[c]) >= 1, f"sizes of which padding {lo} and {hi} leaves something along {c}")
        if not isinstance(out[c], PrimExpr) and out[c] < 1:
            raise TypeError(f"the output is empty along {c}: padding {lo} and {hi} removes all elements")
    return TensorType(in_layout(out, attrs.out_layout or attrs.data_layout), attrs.out_dtype or data_type.dtype)


def _transposed_inputs(attrs, types):
    data = tensor(types[0], "the data")
    if attrs.channels is None or attrs.kernel_size is None:
        raise TypeError("the type of the weight is unknown; give channels and kernel_size, or annotate it")
    size = dict(zip(spatial_names(attrs.data_layout), attrs.kernel_size))
    size["I"] = sizes_by_name(data, attrs.data_layout, "the data")["C"]
    size["O"] = int(attrs.channels) // attrs.groups
    return [data, TensorType(in_layout(size, attrs.kernel_layout), data.dtype)]


def transposed_macs(attrs, types, out) -> int:
    """Return the number of multiply-adds: each data element is multiplied with every weight of its channel."""
    channels = sizes_by_name(types[1], attrs.kernel_layout, "the weight")["I"]
    return product(dims(types[0])) * product(dims(types[1])) // channels


def _transposed_compute(attrs, inputs, out, conv_transpose=topi.nn.conv_transpose):
    return conv_transpose(
        inputs[0],
        inputs[1],
        attrs.strides,
        attrs.padding,
        attrs.dilation,
        attrs.groups,
        attrs.data_layout,
        attrs.kernel_layout,
        attrs.output_padding,
        out.dtype,
        f"conv{len(attrs.data_layout) - 2}d_transpose",
    )


_FACTS = {
    "pattern": OUT_ELEMWISE_FUSABLE,
    "contraction": "convolution",
    "type_rule": _transposed_type,
    "macs": transposed_macs,
    "infer_inputs": _transposed_inputs,
    "compute": _transposed_compute,
}


@op("nn.conv1d_transpose", 2, **_FACTS)
def conv1d_transpose(
    data,
    weight,
    strides=(1,),
    padding=(0,),
    dilation=(1,),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCW",
    kernel_layout="IOW",
    out_layout="",
    output_padding=(0,),
    out_dtype="",
):
    """Compute a transposed 1-D convolution."""
    return window_call("nn.conv1d_transpose", 1, locals())


@op("nn.conv2d_transpose", 2, **_FACTS)
def conv2d_transpose(
    data,
    weight,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCHW",
    kernel_layout="IOHW",
    out_layout="",
    output_padding=(0, 0),
    out_dtype="",
):
    """Compute a transposed 2-D convolution."""
    return window_call("nn.conv2d_transpose", 2, locals())


@op("nn.conv3d_transpose", 2, **_FACTS)
def conv3d_transpose(
    data,
    weight,
    strides=(1, 1, 1),
    padding=(0, 0, 0),
    dilation=(1, 1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCDHW",
    kernel_layout="IODHW",
    out_layout="",
    output_padding=(0, 0, 0),
    out_dtype="",
):
    """Compute a transposed 3-D convolution."""
    return window_call("nn.conv3d_transpose", 3, locals())
