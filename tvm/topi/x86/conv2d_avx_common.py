"""``tvm.topi.x86.conv2d_avx_common``: blocks of convolutions on vectors of channels, under TVM's path."""

from ..cpu.fallback import blocks_of as _fallback_schedule

__all__ = ["_fallback_schedule"]
