"""Padding, space-to-depth, space-to-batch, FIFO buffers, deformable windows and upsampling."""

from __future__ import annotations

from .... import te, topi
from ....ir.prim import convert
from ....ir.tensor_type import TensorType
from ....topi.assumptions import assume
from ....topi.nn.utils import spread, spread_pads
from ...expr import Constant, RelayExpr, _known_dtype, const
from ..dynamic import is_dynamic
from ..dynamic_shapes import METHODS, enlarged, upsampling_compute, upsampling_options
from ..record import INJECTIVE, OPAQUE, OUT_ELEMWISE_FUSABLE, as_expr, call, op
from ..rules import dims, may_equal, normalize_axis, tensor
from .convolution import conv_inputs, conv_macs, conv_type, in_layout, sizes_by_name


def _pairs(widths) -> tuple:
    return tuple((int(a), int(b)) for a, b in widths)


def _pad_type(attrs, types):
    data = tensor(types[0], "the data")
    shape = dims(data)
    if len(attrs.pad_width) != len(shape):
        raise TypeError(f"the data has {len(shape)} dimensions, but pad_width has {len(attrs.pad_width)} entries")
    out = [d if not (a or b) else d + (a + b) for d, (a, b) in zip(shape, attrs.pad_width)]
    for old, new, (a, b) in zip(shape, out, attrs.pad_width):
        if isinstance(new, int) and new < 0:
            raise TypeError(f"negative padding {a} and {b} exceeds the dimension of size {old}")
        _check_room(attrs.get("pad_mode") or attrs.mode, old, max(a, b))
    return TensorType(out, data.dtype)


def _check_room(mode: str, size, widest: int) -> None:
    """Raise a TypeError if mirrored or repeated padding requires more elements than the data has."""
    least = 0 if mode == "constant" or widest <= 0 else 1 if mode == "edge" else widest + (mode.lower() == "reflect")
    if isinstance(size, int) and size < least:
        raise TypeError(f"{mode} padding by {widest} is too wide for a dimension of size {size}")
    if least:
        assume(convert(size) >= least, f"at least {least} elements for {mode} padding by {widest}")


def _pad_compute(attrs, inputs, out):
    data = inputs[0]
    before, after = [p[0] for p in attrs.pad_width], [p[1] for p in attrs.pad_width]
    if attrs.pad_mode == "constant":
        value = inputs[1]() if not inputs[1].shape else inputs[1](0)
        return topi.nn.pad(data, before, after, value.astype(data.dtype))
    if attrs.pad_mode == "reflect":
        return topi.nn.mirror_pad(data, before, after, "REFLECT")

    def nearest(*at):
        return data(
            *[te.min(te.max(x - b, 0), d - 1) if b or a else x for x, b, a, d in zip(at, before, after, data.shape)]
        )

    return te.compute(out.shape, nearest, name="T_pad_edge", tag="injective")


@op("nn.pad", 2, pattern=INJECTIVE, type_rule=_pad_type, compute=_pad_compute)
def pad(data, pad_width, pad_value=0, pad_mode="constant"):
    """Pad a tensor with a constant, with its edge elements or with a reflection.

    Raises
    ------
    ValueError
        The mode is not constant, edge or reflect.
    """
    if pad_mode not in ("constant", "edge", "reflect"):
        raise ValueError(f"pad: pad_mode must be constant, edge or reflect, got '{pad_mode}'")
    data = as_expr(data)
    value = pad_value if isinstance(pad_value, RelayExpr) else const(pad_value, _known_dtype(data))
    if is_dynamic(pad_width):
        return call("dyn.nn.pad", data, pad_width, value, pad_mode=pad_mode)
    if isinstance(pad_width, RelayExpr):
        pad_width = pad_width.data.numpy().tolist()
    return call("nn.pad", data, value, pad_width=_pairs(pad_width), pad_mode=pad_mode)


