"""Statement simplification: loops, branches, facts, order of sums; data arithmetic keeps wrapping."""

from __future__ import annotations

import numpy as np
from interpreter import run

from tvm.ir.prim import Add, BufferLoad, Call, FloorDiv, FloorMod, IntImm, Mul, Select, Var, const
from tvm.ir.visit import post_order
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import if_then_else, likely
from tvm.tir.stmt import AssertStmt, BufferStore, Evaluate, For, ForKind, IfThenElse, LetStmt, seq
from tvm.tir.transform.simplify import simplify


def of(kind, node):
    return [n for n in post_order(node) if isinstance(n, kind)]


def check(func, *arrays):
    new = simplify(func)
    want, got = [a.copy() for a in arrays], [a.copy() for a in arrays]
    run(func, *want)
    run(new, *got)
    for a, b in zip(want, got):
        np.testing.assert_array_equal(a, b)
    return new


def zeros(n=64):
    return np.zeros(n, "float32")


def var(name):
    return Var(name, "int32")


def test_trivial_loops_go_and_others_stay():
    a = decl_buffer((64,), "float32", "A")
    i, j, k = var("i"), var("j"), var("k")
    body = For(i, 3, 1, 0, For(j, 0, 8, ForKind.PARALLEL, BufferStore(a, const(1, "float32"), [i * 8 + j])))
    new = check(PrimFunc([a], seq(body, For(k, 0, 0, 0, BufferStore(a, const(9, "float32"), [k])))), zeros())
    assert [f.loop_var.name for f in of(For, new.body)] == ["j"]
    assert len(of(BufferStore, new.body)) == 1


def test_fused_index_is_recovered():
    a = decl_buffer((64,), "float32", "A")
    i, j = var("i"), var("j")
    index = (i * 8 + j) // 8 * 8 + (i * 8 + j) % 8
    new = check(PrimFunc([a], For(i, 0, 8, 0, For(j, 0, 8, 0, BufferStore(a, const(1, "float32"), [index])))), zeros())
    assert not of((FloorDiv, FloorMod), new.body)
    assert str(of(BufferStore, new.body)[0].indices[0]) == "i * 8 + j"


def test_outer_loops_come_first_in_an_index():
    a = decl_buffer((512,), "float32", "A")
    i, j, k = var("i"), var("j"), var("k")
    index = ((k + 2) + j * 4 + i * 16) * 2
    store = BufferStore(a, const(1, "float32"), [index])
    nest = For(i, 0, 8, 0, For(j, 0, 4, 0, For(k, 0, 2, ForKind.UNROLLED, store)))
    new = check(PrimFunc([a], nest), zeros(512))
    store = of(BufferStore, new.body)[0]
    assert str(store.indices[0]) == "i * 32 + j * 8 + k * 2 + 4"
    assert simplify(new).body is new.body


def test_known_branches_fold():
    a = decl_buffer((64,), "float32", "A")
    i = var("i")
    store = lambda v, at: BufferStore(a, const(v, "float32"), [at])
    body = For(
        i,
        0,
        8,
        0,
        seq(
            IfThenElse(likely(i < 8), store(1, i), store(2, i)),
            IfThenElse(i < 4, IfThenElse(i < 6, store(3, i + 8), store(4, i + 8)), store(5, i + 8)),
        ),
    )
    new = check(PrimFunc([a], body), zeros())
    assert len(of(IfThenElse, new.body)) == 1
    assert sorted(s.value.value for s in of(BufferStore, new.body)) == [1, 3, 5]


def test_conditions_hold_inside_expressions():
    a, b = decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "B")
    i = var("i")
    inner = if_then_else(i < 8, a[i], a[i + 1])
    body = For(i, 0, 16, 0, BufferStore(b, if_then_else(i < 4, inner, const(0, "float32")), [i]))
    new = check(PrimFunc([a, b], body), np.arange(64, dtype="float32"), zeros())
    assert len([c for c in of(Call, new.body) if c.op.name == "tir.if_then_else"]) == 1
    chosen = For(i, 0, 16, 0, BufferStore(b, Select(i < 16, a[i], a[i + 1]), [i]))
    assert not of(Select, check(PrimFunc([a, b], chosen), np.arange(64, dtype="float32"), zeros()).body)


