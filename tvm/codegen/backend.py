"""The table of back ends: target kind -> the function that turns lowered functions into a runtime module."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..error import TVMError
from ..registry import Registry

if TYPE_CHECKING:
    from ..ir.module import IRModule
    from ..runtime.module import Module
    from ..target.target import Target

Build = Callable[["IRModule", "Target"], "Module"]

# A row is a function, or "module:function" of one that is imported at its first use.
BACKENDS: Registry[Build | str] = Registry("back end")
BACKENDS.register("llvm", "tvm.codegen.llvm.build:build")
BACKENDS.register("c", "tvm.codegen.c.build:build")
BACKENDS.register("opencl", "tvm.codegen.opencl:build")
BACKENDS.register("cuda", "tvm.codegen.cuda.build:build")
BACKENDS.register("nvptx", "tvm.codegen.llvm.nvptx:build")
BACKENDS.register("rocm", "tvm.codegen.llvm.rocm:build")


def backend(kind: str) -> Build:
    """The build function of a target kind."""
    row = BACKENDS.get(kind)
    if row is None:
        known = ", ".join(BACKENDS.names())
        raise TVMError(f"no back end generates code for target kind '{kind}'; there are: {known}")
    if isinstance(row, str):
        module, _, name = row.partition(":")
        row = getattr(importlib.import_module(module), name)
        BACKENDS.register(kind, row, override=True)
    return row


def build(mod: IRModule, target: Target) -> Module:
    """Machine code (or source) for the functions of ``mod``, which are in the form code generation takes."""
    return backend(target.kind.name)(mod, target)
