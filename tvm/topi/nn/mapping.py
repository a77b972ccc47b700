"""``tvm.topi.nn.mapping``: factors and offsets of channels, under TVM's path."""

from .normalization import scale_shift_nchw, scale_shift_nchwc, scale_shift_nhwc

__all__ = ["scale_shift_nchw", "scale_shift_nchwc", "scale_shift_nhwc"]
