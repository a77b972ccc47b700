"""Reductions over a loop bound to threads: every thread contributes a value and receives the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..error import ScheduleError
from ..ir.op import Op
from ..ir.prim import BufferLoad, Call, IterVar, PrimExpr, Var, const
from ..ir.primop import logical_and
from ..tir.buffer import Buffer, decl_buffer
from ..tir.op import if_then_else
from ..tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, IfThenElse, LetStmt, ProducerStore, Stmt, no_op, seq
from .schedule import Stage

if TYPE_CHECKING:
    from .lower import Lowering


def is_cross_thread(lowering: Lowering, stage: Stage) -> bool:
    """Return whether a reduction loop of the stage is bound to a thread. Its serial reduction loops must then be inside
    all data loops."""
    from . import axes as algebra

    on_threads, serial = _reduction_loops(lowering, stage)
    if not on_threads:
        return False
    mix = algebra.mixed(stage.relations)
    if mix:
        raise ScheduleError(
            f"stage {stage.name}: loop {mix[0].var.name} is fused from data and reduction axes; it cannot be bound "
            "to threads"
        )
    leaves = stage.leaf_iter_vars
    inside = leaves[leaves.index(serial[0]) :] if serial else []
    loose = [a for a in inside if a not in serial and lowering.attach.bound_thread(stage, a) is None]
    if loose:
        raise ScheduleError(
            f"stage {stage.name}: data loop {loose[0].var.name} is inside reduction loop {serial[0].var.name}, but "
            "threads share the reduction; reorder the data loop outwards"
        )
    return True


def _reduction_loops(lowering: Lowering, stage: Stage) -> tuple[list[IterVar], list[IterVar]]:
    """Return the reduction loops that are bound to threads, and those that each thread runs serially."""
    from . import axes as algebra

    marked = dict.fromkeys(stage.op.reduce_axis, True)
    algebra.pass_down_mark(stage.relations, marked)
    reduced = [a for a in stage.leaf_iter_vars if marked.get(a)]
    on_threads = [a for a in reduced if lowering.attach.bound_thread(stage, a) is not None]
    return on_threads, [a for a in reduced if a not in on_threads]


def cross_thread_reduction(lowering: Lowering, stage: Stage) -> Stmt:
    from .lower import Loops, guarded, substitute_all

    op = stage.compute_op
    reduce = op.body[0]
    loops = Loops(lowering, stage)
    on_threads, serial = _reduction_loops(lowering, stage)
    table = {a.var: loops.values[a] for a in list(op.axis) + list(op.reduce_axis)}
    source = substitute_all(reduce.source, table)
    condition: PrimExpr = const(True, "bool")
    for c in loops.guards() + lowering.condition(stage, loops):
        condition = logical_and(condition, c)
    results = _registers(op.name, "cross", source)
    identity = [i.astype(s.dtype) for i, s in zip(reduce.combiner.identity_element, source)]
    parts = _registers(op.name, "part", source) if serial else []
    if serial:
        # Each thread first reduces its own elements.
        values: list[PrimExpr] = [BufferLoad(b, (const(0),)) for b in parts]
        update = _stored(parts, list(reduce.combiner(tuple(values), tuple(source))))
        update = update if getattr(condition, "value", 0) else IfThenElse(condition, update)
        before = seq(_stored(parts, identity), lowering.nest(stage, loops, serial, update))
    else:
        values = [
            s if getattr(condition, "value", 0) else if_then_else(condition, s, i) for s, i in zip(source, identity)
        ]
        before = no_op()
    args = [const(len(source), "uint32"), *values, const(True, "bool")]
    args += [b.data for b in results] + [loops.threads[a].var for a in on_threads]
    call = Evaluate(Call("handle", Op.get("tir.tvm_thread_allreduce"), tuple(args)))
    call = AttrStmt(reduce.combiner, "reduce_scope", const(0, "int32").astype("int32"), call)
    got: list[PrimExpr] = [BufferLoad(b, (const(0),)) for b in results]
    if reduce.init:
        start = substitute_all(reduce.init, table)
        got = list(reduce.combiner(tuple(start), tuple(got)))
    indices = tuple(loops.values[a] for a in op.axis)
    stores = seq(*[ProducerStore(t, got[b.value_index], indices) for t, b in zip(op.outputs, op.body)])
    stores = guarded(loops.guards(skip_reduction=True), lowering.predicated(stage, stores))
    body: Stmt = seq(before, call, stores)
    for b in (*results, *parts):
        body = Allocate(b.data, b.dtype, (const(1),), const(True, "bool"), body)
    return lowering.nest(stage, loops, [a for a in stage.leaf_iter_vars if a not in serial], body)


def _registers(name: str, what: str, values: list[PrimExpr]) -> list[Buffer]:
    return [decl_buffer((1,), value.dtype, f"{name}.{what}{i}", scope="local") for i, value in enumerate(values)]


def _stored(buffers: list[Buffer], values: list[PrimExpr]) -> Stmt:
    """Store each value in its register, after computing all of them."""
    if len(buffers) == 1:
        return BufferStore(buffers[0], values[0], (const(0),))
    names = [Var(f"{b.name}.next", b.dtype) for b in buffers]
    body: Stmt = seq(*[BufferStore(b, name, (const(0),)) for b, name in zip(buffers, names)])
    for name, value in zip(reversed(names), reversed(values)):
        body = LetStmt(name, value, body)
    return body


__all__ = ["is_cross_thread", "cross_thread_reduction"]
