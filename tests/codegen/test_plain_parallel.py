"""The loops of plain C that tasks can run, and those that stay serial."""

from __future__ import annotations

import pytest

from tvm import tir
from tvm.codegen.c.plain_parallel import loops_of_tasks
from tvm.ir.op import Op
from tvm.ir.prim import Call
from tvm.ir.visit import pre_order
from tvm.tir.stmt import Evaluate, For, ForKind


def kinds(write, extent=8) -> list[ForKind]:
    """The kinds of the loops of a function whose outer loop is parallel."""
    out, ib = tir.decl_buffer((64,), "int32", "out"), tir.ir_builder.create()
    size = tir.Var("n", "int32") if extent is None else extent
    with ib.for_range(0, size, name="i", kind="parallel") as i:
        write(ib, out, i)
    params = [out] if extent is not None else [out, size]
    function = loops_of_tasks(tir.PrimFunc(params, ib.get()))
    return [node.kind for node in pre_order(function.body) if isinstance(node, For)]


def store(ib, out, i):
    ib.emit(out.vstore(i, tir.const(1, "int32")))


def with_workspace(elements):
    def write(ib, out, i):
        scratch = ib.allocate("int32", elements, "scratch")
        scratch[0] = i
        ib.emit(out.vstore(i, scratch[0]))

    return write


def add_atomically(ib, out, i):
    place = Call("handle", Op.get("tir.address_of"), (out[0],))
    ib.emit(Evaluate(Call("int32", Op.get("tir.atomic_add"), (place, tir.const(1, "int32")))))


def nested(ib, out, i):
    with ib.for_range(0, 4, name="j", kind="parallel") as j:
        store(ib, out, i * 4 + j)


@pytest.mark.parametrize("write, extent, is_parallel", [
    (store, 8, True), (store, 1, False), (store, None, False), (store, 2**31, False), (with_workspace(4), 8, True),
    (with_workspace(100_000), 8, False), (add_atomically, 8, False),
])  # fmt: skip
def test_loops_of_tasks(write, extent, is_parallel):
    assert kinds(write, extent) == [ForKind.PARALLEL if is_parallel else ForKind.SERIAL]


def test_the_outer_loop_of_two_is_shared():
    assert kinds(nested)[0] is ForKind.PARALLEL


def test_a_serial_outer_loop_has_parallel_inner_loops():
    def write(ib, out, i):
        with_workspace(100_000)(ib, out, i)
        nested(ib, out, i)

    assert kinds(write) == [ForKind.SERIAL, ForKind.PARALLEL]
