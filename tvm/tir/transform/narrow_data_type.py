"""NarrowDataType: compute index arithmetic in fewer bits if all values provably fit.

Loops whose range fits get a narrower variable. An index or condition is narrowed as a whole if each step of its
computation stays in range; otherwise it is unchanged. The attribute ``tir.narrow_indices`` of a function promises that
the elements of all its buffers can be indexed with 32 bits: all its indices are narrowed, whatever is known of their
sizes. If the attribute is False, no index is narrowed, because nearly all of them contain dynamic dimensions of 64
bits.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...dtype import info, make
from ...ir import primop
from ...ir.node import Node
from ...ir.prim import (
    Add,
    BufferLoad,
    Cast,
    CmpExpr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mul,
    PrimExpr,
    Range,
    Sub,
    Var,
    const,
)
from ...ir.visit import post_order, rewrite
from ..function import PrimFunc
from ..stmt import AttrStmt, BufferStore, For, LetStmt, Stmt
from .facts import analyzer_of
from .statement import StmtRewriter, int_value

INDICES_FIT = "tir.narrow_indices"
_ARITHMETIC = (Add, Sub, Mul, FloorDiv, FloorMod, Min, Max)


class Narrower(StmtRewriter):
    def __init__(self, bits: int, analyzer: Analyzer, indices_fit: bool = False):
        self.bits = bits
        self.limit = 1 << (bits - 1)
        self.dtype = make("int", bits)
        self.analyzer = analyzer
        self.indices_fit = indices_fit
        self.variables: dict[Var, Var] = {}
        self.kept: set[Var] = set()  # Variables whose uses would require a cast back to the wide type
        self.always_wide: set[int] = set()  # Ids of indices with dynamic dimensions, which cannot be narrowed
        self.memo: dict = {}

        self.failed: set[Var] = set()

    def fits(self, e: PrimExpr) -> bool:
        bound = self.analyzer.const_int_bound(e)
        return -self.limit <= bound.min_value and bound.max_value < self.limit

    def narrow(self, root: PrimExpr, fits: bool = False) -> PrimExpr | None:
        """Return ``root`` computed in the narrow type, or None if a step may not fit; ``fits`` promises that all steps
        fit."""
        order = self.arithmetic(root)
        if any(map(self.is_always_wide, order)):
            return None
        done: dict[int, PrimExpr | None] = {}
        for node in order:
            done[id(node)] = self.narrow_one(node, done, fits)
        return done[id(root)]

    def arithmetic(self, root: PrimExpr) -> list[PrimExpr]:
        """Return the nodes from which ``root`` is computed, operands first, without the operands of casts from the
        narrow type."""

        def operands(node: PrimExpr) -> Any:
            return () if type(node) is Cast and node.value.dtype == self.dtype else node.children()

        return list(post_order(root, operands=operands))

    def is_always_wide(self, node: PrimExpr) -> bool:
        """Return whether a node is a variable that cannot be narrowed; nothing computed from it can be narrowed."""
        return isinstance(node, Var) and node.dtype != self.dtype and node not in self.variables

    def narrow_one(self, node: Any, done: dict, fits: bool) -> PrimExpr | None:
        if isinstance(node, Var):
            got = self.variables.get(node, node)
            return got if got.dtype == self.dtype else None
        if not isinstance(node, PrimExpr) or not info(node.dtype).is_int or info(node.dtype).lanes != 1:
            return None
        if type(node) is IntImm:
            return const(node.value, self.dtype) if -self.limit <= node.value < self.limit else None
        if type(node) is Cast:
            if node.value.dtype == self.dtype:
                # The indices of loads are narrowed too.
                return self.expr(node.value)
            return done[id(node.value)] if info(node.value.dtype).is_int else None
        if type(node) in _ARITHMETIC:
            a, b = done[id(node.a)], done[id(node.b)]
            if a is not None and b is not None and (fits or self.fits(node)):
                return primop.BUILD[type(node)](a, b)
        return None

    # Expressions ----------------------------------------------------------------------------------------------
    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after, self.before, self.memo)

    def wide(self, node: Any) -> bool:
        return (
            isinstance(node, PrimExpr)
            and info(node.dtype).is_int
            and info(node.dtype).bits > self.bits
            and info(node.dtype).lanes == 1
        )

    def before(self, node: Any):
        if isinstance(node, CmpExpr) and self.wide(node.a):
            a, b = self.narrow(node.a), self.narrow(node.b)
            if a is not None and b is not None:
                return primop.BUILD[type(node)](a, b)
        if isinstance(node, BufferLoad) and any(self.wide(i) for i in node.indices):
            return BufferLoad(node.buffer, tuple(self.index(i) for i in node.indices))
        return None

    def index(self, index: PrimExpr) -> PrimExpr:
        if self.wide(index) and id(index) not in self.always_wide:
            got = self.narrow(index, self.indices_fit)
            if got is None and not any(map(self.is_always_wide, self.arithmetic(index))):
                # Simplification may remove an intermediate value that does not fit.
                got = self.narrow(self.analyzer.simplify(index))
            if got is not None:
                return got
            self.failed.update(n for n in post_order(index) if isinstance(n, Var))
        return self.expr(index)

    def after(self, node: Any):
        if isinstance(node, Var):
            new = self.variables.get(node)
            return None if new is None else primop.cast(node.dtype, new)
        return None

    # Statements -----------------------------------------------------------------------------------------------
    def on_For(self, node: For) -> Stmt:
        low, extent = int_value(node.min), int_value(node.extent)
        var = node.loop_var
        self.analyzer.bind(var, Range.from_min_extent(node.min, node.extent))
        if not self.wide(var):
            return self.keep(node)
        min_value, count = self.narrow(node.min), self.narrow(node.extent)
        last = None if low is None or extent is None else low + extent
        if min_value is None or count is None or (last is not None and last > self.limit):
            return self.keep(node)
        if last is None and not self.fits(node.min + node.extent):
            return self.keep(node)
        if var in self.kept:
            return self.keep(node)
        # Loops that were split from one loop share its variable, and their bodies share the indices, which are narrowed
        # once.
        if var not in self.variables:
            self.variables[var] = Var(var.name, self.dtype)
        new = self.variables[var]
        self.analyzer.bind(new, Range.from_min_extent(min_value, count))
        return For(new, min_value, count, node.kind, self.stmt(node.body), node.thread_binding, node.annotations)

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        if self.wide(node.value) and not any(isinstance(n, BufferLoad) for n in post_order(node.value)):
            self.analyzer.bind(node.var, node.value)
            value = self.narrow(node.value)
            if value is not None and node.var not in self.kept:
                new = Var(node.var.name, self.dtype)
                self.variables[node.var] = new
                return LetStmt(new, value, self.stmt(node.body))
        return self.keep(node)

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key in ("thread_extent", "virtual_thread"):
            var = node.node.var
            self.analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), primop.cast(var.dtype, node.value)))
            if isinstance(node.value, IntImm) and self.wide(node.value):
                narrowed = const(node.value.value, self.dtype)
                return node.replace(value=narrowed, body=self.stmt(node.body))
        return self.keep(node)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        indices = tuple(self.index(i) for i in node.indices)
        value = self.expr(node.value)
        if value is node.value and all(a is b for a, b in zip(indices, node.indices)):
            return node
        return BufferStore(node.buffer, value, indices)


def indices_with_sizes(narrower: Narrower, body: Stmt) -> dict[int, list[Var]]:
    """Return the indices with a wide variable that no loop or let defines: by id, all variables of the index."""
    nodes = list(post_order(body))
    defined = {n.loop_var if isinstance(n, For) else n.var for n in nodes if isinstance(n, (For, LetStmt))}
    found: dict[int, list[Var]] = {}
    for index in {id(i): i for n in nodes if isinstance(n, (BufferLoad, BufferStore)) for i in n.indices}.values():
        inside = [n for n in narrower.arithmetic(index) if isinstance(n, Var)] if narrower.wide(index) else []
        if any(v not in defined and narrower.wide(v) for v in inside):
            found[id(index)] = inside
    return found


def has_wide_integers(node: Node, bits: int) -> bool:
    for n in post_order(node):
        if isinstance(n, For) and info(n.loop_var.dtype).bits > bits:
            return True
        if isinstance(n, (BufferLoad, BufferStore)) and any(info(i.dtype).bits > bits for i in n.indices):
            return True
    return False


def narrow_data_type(func: PrimFunc, target_bits: int = 32) -> PrimFunc:
    if not func.attrs.get(INDICES_FIT, True) or not has_wide_integers(func.body, target_bits):
        return func
    # Finding these indices first avoids restarts when narrowing fails.
    always_wide = indices_with_sizes(Narrower(target_bits, Analyzer()), func.body)
    kept = {var for inside in always_wide.values() for var in inside}
    while True:
        narrower = Narrower(target_bits, analyzer_of(func), target_bits == 32 and bool(func.attrs.get(INDICES_FIT)))
        narrower.kept, narrower.always_wide = kept, set(always_wide)
        body = narrower.stmt(func.body)
        again = {v for v in narrower.failed if v in narrower.variables}
        if not again:
            return func.replace(body=body)
        kept = kept | again
