"""The runtime: arrays, packed functions, modules. Works without the compiler."""

import importlib

from . import container, module, ndarray, object_generic, packed_func, params, profiling, registry
from ..dtype import DataType, DataTypeCode
from ._paths import find_library, include_path
from .benchmark import BenchmarkResult
from .container import ADT, Array, Map, ShapeTuple, String, tuple_object
from .denormals import flush_denormals
from .devices import (
    Device,
    cl,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    hexagon,
    load_device_library,
    metal,
    mtl,
    opencl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)
from .module import (
    Module,
    ModulePropertyMask,
    enabled,
    load_module,
    load_static_library,
    num_threads,
    system_lib,
)
from .ndarray import NDArray
from .object import Object, ObjectGeneric, ObjectTypes
from .object_generic import const, convert, convert_to_object
from .object_path import ObjectPath
from .packed_func import PackedFunc
from .partition import load_kernel_library
from .params import load_param_dict, load_param_dict_from_file, save_param_dict, save_param_dict_to_file
from .profiling import Report
from .registry import get_global_func, list_global_func_names, register_func, remove_global_func


def __getattr__(name: str):
    # Imported on demand: programs that only run graphs do not need the virtual machine.
    if name in ("executor", "profiler_vm", "vm"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'tvm.runtime' has no attribute '{name}'")
