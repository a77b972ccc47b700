"""The classic names of operators and schedules for Mali GPUs of the generation Bifrost: those for every GPU."""

from __future__ import annotations

from .cuda import schedules
from .faces import face
from .nn import conv2d_nchw, dense, depthwise_conv2d_nchw, depthwise_conv2d_nhwc

_SCHEDULES = schedules("opencl -device=bifrost")
globals().update(_SCHEDULES)

__getattr__ = face(__name__)

__all__ = [*_SCHEDULES, "conv2d_nchw", "dense", "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc"]
