"""Where the runtime library and its headers are."""

from __future__ import annotations

import os
import sys

from ..error import TVMError

_FILE_NAMES = {"darwin": "libtvm_runtime.dylib", "win32": "tvm_runtime.dll"}


def find_library() -> str:
    """The path of the runtime library: ``TVM_LIBRARY_PATH`` (a file or a folder), else ``tvm/lib``.

    Returns
    -------
    str
        The path of the library.

    Raises
    ------
    TVMError
        The library is in none of the searched locations.
    """
    name = _FILE_NAMES.get(sys.platform, "libtvm_runtime.so")
    asked = os.environ.get("TVM_LIBRARY_PATH")
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    candidates = [asked, os.path.join(asked, name)] if asked else [os.path.join(package, "lib", name)]
    for path in candidates:
        if os.path.isfile(path):
            return path
    raise TVMError(
        f"the runtime library {name} was not found (searched: {', '.join(candidates)}); build it with "
        "'make -C csrc' in the source tree, or set TVM_LIBRARY_PATH to the file or its folder"
    )


def include_path() -> str:
    """The folder of ``tvm_runtime.h``: in the installed package, else in the source tree.

    Returns
    -------
    str
        The folder of the header.

    Raises
    ------
    TVMError
        The header is not installed.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for path in (os.path.join(package, "include"), os.path.join(os.path.dirname(package), "csrc", "include")):
        if os.path.isfile(os.path.join(path, "tvm_runtime.h")):
            return path
    raise TVMError("tvm_runtime.h was not found in the package; it is in csrc/include of the source tree")


__all__ = ["find_library", "include_path"]
