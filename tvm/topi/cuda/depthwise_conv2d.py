"""``tvm.topi.cuda.depthwise_conv2d``: convolutions of single channels and their schedules, under TVM's path."""

from . import depthwise_conv2d_nchw, schedule_depthwise_conv2d_nchw, schedule_depthwise_conv2d_nhwc

__all__ = ["depthwise_conv2d_nchw", "schedule_depthwise_conv2d_nchw", "schedule_depthwise_conv2d_nhwc"]
