"""Decoding of image files by a runtime function."""

from __future__ import annotations

from ... import te
from ...error import ExprValueError
from ...tir.op import call_packed
from ..utils import check_tensor

PIXEL_FORMATS = ("RGB", "BGR", "Grayscale")


def decode(data, shape, pixel_format="RGB"):
    """The pixels of an image file (height, width, channels), decoded by the runtime function
    ``tvm.contrib.image.decode``. ``shape`` is the output of ``decoded_shape``.

    Raises
    ------
    ExprValueError
        The pixel format is not RGB, BGR or Grayscale, or the data is not a vector of uint8.
    """
    _check(data, pixel_format)
    name = "tvm.contrib.image.decode"
    return te.extern(
        [tuple(shape)], [data], lambda ins, outs: call_packed(name, ins[0], pixel_format, outs[0]), dtype="uint8",
        name="decode",
    )  # fmt: skip


def decoded_shape(data, pixel_format="RGB"):
    """The height, width and number of channels of an image file; 0, 0 and the channels if it cannot be decoded.

    Raises
    ------
    ExprValueError
        The pixel format is not RGB, BGR or Grayscale, or the data is not a vector of uint8.
    """
    _check(data, pixel_format)
    name = "tvm.contrib.image.decoded_shape"
    return te.extern(
        [(3,)], [data], lambda ins, outs: call_packed(name, ins[0], pixel_format, outs[0]), dtype="int64", name="shape"
    )


def _check(data, pixel_format: str) -> None:
    check_tensor(data, "image.decode")
    if pixel_format not in PIXEL_FORMATS:
        raise ExprValueError(f"image.decode: the pixel format must be RGB, BGR or Grayscale, got '{pixel_format}'")
    if len(data.shape) != 1 or data.dtype != "uint8":
        found = f"{data.dtype} with {len(data.shape)} dimensions"
        raise ExprValueError(f"image.decode: the file must be a vector of uint8, got {found}")


__all__ = ["PIXEL_FORMATS", "decode", "decoded_shape"]
