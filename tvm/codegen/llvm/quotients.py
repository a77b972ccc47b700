"""Hoist divisions by dynamic dimensions out of inner loops.

A division may trap, so LLVM does not hoist a conditional division out of a loop. With a zero divisor replaced by one,
the division cannot trap; the loops then use its value.
"""

from __future__ import annotations

from ...dtype import info
from ...ir.prim import BufferLoad, Call, Div, FloorDiv, FloorMod, IntImm, Let, Mod, PrimExpr, Select, Var, const
from ...ir.visit import post_order, pre_order
from ...tir.stmt import For, ForKind, LetStmt, Stmt
from .builder import Builder
from .call import HARMLESS
from .value import value

DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


def key(kind: type, dividend: str, divisor: str) -> str:
    """Return the key of a hoisted division among the instructions of a builder."""
    return f"{kind.__name__} {dividend} {divisor}"


def find(loop: For) -> dict[Var, list[PrimExpr]]:
    """Return the divisions of a loop nest that inner loops use, by the innermost variable that they depend on."""
    nodes = list(pre_order(loop))
    if not any(_is_unknown_division(node) for node in nodes):
        return {}
    # Only divisions of loop variables are hoisted.
    bound = {node.var for node in nodes if isinstance(node, (Let, LetStmt))}
    bound |= {node.loop_var for node in nodes if isinstance(node, For) and node.kind is ForKind.UNROLLED}
    found: dict[Var, list[PrimExpr]] = {}

    def visit(node: Stmt, loops: list[Var]) -> None:
        inside = [*loops, node.loop_var] if isinstance(node, For) and node.kind is not ForKind.UNROLLED else loops
        for child in node.children():
            if isinstance(child, Stmt):
                visit(child, inside)
            elif isinstance(child, PrimExpr):
                collect(child, inside)

    def collect(root: PrimExpr, loops: list[Var]) -> None:
        for node in post_order(root):
            if _is_unknown_division(node):
                parts = list(post_order(node))
                used = {part for part in parts if isinstance(part, Var)}
                last = next((i for i in reversed(range(len(loops))) if loops[i] in used), len(loops))
                if last < len(loops) - 1 and not used & bound and all(map(_is_harmless, parts)):
                    found.setdefault(loops[last], []).append(node)

    visit(loop, [])
    return found


def _is_unknown_division(node) -> bool:
    if not isinstance(node, DIVISIONS) or isinstance(node.b, IntImm):
        return False
    data = info(node.dtype)
    return data.lanes == 1 and not data.is_float


def _is_harmless(node) -> bool:
    """Return whether a node reads no memory and contains no call with a relevant effect."""
    return not isinstance(node, BufferLoad) and (not isinstance(node, Call) or getattr(node.op, "name", "") in HARMLESS)


def lift(b: Builder, node) -> None:
    """Emit a division here for all code that this position dominates."""
    if not b.ranges.is_nonnegative(node.a):
        return
    b.push_iteration()
    known = key(type(node), value(b, node.a), value(b, node.b))
    if known not in b.numbered:
        divisor = Select(node.b.equal(0), const(1, node.dtype), node.b)
        b.note(known, value(b, type(node)(node.a, divisor)))
    b.pop_iteration()
