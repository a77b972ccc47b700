"""How the tasks of a parallel loop share its iterations, in both back ends."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tvm
from tvm import te, tir
from tvm.error import TVMError

TARGETS = ["llvm", "c"]


@pytest.fixture
def threads():
    """Sets the number of threads of the pool for one test."""
    configure = tvm.get_global_func("runtime.config_threadpool")
    before = tvm.runtime.num_threads()
    yield lambda count: configure(1, count)
    configure(1, before)


def counting(target: str):
    """Adds one to count[i] for each i of [low, low + n), ``times`` times over."""
    n, low, times = te.size_var("n"), te.var("low"), te.var("times")
    ib = tir.ir_builder.create()
    count = tir.decl_buffer((te.var("length"),), "int32", name="count")
    at = ib.buffer_ptr(count)
    with ib.for_range(0, times, name="t"):
        with ib.for_range(low, low + n, name="i", kind="parallel") as i:
            at[i] = at[i] + 1
    return tvm.build(tir.PrimFunc([count, low, n, times], ib.get()).with_attr("global_symbol", "main"), target=target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pool", [1, 2, 3, 5, 19])
def test_each_iteration_runs_once_in_each_of_many_regions(target, pool, threads):
    threads(pool)
    function = counting(target)
    for extent in [*range(40), 63, 64, 65, 161, 1000]:
        array = tvm.nd.array(np.zeros(extent + 9, "int32"))
        function(array, 4, extent, 3)
        want = np.zeros(extent + 9)
        want[4 : 4 + extent] = 3
        np.testing.assert_array_equal(array.numpy(), want, err_msg=f"extent {extent}")


@pytest.mark.parametrize("columns, counted", [(8, False), (4096, True)])
@pytest.mark.parametrize("target, mark", [("llvm", "atomicrmw"), ("c", "__atomic_fetch_add")])
def test_short_loops_are_split_evenly(columns, counted, target, mark):
    b = te.compute((16, columns), lambda i, j: i + j, name="b")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    assert (mark in tvm.build(s, [b], target).get_source()) == counted


@pytest.mark.parametrize("target", TARGETS)
def test_regions_entered_by_several_python_threads_at_once(target, threads):
    threads(2)
    function = counting(target)
    wrong = []

    def work():
        array = tvm.nd.array(np.zeros(100, "int32"))
        for _ in range(50):
            function(array, 0, 100, 20)
        if not (array.numpy() == 1000).all():
            wrong.append(array.numpy())

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.parametrize("target", TARGETS)
def test_a_held_up_task_leaves_the_rest_to_the_others(target, threads):
    """The first iteration returns only when the other thread has done everything but the first thread's own start."""
    threads(2)
    extent, own = 64, 16
    done: set[int] = set()
    change = threading.Condition()
    outcome = []

    @tvm.register_func("test.region.step", override=True)
    def step(i):
        with change:
            if i == 0:
                outcome.append(change.wait_for(lambda: len(done) == extent - own, timeout=120))
            else:
                done.add(i)
                change.notify_all()
        return i

    b = te.compute((extent,), lambda i: tir.call_packed("test.region.step", i), name="b")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    array = tvm.nd.array(np.zeros(extent, "int32"))
    tvm.build(s, [b], target)(array)
    assert outcome == [True]
    np.testing.assert_array_equal(array.numpy(), np.arange(extent))


@pytest.mark.parametrize("target", TARGETS)
def test_exception_in_an_iteration_ends_the_region_and_the_next_one_works(target, threads):
    threads(2)

    @tvm.register_func("test.region.refuse", override=True)
    def refuse(i):
        if refuse.at == i:
            raise ValueError(f"no iteration {i}")
        return i

    b = te.compute((50,), lambda i: tir.call_packed("test.region.refuse", i), name="b")
    s = te.create_schedule(b.op)
    s[b].parallel(b.op.axis[0])
    function = tvm.build(s, [b], target)
    for refuse.at in (0, 13, 30, 49):
        with pytest.raises((TVMError, ValueError), match=f"no iteration {refuse.at}"):
            function(tvm.nd.array(np.zeros(50, "int32")))
    refuse.at = -1
    array = tvm.nd.array(np.zeros(50, "int32"))
    function(array)
    np.testing.assert_array_equal(array.numpy(), np.arange(50))


@pytest.mark.parametrize("target", TARGETS)
def test_memory_of_an_iteration_is_its_own_and_inner_parallel_loops_run_in_place(target, threads, rng):
    threads(2)
    a = te.placeholder((30, 500), name="a", dtype="int32")
    b = te.compute((30, 500), lambda i, j: a[i, j] * 2, name="b")
    c = te.compute((30, 500), lambda i, j: b[i, 499 - j] + 1, name="c")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].parallel(b.op.axis[1])
    s[c].parallel(c.op.axis[0])
    x = rng.integers(-1000, 1000, (30, 500)).astype("int32")
    out = tvm.nd.array(np.zeros((30, 500), "int32"))
    function = tvm.build(s, [a, c], target)
    for _ in range(20):
        function(tvm.nd.array(x), out)
        np.testing.assert_array_equal(out.numpy(), 2 * x[:, ::-1] + 1)
