"""A deep-learning compiler: tensor programs, schedules, code generation, and a small runtime.

``import tvm`` imports the runtime; other parts are imported at first use.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

from . import _ffi, error, runtime
from ._ffi.libinfo import __version__
from .dtype import DataType, DataTypeCode
from .error import TVMError
from .runtime import (
    Device,
    Object,
    cl,
    container,
    cpu,
    cuda,
    device,
    ext_dev,
    get_global_func,
    gpu,
    hexagon,
    metal,
    mtl,
    opencl,
    register_func,
    rocm,
    vpi,
    vulkan,
    webgpu,
)
from .runtime import ndarray as nd
from .runtime.registry import register_extension, register_object

if TYPE_CHECKING:
    from . import arith, autotvm, codegen, contrib, driver, instrument, ir, parser, relay, script, support, target, te
    from . import testing, tir, topi, tuning
    from . import transform
    from .driver.build_module import build, lower
    from .ir import IRModule

_COMPILER_MODULES = frozenset(
    """
    arith auto_scheduler autotvm codegen contrib driver instrument ir meta_schedule micro parser relay rpc
    script support target te testing tir topi transform tuning utils
    """.split()
)
_POOLS = "ConstantMemoryPools ConstantPoolInfo PoolInfo PoolInfoProperties WorkspaceMemoryPools WorkspacePoolInfo"
_COMPILER_NAMES = {
    "IRModule": "ir", "build": "driver.build_module", "lower": "driver.build_module",
    **dict.fromkeys(_POOLS.split(), "ir"),
}  # fmt: skip

# The distribution tvm-classic-runtime does not contain the compiler.
if importlib.util.find_spec(".ir", __name__) is not None:
    from . import _bootstrap, not_built

    not_built.install()
else:
    from . import _runtime_only


def __getattr__(name: str):
    where = name if name in _COMPILER_MODULES else _COMPILER_NAMES.get(name)
    if where is None:
        raise AttributeError(f"module 'tvm' has no attribute '{name}'")
    module = importlib.import_module("." + where, __name__)
    value = globals()[name] = module if where == name else getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_COMPILER_MODULES, *_COMPILER_NAMES})
