"""``tvm.topi.nn.depthwise_conv2d``: depthwise convolutions, at Apache TVM's module path."""

from ...not_built import name_of as _name_of
from .convolution import depthwise_conv2d_nchw, depthwise_conv2d_nhwc
from .packed import depthwise_conv2d_NCHWc
from .workload import Workload, depthwise_workload

_get_workload = depthwise_workload

__all__ = ["Workload", "depthwise_conv2d_NCHWc", "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc"]


def __getattr__(name: str):
    return _name_of(__name__, name)
