"""Winograd convolutions over channel blocks or planes, created by ``WinogradConv2D``, or as stages that a search
schedules."""

from __future__ import annotations

from .... import topi
from ....ir.tensor_type import TensorType
from ....topi.nn.utils import pads, spread_pads
from ....topi.nn.winograd_tiles import LAYOUTS
from ..record import OUT_ELEMWISE_FUSABLE, call, op
from ..rules import dims, product, tensor


def _rows_and_columns(attrs, x, matrix) -> list:
    """Return the height and width of the output; ``matrix`` are the leading dimensions of a transformed kernel."""
    if matrix[0] != matrix[1] or matrix[0] not in (4, 6):
        size = " x ".join(map(str, matrix))
        raise TypeError(f"a kernel transformed for tiles of 2 or 4 must have 4 x 4 or 6 x 6 matrices, got {size}")
    before, after = pads(attrs.padding, (3, 3), 2, "padding")
    return [x[2 + i] + before[i] + after[i] - 2 for i in range(2)]


def _macs(attrs, types, out) -> int:
    """Return the number of multiply-adds of the direct computation; the data is NCHW or NCHW<c>c."""
    data = dims(types[0])
    return product(dims(out)) * 9 * data[1] * product(data[4:])


def _blocks_type(attrs, types):
    data, kernel = tensor(types[0], "the data"), tensor(types[1], "the kernel")
    x, k = dims(data), dims(kernel)
    if len(x) != 5 or len(k) != 7:
        raise TypeError(f"expected data NCHW<c>c of rank 5 and a transformed kernel of rank 7, got shapes {x} and {k}")
    size = _rows_and_columns(attrs, x, k[1:3])
    if x[1] != k[3] or x[4] != k[4]:
        raise TypeError(f"the data has {x[1]} blocks of {x[4]} channels, but the kernel requires {k[3]} of {k[4]}")
    return TensorType((x[0], k[0] * k[5], *size, k[6]), attrs.out_dtype or data.dtype)


@op(
    "nn.contrib_conv2d_winograd_NCHWc",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_blocks_type,
    macs=_macs,
    compute=lambda attrs, inputs, out, conv=topi.nn.conv2d_winograd_NCHWc: conv(*inputs, attrs.padding, out.dtype),
)
def contrib_conv2d_winograd_nchwc(data, kernel, padding=(0, 0), out_dtype="", logical=None):
    """Compute a 3x3 convolution with stride 1 of data with blocked channels, with a transformed kernel.

    ``logical`` contains the numbers of channels and filters before blocks were padded.
    """
    before, after = spread_pads(padding, (3, 3), 2, "contrib_conv2d_winograd_nchwc")
    return call(
        "nn.contrib_conv2d_winograd_NCHWc",
        data,
        kernel,
        padding=(*before, *after),
        out_dtype=out_dtype,
        logical=logical,
    )


def _planes_type(attrs, types):
    data, kernel = tensor(types[0], "the data"), tensor(types[1], "the kernel")
    x, k = dims(data), dims(kernel)
    if len(x) != 4 or len(k) != 4:
        raise TypeError(f"expected data NCHW and a transformed kernel of rank 4, got shapes {x} and {k}")
    size = _rows_and_columns(attrs, x, k[:2])
    if x[1] != k[2]:
        raise TypeError(f"the data has {x[1]} channels, but the kernel requires {k[2]}")
    return TensorType((x[0], k[3], *size), attrs.out_dtype or data.dtype)


@op(
    "nn.contrib_conv2d_winograd_planes",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_planes_type,
    macs=_macs,
    compute=lambda attrs, inputs, out, conv=topi.nn.conv2d_winograd_nchw: conv(*inputs, attrs.padding, out.dtype),
)
def contrib_conv2d_winograd_planes(data, kernel, padding=(0, 0), out_dtype=""):
    """Compute a 3x3 convolution with stride 1 of NCHW data with a transformed kernel (m + 2, m + 2, channels,
    filters)."""
    before, after = spread_pads(padding, (3, 3), 2, "contrib_conv2d_winograd_planes")
    return call("nn.contrib_conv2d_winograd_planes", data, kernel, padding=(*before, *after), out_dtype=out_dtype)


def _tiles_type(attrs, types):
    data, kernel = tensor(types[0], "the data"), tensor(types[1], "the kernel")
    x, k = dims(data), dims(kernel)
    if len(x) != 4 or len(k) != 4 or attrs.data_layout not in LAYOUTS:
        raise TypeError(
            f"expected data {' or '.join(LAYOUTS)} and a transformed kernel of rank 4, got "
            f"{attrs.data_layout}, {x} and {k}"
        )
    is_last = attrs.data_layout == "NHWC"
    n, h, w, c = x if is_last else (x[0], *x[2:], x[1])
    size = _rows_and_columns(attrs, (n, c, h, w), k[:2])
    if c != k[2]:
        raise TypeError(f"the data has {c} channels, but the kernel requires {k[2]}")
    return TensorType((n, *size, k[3]) if is_last else (n, k[3], *size), attrs.out_dtype or data.dtype)


def _tiles_macs(attrs, types, out) -> int:
    return product(dims(out)) * 9 * dims(types[1])[2]


@op(
    "nn.contrib_conv2d_winograd_tiles",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    type_rule=_tiles_type,
    macs=_tiles_macs,
    compute=lambda attrs, inputs, out, conv=topi.nn.conv2d_winograd_tiles: conv(
        *inputs, attrs.padding, attrs.data_layout, out.dtype
    ),
)
def contrib_conv2d_winograd_tiles(data, kernel, padding=(0, 0), data_layout="NHWC", out_dtype=""):
    """Compute a 3x3 convolution with stride 1 as stages that a search schedules.

    The data is NHWC or NCHW, and the transformed kernel has shape (m + 2, m + 2, channels, filters).
    """
    before, after = spread_pads(padding, (3, 3), 2, "contrib_conv2d_winograd_tiles")
    return call(
        "nn.contrib_conv2d_winograd_tiles",
        data,
        kernel,
        padding=(*before, *after),
        data_layout=data_layout,
        out_dtype=out_dtype,
    )
