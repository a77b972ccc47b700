"""Convolutions and matmuls in blocked layouts, which the layout passes create."""

from __future__ import annotations

from .... import topi
from ....ir.tensor_type import TensorType
from ....topi.nn.packed import BYTES
from ....topi.nn.utils import pads
from ..layout import parts
from ..record import OUT_ELEMWISE_FUSABLE, CallAttrs, call, op
from ..rules import dims, product, tensor
from .convolution import conv_macs, conv_type
from .dense import matmul_macs
from .window import window_call


def _packed_type(attrs, types):
    data, kernel = tensor(types[0], "the data"), tensor(types[1], "the kernel")
    x, k = dims(data), dims(kernel)
    if len(x) == 5 and len(parts(attrs.kernel_layout)) == len(k) == 5:
        return conv_type(attrs, types)
    if len(k) == 7:
        k = (*k[:4], k[4] * k[6], k[5])
    if len(x) != 5 or len(k) != 6:
        raise TypeError(f"expected data NCHW<c>c of rank 5 and a kernel OIHW<i>i<o>o of rank 6, got shapes {x} and {k}")
    filters = k[0] * k[5]
    if attrs.channels is not None and int(attrs.channels) != filters:
        raise TypeError(f"channels is {attrs.channels}, but the kernel has {filters} filters")
    taken = k[1] * k[4] * attrs.groups
    if isinstance(x[1], int) and x[1] * x[4] != taken:
        raise TypeError(f"the data has {x[1] * x[4]} channels, but the kernel requires {taken}")
    sizes = [(k[2 + i] - 1) * attrs.dilation[i] + 1 for i in range(2)]
    before, after = pads(attrs.padding, sizes, 2, "padding")
    more = [lo + hi - size for lo, hi, size in zip(before, after, sizes)]
    out = [d if m == -1 and s == 1 else (d + m) // s + 1 for d, m, s in zip(x[2:4], more, attrs.strides)]
    return TensorType((x[0], k[0], *out, k[5]), attrs.out_dtype or data.dtype)


def _unpacked(attrs, args, types):
    """Expand a convolution whose kernel is blocked along only one channel axis to nn.conv2d, which supports any
    layout."""
    if len(dims(types[1])) in (6, 7):
        return None
    return call("nn.conv2d", *args, **{k: v for k, v in attrs.entries.items() if k != "logical"})


def blocked_macs(attrs, types, out) -> int:
    """Return the number of multiply-adds: each output element sums over a kernel OI...<i>i<o>o without its filters."""
    kernel = dims(types[1])
    if len(kernel) == len(dims(types[0])):
        return conv_macs(attrs, types, out)
    if len(kernel) == len(dims(types[0])) + 2:
        return product(dims(out)) * product(kernel[1:-2]) * kernel[-1]
    return product(dims(out)) * product(kernel[1:-1])


_FACTS = {
    "pattern": OUT_ELEMWISE_FUSABLE,
    "macs": blocked_macs,
    "type_rule": _packed_type,
    "expand": _unpacked,
    "expands_blocks": True,
}


@op(
    "nn.contrib_conv2d_NCHWc",
    2,
    **_FACTS,
    compute=lambda attrs, inputs, out, conv=topi.nn.conv2d_NCHWc: conv(
        *inputs, attrs.strides, attrs.padding, attrs.dilation, attrs.data_layout, attrs.out_layout, out.dtype
    ),
)
def contrib_conv2d_nchwc(
    data,
    kernel,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCHW8c",
    kernel_layout="OIHW",
    out_layout="",
    out_dtype="",
    logical=None,
):
    """Compute a 2-D convolution of data with blocked channels.

    ``logical`` contains the numbers of channels, filters and groups before blocks were padded and groups were merged.
    """
    out_layout = out_layout or data_layout
    return window_call("nn.contrib_conv2d_NCHWc", 2, locals())


def _int8_type(attrs, types):
    data, kernel = tensor(types[0], "the data"), tensor(types[1], "the kernel")
    k = dims(kernel)
    if len(k) != 7 or k[6] not in (BYTES, 2 * BYTES):
        raise TypeError(f"expected a kernel OIHW<i/4>i<o>o4i or OIHW<i/8>i<o>o8i of rank 7, got shape {k}")
    if {data.dtype, kernel.dtype} - {"int8", "uint8"}:
        raise TypeError(f"data and kernel must be int8 or uint8, got {data.dtype} and {kernel.dtype}")
    plain = TensorType((*k[:4], k[4] * k[6], k[5]), kernel.dtype)
    return _packed_type(attrs, (data, plain))


def _int8_conv2d(data, kernel, *others, pad_value):
    return topi.nn.conv2d_NCHWc_int8(data, kernel, *others, n_elems=int(kernel.shape[6]), pad_value=pad_value)


@op(
    "nn.contrib_conv2d_NCHWc_int8",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_int8_type,
    compute=lambda attrs, inputs, out, conv=_int8_conv2d: conv(
        *inputs,
        attrs.strides,
        attrs.padding,
        attrs.dilation,
        attrs.data_layout,
        attrs.out_layout,
        out.dtype,
        pad_value=attrs.pad_value,
    ),
)
def contrib_conv2d_nchwc_int8(
    data,
    kernel,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCHW16c",
    kernel_layout="OIHW4i16o4i",
    out_layout="",
    out_dtype="int32",
    pad_value=0,
):
    """Compute an int8 convolution of data with blocked channels. The kernel stores four channels of a filter
    contiguously.

    The data is padded with ``pad_value``.
    """
    out_layout = out_layout or data_layout
    return window_call("nn.contrib_conv2d_NCHWc_int8", 2, locals())


def _depthwise_int8_type(attrs, types):
    data, kernel = tensor(types[0], "the data"), tensor(types[1], "the kernel")
    k = dims(kernel)
    if len(k) != 5 or k[4] != BYTES:
        raise TypeError(f"expected a kernel of rank 5 whose last dimension is 4 taps, got shape {k}")
    if {data.dtype, kernel.dtype} - {"int8", "uint8"}:
        raise TypeError(f"data and kernel must be int8 or uint8, got {data.dtype} and {kernel.dtype}")
    if attrs.kernel_size is None or (k[1], k[2]) != (int(attrs.kernel_size[0]), -(-int(attrs.kernel_size[1]) // BYTES)):
        raise TypeError(f"the kernel of shape {k} does not match kernel_size {attrs.kernel_size}")
    plain = TensorType((k[0], 1, *attrs.kernel_size, 1, k[3]), kernel.dtype)
    return _packed_type(attrs, (data, plain))


@op(
    "nn.contrib_depthwise_conv2d_NCHWc_int8",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_depthwise_int8_type,
    compute=lambda attrs, inputs, out, conv=topi.nn.depthwise_conv2d_NCHWc_int8: conv(
        *inputs, attrs.kernel_size, attrs.strides, attrs.padding, attrs.dilation, out.dtype, attrs.pad_value
    ),
)
def contrib_depthwise_conv2d_nchwc_int8(
    data,
    kernel,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCHW16c",
    kernel_layout="",
    out_layout="",
    out_dtype="int32",
    pad_value=0,
):
    """Compute an int8 depthwise convolution of data with blocked channels.

    The kernel (C/c, kh, kw/4, c, 4) stores four taps of a row contiguously. The data is padded with ``pad_value``.
    """
    out_layout = out_layout or data_layout
    return window_call("nn.contrib_depthwise_conv2d_NCHWc_int8", 2, locals())


def _depthwise_for_any_blocks(attrs) -> CallAttrs:
    return CallAttrs({**attrs.entries, "channels": None, "groups": 1, "logical": None})


@op(
    "nn.contrib_depthwise_conv2d_NCHWc",
    2,
    **_FACTS,
    for_any_blocks=_depthwise_for_any_blocks,
    compute=lambda attrs, inputs, out, conv=topi.nn.depthwise_conv2d_NCHWc: conv(
        *inputs, attrs.strides, attrs.padding, attrs.dilation, attrs.data_layout, attrs.out_layout, out.dtype
    ),
)
def contrib_depthwise_conv2d_nchwc(
    data,
    kernel,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCHW8c",
    kernel_layout="OIHW",
    out_layout="",
    out_dtype="",
    logical=None,
    zero_point=None,
):
    """Compute a depthwise convolution of data with blocked channels; ``zero_point`` is subtracted from int8 or uint8
    data."""
    out_layout = out_layout or data_layout
    return window_call("nn.contrib_depthwise_conv2d_NCHWc", 2, locals())


def _dense_pack_type(attrs, types):
    data, weight = tensor(types[0], "the data"), tensor(types[1], "the weight")
    x, w = dims(data), dims(weight)
    if len(w) == 5:
        # Several features of a unit are contiguous: the features are padded to whole blocks.
        block, k = w[2] * w[4], x[-1]
        w = (w[0], k if isinstance(k, int) and 0 <= w[1] * block - k < block else -1, w[3])
    if len(w) != 3 or len(x) < 1:
        raise TypeError(f"expected a weight NC<n>n of rank 3, got shape {w}")
    if isinstance(x[-1], int) and x[-1] != w[1]:
        raise TypeError(f"the data has {x[-1]} features, but the weight has {w[1]}")
    units = w[0] * w[2]
    if attrs.units is not None:
        if isinstance(units, int) and not units - w[2] < int(attrs.units) <= units:
            raise TypeError(f"units is {attrs.units}, but the weight has {w[0]} blocks of {w[2]}")
        units = int(attrs.units)
    return TensorType((*x[:-1], units), attrs.out_dtype or data.dtype)


@op(
    "nn.contrib_dense_pack",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_dense_pack_type,
    macs=matmul_macs,
    compute=lambda attrs, inputs, out, dense=topi.nn.dense_pack: dense(*inputs, None, out.dtype, attrs.units),
)
def contrib_dense_pack(data, weight, weight_layout="NC", units=None, out_dtype=""):
    """Compute data . weight^T with a weight whose rows are stored in blocks; an int8 weight is NC<c/4>c<n>n4c."""
    return call("nn.contrib_dense_pack", data, weight, weight_layout=weight_layout, units=units, out_dtype=out_dtype)
