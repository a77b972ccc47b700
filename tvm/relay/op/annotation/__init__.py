"""Annotation operators."""

from .annotation import checkpoint, compiler_begin, compiler_end, on_device, stop_fusion
