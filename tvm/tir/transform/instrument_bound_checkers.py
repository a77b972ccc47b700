"""InstrumentBoundCheckers: insert a check before every store that all indices are in bounds.

The check is an assertion, so that a compiled function reports the invalid access before it happens. Loads guarded by
``if_then_else`` are checked only if their condition is true.
"""

from __future__ import annotations

from ...dtype import info
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, PrimExpr, Ramp, StringImm, const
from ...ir.visit import pre_order
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import AssertStmt, BufferStore, Evaluate, IfThenElse, LetStmt, Stmt, no_op, seq
from .statement import StmtRewriter, is_call


class BoundChecker(StmtRewriter):
    def on_BufferStore(self, node: BufferStore) -> Stmt:
        parts: list[tuple[PrimExpr, str]] = []
        for index in node.indices:
            collect(index, None, parts)
        collect(node.value, None, parts)
        own = access(node.buffer, node.indices)
        if own is not None:
            parts.append((own, f"store to {node.buffer.name}"))
        return guarded(node, parts)

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        parts: list[tuple[PrimExpr, str]] = []
        collect(node.value, None, parts)
        return guarded(node, parts)

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        parts: list[tuple[PrimExpr, str]] = []
        collect(node.value, None, parts)
        return guarded(self.keep(node), parts)

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        parts: list[tuple[PrimExpr, str]] = []
        collect(node.condition, None, parts)
        return guarded(self.keep(node), parts)


def collect(root: PrimExpr, condition: PrimExpr | None, out: list[tuple[PrimExpr, str]]) -> None:
    """Return the conditions under which all loads in ``root`` are in bounds."""
    stops = lambda n: is_call(n, "tir.if_then_else", "tir.address_of", "tir.tvm_access_ptr")
    for node in pre_order(root, stops):
        if is_call(node, "tir.if_then_else"):
            test, yes, no = node.args
            collect(test, condition, out)
            collect(yes, both(condition, test), out)
            collect(no, both(condition, primop.logical_not(test)), out)
        elif isinstance(node, BufferLoad):
            good = access(node.buffer, node.indices)
            if good is not None:
                if condition is not None:
                    good = Call("bool", Op.get("tir.if_then_else"), (condition, good, const(True, "bool")))
                out.append((good, f"load from {node.buffer.name}"))


def both(a: PrimExpr | None, b: PrimExpr) -> PrimExpr:
    return b if a is None else primop.logical_and(a, b)


def access(buffer: Buffer, indices) -> PrimExpr | None:
    """Return the condition that an access is in bounds, or None if the access is provably in bounds or cannot be
    checked."""
    total: PrimExpr | None = None
    for index, extent in zip(indices, buffer.shape):
        ends = (index.base, index.base + index.stride * (index.lanes - 1)) if isinstance(index, Ramp) else (index,)
        for end in ends:
            if info(end.dtype).lanes != 1:
                continue
            low = primop.greater_equal(end, const(0, end.dtype))
            total = both(both(total, low), primop.less(end, extent))
    return None if total is None or primop.is_literal(total, 1) else total


def guarded(node: Stmt, parts: list[tuple[PrimExpr, str]]) -> Stmt:
    checks: list[Stmt] = []
    seen: set[int] = set()
    for condition, what in parts:
        if id(condition) not in seen:
            seen.add(id(condition))
            checks.append(AssertStmt(condition, StringImm(f"OUT OF BOUNDS: {what}"), no_op()))
    return seq(*checks, node) if checks else node


def instrument_bound_checkers(func: PrimFunc) -> PrimFunc:
    return func.replace(body=BoundChecker().stmt(func.body))
