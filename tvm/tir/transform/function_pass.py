"""Passes over PrimFuncs: the class and the decorator."""

from __future__ import annotations

from ...ir.transform import FunctionPass, function_pass_factory
from ..function import PrimFunc


class PrimFuncPass(FunctionPass):
    """A pass that treats the PrimFuncs of a module one by one: a function ``(func, mod, ctx) -> func``."""

    function_type = PrimFunc


prim_func_pass = function_pass_factory(PrimFuncPass, "prim_func_pass")
