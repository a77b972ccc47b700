"""Upsampling of images by a factor."""

from __future__ import annotations

from ..image import resize2d, resize3d

_METHODS = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}


def _method(name: str) -> str:
    return _METHODS.get(name, name)


def upsampling(
    data, scale_h, scale_w, layout="NCHW", method="nearest_neighbor", align_corners=False, output_shape=None
):
    """The image with height and width multiplied by a factor each and rounded."""
    height, width = layout.index("H"), layout.index("W")
    size = output_shape if output_shape is not None else (
        _scaled(data.shape[height], scale_h), _scaled(data.shape[width], scale_w)
    )  # fmt: skip
    mode = "align_corners" if align_corners else "asymmetric"
    return resize2d(data, [0.0] * 4, size, layout, _method(method), mode)


def upsampling3d(
    data, scale_d, scale_h, scale_w, layout="NCDHW", method="nearest_neighbor",
    coordinate_transformation_mode="half_pixel", output_shape=None,
):  # fmt: skip
    """The image with depth, height and width multiplied by a factor each and rounded."""
    size = output_shape if output_shape is not None else tuple(
        _scaled(data.shape[layout.index(letter)], scale) for letter, scale in zip("DHW", (scale_d, scale_h, scale_w))
    )  # fmt: skip
    return resize3d(data, [0.0] * 6, size, layout, _method(method), coordinate_transformation_mode)


def _scaled(size, factor) -> int:
    return int(round(int(size) * float(factor)))


__all__ = ["upsampling", "upsampling3d"]
