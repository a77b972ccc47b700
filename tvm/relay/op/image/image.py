"""Image operators: file decoding, resizing, cropping, sampling and morphological dilation."""

from __future__ import annotations

from .... import topi
from ....docstring import docstring
from ....ir.prim import Any_
from ....ir.tensor_type import TensorType
from ...expr import RelayExpr, const
from ..dynamic import is_dynamic
from ..record import INJECTIVE, OPAQUE, OUT_ELEMWISE_FUSABLE, call, op
from ..reshape import ints
from ..rules import dims, tensor


def _resize_type(attrs, types):
    data = tensor(types[0], "the data")
    letters = [c for c in attrs.layout if c.isalpha()]
    shape = list(dims(data))
    if len(letters) != len(shape):
        raise TypeError(f"the data has {len(shape)} dimensions, but its layout {attrs.layout} has {len(letters)}")
    names = "DHW"[-len(attrs.size) :]
    for c, size in zip(names, attrs.size):
        shape[letters.index(c)] = size
    return TensorType(shape, attrs.out_dtype or data.dtype)


# The attributes of resize operators, in the order of the topi parameters.
_HOW = ("layout", "method", "coordinate_transformation_mode", "rounding_method", "cubic_alpha", "cubic_exclude",
        "extrapolation_value")  # fmt: skip


def _resize(n: int, default: str):
    name = f"image.resize{n}d"
    function = {1: topi.image.resize1d, 2: topi.image.resize2d, 3: topi.image.resize3d}[n]

    def compute(attrs, inputs, out):
        how = (getattr(attrs, each) for each in _HOW)
        return function(inputs[0], attrs.roi, attrs.size, *how, out.dtype, None, attrs.scales, attrs.antialias)

    @op(name, 1, pattern=INJECTIVE, type_rule=_resize_type, compute=compute)
    def build(
        data,
        size,
        roi=None,
        layout=default,
        method="linear",
        coordinate_transformation_mode="half_pixel",
        rounding_method="",
        cubic_alpha=-0.5,
        cubic_exclude=0,
        extrapolation_value=0.0,
        out_dtype=None,
        scales=None,
        antialias=False,
    ):
        how = dict(zip(_HOW, (layout, method, coordinate_transformation_mode, rounding_method, float(cubic_alpha),
                              int(cubic_exclude), float(extrapolation_value))))  # fmt: skip
        if n == 2 and is_dynamic(size, roi):
            sizes = size if isinstance(size, RelayExpr) else const(list(size), "int64")
            roi = [0.0] * 4 if roi is None else roi
            region = roi if isinstance(roi, RelayExpr) else const(list(roi), "float32")
            return call("dyn.image.resize2d", data, sizes, region, **how, out_dtype=out_dtype)
        size = ints(size)
        if isinstance(roi, RelayExpr):
            roi = roi.data.numpy()
        if len(size) != n:
            raise ValueError(f"resize{n}d: expected {n} sizes, got {len(size)}")
        return call(
            name,
            data,
            size=size,
            roi=None if roi is None else tuple(float(r) for r in roi),
            **how,
            out_dtype=out_dtype,
            scales=None if scales is None else tuple(float(s) for s in scales),
            antialias=bool(antialias),
        )

    build.__name__ = build.__qualname__ = name[6:]
    build.op.description = (
        "The image in another size. ``scales`` are the factors asked for where sizes had to be rounded; ``antialias``"
        " widens the filter where the image shrinks."
    )
    build.__doc__ = docstring(build.op.description, (), raises=("ValueError", f"There are not {n} sizes."))
    return build


resize1d, resize2d, resize3d = _resize(1, "NCW"), _resize(2, "NCHW"), _resize(3, "NCDHW")


def _crop_compute(attrs, inputs, out):
    return topi.image.crop_and_resize(
        inputs[0],
        inputs[1],
        inputs[2],
        attrs.crop_size,
        attrs.layout,
        attrs.method,
        attrs.extrapolation_value,
        attrs.out_dtype or None,
    )


