"""1-D, 3-D and transposed convolutions in blocked layouts, which the layout pass creates."""

from __future__ import annotations

from .... import topi
from ....ir.tensor_type import TensorType
from ....topi.nn.utils import pads
from ..record import OUT_ELEMWISE_FUSABLE, call, op
from ..rules import dims, product, tensor
from .packed import blocked_macs


def _blocked_shapes(types, n: int) -> tuple[list, list, str]:
    data, kernel = tensor(types[0], "the data"), tensor(types[1], "the kernel")
    x, k = dims(data), dims(kernel)
    if len(x) != n + 3 or len(k) != n + 4:
        raise TypeError(f"expected data of rank {n + 3} and a kernel of rank {n + 4}, got shapes {x} and {k}")
    if x[1] * x[-1] != k[1] * k[-2]:
        raise TypeError(f"the data has {x[1] * x[-1]} channels, but the kernel requires {k[1] * k[-2]}")
    return list(x), list(k), data.dtype


def _blocked_type(attrs, types):
    n = len(attrs.strides)
    x, k, dtype = _blocked_shapes(types, n)
    spans = [(k[2 + i] - 1) * attrs.dilation[i] + 1 for i in range(n)]
    before, after = pads(attrs.padding, spans, n, "padding")
    out = [(x[2 + i] + before[i] + after[i] - spans[i]) // attrs.strides[i] + 1 for i in range(n)]
    return TensorType((x[0], k[0], *out, k[-1]), attrs.out_dtype or dtype)


_BLOCKED = {
    "pattern": OUT_ELEMWISE_FUSABLE,
    "type_rule": _blocked_type,
    "macs": blocked_macs,
    "compute": lambda attrs, inputs, out, conv=topi.nn.conv_blocked: conv(
        *inputs, attrs.strides, attrs.padding, attrs.dilation, out.dtype
    ),
}


@op("nn.contrib_conv1d_NCWc", 2, **_BLOCKED)
def contrib_conv1d_ncwc(data, kernel, **attrs):
    """Compute a 1-D convolution of data with blocked channels."""
    return call("nn.contrib_conv1d_NCWc", data, kernel, **attrs)


@op("nn.contrib_conv3d_NCDHWc", 2, **_BLOCKED)
def contrib_conv3d_ncdhwc(data, kernel, **attrs):
    """Compute a 3-D convolution of data with blocked channels."""
    return call("nn.contrib_conv3d_NCDHWc", data, kernel, **attrs)


def _transposed_type(attrs, types):
    x, k, dtype = _blocked_shapes(types, 2)
    before, after = pads(attrs.padding, attrs.kernel_size, 2, "padding")
    sizes = zip(x[2:4], attrs.strides, attrs.kernel_size, before, after, attrs.output_padding)
    out = [(d - 1) * s + w - lo - hi + e for d, s, w, lo, hi, e in sizes]
    return TensorType((x[0], k[0] // (attrs.strides[0] * attrs.strides[1]), *out, k[-1]), attrs.out_dtype or dtype)


def _transposed_macs(attrs, types, out) -> int:
    """Return the number of multiply-adds: each data element is multiplied with every weight of its channel. The kernel
    contains the filters of each phase."""
    kernel = dims(types[1])
    filters = kernel[0] * kernel[-1] // product(attrs.strides)
    return product(dims(types[0])) * product(attrs.kernel_size) * filters


@op(
    "nn.contrib_conv2d_transpose_NCHWc",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_transposed_type,
    macs=_transposed_macs,
    compute=lambda attrs, inputs, out, conv=topi.nn.conv2d_transpose_blocked: conv(
        *inputs, attrs.kernel_size, attrs.strides, attrs.padding, attrs.output_padding, out.dtype
    ),
)
def contrib_conv2d_transpose_nchwc(data, kernel, **attrs):
    """Compute a transposed 2-D convolution of data with blocked channels, with the kernels of all phases."""
    return call("nn.contrib_conv2d_transpose_NCHWc", data, kernel, **attrs)
