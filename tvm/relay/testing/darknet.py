"""Helpers for programs that run DarkNet networks: network loading and image preprocessing.

The names are those that programs for DarkNet's C library use. No library is loaded; the importer reads the files.
"""

from __future__ import annotations

import os

import numpy as np

from ...error import TVMError
from ..frontend.darknet import ACTIVATION, LAYERTYPE, Network


class Library:
    """The functions of DarkNet's library that programs call."""

    def load_network(self, cfg, weights, clear=0) -> Network:
        """Load a network from its configuration and weights files.

        Parameters
        ----------
        cfg : bytes, str or path
            The configuration file (.cfg).
        weights : bytes, str or path
            The weights file.
        clear : int, optional
            Whether to reset the number of training images seen; it has no effect at inference.

        Returns
        -------
        Network

        Raises
        ------
        TVMError
            A file cannot be read, or it is not a DarkNet file.
        """
        return Network(cfg, weights)


class Interface:
    """A replacement for a cffi interface. ``dlopen`` returns the functions without opening the library file."""

    NULL = None

    def dlopen(self, name=None, flags=0) -> Library:
        """Return the functions of the library.

        Parameters
        ----------
        name : str, optional
            The path of DarkNet's library; ignored.
        flags : int, optional
            The flags of ``dlopen``; ignored.

        Returns
        -------
        Library
        """
        return Library()


__darknetffi__ = Interface()


def load_image_color(test_image) -> np.ndarray:
    """Load an image as values from 0 to 1, with the channels (red, green, blue) first.

    Parameters
    ----------
    test_image : str
        The path of the image.

    Returns
    -------
    numpy.ndarray

    Raises
    ------
    TVMError
        The image cannot be read, or the package Pillow is missing.
    """
    try:
        from PIL import Image
    except ImportError as problem:
        raise TVMError("reading images requires the package Pillow") from problem
    try:
        with Image.open(test_image) as picture:
            colors = np.asarray(picture.convert("RGB"), "float64")
    except OSError as problem:
        name = os.path.basename(os.fspath(test_image))
        raise TVMError(f"cannot read {name} as an image: {problem}") from problem
    return colors.transpose(2, 0, 1) / 255.0


def _sampling_positions(size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower neighbour of each sampling position, and the distance from it.

    ``out`` positions with aligned corners.
    """
    at = np.arange(out) * ((size - 1) / (out - 1) if out > 1 else 0.0)
    first = np.minimum(at.astype("int64"), max(size - 2, 0))
    return first, at - first


def _resize(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """Resize an image bilinearly with aligned corners."""
    columns, part = _sampling_positions(image.shape[2], width)
    after = np.minimum(columns + 1, image.shape[2] - 1)
    wide = image[:, :, columns] * (1 - part) + image[:, :, after] * part
    rows, part = _sampling_positions(image.shape[1], height)
    after = np.minimum(rows + 1, image.shape[1] - 1)
    return wide[:, rows] * (1 - part)[:, None] + wide[:, after] * part[:, None]


def letterbox_image(img: np.ndarray, w_in: int, h_in: int) -> np.ndarray:
    """Resize an image with its aspect ratio kept, and pad it with grey to the given size.

    Parameters
    ----------
    img : numpy.ndarray
        The image, channels first.
    w_in : int
        The width of the output.
    h_in : int
        The height of the output.

    Returns
    -------
    numpy.ndarray
    """
    channels, height, width = img.shape
    if w_in / width < h_in / height:
        wide, high = w_in, max(height * w_in // width, 1)
    else:
        wide, high = max(width * h_in // height, 1), h_in
    out = np.full((channels, h_in, w_in), 0.5)
    top, left = (h_in - high) // 2, (w_in - wide) // 2
    out[:, top : top + high, left : left + wide] = _resize(img, wide, high)
    return out


def load_image(img, resize_width, resize_height) -> np.ndarray:
    """Load an image as the input of a network.

    Parameters
    ----------
    img : str
        The path of the image.
    resize_width : int
        The width of the network's input.
    resize_height : int
        The height of the network's input.

    Returns
    -------
    numpy.ndarray
        The image with its aspect ratio kept, channels first, padded with grey.

    Raises
    ------
    TVMError
        The image cannot be read.
    """
    return letterbox_image(load_image_color(img), int(resize_width), int(resize_height))


__all__ = [
    "ACTIVATION",
    "LAYERTYPE",
    "Interface",
    "Library",
    "Network",
    "__darknetffi__",
    "letterbox_image",
    "load_image",
    "load_image_color",
]
