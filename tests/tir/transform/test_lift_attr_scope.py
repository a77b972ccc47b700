"""LiftAttrScope: an attribute moves to the largest statement whose work is all inside it."""

from __future__ import annotations

import tvm
from tvm import te, tir
from tvm.ir.prim import IterVar, const
from tvm.tir.stmt import Allocate, AttrStmt, BufferStore, For, ForKind, IfThenElse, SeqStmt, seq

AXIS = te.thread_axis((0, 1), "cop")
MEMORY = tir.decl_buffer((64,), "int32", "memory")
I, J = te.var("i"), te.var("j")


def work(value, index=0):
    return AttrStmt(
        AXIS, "key", const(value) if isinstance(value, int) else value, BufferStore(MEMORY, const(1), [index])
    )


def loop(var, body):
    return For(var, const(0), const(4), ForKind.SERIAL, body)


def lifted(body, **options):
    mod = tvm.IRModule.from_expr(tir.PrimFunc([MEMORY.data], body))
    return tvm.tir.transform.LiftAttrScope("key", **options)(mod)["main"].body


def test_attributes_move_over_loops_branches_and_other_attributes():
    other = AttrStmt(AXIS, "other", const(1), work(2, I + J))
    new = lifted(loop(I, IfThenElse(I < 3, loop(J, other), None)))
    assert new.attr_key == "key" and int(new.value) == 2
    assert isinstance(new.body, For) and isinstance(new.body.body, IfThenElse)
    assert new.body.body.then_case.body.attr_key == "other"


def test_an_attribute_stays_below_the_loop_whose_variable_its_value_uses():
    new = lifted(loop(I, loop(J, work(I, J))))
    assert isinstance(new, For) and new.body.attr_key == "key" and isinstance(new.body.body, For)


def test_adjacent_statements_with_the_same_attribute_are_merged_unless_told_otherwise():
    body = loop(I, seq(work(1), work(1, 1), work(2, 2)))
    new = lifted(body)
    assert isinstance(new, For) and [int(s.value) for s in new.body.seq] == [1, 2]
    assert isinstance(new.body.seq[0].body, SeqStmt)
    apart = lifted(body, merges_neighbors=False)
    assert [int(s.value) for s in apart.body.seq] == [1, 1, 2]


def test_attributes_do_not_move_over_allocations_virtual_threads_and_branches_with_an_alternative():
    local = tir.decl_buffer((4,), "int32", "local")
    allocation = Allocate(local.data, "int32", [4], const(True, "bool"), work(1))
    assert isinstance(lifted(allocation), Allocate)
    thread = AttrStmt(IterVar((0, 2), "v", IterVar.ThreadIndex, "cthread"), "virtual_thread", const(2), work(1))
    assert lifted(thread).attr_key == "virtual_thread"
    both = IfThenElse(I < 3, work(1), work(1, 1))
    assert isinstance(lifted(loop(I, both)).body, IfThenElse)
