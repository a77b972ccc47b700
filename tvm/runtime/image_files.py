"""Image files decoded while a program runs: the functions that code of ``image.decode`` calls.

The virtual machine computes the shape of an output before it calls the kernel. The shape function therefore decodes
the file and stores the pixels for the kernel, which runs in the same thread.
"""

from __future__ import annotations

import io
import threading
from typing import Any

from ..error import TVMError

# Pillow's names of the formats that ONNX lists. Other decoders of Pillow are not used.
FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
# Modes of Pillow by the order of channels that was asked for.
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}
# Modes of images that have no more than eight bits in a channel.
_BYTES = ("1", "CMYK", "HSV", "L", "LA", "LAB", "La", "P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "YCbCr")
_WAITING = threading.local()


def decoded(data: bytes, pixel_format: str) -> Any:
    """The pixels of an image file (height, width, channels); an array without any if the file cannot be decoded."""
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
        # Damaged, of another format, or of more pixels than Pillow takes for honest: what it raises depends on where
        # in the file it stopped.
        return np.zeros((0, 0, 1 if pixel_format == "Grayscale" else 3), "uint8")


def _pixels(pillow: Any, image: Any, pixel_format: str) -> Any:
    import numpy as np

    if image.mode.startswith("I;16"):
        image = pillow.fromarray((np.asarray(image) >> 8).astype("uint8"))
    elif image.mode not in _BYTES:
        raise ValueError(f"images of mode {image.mode} have more than eight bits in a channel")
    pixels = np.asarray(image.convert(_MODES[pixel_format]))
    if pixel_format == "Grayscale":
        return pixels[:, :, None]
    return pixels[:, :, ::-1] if pixel_format == "BGR" else pixels


def decoded_shape(data: Any, pixel_format: str, out: Any) -> None:
    """``tvm.contrib.image.decoded_shape``: writes height, width and channels into an array of integers."""
    import numpy as np

    given = data.numpy().tobytes()
    pixels = decoded(given, pixel_format)
    _WAITING.image = (given, pixel_format, pixels)
    out.copyfrom(np.array(pixels.shape, out.dtype))


def decode(data: Any, pixel_format: str, out: Any) -> None:
    """``tvm.contrib.image.decode``: writes the pixels of a file, an array of bytes, into an array of their shape."""
    import numpy as np

    given = data.numpy().tobytes()
    waiting, _WAITING.image = getattr(_WAITING, "image", None), None
    same = waiting is not None and waiting[:2] == (given, pixel_format)
    out.copyfrom(np.ascontiguousarray(waiting[2] if same else decoded(given, pixel_format)))


__all__ = ["FORMATS", "decode", "decoded", "decoded_shape"]