@op(
    "nn.mirror_pad",
    1,
    pattern=INJECTIVE,
    type_rule=_pad_type,
    compute=lambda attrs, inputs, out: topi.nn.mirror_pad(
        inputs[0], [p[0] for p in attrs.pad_width], [p[1] for p in attrs.pad_width], attrs.mode
    ),
)
def mirror_pad(data, pad_width, mode="SYMMETRIC"):
    """Pad a tensor with a mirror image: SYMMETRIC repeats the edge elements, REFLECT does not.

    Raises
    ------
    ValueError
        The mode is neither SYMMETRIC nor REFLECT.
    """
    if mode not in ("SYMMETRIC", "REFLECT"):
        raise ValueError(f"mirror_pad: mode must be SYMMETRIC or REFLECT, got '{mode}'")
    return call("nn.mirror_pad", data, pad_width=_pairs(pad_width), mode=mode)


@op(
    "nn.depth_to_space",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.nn.depth_to_space(inputs[0], attrs.block_size, attrs.layout, attrs.mode),
)
def depth_to_space(data, block_size, layout="NCHW", mode="DCR"):
    """Rearrange blocks of channels into spatial squares."""
    return call("nn.depth_to_space", data, block_size=int(block_size), layout=layout, mode=mode)


@op(
    "nn.space_to_depth",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.nn.space_to_depth(inputs[0], attrs.block_size, attrs.layout),
)
def space_to_depth(data, block_size, layout="NCHW"):
    """Rearrange spatial squares into blocks of channels."""
    return call("nn.space_to_depth", data, block_size=int(block_size), layout=layout)


@op(
    "nn.space_to_batch_nd",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.nn.space_to_batch_nd(
        inputs[0], attrs.block_shape, [p[0] for p in attrs.paddings], [p[1] for p in attrs.paddings], attrs.pad_value
    ),
)
def space_to_batch_nd(data, block_shape, paddings, pad_value=0):
    """Rearrange blocks of the dimensions after the first into the batch dimension."""
    return call(
        "nn.space_to_batch_nd",
        data,
        block_shape=tuple(int(b) for b in block_shape),
        paddings=_pairs(paddings),
        pad_value=float(pad_value),
    )


@op(
    "nn.batch_to_space_nd",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.nn.batch_to_space_nd(
        inputs[0], attrs.block_shape, [p[0] for p in attrs.crops], [p[1] for p in attrs.crops]
    ),
)
def batch_to_space_nd(data, block_shape, crops):
    """Rearrange the batch dimension into blocks of other dimensions, and crop the borders."""
    return call("nn.batch_to_space_nd", data, block_shape=tuple(int(b) for b in block_shape), crops=_pairs(crops))


@op(
    "nn.dilate",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.nn.dilate(inputs[0], attrs.strides, attrs.dilation_value),
)
def dilate(data, strides, dilation_value=0.0):
    """Insert ``dilation_value`` between the elements, so that their distance is ``strides``."""
    return call("nn.dilate", data, strides=tuple(int(s) for s in strides), dilation_value=float(dilation_value))


def _fifo_type(attrs, types):
    data, buffer = tensor(types[0], "the data"), tensor(types[1], "the buffer")
    x, y = list(dims(data)), list(dims(buffer))
    if len(x) != len(y) or data.dtype != buffer.dtype:
        raise TypeError(f"the data and the buffer must have the same type and rank, got {data} and {buffer}")
    axis = normalize_axis(attrs.axis, len(x))
    longer = isinstance(x[axis], int) and isinstance(y[axis], int) and x[axis] > y[axis]
    if longer or not may_equal(tuple(x[:axis] + x[axis + 1 :]), tuple(y[:axis] + y[axis + 1 :])):
        raise TypeError(f"data of shape {tuple(x)} does not fit into a buffer of shape {tuple(y)} along axis {axis}")
    return buffer


@op(
    "nn.fifo_buffer",
    2,
    pattern=OPAQUE,
    type_rule=_fifo_type,
    compute=lambda attrs, inputs, out: topi.nn.fifo_buffer(inputs[0], inputs[1], attrs.axis),
)
def fifo_buffer(data, buffer, axis):
    """Append the data to a buffer and remove the oldest elements, so that its length stays the same."""
    return call("nn.fifo_buffer", data, buffer, axis=int(axis))


