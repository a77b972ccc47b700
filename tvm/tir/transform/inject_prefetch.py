"""InjectPrefetch: loop iterations prefetch data that later iterations read, where a schedule requests it.

The distance may be a pair ``tvm_tuple(distance, share)``. If an outer loop repeats the whole loop, each repetition then
prefetches one of ``share`` parts of the data, so that the prefetches are spread over all repetitions.
"""

from __future__ import annotations

from ...arith.interval_set import as_set, eval_set, union
from ...ir import primop
from ...ir.prim import BufferLoad, Range, Var
from ...ir.subst import substitute
from ...ir.visit import post_order
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import AttrStmt, BufferRealize, BufferStore, For, IfThenElse, Prefetch, Stmt, seq
from .accessed_region import bounded_union
from .loop_partition import inner_ranges
from .statement import StmtRewriter, int_value, is_call, statements_in

SCOPE = "prefetch_scope"


def touched_region(body: Stmt, buffer: Buffer) -> list[Range] | None:
    """Return the region of a buffer that a statement accesses over all iterations of its inner loops."""
    sets = {var: as_set(r) for var, r in inner_ranges(body).items()}
    found: list[list] = []
    for n in post_order(body):
        if isinstance(n, (BufferLoad, BufferStore)) and n.buffer is buffer:
            found.append([eval_set(i, sets) for i in n.indices])
    for n in statements_in(body):
        if isinstance(n, AttrStmt) and n.attr_key == "buffer_bind_scope" and n.node[1] is buffer:
            begins, sizes = n.value.args[::2], n.value.args[1::2]
            found.append([union([eval_set(b, sets), eval_set(b + s - 1, sets)]) for b, s in zip(begins, sizes)])
    if not found:
        return None
    return bounded_union(found)


def made_inside(body: Stmt, buffer: Buffer) -> bool:
    """Return whether the buffer is allocated inside the loop: data of a later iteration does not exist yet."""
    return any(isinstance(n, BufferRealize) and n.buffer is buffer for n in statements_in(body))


class Prefetcher(StmtRewriter):
    def __init__(self):
        self.loops: list[tuple[Var, bool]] = []

    def on_For(self, node: For) -> Stmt:
        # A loop of one iteration does not repeat its body.
        self.loops.append((node.loop_var, int_value(node.extent) != 1))
        new = self.keep(node)
        self.loops.pop()
        return new

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key != SCOPE:
            return self.keep(node)
        body = self.stmt(node.body)
        if not self.loops or made_inside(node.body, node.node):
            return body
        region = touched_region(node.body, node.node)
        if region is None:
            return body
        var = self.loops[-1][0]
        distance, share = node.value.args if is_call(node.value, "tir.tvm_tuple") else (node.value, None)
        ahead = {var: var + distance}
        bounds = tuple(Range.from_min_extent(substitute(r.min, ahead), substitute(r.extent, ahead)) for r in region)
        fetch: Stmt = Prefetch(node.node, bounds)
        runs = next((loop for loop, repeats in reversed(self.loops[:-1]) if repeats), None)
        if share is not None and runs is not None:
            fetch = IfThenElse(primop.equal(primop.floormod(var, share), primop.floormod(runs, share)), fetch)
        return seq(fetch, body)


def inject_prefetch(func: PrimFunc) -> PrimFunc:
    if not any(isinstance(n, AttrStmt) and n.attr_key == SCOPE for n in statements_in(func.body)):
        return func
    return func.replace(body=Prefetcher().stmt(func.body))
