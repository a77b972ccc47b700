"""``tvm.topi.x86.conv2d_avx_common``: block sizes of convolutions on vectors of channels, at Apache TVM's module
path."""

from ..cpu.fallback import blocks_of as _fallback_schedule

__all__ = ["_fallback_schedule"]
