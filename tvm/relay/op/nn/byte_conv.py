"""Convolutions of 8-bit integers in NHWC for processors without wide vectors, which the layout passes create."""

from __future__ import annotations

from .... import topi
from ....ir.tensor_type import TensorType
from ....topi.nn.utils import pads
from ..record import OUT_ELEMWISE_FUSABLE, op
from ..rules import dims, product, tensor
from .window import window_call


def _window_type(attrs, types, filters: int, fits: bool) -> TensorType:
    """Return the type of the output: ``filters`` channels, if the weights fit the data."""
    data, kernel = tensor(types[0], "the data"), tensor(types[1], "the kernel")
    if data.dtype not in ("int8", "uint8") or kernel.dtype != "int8":
        raise TypeError(f"the data must be int8 or uint8 and the kernel int8, got {data.dtype} and {kernel.dtype}")
    if not fits:
        raise TypeError(f"the kernel of shape {dims(kernel)} does not fit data of shape {dims(data)}")
    x = dims(data)
    sizes = [(k - 1) * d + 1 for k, d in zip(attrs.kernel_size, attrs.dilation)]
    before, after = pads(attrs.padding, sizes, 2, "padding")
    out = [(d + lo + hi - k) // s + 1 for d, lo, hi, k, s in zip(x[1:3], before, after, sizes, attrs.strides)]
    return TensorType((x[0], *out, filters), "int32")


def _conv_type(attrs, types) -> TensorType:
    x, w = (dims(tensor(t, "an operand")) for t in types[:2])
    terms = product((*attrs.kernel_size, x[-1]))
    fits = len(x) == 4 and len(w) == 5 and w[2] == 1 and 0 <= w[1] * w[4] - terms < w[4]
    return _window_type(attrs, types, w[0] * w[3] if fits else 0, fits)


def _depthwise_type(attrs, types) -> TensorType:
    x, w = (dims(tensor(t, "an operand")) for t in types[:2])
    fits = len(x) == 4 and len(w) == 3 and (w[0] * w[2], w[1]) == (x[3], product(tuple(attrs.kernel_size)))
    return _window_type(attrs, types, x[-1], fits)


def _compute(default):
    return lambda attrs, inputs, out, conv=default: conv(
        *inputs, attrs.kernel_size, attrs.strides, attrs.padding, attrs.dilation, attrs.pad_value
    )


@op(
    "nn.contrib_conv2d_NHWC_int8",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_conv_type,
    macs=lambda attrs, types, out: product(dims(out)) * product((*attrs.kernel_size, dims(types[0])[3])),
    compute=_compute(topi.nn.conv2d_NHWC_int8),
)
def contrib_conv2d_nhwc_int8(
    data,
    kernel,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    kernel_size=(1, 1),
    data_layout="NHWC",
    out_layout="NHWC",
    out_dtype="int32",
    pad_value=0,
):
    """Compute a convolution of 8-bit data in NHWC, which is padded with ``pad_value``.

    The kernel (o/f, blocks, 1, f, terms) interleaves the weights of f filters in blocks.
    """
    return window_call("nn.contrib_conv2d_NHWC_int8", 2, locals())


@op(
    "nn.contrib_depthwise_conv2d_NHWC_int8",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_depthwise_type,
    macs=lambda attrs, types, out: product(dims(out)) * product(tuple(attrs.kernel_size)),
    compute=_compute(topi.nn.depthwise_conv2d_NHWC_int8),
)
def contrib_depthwise_conv2d_nhwc_int8(
    data,
    kernel,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    kernel_size=(1, 1),
    data_layout="NHWC",
    out_layout="NHWC",
    out_dtype="int32",
    pad_value=0,
):
    """Compute a depthwise convolution of 8-bit data in NHWC, which is padded with ``pad_value``.

    The kernel is (c/f, taps, f).
    """
    return window_call("nn.contrib_depthwise_conv2d_NHWC_int8", 2, locals())
