"""What this build is made of: versions, paths and options."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable

from ._ffi.libinfo import __version__
from .runtime import Module, _lib, find_library, include_path
from .runtime.module import add_function


def libinfo() -> dict[str, str]:
    """Facts about this build, under the names scripts ask for (``USE_LLVM``, ``TVM_VERSION``...)."""
    return {
        "TVM_VERSION": __version__,
        "USE_LLVM": "ON",
        "LLVM_VERSION": _llvm_version(),
        "LLVMLITE_VERSION": importlib.metadata.version("llvmlite"),
        "USE_THREADS": "ON",
        "USE_RPC": "ON",
        "USE_CUDA": "OFF",
        "USE_OPENCL": "OFF",
        "USE_METAL": "OFF",
        "USE_VULKAN": "OFF",
        "USE_ROCM": "OFF",
        "USE_CBLAS": "OFF",
        "RUNTIME_LIBRARY": find_library(),
        "INCLUDE_PATH": include_path(),
    }


def _llvm_version() -> str:
    from llvmlite import binding

    return ".".join(map(str, binding.llvm_version_info))


def describe() -> None:
    """Print what a report of a problem should say: Python, platform, versions, options."""
    print(f"Python {sys.version.split()[0]} on {platform.platform()}")
    for key, value in libinfo().items():
        print(f"  {key}: {value}")


class FrontendTestModule(Module):
    """A module that Python functions are added to.

    Parameters
    ----------
    entry_name : str, optional
        The name of the function that a call of the module calls.

    Examples
    --------
    >>> module = tvm.support.FrontendTestModule()
    >>> module["twice"] = lambda x: 2 * x
    >>> module["twice"](21)
    42
    """

    __slots__ = ()

    def __init__(self, entry_name: str | None = None):
        super().__init__(_lib.module_create("python", []))
        if entry_name is not None:
            self.entry_name = entry_name

    def add_function(self, name: str, func: Callable) -> None:
        """Let the module have a function under a name.

        Parameters
        ----------
        name : str
            The name.
        func : callable
            The function, in Python or packed.
        """
        add_function(self, name, func)

    def __setitem__(self, key: str, value: Callable) -> None:
        self.add_function(key, value)
