"""The Caffe importer."""

# Importing a converter module registers its converters.
from . import detection_ops, elementwise, recurrent, shape_ops, windows
from .reader import from_caffe

__all__ = ["from_caffe"]
