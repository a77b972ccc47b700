"""Lowering of hybrid scripts: applies the split, fuse, reorder and annotation steps of a stage to the script's
loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...error import ScheduleError
from ...ir.prim import IterVar, ProducerLoad, Range, const
from ...ir.primop import floordiv, floormod
from ...ir.subst import substitute
from ...ir.visit import rewrite
from ...tir.op import likely
from ...tir.stmt import AttrStmt, For, IfThenElse, ProducerStore, Stmt
from ..axes import Fuse, Split
from ..schedule import Stage
from ..tensor import HybridOp

if TYPE_CHECKING:
    from ..lower import Lowering


def hybrid_stage(lowering: Lowering, stage: Stage) -> Stmt:
    """Return the script's statement with scheduled loops, writing to the stage's own tensors."""
    op = stage.op
    assert isinstance(op, HybridOp), f"stage {stage.name} is not a hybrid script"
    table = dict(zip(op.outputs_, op.outputs))

    def post(node: Any):
        if type(node) is ProducerLoad and node.producer in table:
            return ProducerLoad(table[node.producer], node.indices)
        if type(node) is ProducerStore and node.producer in table:
            return ProducerStore(table[node.producer], node.value, node.indices)
        return None

    body = rewrite(op.body, post)
    for r in stage.relations:
        if isinstance(r, Split):
            body = _split(body, r, lowering)
        elif isinstance(r, Fuse):
            body = _fuse(body, r, stage, lowering)
    body = _reorder(body, stage)
    return _annotate(body, stage, lowering)


def _replace_loop(body: Stmt, axis: IterVar, make: Any) -> Stmt:
    done = [False]

    def post(node: Any):
        if type(node) is For and node.loop_var is axis.var:
            done[0] = True
            return make(node)
        return None

    out = rewrite(body, post)
    if not done[0]:
        raise ScheduleError(f"hybrid script: loop {axis.var.name} is not in its statement")
    return out


def _split(body: Stmt, r: Split, lowering: Lowering) -> Stmt:
    ranges = lowering.bounds.ranges
    outer, inner = ranges[r.outer].extent, ranges[r.inner].extent

    def make(loop: For) -> Stmt:
        value = r.outer.var * inner + r.inner.var
        new = substitute(loop.body, {r.parent.var: value})
        if not lowering.bounds.analyzer.can_prove_equal(outer * inner, loop.extent):
            new = IfThenElse(likely(value < loop.extent), new)
        return For(
            r.outer.var,
            const(0, outer.dtype),
            outer,
            loop.kind,
            For(r.inner.var, const(0, inner.dtype), inner, loop.kind, new),
        )

    return _replace_loop(body, r.parent, make)


def _fuse(body: Stmt, r: Fuse, stage: Stage, lowering: Lowering) -> Stmt:
    inner_extent = lowering.bounds.ranges[r.inner].extent
    extent = lowering.bounds.ranges[r.fused].extent

    def make(loop: For) -> Stmt:
        inside = loop.body
        if type(inside) is not For or inside.loop_var is not r.inner.var:
            raise ScheduleError(
                f"fuse on stage {stage.name}: loop {r.inner.var.name} is not directly inside {r.outer.var.name}"
            )
        values = {r.outer.var: floordiv(r.fused.var, inner_extent), r.inner.var: floormod(r.fused.var, inner_extent)}
        return For(r.fused.var, const(0, extent.dtype), extent, loop.kind, substitute(inside.body, values))

    return _replace_loop(body, r.outer, make)


def _reorder(body: Stmt, stage: Stage) -> Stmt:
    """Put perfectly nested loops into the order of the stage's leaf axes."""
    rank = {a.var: i for i, a in enumerate(stage.leaf_iter_vars)}

    def pre(node: Any):
        if type(node) is not For or node.loop_var not in rank:
            return None
        chain = [node]
        while type(chain[-1].body) is For and chain[-1].body.loop_var in rank:
            chain.append(chain[-1].body)
        order = sorted(chain, key=lambda loop: rank[loop.loop_var])
        if order == chain:
            return None
        new = _reorder(chain[-1].body, stage)
        for loop in reversed(order):
            new = For(loop.loop_var, loop.min, loop.extent, loop.kind, new)
        return new

    return rewrite(body, pre=pre)


def _annotate(body: Stmt, stage: Stage, lowering: Lowering) -> Stmt:
    from ..lower import FOR_KIND

    axes = {a.var: a for a in stage.leaf_iter_vars}

    def post(node: Any):
        if type(node) is not For or node.loop_var not in axes:
            return None
        axis = axes[node.loop_var]
        attrs = stage.peek(axis)
        if attrs is None:
            return None
        if attrs.bind_thread is not None:
            thread = attrs.bind_thread
            lowering.bounds.ranges.setdefault(thread, Range(min=node.min, extent=node.extent))
            inner = substitute(node.body, {node.loop_var: thread.var})
            return AttrStmt(thread, "thread_extent", node.extent, inner)
        kind = FOR_KIND.get(attrs.iter_type, node.kind)
        new: Stmt = For(node.loop_var, node.min, node.extent, kind, node.body)
        for key, value in attrs.pragmas:
            new = AttrStmt(axis, "pragma_" + key, const(1) if value is None else value, new)
        return new if kind is not node.kind or attrs.pragmas else None

    return rewrite(body, post)
