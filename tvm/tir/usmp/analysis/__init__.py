"""Find the buffers of a program, their sizes and their conflicts."""

from __future__ import annotations

from .analysis import extract_buffer_info

__all__ = ["extract_buffer_info"]
