"""Passes over PrimFuncs: the class and its decorator."""

from __future__ import annotations

import sys

from ...ir.module import IRModule
from ...ir.transform import FunctionPass, PassContext, function_pass_factory
from ..function import PrimFunc

# Passes recurse over statements (never over expressions). A program of a few hundred stages nests as deeply, with
# several Python frames per level, and exceeds Python's default recursion limit of 1000.
STATEMENT_DEPTH = 10_000


def allow_deep_statements() -> None:
    """Raise Python's recursion limit to ``STATEMENT_DEPTH``."""
    if sys.getrecursionlimit() < STATEMENT_DEPTH:
        sys.setrecursionlimit(STATEMENT_DEPTH)


class PrimFuncPass(FunctionPass):
    """A pass that transforms the PrimFuncs of a module one by one with a function ``(func, mod, ctx) -> func``.

    Parameters
    ----------
    function : callable
        The function that returns the new PrimFunc for a PrimFunc, its module and the context.
    info : PassInfo
        The name, level and required passes of the pass.
    """

    function_type = PrimFunc

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        allow_deep_statements()
        return super().run(mod, ctx)


prim_func_pass = function_pass_factory(PrimFuncPass, "prim_func_pass")
