"""Vectorization: ramps, broadcasts, lane-by-lane fallbacks, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from interpreter import run

from tvm.error import TVMError
from tvm.ir.op import Op
from tvm.ir.prim import And, Broadcast, BufferLoad, Call, Let, Ramp, Select, Var, const
from tvm.ir.visit import post_order
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import exp, if_then_else, likely
from tvm.tir.stmt import Allocate, BufferStore, Evaluate, For, ForKind, IfThenElse, LetStmt, seq
from tvm.tir.transform.vectorize_loop import vectorize_loop

LANES = 8


def of(kind, node):
    return [n for n in post_order(node) if isinstance(n, kind)]


def loop(body, extent=LANES, low=0):
    v = Var("v", "int32")
    return For(v, low, extent, ForKind.VECTORIZED, body(v))


def same_result(func, *arrays, externs=None):
    """The vectorized function, after comparing it with the serial one."""
    new = vectorize_loop(func)
    assert not [f for f in of(For, new.body) if f.kind is ForKind.VECTORIZED]
    want, got = [a.copy() for a in arrays], [a.copy() for a in arrays]
    run(func, *want, externs=externs)
    run(new, *got, externs=externs)
    for a, b in zip(want, got):
        np.testing.assert_array_equal(a, b)
    return new


@pytest.fixture
def buffers():
    return decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "B")


def arrays():
    rng = np.random.default_rng(7)
    return rng.random(64, "float32"), rng.random(64, "float32")


def test_index_becomes_a_ramp_and_constants_broadcast(buffers):
    a, b = buffers
    i = Var("i", "int32")
    body = For(i, 0, 4, 0, loop(lambda v: BufferStore(b, a[i * 8 + v] * 2.0 + a[i], [v + i * 8])))
    new = same_result(PrimFunc([a, b], body), *arrays())
    store = of(BufferStore, new.body)[0]
    assert isinstance(store.indices[0], Ramp) and store.value.dtype == "float32x8"
    assert not of(For, new.body.body)
    assert len(of(Broadcast, store.value)) == 2


def test_strided_and_offset_accesses(buffers):
    a, b = buffers
    new = same_result(PrimFunc([a, b], loop(lambda v: BufferStore(b, a[v * 3 + 5], [63 - v]), low=2)), *arrays())
    ramps = of(Ramp, new.body)
    assert sorted(int(r.stride) for r in ramps) == [-1, 3]


def test_loop_variable_as_data(buffers):
    a, b = buffers
    same_result(PrimFunc([a, b], loop(lambda v: BufferStore(b, (v * v).astype("float32") + exp(a[v]), [v]))), *arrays())


def test_division_of_the_loop_variable_gathers(buffers):
    a, b = buffers
    new = same_result(PrimFunc([a, b], loop(lambda v: BufferStore(b, a[v // 2 + v % 3], [v]))), *arrays())
    assert not of(For, new.body)


def test_condition_that_varies_runs_lane_by_lane(buffers):
    a, b = buffers
    body = lambda v: seq(IfThenElse(v < 3, BufferStore(b, a[v], [v])), BufferStore(b, a[v], [v + 8]))
    new = same_result(PrimFunc([a, b], loop(body)), *arrays())
    assert [f.kind for f in of(For, new.body)] == [ForKind.SERIAL]
    assert [s.value.dtype for s in of(BufferStore, new.body)] == ["float32", "float32x8"]


def test_condition_that_does_not_vary_stays(buffers):
    a, b = buffers
    i = Var("i", "int32")
    inner = loop(lambda v: IfThenElse(i < 2, BufferStore(b, a[v], [v + i * 8]), BufferStore(b, a[v + 1], [v + i * 8])))
    new = same_result(PrimFunc([a, b], For(i, 0, 4, 0, inner)), *arrays())
    assert len(of(For, new.body)) == 1


def test_conditional_load_is_not_executed_out_of_bounds(buffers):
    a, b = buffers
    body = lambda v: BufferStore(b, if_then_else(v < 3, a[v + 61], const(0, "float32")), [v])
    new = same_result(PrimFunc([a, b], loop(body)), *arrays())
    assert of(For, new.body)


def test_conditional_without_loads_becomes_select(buffers):
    a, b = buffers
    body = lambda v: BufferStore(b, if_then_else(v < 3, const(1, "float32"), const(0, "float32")), [v])
    new = same_result(PrimFunc([a, b], loop(body)), *arrays())
    assert of(Select, new.body) and not of(For, new.body)


def test_uniform_conditional_keeps_its_branch(buffers):
    a, b = buffers
    i = Var("i", "int32")
    body = loop(lambda v: BufferStore(b, if_then_else(i < 2, a[v + i * 8], const(0, "float32")), [v + i * 8]))
    new = same_result(PrimFunc([a, b], For(i, 0, 4, 0, body)), *arrays())
    call = next(c for c in of(Call, new.body) if c.op.name == "tir.if_then_else")
    assert call.dtype == "float32x8" and call.args[0].dtype == "bool"


def test_reduction_into_one_place_stays_serial(buffers):
    a, b = buffers
    same_result(PrimFunc([a, b], loop(lambda v: BufferStore(b, b[0] + a[v], [0]))), *arrays())
    same_result(PrimFunc([a, b], loop(lambda v: BufferStore(b, b[0] + 1.0, [0]))), *arrays())


def test_let_values_become_vectors(buffers):
    a, b = buffers
    x = Var("x", "float32")
    body = lambda v: LetStmt(
        x, a[v], seq(BufferStore(b, x * x, [v]), IfThenElse(v < 2, BufferStore(b, x + 1.0, [v + 8])))
    )
    same_result(PrimFunc([a, b], loop(body)), *arrays())
    y = Var("y", "float32")
    new = same_result(PrimFunc([a, b], loop(lambda v: BufferStore(b, Let(y, a[v], y * y + a[0]), [v]))), *arrays())
    assert not of(For, new.body)


def test_memory_allocated_inside_has_an_element_per_lane(buffers):
    a, b = buffers
    t = decl_buffer((4,), "float32", "t", scope="local")
    j = Var("j", "int32")
    body = lambda v: Allocate(
        t.data,
        "float32",
        [4],
        const(True),
        seq(For(j, 0, 4, 0, BufferStore(t, a[v * 4 + j], [j])), BufferStore(b, t[3] + t[0], [v])),
    )
    new = same_result(PrimFunc([a, b], loop(body)), *arrays())
    assert int(of(Allocate, new.body)[0].extents[0]) == 32
    assert all(s.value.dtype == "float32x8" for s in of(BufferStore, new.body))


def test_memory_of_a_size_that_differs_between_lanes_keeps_the_loop_serial(buffers):
    a, b = buffers
    n, j = Var("n", "int32"), Var("j", "int32")
    t = decl_buffer((n,), "float32", "t")
    body = lambda v: LetStmt(
        n,
        v + 1,
        Allocate(
            t.data,
            "float32",
            [n],
            const(True),
            seq(For(j, 0, n, 0, BufferStore(t, a[v * 4 + j], [j])), BufferStore(b, t[0] + t[n - 1], [v])),
        ),
    )
    new = same_result(PrimFunc([a, b], loop(body)), *arrays())
    assert {f.kind for f in of(For, new.body)} == {ForKind.SERIAL}


def test_calls_with_effects_run_once_per_lane(buffers):
    a, b = buffers
    seen = []
    body = lambda v: Evaluate(Call("int32", Op.get("tir.call_extern"), ("note", v)))
    func = PrimFunc([a, b], loop(body))
    same_result(func, *arrays(), externs={"note": lambda v: seen.append(int(v))})
    assert seen == list(range(LANES)) * 2
    seen.clear()
    run(
        vectorize_loop(PrimFunc([a, b], loop(lambda v: Evaluate(Call("int32", Op.get("tir.call_extern"), ("note",)))))),
        *arrays(),
        externs={"note": lambda: seen.append(0)},
    )
    assert len(seen) == LANES


def test_symbolic_extent_is_refused(buffers):
    a, b = buffers
    n = Var("n", "int32")
    func = PrimFunc([a, b, n], loop(lambda v: BufferStore(b, a[v], [v]), extent=n))
    with pytest.raises(TVMError, match="vectorizing a symbolic extent: the extent of loop v is"):
        vectorize_loop(func)


def test_disabled_vectorization_makes_serial_loops(buffers):
    a, b = buffers
    new = vectorize_loop(PrimFunc([a, b], loop(lambda v: BufferStore(b, a[v], [v]))), enable_vectorize=False)
    assert new.body.kind is ForKind.SERIAL and int(new.body.extent) == LANES


def test_shared_values_are_vectorized_once(buffers):
    a, b = buffers

    def body(v):
        value = a[v]
        for _ in range(200):
            value = value * value + 1.0
        return BufferStore(b, value, [v])

    new = vectorize_loop(PrimFunc([a, b], loop(body)))
    assert len(of(BufferLoad, new.body)) == 1


def test_long_chains_do_not_recurse(buffers):
    a, b = buffers

    def body(v):
        value = a[v]
        for i in range(5000):
            value = value + a[i % 8]
        return BufferStore(b, value, [v])

    new = vectorize_loop(PrimFunc([a, b], loop(body)))
    assert of(BufferStore, new.body)[0].value.dtype == "float32x8"


def test_vectors_that_continue_each_other_become_one(buffers):
    a, b = buffers
    body = lambda v: BufferStore(b, a.vload(v * 4 + 8, "float32x4") + const(1, "float32x4"), [Ramp(v * 4, 1, 4)])
    new = same_result(PrimFunc([a, b], loop(body)), *arrays())
    assert of(BufferStore, new.body)[0].value.dtype == "float32x32"


def test_vectors_that_overlap_run_lane_by_lane(buffers):
    a, b = buffers
    body = lambda v: BufferStore(b, a.vload(v * 3, "float32x4"), [Ramp(v * 4, 1, 4)])
    assert of(For, same_result(PrimFunc([a, b], loop(body)), *arrays()).body)
    body = lambda v: BufferStore(b, Broadcast(a[v], 8), [Ramp(v * 8, 1, 8)])
    assert of(For, same_result(PrimFunc([a, b], loop(body)), *arrays()).body)


def test_a_bound_that_is_a_number_leaves_fewer_lanes(buffers):
    a, b = buffers
    for below, lanes in ((5, 5), (1, 1), (0, 0), (9, 8)):
        body = loop(lambda v, n=below: IfThenElse(likely(v + 40 < n + 40), BufferStore(b, a[v] * 2.0, [v])))
        new = same_result(PrimFunc([a, b], body), *arrays())
        stores = of(BufferStore, new.body)
        assert not of(For, new.body) and len(stores) == (lanes > 0)
        assert not stores or stores[0].value.dtype == ("float32" if lanes == 1 else f"float32x{lanes}")


def test_a_bound_known_at_run_time_is_asked_once_for_all_lanes(buffers):
    a, b = buffers
    i = Var("i", "int32")
    guard = lambda v: And(likely(i < 7), likely(i * 8 + v < 53))
    body = For(i, 0, 8, 0, loop(lambda v: IfThenElse(guard(v), BufferStore(b, a[i * 8 + v] * 2.0, [i * 8 + v]))))
    new = same_result(PrimFunc([a, b], body), *arrays())
    stores = of(BufferStore, new.body)
    assert {s.value.dtype for s in stores} == {"float32x8", "float32"}
    assert [f.kind for f in of(For, new.body.body)] == [ForKind.UNROLLED]


@pytest.mark.parametrize("below, step, kinds", [
    (53, 8, {"float32x8", "float32x5"}), (49, 8, {"float32x8", "float32"}), (48, 8, {"float32x8"}),
    (53, 7, {"float32x8", "float32"}),
])  # fmt: skip
def test_lanes_below_a_bound_are_a_shorter_vector_in_kernels_of_unknown_sizes(buffers, below, step, kinds):
    a, b = decl_buffer((Var("n", "int32"),), "float32", "A"), buffers[1]
    i = Var("i", "int32")

    def store(v):
        at = i * step + v
        return IfThenElse(likely(at < below), BufferStore(b, a[at] * 2.0, [at]))

    new = same_result(PrimFunc([a, b], For(i, 0, 8, 0, loop(store))), *arrays())
    assert {s.value.dtype for s in of(BufferStore, new.body)} == kinds
    assert bool(of(For, new.body.body)) == (step == 7)
