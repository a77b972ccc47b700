"""``tvm.topi.x86.depthwise_conv2d``: depthwise convolutions and their blocked variants, at Apache TVM's module path."""

from ..cpu.fallback import blocks_of as _fallback_schedule
from ..nn.convolution import depthwise_conv2d_nchw
from ..nn.packed import depthwise_conv2d_NCHWc

__all__ = ["_fallback_schedule", "depthwise_conv2d_NCHWc", "depthwise_conv2d_nchw"]
