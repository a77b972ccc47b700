"""Reductions whose loop is carried by threads: every thread contributes a value, all receive the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..error import ScheduleError
from ..ir.op import Op
from ..ir.prim import BufferLoad, Call, IterVar, PrimExpr, const
from ..ir.primop import logical_and
from ..tir.buffer import decl_buffer
from ..tir.op import if_then_else
from ..tir.stmt import Allocate, AttrStmt, Evaluate, ProducerStore, Stmt, seq
from .schedule import Stage

if TYPE_CHECKING:
    from .lower import Lowering


def is_cross_thread(lowering: Lowering, stage: Stage) -> bool:
    """Whether a reduction loop of the stage is bound to a thread. All its reduction loops must be then."""
    from . import axes as algebra

    marked = dict.fromkeys(stage.op.reduce_axis, True)
    algebra.pass_down_mark(stage.relations, marked)
    bound = [
        lowering.attach.bound_thread(stage, a) is not None for a in stage.leaf_iter_vars if marked.get(a)
    ]
    mix = algebra.mixed(stage.relations)
    if any(bound) and mix:
        raise ScheduleError(
            f"stage {stage.name}: loop {mix[0].var.name} is fused from data and reduction; threads cannot carry it"
        )
    if any(bound) and not all(bound):
        reduced = [a for a in stage.leaf_iter_vars if marked.get(a)]
        loose = next(a for a in reduced if lowering.attach.bound_thread(stage, a) is None)
        raise ScheduleError(
            f"stage {stage.name}: reduction loop {loose.var.name} is serial while another is bound to threads; "
            "use rfactor to reduce the serial part first"
        )
    return bool(bound) and all(bound)


def cross_thread_reduction(lowering: Lowering, stage: Stage) -> Stmt:
    from . import axes as algebra
    from .lower import Loops, _substitute_all, guarded

    op = stage.compute_op
    reduce = op.body[0]
    loops = Loops(lowering, stage)
    marked = dict.fromkeys(op.reduce_axis, True)
    algebra.pass_down_mark(stage.relations, marked)
    reduce_threads: list[IterVar] = [loops.threads[a] for a in stage.leaf_iter_vars if marked.get(a)]
    table = {a.var: loops.values[a] for a in list(op.axis) + list(op.reduce_axis)}
    source = _substitute_all(reduce.source, table)
    condition: PrimExpr = const(True, "bool")
    for c in loops.guards() + lowering._condition(stage, loops):
        condition = logical_and(condition, c)
    results = [decl_buffer((1,), s.dtype, f"{op.name}.cross{i}", scope="local") for i, s in enumerate(source)]
    identity = reduce.combiner.identity_element
    values = [
        s if getattr(condition, "value", 0) else if_then_else(condition, s, i.astype(s.dtype))
        for s, i in zip(source, identity)
    ]
    args = [const(len(source), "uint32"), *values, const(True, "bool")]
    args += [b.data for b in results] + [t.var for t in reduce_threads]
    call = Evaluate(Call("handle", Op.get("tir.tvm_thread_allreduce"), tuple(args)))
    call = AttrStmt(reduce.combiner, "reduce_scope", const(0, "int32").astype("int32"), call)
    indices = tuple(loops.values[a] for a in op.axis)
    got = [BufferLoad(b, (const(0),)) for b in results]
    if reduce.init:
        start = _substitute_all(reduce.init, table)
        got = list(reduce.combiner(tuple(start), tuple(got)))
    stores = seq(*[ProducerStore(t, got[b.value_index], indices) for t, b in zip(op.outputs, op.body)])
    stores = guarded(loops.guards(skip_reduction=True), lowering._predicated(stage, stores))
    body: Stmt = seq(call, stores)
    for b in results:
        body = Allocate(b.data, b.dtype, (const(1),), const(True, "bool"), body)
    return lowering.nest(stage, loops, stage.leaf_iter_vars, body)


__all__ = ["is_cross_thread", "cross_thread_reduction"]
