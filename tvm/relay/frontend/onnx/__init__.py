"""The ONNX importer."""

from .reader import from_onnx

__all__ = ["from_onnx"]
