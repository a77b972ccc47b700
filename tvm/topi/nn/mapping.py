"""``tvm.topi.nn.mapping``: scales and offsets of channels, at Apache TVM's module path."""

from .normalization import scale_shift_nchw, scale_shift_nchwc, scale_shift_nhwc

__all__ = ["scale_shift_nchw", "scale_shift_nchwc", "scale_shift_nhwc"]
