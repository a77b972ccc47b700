"""``tvm.topi.nn.conv2d``: 2D convolutions, at Apache TVM's module path."""

from ...not_built import name_of as _name_of
from .convolution import conv2d, conv2d_hwcn, conv2d_nchw, conv2d_nhwc, group_conv2d_nchw, group_conv2d_nhwc
from .packed import conv2d_NCHWc
from .workload import Workload, conv2d_workload

_get_workload = conv2d_workload

__all__ = [
    "Workload", "conv2d", "conv2d_NCHWc", "conv2d_hwcn", "conv2d_nchw", "conv2d_nhwc", "group_conv2d_nchw",
    "group_conv2d_nhwc",
]  # fmt: skip


def __getattr__(name: str):
    return _name_of(__name__, name)