def _correlation_compute(attrs, inputs, out):
    return topi.nn.correlation_nchw(
        inputs[0],
        inputs[1],
        attrs.kernel_size,
        attrs.max_displacement,
        attrs.stride1,
        attrs.stride2,
        attrs.padding,
        attrs.is_multiply,
    )


@op("nn.correlation", 2, pattern=OUT_ELEMWISE_FUSABLE, compute=_correlation_compute)
def correlation(data1, data2, kernel_size, max_displacement, stride1, stride2, padding, is_multiply, layout):
    """Compute the correlation of patches of two images, for every displacement up to a limit.

    Raises
    ------
    ValueError
        The layout is not NCHW.
    """
    if layout != "NCHW":
        raise ValueError(f"correlation: layout must be NCHW, got '{layout}'")
    padding = (int(padding),) if isinstance(padding, int) else tuple(int(p) for p in padding)
    return call(
        "nn.correlation",
        data1,
        data2,
        kernel_size=int(kernel_size),
        max_displacement=int(max_displacement),
        stride1=int(stride1),
        stride2=int(stride2),
        padding=padding,
        is_multiply=bool(is_multiply),
        layout=layout,
    )


def _deformable_compute(attrs, inputs, out):
    function = topi.nn.deformable_conv2d_nchw if attrs.data_layout == "NCHW" else topi.nn.deformable_conv2d_nhwc
    return function(
        inputs[0],
        inputs[1],
        inputs[2],
        attrs.strides,
        attrs.padding,
        attrs.dilation,
        attrs.deformable_groups,
        attrs.groups,
        attrs.out_dtype,
    )


def _deformable_inputs(attrs, types):
    """Infer the type of the offsets, which have two coordinates for each window element at each output position."""
    data, weight = (
        conv_inputs(attrs, [types[0], types[2]]) if not isinstance(types[2], TensorType) else (types[0], types[2])
    )
    if isinstance(types[1], TensorType):
        return [data, types[1], weight]
    kernel = sizes_by_name(weight, attrs.kernel_layout, "the weight")
    sizes = sizes_by_name(conv_type(attrs, [data, weight]), attrs.data_layout, "the result")
    sizes["C"] = 2 * kernel["H"] * kernel["W"] * attrs.deformable_groups
    return [data, TensorType(in_layout(sizes, attrs.data_layout), data.dtype), weight]


@op(
    "nn.deformable_conv2d",
    3,
    pattern=OUT_ELEMWISE_FUSABLE,
    infer_inputs=_deformable_inputs,
    macs=lambda attrs, types, out: conv_macs(attrs, (types[0], types[2]), out),
    compute=_deformable_compute,
)
def deformable_conv2d(
    data,
    offset,
    weight,
    strides=(1, 1),
    padding=(0, 0),
    dilation=(1, 1),
    deformable_groups=1,
    groups=1,
    channels=None,
    kernel_size=None,
    data_layout="NCHW",
    kernel_layout="OIHW",
    out_layout="",
    out_dtype="",
):
    """Compute a convolution whose window elements are displaced by offsets.

    Raises
    ------
    ValueError
        The layout is neither NCHW nor NHWC.
    """
    if data_layout not in ("NCHW", "NHWC"):
        raise ValueError(f"deformable_conv2d: data_layout must be NCHW or NHWC, got '{data_layout}'")
    return call(
        "nn.deformable_conv2d",
        data,
        offset,
        weight,
        strides=spread(strides, 2, "deformable_conv2d: strides"),
        padding=padding if isinstance(padding, str) else sum(spread_pads(padding, (1, 1), 2, "deformable_conv2d"), ()),
        dilation=spread(dilation, 2, "deformable_conv2d: dilation"),
        deformable_groups=int(deformable_groups),
        groups=int(groups),
        channels=None if channels is None else int(channels),
        kernel_size=None if kernel_size is None else spread(kernel_size, 2, "deformable_conv2d: kernel_size"),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=out_layout,
        out_dtype=out_dtype,
    )


def _scales(attrs) -> list[tuple[str, float]]:
    """Return the scale factor of each spatial dimension."""
    return [(c, attrs[f"scale_{c.lower()}"]) for c in "DHW" if f"scale_{c.lower()}" in attrs]


