"""``tvm.transform``: passes and their context (``tvm.ir.transform`` under its public name)."""

from __future__ import annotations

from .ir.transform import (
    ApplyPassToFunction,
    FunctionPass,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PrintIR,
    Sequential,
    module_pass,
)

__all__ = [
    "ApplyPassToFunction",
    "FunctionPass",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrintIR",
    "Sequential",
    "module_pass",
]
