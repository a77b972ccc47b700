"""Decoding of image files at run time: the functions that code of ``image.decode`` calls.

The virtual machine computes the shape of an output before it calls the kernel. The shape function therefore decodes
the file and stores the pixels for the kernel, which runs in the same thread.
"""

from __future__ import annotations

import io
import threading
from typing import Any

from ..error import TVMError

# Pillow's names of the formats that ONNX lists. Other decoders are disabled.
FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
# Pillow modes by requested channel order.
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
# Image modes with at most eight bits per channel.
_BYTES = ("1", "CMYK", "HSV", "L", "LA", "LAB", "La", "P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "YCbCr")
_WAITING = threading.local()


def decoded(data: bytes, pixel_format: str) -> Any:
    """Return the pixels of an image file (height, width, channels), or an empty array if it cannot be decoded."""
    import numpy as np

    try:
        from PIL import Image
    except ImportError:
        raise TVMError("image.decode needs the package pillow to read image files; install it") from None
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return _pixels(Image, image, pixel_format)
    except MemoryError:
        raise
    except Exception:
        # The file is damaged, has another format, or exceeds Pillow's pixel limit; Pillow's exception type depends on
        # where decoding failed.
        return np.zeros((0, 0, 1 if pixel_format == "Grayscale" else 3), "uint8")


def _pixels(pillow: Any, image: Any, pixel_format: str) -> Any:
    import numpy as np

    if image.mode.startswith("I;16"):
        image = pillow.fromarray((np.asarray(image) >> 8).astype("uint8"))
    elif image.mode not in _BYTES:
        raise ValueError(f"images of mode {image.mode} have more than eight bits per channel")
    pixels = np.asarray(image.convert(_MODES[pixel_format]))
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return pixels[:, :, ::-1] if pixel_format == "BGR" else pixels


def decoded_shape(data: Any, pixel_format: str, out: Any) -> None:
    """``tvm.contrib.image.decoded_shape``: write height, width and channels to an integer array."""
    import numpy as np

    given = data.numpy().tobytes()
    pixels = decoded(given, pixel_format)
    _WAITING.image = (given, pixel_format, pixels)
    out.copyfrom(np.array(pixels.shape, out.dtype))


def decode(data: Any, pixel_format: str, out: Any) -> None:
    """``tvm.contrib.image.decode``: decode a file, given as an array of bytes, into an array of its shape."""
    import numpy as np

    given = data.numpy().tobytes()
    waiting, _WAITING.image = getattr(_WAITING, "image", None), None
    same = waiting is not None and waiting[:2] == (given, pixel_format)
    out.copyfrom(np.ascontiguousarray(waiting[2] if same else decoded(given, pixel_format)))


__all__ = ["FORMATS", "decode", "decoded", "decoded_shape"]
