"""Helpers of programs that run DarkNet's networks: loading networks, pictures as networks take them.

The names are those that programs for DarkNet's library use; no library is loaded, the files are read by the importer.
"""

from __future__ import annotations

import os

import numpy as np

from ...error import TVMError
from ..frontend.darknet import ACTIVATION, LAYERTYPE, Network


class Library:
    """What a program asks of DarkNet's library."""

    def load_network(self, cfg, weights, clear=0) -> Network:
        """A network from its two files.

        Parameters
        ----------
        cfg : bytes, str or path
            The configuration.
        weights : bytes, str or path
            The file of weights.
        clear : int, optional
            Whether to forget how many images were seen in training, which changes no result.

        Returns
        -------
        Network

        Raises
        ------
        TVMError
            A file cannot be read, or is none of DarkNet's.
        """
        return Network(cfg, weights)


class Interface:
    """In place of an interface to C: ``dlopen`` gives the functions, whatever the file of the library holds; the file
    is not opened."""

    NULL = None

    def dlopen(self, name=None, flags=0) -> Library:
        """The functions of the library.

        Parameters
        ----------
        name : str, optional
            The path of DarkNet's library, which is not needed.
        flags : int, optional
            How it would be loaded.

        Returns
        -------
        Library
        """
        return Library()


__darknetffi__ = Interface()


def load_image_color(test_image) -> np.ndarray:
    """A picture as numbers from 0 to 1: the channels (red, green, blue) first.

    Parameters
    ----------
    test_image : str
        The path of the picture.

    Returns
    -------
    numpy.ndarray

    Raises
    ------
    TVMError
        The picture cannot be read, or the package Pillow is missing.
    """
    try:
        from PIL import Image
    except ImportError as problem:
        raise TVMError("reading pictures takes the package Pillow") from problem
    try:
        with Image.open(test_image) as picture:
            colors = np.asarray(picture.convert("RGB"), "float64")
    except OSError as problem:
        name = os.path.basename(os.fspath(test_image))
        raise TVMError(f"{name} is no picture that can be read: {problem}") from problem
    return colors.transpose(2, 0, 1) / 255.0


def _places(size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """The first of the two elements that each result lies between, and how far it is from it."""
    at = np.arange(out) * ((size - 1) / (out - 1) if out > 1 else 0.0)
    first = np.minimum(at.astype("int64"), max(size - 2, 0))
    return first, at - first


def _resized(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """A picture of another size, corners upon corners."""
    columns, part = _places(image.shape[2], width)
    after = np.minimum(columns + 1, image.shape[2] - 1)
    wide = image[:, :, columns] * (1 - part) + image[:, :, after] * part
    rows, part = _places(image.shape[1], height)
    after = np.minimum(rows + 1, image.shape[1] - 1)
    return wide[:, rows] * (1 - part)[:, None] + wide[:, after] * part[:, None]


def letterbox_image(img: np.ndarray, w_in: int, h_in: int) -> np.ndarray:
    """A picture that keeps its proportions in the middle of a grey one of another size.

    Parameters
    ----------
    img : numpy.ndarray
        The picture, channels first.
    w_in : int
        The width of the result.
    h_in : int
        The height of the result.

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
    out[:, top : top + high, left : left + wide] = _resized(img, wide, high)
    return out


def load_image(img, resize_width, resize_height) -> np.ndarray:
    """A picture as a network takes it.

    Parameters
    ----------
    img : str
        The path of the picture.
    resize_width : int
        The width of the network's input.
    resize_height : int
        The height of the network's input.

    Returns
    -------
    numpy.ndarray
        The picture in proportion, channels first, its borders filled with grey.

    Raises
    ------
    TVMError
        The picture cannot be read.
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
