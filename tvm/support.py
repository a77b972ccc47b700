"""Information about this build: versions, paths and options."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Callable

from ._ffi.libinfo import __version__
from .runtime import Module, _lib, find_library, include_path
from .runtime.module import add_function

# Build options of Apache TVM for parts that this package does not contain.
_OFF = """
ALTERNATIVE_LINKER AMX AOT_EXECUTOR ARM_COMPUTE_LIB ARM_COMPUTE_LIB_GRAPH_EXECUTOR BLAS BNNS BYODT_POSIT CBLAS CCACHE
CLML CLML_GRAPH_EXECUTOR CMSISNN COREML CPP_RPC CPP_RTVM CUBLAS CUDA CUDNN CURAND CUSTOM_LOGGING CUTLASS DNNL ETHOSN
ETHOSU FALLBACK_STL_MAP GTEST HEXAGON HEXAGON_EXTERNAL_LIBS HEXAGON_GTEST HEXAGON_RPC HEXAGON_SDK HIPBLAS IOS_RPC
KHRONOS_SPIRV LIBBACKTRACE LIBTORCH METAL MICRO MICRO_STANDALONE_RUNTIME MIOPEN MKL MLIR MRVL MSCCL MSVC_MT NCCL NNPACK
NVTX OPENCL OPENCL_ENABLE_HOST_PTR OPENCL_GTEST OPENMP PAPI PIPELINE_EXECUTOR PT_TVMDSOOP RCCL RELAY_DEBUG ROCBLAS ROCM
RTTI RUST_EXT SPIRV_KHR_INTEGER_DOT_PRODUCT STACKVM_RUNTIME TARGET_ONNX TENSORFLOW_PATH TENSORRT_CODEGEN
TENSORRT_RUNTIME TFLITE TF_TVMDSOOP THRUST UMA VERILATOR VITIS_AI VULKAN
""".split()
_ON = "GRAPH_EXECUTOR GRAPH_EXECUTOR_CUDA_GRAPH LLVM PROFILER RANDOM RPC SORT THREADS".split()
_UNKNOWN = ("CUDA_VERSION", "GIT_COMMIT_HASH", "GIT_COMMIT_TIME", "MLIR_VERSION", "ROCM_PATH", "TVM_CLML_VERSION",
            "TVM_CXX_COMPILER_PATH")  # fmt: skip


def libinfo() -> dict[str, str]:
    """Information about this build, under the names that scripts use (``USE_LLVM``, ``TVM_VERSION``...).

    Returns
    -------
    dict
        Text by name: "ON" or "OFF" for parts of the build, "NOT-FOUND" for information that is not recorded.
    """
    return {
        "TVM_VERSION": __version__,
        "LLVM_VERSION": _llvm_version(),
        "LLVMLITE_VERSION": importlib.metadata.version("llvmlite"),
        "RUNTIME_LIBRARY": find_library(),
        "INCLUDE_PATH": include_path(),
        **{f"USE_{name}": "ON" for name in _ON},
        **{f"USE_{name}": "OFF" for name in _OFF},
        **dict.fromkeys(_UNKNOWN, "NOT-FOUND"),
    }


def _llvm_version() -> str:
    from llvmlite import binding

    return ".".join(map(str, binding.llvm_version_info))


def describe() -> None:
    """Print the information for a bug report: Python, platform, versions, options."""
    print(f"Python {sys.version.split()[0]} on {platform.platform()}")
    for key, value in libinfo().items():
        print(f"  {key}: {value}")


class FrontendTestModule(Module):
    """A module to which Python functions can be added.

    Parameters
    ----------
    entry_name : str, optional
        The name of the function that is called when the module is called.

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
        """Add a function to the module.

        Parameters
        ----------
        name : str
            The name.
        func : callable
            The function, as a Python or packed function.
        """
        add_function(self, name, func)

    def __setitem__(self, key: str, value: Callable) -> None:
        self.add_function(key, value)
