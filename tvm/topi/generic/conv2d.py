"""``tvm.topi.generic.conv2d``: schedules of 2D convolutions and their blocked variants, at Apache TVM's module path."""

from ..cpu.fallback import int8_blocks_1x1 as fallback_schedule_cpu_1x1_int8
from ..cpu.fallback import int8_blocks_of as fallback_schedule_cpu_common_int8
from . import schedule_conv2d_nchw, schedule_conv2d_nhwc, schedule_depthwise_conv2d_nhwc

__all__ = [
    "fallback_schedule_cpu_1x1_int8", "fallback_schedule_cpu_common_int8", "schedule_conv2d_nchw",
    "schedule_conv2d_nhwc", "schedule_depthwise_conv2d_nhwc",
]  # fmt: skip
