"""``tvm._ffi.libinfo``: the version, and the paths of the library and its header."""

from __future__ import annotations

from ..runtime import find_library, include_path

# The version of the Apache TVM interface that this package implements; scripts compare with it.
__version__ = "0.14.0"


def find_lib_path(name: object = None, search_path: object = None, optional: bool = False) -> list[str]:
    return [find_library()]


def find_include_path(name: object = None, search_path: object = None, optional: bool = False) -> list[str]:
    return [include_path()]
