"""Importers: models of other tools as graphs. Each framework is imported only when its importer is called."""

from .onnx import from_onnx

__all__ = ["from_onnx"]
