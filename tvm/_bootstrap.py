"""Connects the compiler and the runtime, which do not import each other."""

from __future__ import annotations

import importlib

from .hooks import IR_LOADED
from .runtime.module import CAN_COMPILE, FILE_LOADERS
from .runtime.object_generic import CONVERT_NUMBER
from .runtime.registry import get_global_func, register_func


def _join_ir() -> None:
    """Register the hooks that need the IR, after it has been imported."""
    from .ir import env_func, serialize
    from .ir.module import PICTURE
    from .ir.node import Node
    from .runtime import ndarray
    from .runtime.container import ShapeTuple
    from .runtime.object import Object
    from .target import Target

    serialize.register_json_codec(ShapeTuple, "runtime.ShapeTuple", list, ShapeTuple)
    serialize.register_json_codec(Target, "Target", Target.export, Target)
    Object.register(Node)
    env_func.FIND_FUNCTION.give(lambda name: get_global_func(name, allow_missing=True))
    PICTURE.give(_picture)
    serialize.MAKE_ARRAY.give(lambda data, dtype, shape: ndarray.array(serialize.numpy_array(data, dtype, shape)))


def _const(*arguments):
    """Convert a number to an expression."""
    return importlib.import_module("tvm.ir.prim").const(*arguments)


def _picture(module) -> str:
    """Draw the graphs of a module."""
    return importlib.import_module("tvm.contrib.relay_viz").graphs_of(module)


IR_LOADED.give(_join_ir)
CONVERT_NUMBER.give(_const)


@register_func("tvm.default_trace_action")
def _print_traced(*values) -> None:
    print(list(values))


def _file_loaders():
    return importlib.import_module("tvm.target.backend").file_loaders()


def _can_compile(kind: str) -> bool:
    return importlib.import_module("tvm.target.backend").can_compile(kind)


FILE_LOADERS.give(_file_loaders)
CAN_COMPILE.give(_can_compile)


# Global functions of the compiler under Apache TVM's names, whose module is imported by the first call.
_GLOBAL_FUNCTIONS = {
    "tir.transform.UnifiedStaticMemoryPlanner": "tvm.tir.usmp.planner:unified_static_memory_planner",
    "tir.usmp.AssignStmtPoolAllocations": "tvm.tir.usmp.utils:assign_stmt_pool_allocations",
    "tir.usmp.CreateArrayBufferInfo": "tvm.tir.usmp.utils:create_array_buffer_info",
    "tir.usmp.algo.greedy_by_conflicts": "tvm.tir.usmp.algo:greedy_by_conflicts",
    "tir.usmp.algo.greedy_by_size": "tvm.tir.usmp.algo:greedy_by_size",
    "tir.usmp.algo.hill_climb": "tvm.tir.usmp.algo:hill_climb",
    "tir.usmp.algo.search": "tvm.tir.usmp.algo:search",
    "tir.usmp.transform.AssignPoolInfo": "tvm.tir.usmp.transform:assign_pool_info",
    "tir.usmp.transform.CreateAllocatesForIO": "tvm.tir.usmp.transform:create_allocates_for_io",
}


def _call_later(path: str):
    module, _, name = path.partition(":")
    return lambda *arguments: getattr(importlib.import_module(module), name)(*arguments)


for _name, _path in _GLOBAL_FUNCTIONS.items():
    register_func(_name, _call_later(_path), override=True)
