"""The public module of linear pattern detection."""

from .linear import detect_clip_bound, detect_linear_equation

__all__ = ["detect_clip_bound", "detect_linear_equation"]
