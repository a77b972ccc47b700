"""Image operators: decoding of files, resizing, cropping, grid sampling and morphological dilation."""

from .dilation2d import dilation2d_nchw, dilation2d_nhwc
from .files import decode, decoded_shape
from .grid_sample import affine_grid, grid_sample
from .resize import crop_and_resize, resize1d, resize2d, resize3d
from ..descriptions import describe as _describe

_describe(list(globals().values()), "tvm.topi")
