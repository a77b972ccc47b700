"""The Caffe importer."""

# The families of converters register themselves.
from . import detection_ops, elementwise, recurrent, shape_ops, windows
from .reader import from_caffe

__all__ = ["from_caffe"]
