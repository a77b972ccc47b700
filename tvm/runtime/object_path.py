"""``tvm.runtime.object_path``: paths into objects, under TVM's path."""

from __future__ import annotations

from ..object_path import (
    ArrayIndexPath,
    AttributeAccessPath,
    MapValuePath,
    MissingArrayElementPath,
    MissingMapEntryPath,
    ObjectPath,
    RootPath,
    UnknownAttributeAccessPath,
)

__all__ = [
    "ArrayIndexPath",
    "AttributeAccessPath",
    "MapValuePath",
    "MissingArrayElementPath",
    "MissingMapEntryPath",
    "ObjectPath",
    "RootPath",
    "UnknownAttributeAccessPath",
]
