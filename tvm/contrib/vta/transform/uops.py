"""Loops of micro-op kernels: an instruction executes up to two loops around its micro-ops."""

from __future__ import annotations

from typing import Any

from ....ir import primop
from ....ir.op import Op
from ....ir.prim import Call, PrimExpr, StringImm, Var, const
from ....ir.transform import Pass
from ....tir.function import PrimFunc
from ....tir.op import call_extern
from ....tir.stmt import AttrStmt, Evaluate, For, ForKind, IfThenElse, Stmt, seq
from ....tir.transform import prim_func_pass
from ....tir.transform.statement import StmtRewriter, is_call
from .nests import Level, levels, merged, nest

HARDWARE_LOOPS = 2
# The first argument of VTAUopPush that is an index of an element, and the number of indices.
_FIRST, _INDICES = 2, 3


def is_extern(node: Any, *names: str) -> bool:
    """Return whether a node calls one of these C functions."""
    return is_call(node, "tir.call_extern") and isinstance(node.args[0], StringImm) and node.args[0].value in names


def throw_unless_zero(status: PrimExpr) -> Stmt:
    """Return from the function with the error that a C function has set if its status is not zero."""
    failed = Evaluate(Call("void", Op.get("tir.tvm_throw_last_error"), ()))
    return IfThenElse(primop.not_equal(status, const(0, "int32")), failed, None)


class _Folder(StmtRewriter):
    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != "coproc_uop_scope":
            return self.keep(node)
        return node.replace(body=_Checker().stmt(_folded(node.body)))


def _folded(body: Stmt) -> Stmt:
    """Fold the two outermost loops of a nest around one micro-op. Other statements are recorded as they are."""
    loops, inner = nest(body)
    if not isinstance(inner, Evaluate) or not is_extern(inner.value, "VTAUopPush"):
        return body
    name, *args = inner.value.args
    shape = levels(loops, args[_FIRST : _FIRST + _INDICES])
    if shape is None:
        return body
    found, start = merged(shape[0]), shape[1]
    folded, recorded = found[:HARDWARE_LOOPS], found[HARDWARE_LOOPS:]
    begins = [Evaluate(call_extern("int32", "VTAUopLoopBegin", e.extent, *e.steps)) for e in folded]
    ends = [Evaluate(call_extern("int32", "VTAUopLoopEnd")) for _ in folded]
    return seq(*begins, _recorded(recorded, start, [name, *args]), *ends)


def _recorded(loops: list[Level], start: list[PrimExpr], args: list[PrimExpr]) -> Stmt:
    """Return the loops that record one micro-op in each iteration."""
    variables = [Var(f"uop_{i}", "int32") for i in range(len(loops))]
    indices = []
    for k, index in enumerate(start):
        for var, level in zip(variables, loops):
            index = index + var.astype(index.dtype) * level.steps[k]
        indices.append(index)
    # The first argument of call_extern is the name of the function.
    given = (*args[: 1 + _FIRST], *indices, *args[1 + _FIRST + _INDICES :])
    body: Stmt = Evaluate(Call("int32", Op.get("tir.call_extern"), given))
    for var, level in reversed(list(zip(variables, loops))):
        body = For(var, const(0, "int32"), const(level.extent, "int32"), ForKind.SERIAL, body)
    return body


class _Checker(StmtRewriter):
    """Ends the recording of a kernel at the first error."""

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        records = is_extern(node.value, "VTAUopPush", "VTAUopLoopBegin", "VTAUopLoopEnd")
        return throw_unless_zero(node.value) if records else node


def FoldUopLoop() -> Pass:
    """A pass that makes the two outermost loops of each micro-op kernel loops of its instruction.

    Returns
    -------
    Pass
    """

    def run(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        return func.replace(body=_Folder().stmt(func.body))

    return prim_func_pass(run, opt_level=0, name="tir.vta.FoldUopLoop")
