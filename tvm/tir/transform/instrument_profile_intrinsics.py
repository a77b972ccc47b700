"""InstrumentProfileIntrinsics: insert calls that start and end a counter around functions and loops, each with its own
id.

Functions and loops get ids in pre-order. Ids continue from function to function, and from one run of the pass to the
next unless ``tir.reset_start_id`` is set. The threads of a parallel loop are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.prim import Call, const
from ...ir.transform import PassContext
from ..function import PrimFunc
from ..stmt import Evaluate, For, ForKind, SeqStmt, Stmt, seq
from .statement import StmtRewriter

_numbers = count()


@dataclass(slots=True)
class LoopFacts:
    """Facts about a loop: its id, its depth, the height of the loops inside it, whether it has sibling loops, and
    whether threads of a parallel loop execute it."""

    number: int
    depth: int
    height: int = 0
    has_siblings: bool = False
    in_parallel: bool = False


class LoopFinder:
    """An analysis that collects the facts about the loops of a function, by the identity of the loop."""

    def __init__(self):
        self.loops: dict[int, LoopFacts] = {}

    def visit(self, stmt: Stmt, depth: int, in_parallel: bool) -> int:
        """Return the height of a statement: 0 without loops, else one more than the height of its highest loop."""
        if isinstance(stmt, For):
            facts = self.loops[id(stmt)] = LoopFacts(next(_numbers), depth, 0, False, in_parallel)
            facts.height = self.visit(stmt.body, depth + 1, in_parallel or stmt.kind == ForKind.PARALLEL)
            return facts.height + 1
        inside = [child for child in stmt.children() if isinstance(child, Stmt)]
        height = max((self.visit(child, depth, in_parallel) for child in inside), default=0)
        beside = [child for child in inside if isinstance(child, For)] if isinstance(stmt, SeqStmt) else []
        for loop in beside if len(beside) > 1 else ():
            self.loops[id(loop)].has_siblings = True
        return height


class Instrumenter(StmtRewriter):
    def __init__(self, loops: dict[int, LoopFacts], ctx: PassContext):
        self.loops = loops
        self.siblings_only = bool(ctx.get_config("tir.instr_siblings"))
        self.max_depth = int(ctx.get_config("tir.lwp_max_depth"))
        self.min_height = int(ctx.get_config("tir.lwp_min_height"))

    def on_For(self, node: For) -> Stmt:
        new, facts = self.keep(node), self.loops[id(node)]
        chosen = facts.has_siblings if self.siblings_only else facts.depth <= self.max_depth
        if facts.in_parallel or facts.height < self.min_height or not chosen:
            return new
        return counted(new, facts.number)


def counted(stmt: Stmt, number: int) -> Stmt:
    begin, end = (Evaluate(Call("handle", Op.get(f"tir.{when}_profile_intrinsic"), (const(number),)))
                  for when in ("start", "end"))  # fmt: skip
    return seq(begin, stmt, end)


def instrument_profile_intrinsics(mod: IRModule) -> IRModule:
    global _numbers
    ctx = PassContext.current()
    if ctx.get_config("tir.reset_start_id"):
        _numbers = count()

    def instrumented(_: Any, func: Any) -> Any:
        if not isinstance(func, PrimFunc):
            return func
        number, finder = next(_numbers), LoopFinder()
        finder.visit(func.body, 0, False)
        body = Instrumenter(finder.loops, ctx).stmt(func.body)
        return func.replace(body=body if ctx.get_config("tir.lwp_disable_func_prof") else counted(body, number))

    return mod.map_functions(instrumented)