@op("image.crop_and_resize", 3, pattern=INJECTIVE, compute=_crop_compute)
def crop_and_resize(
    data, boxes, box_indices, crop_size, layout, method="bilinear", extrapolation_value=0, out_dtype=None
):
    """Crop boxes out of images and resize them to one size."""
    return call(
        "image.crop_and_resize",
        data,
        boxes,
        box_indices,
        crop_size=ints(crop_size),
        layout=layout,
        method=method,
        extrapolation_value=float(extrapolation_value),
        out_dtype=out_dtype,
    )


def _dilation_compute(attrs, inputs, out):
    function = topi.image.dilation2d_nchw if attrs.data_layout == "NCHW" else topi.image.dilation2d_nhwc
    return function(inputs[0], inputs[1], attrs.strides, attrs.padding, attrs.dilations, attrs.out_dtype or None)


@op("image.dilation2d", 2, pattern=OUT_ELEMWISE_FUSABLE, compute=_dilation_compute)
def dilation2d(
    data,
    weight,
    strides=(1, 1),
    padding=(0, 0),
    dilations=(1, 1),
    data_layout="NCHW",
    kernel_layout="IHW",
    out_dtype="",
):
    """Compute the morphological dilation: the maximum of the sums of window and weight.

    Raises
    ------
    ValueError
        The layouts are neither NCHW with IHW nor NHWC with HWI.
    """
    if (data_layout, kernel_layout) not in (("NCHW", "IHW"), ("NHWC", "HWI")):
        raise ValueError(
            f"dilation2d: layouts must be NCHW with IHW or NHWC with HWI, got {data_layout} with {kernel_layout}"
        )
    return call(
        "image.dilation2d",
        data,
        weight,
        strides=ints(strides),
        padding=ints(padding),
        dilations=ints(dilations),
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_dtype=out_dtype,
    )


@op(
    "image.affine_grid",
    1,
    pattern=INJECTIVE,
    compute=lambda attrs, inputs, out: topi.image.affine_grid(inputs[0], attrs.target_shape, attrs.align_corners),
)
def affine_grid(data, target_shape=None, align_corners=True):
    """Compute the sampling grid of affine transformations for grid_sample."""
    return call("image.affine_grid", data, target_shape=ints(target_shape), align_corners=bool(align_corners))


@op(
    "image.grid_sample",
    2,
    pattern=OPAQUE,
    compute=lambda attrs, inputs, out: topi.image.grid_sample(
        inputs[0], inputs[1], attrs.method, attrs.layout, attrs.padding_mode, attrs.align_corners
    ),
)
def grid_sample(data, grid, method="bilinear", layout="NCHW", padding_mode="zeros", align_corners=True):
    """Sample images at the positions of a grid."""
    return call(
        "image.grid_sample",
        data,
        grid,
        method=method,
        layout=layout,
        padding_mode=padding_mode,
        align_corners=bool(align_corners),
    )


def _decode_type(attrs, types):
    data = tensor(types[0], "the file")
    if len(data.shape) != 1 or data.dtype != "uint8":
        raise TypeError(
            f"an encoded file must be a vector of uint8, got {data.dtype} with {len(data.shape)} dimensions"
        )
    return TensorType((Any_(), Any_(), 1 if attrs.pixel_format == "Grayscale" else 3), "uint8")


@op(
    "image.decode",
    1,
    pattern=OPAQUE,
    type_rule=_decode_type,
    compute=lambda attrs, inputs, out: topi.image.decode(inputs[0], out.shape, attrs.pixel_format),
    FShapeFunc=lambda attrs, inputs, out_ndims: [topi.image.decoded_shape(inputs[0], attrs.pixel_format)],
    TShapeDataDependent=True,
)
def decode(data, pixel_format="RGB"):
    """Decode an image file to pixels (height, width, channels).

    A runtime function decodes the file with Pillow. The output is empty if the file cannot be decoded. ``pixel_format``
    is RGB, BGR or Grayscale.

    Raises
    ------
    ValueError
        The pixel format is not supported.
    """
    if pixel_format not in ("RGB", "BGR", "Grayscale"):
        raise ValueError(f"image.decode: the pixel format must be RGB, BGR or Grayscale, got '{pixel_format}'")
    return call("image.decode", data, pixel_format=pixel_format)
