"""Image operators."""

from .image import affine_grid, crop_and_resize, decode, dilation2d, grid_sample, resize1d, resize2d, resize3d
