"""InjectPrefetch: where a schedule asks for it, each iteration of a loop fetches what a later iteration will read."""

from __future__ import annotations

from ...arith.intset import as_set, eval_set, union
from ...ir.prim import BufferLoad, Range, Var
from ...ir.subst import substitute
from ...ir.visit import post_order
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import AttrStmt, BufferRealize, BufferStore, For, Prefetch, Stmt, seq
from .loop_partition import inner_ranges
from .statement import StmtRewriter

SCOPE = "prefetch_scope"


def touched_region(body: Stmt, buffer: Buffer) -> list[Range] | None:
    """The part of a buffer that a statement touches, loops inside it taken over their whole ranges."""
    sets = {var: as_set(r) for var, r in inner_ranges(body).items()}
    found: list[list] = []
    for n in post_order(body):
        if isinstance(n, (BufferLoad, BufferStore)) and n.buffer is buffer:
            found.append([eval_set(i, sets) for i in n.indices])
    if not found:
        return None
    region = []
    for axis in range(len(buffer.shape)):
        whole = union([f[axis] for f in found])
        if not (whole.has_lower_bound() and whole.has_upper_bound()):
            return None
        region.append(whole.range())
    return region


def made_inside(body: Stmt, buffer: Buffer) -> bool:
    """Whether the buffer only exists inside the loop: a later iteration's is not there to be fetched."""
    return any(isinstance(n, BufferRealize) and n.buffer is buffer for n in post_order(body))


class Prefetcher(StmtRewriter):
    def __init__(self):
        self.loops: list[Var] = []

    def on_For(self, node: For) -> Stmt:
        self.loops.append(node.loop_var)
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
        var = self.loops[-1]
        ahead = {var: var + node.value}
        bounds = tuple(Range.from_min_extent(substitute(r.min, ahead), substitute(r.extent, ahead)) for r in region)
        return seq(Prefetch(node.node, bounds), body)


def inject_prefetch(func: PrimFunc) -> PrimFunc:
    if not any(isinstance(n, AttrStmt) and n.attr_key == SCOPE for n in post_order(func.body)):
        return func
    return func.replace(body=Prefetcher().stmt(func.body))
