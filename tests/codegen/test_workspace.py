"""Workspace of generated code goes back to the runtime on every way out of a function."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te, tir
from tvm.error import TVMError

TARGETS = ["llvm", "c"]


def address_noted(target: str, at: list[int], parallel: bool):
    """A function with two live workspaces that calls back with the number of the row; ``at`` gets their addresses."""

    @tvm.register_func("test.workspace.note", override=True)
    def note(row, first, second):
        at.extend([first.value, second.value])
        if note.fails and row == 1:
            raise ValueError("no second row")
        return 0

    ib = tir.ir_builder.create()
    out = tir.decl_buffer((4,), "float32", name="out")
    view = ib.buffer_ptr(out)
    with ib.for_range(0, 4, name="i", kind="parallel" if parallel else "serial") as i:
        first = ib.allocate("float32", (5000,), name="first", scope="global")
        second = ib.allocate("float32", (9000,), name="second", scope="global")
        first[i] = 1.0
        second[i] = 2.0
        addresses = [tir.call_intrin("handle", "tir.address_of", x[0]) for x in (first, second)]
        ib.emit(tir.call_packed("test.workspace.note", i, *addresses))
        view[i] = first[i] + second[i]
    body = tir.PrimFunc([out], ib.get()).with_attr("global_symbol", "main")
    return tvm.build(body, target=target), note


@pytest.mark.parametrize("target", TARGETS)
def test_a_failing_packed_call_gives_workspace_back(target):
    at: list[int] = []
    function, note = address_noted(target, at, parallel=False)
    array = tvm.nd.array(np.zeros(4, "float32"))
    note.fails = True
    for _ in range(20):
        with pytest.raises((TVMError, ValueError), match="no second row"):
            function(array)
    assert len(at) == 80 and len(set(at)) == 2
    note.fails = False
    function(array)
    np.testing.assert_array_equal(array.numpy(), [3, 3, 3, 3])
    assert len(set(at)) == 2


@pytest.mark.parametrize("target", TARGETS)
def test_a_failing_task_gives_its_workspace_back(target):
    at: list[int] = []
    function, note = address_noted(target, at, parallel=True)
    note.fails = True
    for _ in range(20):
        with pytest.raises((TVMError, ValueError), match="no second row"):
            function(tvm.nd.array(np.zeros(4, "float32")))
    assert len(set(at)) <= 2 * max(tvm.runtime.num_threads(), 2)


@pytest.mark.parametrize("target", TARGETS)
def test_workspace_is_given_back_by_a_return_and_by_a_failed_assertion(target):
    at: list[int] = []
    tvm.register_func("test.workspace.address", lambda x: at.append(x.value), override=True)
    ib = tir.ir_builder.create()
    n = te.var("n")
    data = ib.allocate("float32", (5000,), name="data", scope="global")
    data[n] = 1.0
    ib.emit(tir.call_packed("test.workspace.address", tir.call_intrin("handle", "tir.address_of", data[0])))
    with ib.if_scope(n > 2):
        ib.emit(tir.ret(tir.Cast("int32", data[n])))
    ib.emit(tir.AssertStmt(n > 1, tir.StringImm("n is too small"), tir.Evaluate(0)))
    function = tvm.build(tir.PrimFunc([n], ib.get()).with_attr("global_symbol", "main"), target=target)
    for _ in range(10):
        assert function(3) == 1 and function(2) is None
        with pytest.raises(TVMError, match="n is too small"):
            function(1)
    assert len(at) == 30 and len(set(at)) == 1


def test_memory_of_the_region_is_given_back_when_a_task_fails():
    """The workspace belongs to the launching function, the failure to a task."""
    at: list[int] = []

    @tvm.register_func("test.workspace.task", override=True)
    def task(i, x):
        at.append(x.value)
        raise ValueError("task fails")

    a = te.placeholder((4, 3000), name="a")
    b = te.compute((4, 3000), lambda i, j: a[i, j] + 1, name="b")
    c = te.extern(
        (4,), [b],
        lambda ins, outs: tir.For(
            i := te.var("i"), 0, 4, tir.ForKind.PARALLEL,
            tir.Evaluate(tir.call_packed("test.workspace.task", i, ins[0].data)),
        ),
        dtype="float32", name="c",
    )  # fmt: skip
    function = tvm.build(te.create_schedule(c.op), [a, c], "llvm")
    for _ in range(20):
        with pytest.raises((TVMError, ValueError), match="task fails"):
            function(tvm.nd.array(np.zeros((4, 3000), "float32")), tvm.nd.array(np.zeros(4, "float32")))
    assert len(at) >= 20 and len(set(at)) == 1
