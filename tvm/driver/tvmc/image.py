"""Photos as inputs: read, resized and normalized like the training data of ImageNet models."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import TVMCException, TVMCImportError

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def is_image(path: str) -> bool:
    return path.lower().endswith((".png", ".jpg", ".jpeg", ".bmp"))


def image_size(path: str) -> tuple[int, int]:
    """Return width and height of a photo that ``load_image`` can read."""
    from PIL import Image

    with Image.open(path) as photo:
        return photo.size


def place_of_channels(shape: list[int], layout: str = "") -> str:
    """Return NCHW or NHWC, depending on which dimension has the size 1 or 3."""
    if len(shape) != 4 or shape[0] != 1:
        raise TVMCException(f"a photo requires an input with four dimensions and batch 1, but this input is {shape}")
    for name, channels in (("NCHW", shape[1]), ("NHWC", shape[3])):
        if channels in (1, 3) and layout in ("", name):
            return name
    raise TVMCException(f"a photo has one or three channels, but the input is {shape}, layout {layout or 'unknown'}")


def fitted(photo: tuple[int, int], height: int, width: int) -> tuple[int, int]:
    """Return the width and height to which a photo is resized before its centre is cropped, as in ImageNet training."""
    factor = max(height / photo[1], width / photo[0]) * 256 / 224
    return max(round(photo[0] * factor), width), max(round(photo[1] * factor), height)


def preparation(
    photo: tuple[int, int], shape: list[int], dtype: str, mean, std, layout: str, bgr: bool, scale: float
) -> str:
    """Describe how ``load_image`` converts a photo of this width and height."""
    layout = place_of_channels(shape, layout)
    channels, height, width = [shape[layout.index(letter)] for letter in "CHW"]
    size = fitted(photo, height, width)
    order = "grey" if channels == 1 else "BGR" if bgr else "RGB"
    values = "as they are"
    if scale != 1 or any(mean) or any(one != 1 for one in std):
        shown = [" ".join(f"{one:g}" for one in numbers[:channels]) for numbers in (mean, std)]
        values = f"(x/{scale:g} - mean)/std, mean {shown[0]}, std {shown[1]}"
    return (
        f"{photo[0]}x{photo[1]} resized to {size[0]}x{size[1]}, its middle {width}x{height} cut out; "
        f"pixels {order} {values}; {layout} {dtype}"
    )


def load_image(
    path: str,
    shape: list[int],
    dtype: str,
    mean=IMAGENET_MEAN,
    std=IMAGENET_STD,
    layout: str = "",
    bgr: bool = False,
    scale: float = 255.0,
):
    """Convert a photo to an array of ``shape``.

    The short side is resized to 256/224 of the input size, the centre is cropped, and pixels become
    (x / scale - mean) / std. For an input with one channel the photo is converted to grey, with the first mean and
    std."""
    import numpy as np

    try:
        from PIL import Image
    except ImportError:
        raise TVMCImportError("pillow") from None
    layout = place_of_channels(shape, layout)
    channels, height, width = [shape[layout.index(letter)] for letter in "CHW"]
    if 0 in std:
        raise TVMCException(f"--std {std}: cannot be zero, because pixels are divided by it")
    try:
        photo = Image.open(path).convert("L" if channels == 1 else "RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as problem:
        raise TVMCException(f"cannot read {path} as a photo: {problem}") from problem
    size = fitted(photo.size, height, width)
    photo = photo.resize(size, Image.Resampling.BILINEAR)
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    pixels = np.asarray(photo.crop((left, top, left + width, top + height)), dtype="float32")
    pixels = pixels.reshape(height, width, channels)
    if bgr:
        pixels = pixels[:, :, ::-1]
    pixels = (pixels / scale - np.array(mean[:channels], "float32")) / np.array(std[:channels], "float32")
    array = pixels.transpose(2, 0, 1)[None] if layout == "NCHW" else pixels[None]
    return np.ascontiguousarray(array.astype(dtype))


def add_image_arguments(group) -> None:
    """Add the options for converting photos to inputs."""
    group.add_argument(
        "--preprocess",
        choices=["imagenet", "none"],
        default=None,
        help="imagenet: (x/255 - mean)/std (default of float inputs); none: pixels as they are",
    )
    group.add_argument(
        "--mean", type=float, nargs=3, metavar=("R", "G", "B"), default=None, help="means of the channels"
    )
    group.add_argument(
        "--std", type=float, nargs=3, metavar=("R", "G", "B"), default=None, help="standard deviations of the channels"
    )
    group.add_argument(
        "--image-layout", choices=["NCHW", "NHWC"], default="", help="layout of the input, if it is ambiguous"
    )
    group.add_argument("--bgr", action="store_true", help="channels in the order blue, green, red")


def photo_of(args, shapes: Mapping, dtypes: Mapping) -> tuple[str, tuple]:
    """Return the input for a photo, and means, deviations, layout, order and scale of its pixels."""
    fitting = [n for n, s in shapes.items() if len(s) == 4]
    if len(fitting) != 1:
        raise TVMCException("a photo needs a model with exactly one input of four dimensions")
    name = fitting[0]
    plain = args.preprocess == "none" or (args.preprocess is None and "float" not in dtypes[name])
    mean = args.mean or ((0, 0, 0) if plain else IMAGENET_MEAN)
    std = args.std or ((1, 1, 1) if plain else IMAGENET_STD)
    return name, (mean, std, args.image_layout, args.bgr, 1.0 if plain else 255.0)