def _upsampling_type(attrs, types):
    data = tensor(types[0])
    shape, letters = list(dims(data)), [c for c in attrs.layout if c.isalpha()]
    if len(letters) != len(shape):
        raise TypeError(f"the data has {len(shape)} dimensions, but its layout {attrs.layout} has {len(letters)}")
    for c, scale in _scales(attrs):
        at = letters.index(c)
        if isinstance(shape[at], int):
            shape[at] = int(round(shape[at] * scale))
        else:
            shape[at] = shape[at] * int(scale) if scale == int(scale) else enlarged(shape[at], scale)
    return TensorType(shape, data.dtype)


def _upsampling_expand(attrs, args, types):
    from ..image import resize2d, resize3d

    shape = dict(zip((c for c in attrs.layout if c.isalpha()), dims(_upsampling_type(attrs, types))))
    if not all(isinstance(shape[c], int) for c in "DHW" if c in shape):
        return None
    method, mode, rounding = upsampling_options(attrs)
    if "D" not in shape:
        return resize2d(args[0], (shape["H"], shape["W"]), None, attrs.layout, method, mode, rounding)
    return resize3d(args[0], (shape["D"], shape["H"], shape["W"]), None, attrs.layout, method, mode, rounding)


def _factor(scale) -> float:
    """Return a scale factor given as a Python number or a constant expression."""
    return float(scale.data.numpy() if isinstance(scale, Constant) else scale)


def _as_scalars(*scales) -> list[RelayExpr]:
    """Return scale factors as scalar inputs of an operator with dynamic sizes."""
    return [s if isinstance(s, RelayExpr) else const(float(s), "float32") for s in scales]


@op(
    "nn.upsampling",
    1,
    pattern=INJECTIVE,
    type_rule=_upsampling_type,
    expand=_upsampling_expand,
    compute=upsampling_compute,
    expands_blocks=True,
)
def upsampling(data, scale_h=1, scale_w=1, layout="NCHW", method="nearest_neighbor", align_corners=False):
    """Upsample images by integer or fractional factors.

    Raises
    ------
    ValueError
        The method is not nearest_neighbor, bilinear or bicubic.
    """
    if method not in METHODS:
        raise ValueError(f"upsampling: method must be nearest_neighbor, bilinear or bicubic, got '{method}'")
    if is_dynamic(scale_h, scale_w):
        return call(
            "dyn.nn.upsampling",
            data,
            *_as_scalars(scale_h, scale_w),
            layout=layout,
            method=method,
            align_corners=bool(align_corners),
        )
    return call(
        "nn.upsampling",
        data,
        scale_h=_factor(scale_h),
        scale_w=_factor(scale_w),
        layout=layout,
        method=method,
        align_corners=bool(align_corners),
    )


@op(
    "nn.upsampling3d",
    1,
    pattern=INJECTIVE,
    type_rule=_upsampling_type,
    expand=_upsampling_expand,
    compute=upsampling_compute,
    expands_blocks=True,
)
def upsampling3d(
    data,
    scale_d=1,
    scale_h=1,
    scale_w=1,
    layout="NCDHW",
    method="nearest_neighbor",
    coordinate_transformation_mode="half_pixel",
):
    """Upsample volumes by integer or fractional factors.

    Raises
    ------
    ValueError
        The method is neither nearest_neighbor nor trilinear.
    """
    if method not in METHODS:
        raise ValueError(f"upsampling3d: method must be nearest_neighbor or trilinear, got '{method}'")
    if is_dynamic(scale_d, scale_h, scale_w):
        return call(
            "dyn.nn.upsampling3d",
            data,
            *_as_scalars(scale_d, scale_h, scale_w),
            layout=layout,
            method=method,
            coordinate_transformation_mode=coordinate_transformation_mode,
        )
    return call(
        "nn.upsampling3d",
        data,
        scale_d=_factor(scale_d),
        scale_h=_factor(scale_h),
        scale_w=_factor(scale_w),
        layout=layout,
        method=method,
        coordinate_transformation_mode=coordinate_transformation_mode,
    )