def test_asserts_and_lets_give_facts():
    a, n, x = decl_buffer((64,), "float32", "A"), var("n"), var("x")
    i = var("i")
    store = BufferStore(a, const(1, "float32"), [i])
    body = AssertStmt(n <= 8, "small", For(i, 0, 8, 0, LetStmt(x, i * 2, IfThenElse(x < 16, IfThenElse(n < 9, store)))))
    new = check(PrimFunc([a, n], body), zeros(), np.int32(7))
    assert not of(IfThenElse, new.body)


def test_empty_branches_go():
    a, n = decl_buffer((64,), "float32", "A"), var("n")
    nothing = Evaluate(const(0))
    store = BufferStore(a, const(1, "float32"), [0])
    body = seq(IfThenElse(n < 3, nothing), IfThenElse(n < 3, nothing, store))
    new = check(PrimFunc([a, n], body), zeros(), np.int32(5))
    branch = of(IfThenElse, new.body)
    assert len(branch) == 1 and branch[0].else_case is None


def test_arithmetic_on_data_keeps_wrapping():
    a, b = decl_buffer((4,), "int32", "A"), decl_buffer((4,), "int32", "B")
    i = var("i")
    body = For(i, 0, 4, 0, BufferStore(b, a[i] * 4 // 4, [i]))
    x = np.array([1 << 30, 5, -(1 << 31), 7], "int32")
    new = check(PrimFunc([a, b], body), x, np.zeros(4, "int32"))
    assert of(FloorDiv, new.body)


def test_symbolic_guard_stays_and_provable_guard_goes():
    a, n = decl_buffer((64,), "float32", "A"), var("n")
    i, j = var("i"), var("j")
    at = i * 4 + j
    guarded = lambda limit: IfThenElse(likely(at < limit), BufferStore(a, const(1, "float32"), [at]))
    nest = lambda s: For(i, 0, (n + 3) // 4, 0, For(j, 0, 4, 0, s))
    new = check(PrimFunc([a, n], nest(guarded(n))), zeros(), np.int32(13))
    assert len(of(IfThenElse, new.body)) == 1
    exact = IfThenElse(likely(at < 12), BufferStore(a, const(1, "float32"), [at]))
    new = check(PrimFunc([a], For(i, 0, 3, 0, For(j, 0, 4, 0, exact))), zeros())
    assert not of(IfThenElse, new.body)


def test_shared_values_stay_shared():
    a, b = decl_buffer((64,), "float32", "A"), decl_buffer((64,), "float32", "B")
    i = var("i")
    value = a[i * 2 // 2]
    for _ in range(100):
        value = Select(value > 0.0, value + 1.0, value * 2.0)
    new = simplify(PrimFunc([a, b], For(i, 0, 8, 0, BufferStore(b, value, [i]))))
    assert len(of(BufferLoad, new.body)) == 1
    assert len(of((Add, Mul), new.body)) == 200


def test_indices_are_one_node_where_parts_that_cancel_are_all_that_told_them_apart():
    """A part of an index that is used again is evaluated once, so code generators give it a name."""
    a = decl_buffer((64,), "float32", "A")
    i, k, lane = var("i"), var("k"), var("lane")

    def index():
        row = FloorDiv(i, 3)
        return (row - row) * 16 + (k * 4 + lane)

    body = BufferStore(a, BufferLoad(a, (index(),)) + const(1.0, "float32"), (index(),))
    for loop, extent in ((lane, 4), (k, 4), (i, 3)):
        body = For(loop, 0, extent, ForKind.SERIAL, body)
    new = check(PrimFunc([a], body), zeros())
    (store,), (load,) = of(BufferStore, new.body), of(BufferLoad, new.body)
    assert load.indices[0] is store.indices[0]


def test_gather_index_is_ordered_but_not_reasoned_about():
    a, ids = decl_buffer((64,), "float32", "A"), decl_buffer((8,), "int32", "ids")
    i = var("i")
    body = For(i, 0, 8, 0, BufferStore(a, a[ids[i + 0] * 4 + 1 + i], [i]))
    new = check(PrimFunc([a, ids], body), np.arange(64, dtype="float32"), np.arange(8, dtype="int32"))
    load = next(n for n in of(BufferLoad, new.body) if n.buffer.name == "A")
    assert isinstance(load.indices[0], Add) and isinstance(load.indices[0].b, IntImm)
