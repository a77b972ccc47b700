"""Photos as inputs: read, resized and normalized the way ImageNet models were trained."""

from __future__ import annotations

from .errors import TVMCException, TVMCImportError

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def is_image(path: str) -> bool:
    return path.lower().endswith((".png", ".jpg", ".jpeg", ".bmp"))


def load_image(path: str, shape: list[int], dtype: str, mean=IMAGENET_MEAN, std=IMAGENET_STD, layout: str = "",
               bgr: bool = False, scale: float = 255.0):
    """An array of ``shape`` from a photo: the short side is resized to 256/224 of the model's size, the middle is cut
    out, and pixels become (x / scale - mean) / std."""
    import numpy as np

    try:
        from PIL import Image
    except ImportError:
        raise TVMCImportError("pillow") from None
    if len(shape) != 4 or shape[0] != 1:
        raise TVMCException(f"a photo fits an input of four dimensions and batch 1, this one is {shape}")
    layout = layout or ("NCHW" if shape[1] == 3 else "NHWC")
    height, width = (shape[2], shape[3]) if layout == "NCHW" else (shape[1], shape[2])
    try:
        photo = Image.open(path).convert("RGB")
    except (OSError, ValueError) as problem:
        raise TVMCException(f"{path} cannot be read as a photo: {problem}") from problem
    factor = max(height / photo.height, width / photo.width) * 256 / 224
    size = (max(round(photo.width * factor), width), max(round(photo.height * factor), height))
    photo = photo.resize(size, Image.Resampling.BILINEAR)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    pixels = np.asarray(photo.crop((left, top, left + width, top + height)), dtype="float32")
    if bgr:
        pixels = pixels[:, :, ::-1]
    pixels = (pixels / scale - np.array(mean, "float32")) / np.array(std, "float32")
    array = pixels.transpose(2, 0, 1)[None] if layout == "NCHW" else pixels[None]
    return np.ascontiguousarray(array.astype(dtype))
