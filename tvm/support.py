"""What this build is made of: versions, paths and options."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

from ._ffi.libinfo import __version__
from .runtime import find_library, include_path


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
