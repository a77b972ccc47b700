"""Passes over PrimFuncs: the class and the decorator."""

from __future__ import annotations

import sys

from ...ir.module import IRModule
from ...ir.transform import FunctionPass, PassContext, function_pass_factory
from ..function import PrimFunc

# Passes recurse over statements (never over expressions). A chain of a few hundred stages nests as deep, at several
# frames a level, which Python's own limit of 1000 does not allow for.
STATEMENT_DEPTH = 10_000


def allow_deep_statements() -> None:
    """Raise Python's recursion limit to ``STATEMENT_DEPTH``."""
    if sys.getrecursionlimit() < STATEMENT_DEPTH:
        sys.setrecursionlimit(STATEMENT_DEPTH)


class PrimFuncPass(FunctionPass):
    """A pass that treats the PrimFuncs of a module one by one: a function ``(func, mod, ctx) -> func``.

    Parameters
    ----------
    function : callable
        Gives the new function for a function, its module and the context.
    info : PassInfo
        Name, level and requirements of the pass.
    """

    function_type = PrimFunc

    def run(self, mod: IRModule, ctx: PassContext) -> IRModule:
        allow_deep_statements()
        return super().run(mod, ctx)


prim_func_pass = function_pass_factory(PrimFuncPass, "prim_func_pass")
