"""``tvm.topi.cuda.depthwise_conv2d``: depthwise convolutions and their schedules, at Apache TVM's module path."""

from . import depthwise_conv2d_nchw, schedule_depthwise_conv2d_nchw, schedule_depthwise_conv2d_nhwc

__all__ = ["depthwise_conv2d_nchw", "schedule_depthwise_conv2d_nchw", "schedule_depthwise_conv2d_nhwc"]
