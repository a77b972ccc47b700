"""Virtual threads, double buffers, sharing of memory, prefetch."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, same_result, var

import tvm
from tvm import te
from tvm.driver.build_module import schedule_to_module
from tvm.ir.op import Op
from tvm.ir.prim import Call, IterVar, Range, StringImm, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Prefetch,
    SeqStmt,
    seq,
)
from tvm.tir.transform.inject_double_buffer import inject_double_buffer
from tvm.tir.transform.inject_prefetch import inject_prefetch
from tvm.tir.transform.inject_virtual_thread import inject_virtual_thread
from tvm.tir.transform.simplify import simplify
from tvm.tir.transform.storage_flatten import storage_flatten
from tvm.tir.transform.storage_rewrite import storage_rewrite
from tvm.tir.transform.unroll_loop import unroll_loop

ONE = const(True)


def flat(n, dtype="int32", name="t", scope=""):
    return decl_buffer((n,), dtype, name, scope=scope)


def loop(extent, body, name="i", kind=0):
    v = var(name)
    return For(v, 0, extent, kind, body(v))


def test_virtual_threads_interleave_and_copy_their_memory():
    a, b, t, s = flat(64, name="A"), flat(64, name="B"), flat(4, name="t"), flat(4, name="s")
    v = IterVar((0, 3), "v", IterVar.ThreadIndex, "vthread")
    body = Allocate(
        s.data,
        "int32",
        [4],
        ONE,
        Allocate(
            t.data,
            "int32",
            [4],
            ONE,
            seq(
                loop(4, lambda i: BufferStore(s, a[i], [i])),
                loop(4, lambda i: BufferStore(t, s[i] + v.var, [i])),
                loop(4, lambda i: BufferStore(b, t[i] * 2, [v.var * 4 + i])),
            ),
        ),
    )
    func = PrimFunc([a, b], AttrStmt(v, "virtual_thread", const(3), body))
    new = same_result(inject_virtual_thread, func, np.arange(64, dtype="int32"), np.zeros(64, "int32"))
    sizes = {n.buffer_var.name: [int(e) for e in n.extents] for n in of(Allocate, new)}
    assert sizes == {"s": [4], "t": [12]}
    assert sorted(f.kind for f in of(For, new)) == [0, 0, 0, 3, 3]


def test_virtual_thread_in_a_condition():
    b, t = flat(64, name="B"), flat(1, name="t")
    v = IterVar((0, 4), "v", IterVar.ThreadIndex, "vthread")
    body = Allocate(
        t.data,
        "int32",
        [1],
        ONE,
        seq(
            BufferStore(t, const(7), [0]),
            IfThenElse(v.var < 2, BufferStore(t, v.var, [0])),
            BufferStore(b, t[0], [v.var]),
        ),
    )
    func = PrimFunc([b], AttrStmt(v, "virtual_thread", const(4), body))
    new = same_result(inject_virtual_thread, func, np.zeros(64, "int32"))
    assert int(of(Allocate, new)[0].extents[0]) == 4


def extern(name, *args):
    return Evaluate(Call("int32", Op.get("tir.call_extern"), (StringImm(name), *args)))


def test_memory_that_a_call_only_reads_is_shared_by_virtual_threads():
    """The call of each of four threads reads what its row and its column of threads have and writes what is its own."""
    one, two = (IterVar((0, 2), x, IterVar.ThreadIndex, "vthread") for x in "xy")
    row, column, own = (flat(4, "float32", x) for x in ("row", "column", "own"))
    body = seq(
        BufferStore(row, const(1.0), [one.var]),
        BufferStore(column, const(1.0), [two.var]),
        extern("run", row.access_ptr("r"), column.access_ptr("r"), own.access_ptr("rw")),
    )
    for memory in (row, column, own):
        body = Allocate(memory.data, "float32", [4], ONE, body)
    for v in (two, one):
        body = AttrStmt(v, "virtual_thread", const(2), body)
    new = simplify(inject_virtual_thread(PrimFunc([], body)))
    assert {n.buffer_var.name: int(n.extents[0]) for n in of(Allocate, new)} == {"row": 8, "column": 8, "own": 16}


def test_contexts_of_a_coprocessor_share_no_memory_and_know_their_number():
    v = IterVar((0, 2), "v", IterVar.ThreadIndex, "cthread")
    t = flat(4, "int32", "t")
    inner = seq(
        BufferStore(t, const(1), [0]),
        extern("run", t.access_ptr("r"), tvm.tir.call_intrin("int32", "tir.tvm_context_id")),
    )
    body = AttrStmt(v, "virtual_thread", const(2), Allocate(t.data, "int32", [4], ONE, inner))
    new = simplify(unroll_loop(inject_virtual_thread(PrimFunc([], body))))
    assert int(of(Allocate, new)[0].extents[0]) == 8
    assert [int(s.indices[0]) for s in of(BufferStore, new)] == [0, 4]
    calls = [s.value for s in of(Evaluate, new)]
    assert [(int(c.args[1].args[2]), int(c.args[2])) for c in calls] == [(0, 0), (4, 1)]


def double_buffer_function(wrap_producer):
    a, b, t = flat(64, name="A"), flat(64, name="B"), flat(8, name="t")

    def body(i):
        fill = loop(8, lambda j: BufferStore(t, a[i * 8 + j] * 3, [j]), "j")
        use = loop(8, lambda k: BufferStore(b, t[7 - k], [i * 8 + k]), "k")
        scope = lambda s: AttrStmt(t.data, "double_buffer_scope", const(1), s)
        inner = seq(scope(fill), use) if wrap_producer else scope(seq(fill, use))
        return Allocate(t.data, "int32", [8], ONE, inner)

    return PrimFunc([a, b], loop(8, body))


def test_double_buffer_fills_ahead():
    for wrapped in (True, False):
        new = same_result(
            inject_double_buffer, double_buffer_function(wrapped), np.arange(64, dtype="int32"), np.zeros(64, "int32")
        )
        assert isinstance(new.body, Allocate) and int(new.body.extents[0]) == 16
        assert len(of(IfThenElse, new)) == 1
        assert not [s for s in of(AttrStmt, new) if s.attr_key == "double_buffer_scope"]


@pytest.mark.parametrize("split", [0, 1, 2])
def test_double_buffered_loops_are_not_split(split):
    a = te.placeholder((64,), name="a")
    copy = te.compute((64,), lambda i: a[i] + 1, name="copy")
    b = te.compute((64,), lambda i: copy[i] * 2, name="b")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], factor=8)
    s[copy].compute_at(s[b], outer)
    plain = te.create_schedule(b.op)
    config = {"tir.InjectDoubleBuffer": {"split_loop": split}}
    with tvm.transform.PassContext(config=config):
        tvm.lower(plain, [a, b])
        s[copy].double_buffer()
        if split < 2:
            tvm.lower(s, [a, b])
            return
        with pytest.raises(tvm.TVMError, match="split_loop must be 0 or 1, got 2"):
            tvm.lower(s, [a, b])


def test_double_buffer_of_an_empty_loop_fills_nothing():
    n = te.size_var("n")
    a, b, t = decl_buffer((n,), "int32", "A"), decl_buffer((n,), "int32", "B"), flat(1, name="t")

    def body(i):
        inner = seq(BufferStore(t, a[i], [0]), BufferStore(b, t[0] + 1, [i]))
        return Allocate(t.data, "int32", [1], ONE, AttrStmt(t.data, "double_buffer_scope", const(1), inner))

    for size in (0, 1, 5):
        func = PrimFunc([a, b], loop(n, body))
        new = same_result(inject_double_buffer, func, np.arange(size, dtype="int32"), np.zeros(size, "int32"))
        assert isinstance(new.body, Allocate)


def test_double_buffer_is_left_out_where_filling_reads_what_is_written():
    b, t = flat(64, name="B"), flat(8, name="t")

    def body(i):
        fill = loop(8, lambda j: BufferStore(t, b[i * 8 + j] + 1, [j]), "j")
        use = loop(8, lambda k: BufferStore(b, t[k], [(i + 1) * 8 + k]), "k")
        return Allocate(t.data, "int32", [8], ONE, AttrStmt(t.data, "double_buffer_scope", const(1), seq(fill, use)))

    new = same_result(inject_double_buffer, PrimFunc([b], loop(7, body)), np.arange(64, dtype="int32"))
    assert isinstance(new.body, For)


def chain(count, elementwise, n=64):
    """A -> t0 -> t1 -> ... -> B, each stage a loop of its own."""
    a, b = flat(n, name="A"), flat(n, name="B")
    temporaries = [flat(n, name=f"t{i}") for i in range(count)]
    steps, source = [], a
    for target in [*temporaries, b]:
        at = (lambda i: i) if elementwise else (lambda i: n - 1 - i)
        steps.append(loop(n, lambda i, s=source, t=target, at=at: BufferStore(t, s[at(i)] + 1, [i])))
        source = target
    body = seq(*steps)
    for t in temporaries:
        body = Allocate(t.data, "int32", [n], ONE, body)
    return PrimFunc([a, b], body)


def test_dead_memory_is_used_again():
    new = same_result(storage_rewrite, chain(5, False), np.arange(64, dtype="int32"), np.zeros(64, "int32"))
    assert len(of(Allocate, new)) == 2


def test_elementwise_chain_works_in_place():
    new = same_result(storage_rewrite, chain(5, True), np.arange(64, dtype="int32"), np.zeros(64, "int32"))
    assert len(of(Allocate, new)) == 1


@pytest.mark.parametrize("n, pieces", [(8, 3), (9, 1)])
def test_memory_larger_than_a_vector_register_is_shared(n, pieces):
    new = same_result(storage_rewrite, chain(3, True, n), np.arange(n, dtype="int32"), np.zeros(n, "int32"))
    assert len(of(Allocate, new)) == pieces


def casts(types, n, scope=""):
    """A -> a temporary of each type, turned round by each step -> B."""
    a, b = flat(n, name="A"), flat(n, name="B")
    temporaries = [flat(n, dtype, f"t{i}", scope) for i, dtype in enumerate(types)]
    steps, source = [], a
    for target in [*temporaries, b]:
        steps.append(loop(n, lambda i, s=source, t=target: BufferStore(t, (s[n - 1 - i] + 1).astype(t.dtype), [i])))
        source = target
    body = seq(*steps)
    for t in temporaries:
        body = Allocate(t.data, t.dtype, [n], ONE, body)
    return PrimFunc([a, b], body)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize(
    "types", [("float32", "int64", "int16", "float64", "uint8"), ("int8", "float64", "int8", "int32")]
)
def test_dead_memory_of_a_workspace_takes_values_of_other_types(types, target):
    n = 5000
    new = storage_rewrite(casts(types, n))
    allocations = of(Allocate, new)
    # Two are alive at a time, and each is as large as the largest value it takes.
    assert len(allocations) == 2
    sizes = [int(x.extents[0]) * np.dtype(x.dtype).itemsize for x in allocations]
    assert sorted(sizes) == sorted(max(n * np.dtype(t).itemsize for t in types[first::2]) for first in (0, 1))
    run = tvm.build(tvm.IRModule({"main": new.with_attr("global_symbol", "main")}), target=target)
    x = np.arange(n, dtype="int32") % 100
    got = tvm.nd.array(np.zeros(n, "int32"))
    run["main"](tvm.nd.array(x), got)
    np.testing.assert_array_equal(got.numpy(), (x if len(types) % 2 else x[::-1]) + len(types) + 1)


@pytest.mark.parametrize("n, scope", [(64, ""), (5000, "shared")])
def test_small_and_shared_memory_keeps_its_type(n, scope):
    assert len(of(Allocate, storage_rewrite(casts(("float32", "int64", "int16"), n, scope)))) == 3
    assert len(of(Allocate, storage_rewrite(casts(("float32", "int64", "float32"), n, scope)))) == 2


def test_operand_read_again_is_not_overwritten():
    n = 64
    a, b, s, t = (flat(n, name=x) for x in "ABst")
    body = seq(
        loop(n, lambda i: BufferStore(s, a[i], [i])),
        loop(4, lambda k: loop(16, lambda i: BufferStore(t, s[i * 4] + k, [i]))),
        loop(n, lambda i: BufferStore(b, t[i // 4], [i])),
    )
    for x in (s, t):
        body = Allocate(x.data, "int32", [n], ONE, body)
    new = same_result(storage_rewrite, PrimFunc([a, b], body), np.arange(64, dtype="int32"), np.zeros(64, "int32"))
    assert len(of(Allocate, new)) == 2


def test_large_memory_leaves_serial_loops_but_not_parallel_ones():
    a, t = flat(64, name="A"), flat(4096, name="t")
    inner = lambda i: Allocate(t.data, "int32", [4096], ONE, seq(BufferStore(t, i, [5]), BufferStore(a, t[5], [i])))
    new = same_result(storage_rewrite, PrimFunc([a], loop(8, inner)), np.zeros(64, "int32"))
    assert isinstance(new.body, Allocate)
    nest = loop(2, lambda p: loop(8, lambda i: inner(p * 8 + i)), "p", ForKind.PARALLEL)
    new = same_result(storage_rewrite, PrimFunc([a], nest), np.zeros(64, "int32"))
    assert isinstance(new.body, For) and isinstance(new.body.body, Allocate)


def test_small_local_memory_stays_where_it_is():
    a = flat(64, name="A")
    parts = [flat(4, name=f"r{i}", scope="local") for i in range(2)]
    body = seq(*[seq(BufferStore(r, const(i), [0]), BufferStore(a, r[0], [i])) for i, r in enumerate(parts)])
    for r in parts:
        body = Allocate(r.data, "int32", [4], ONE, body)
    func = PrimFunc([a], body)
    assert storage_rewrite(func).body is func.body


def test_prefetch_scope_fetches_a_later_iteration():
    a, b = decl_buffer((8, 32), "int32", "A"), decl_buffer((8,), "int32", "B")
    body = loop(
        8, lambda i: AttrStmt(a, "prefetch_scope", const(2), loop(32, lambda j: BufferStore(b, a[i, j], [i]), "j"))
    )
    new = same_result(inject_prefetch, PrimFunc([a, b], body), np.ones((8, 32), "int32"), np.zeros(8, "int32"))
    fetch = of(Prefetch, new)[0]
    assert str(fetch.bounds[0].min) == "i + 2" and int(fetch.bounds[1].extent) == 32
    assert isinstance(new.body.body, SeqStmt)


def test_prefetch_scope_fetches_what_an_intrinsic_reads():
    a, b, window = decl_buffer((8, 32), "int32", "A"), decl_buffer((8,), "int32", "B"), decl_buffer((4,), "int32", "W")

    def body(i, j):
        bind = tvm.tir.call_intrin("handle", "tir.tvm_tuple", i, 1, j * 4, 4)
        return AttrStmt((window, a), "buffer_bind_scope", bind, BufferStore(b, window[0], [i]))

    nest = loop(8, lambda i: AttrStmt(a, "prefetch_scope", const(2), loop(8, lambda j: body(i, j), "j")))
    fetch = of(Prefetch, inject_prefetch(PrimFunc([a, b], nest)))[0]
    assert str(fetch.bounds[0].min) == "i + 2" and int(fetch.bounds[0].extent) == 1
    assert int(fetch.bounds[1].min) == 0 and int(fetch.bounds[1].extent) == 32


def test_runs_of_a_loop_share_its_prefetches():
    a, b = decl_buffer((16, 32), "int32", "A"), decl_buffer((8,), "int32", "B")
    pair = Call("handle", Op.get("tir.tvm_tuple"), (const(8), const(4)))
    inner = lambda r: loop(
        8, lambda i: AttrStmt(a, "prefetch_scope", pair, loop(32, lambda j: BufferStore(b, a[i, j] + r, [i]), "j"))
    )
    func = PrimFunc([a, b], loop(5, lambda r: loop(1, lambda one: inner(r), "one"), "r"))
    new = same_result(inject_prefetch, func, np.ones((16, 32), "int32"), np.zeros(8, "int32"))
    assert str(of(Prefetch, new)[0].bounds[0].min) == "i + 8"
    assert str(of(IfThenElse, new)[0].condition) == "i % 4 == r % 4"


def test_memory_of_symbolic_size_is_shared_in_place():
    m, n = te.size_var("m"), te.size_var("n")
    tensors = [te.placeholder((m, n), "int32", "A")]
    for i in range(4):
        tensors.append(te.compute((m, n), lambda *k, t=tensors[-1], i=i: t(*k) + i, name=f"T{i}"))
    s = te.create_schedule(tensors[-1].op)
    func = simplify(storage_flatten(schedule_to_module(s, [tensors[0], tensors[-1]])["main"]))
    x = np.arange(12, dtype="int32").reshape(3, 4)
    new = same_result(storage_rewrite, func, x, np.zeros_like(x))
    assert len(of(Allocate, new)) == 1


def test_symbolic_memory_leaves_loops_that_do_not_size_it():
    a, n = flat(64, name="A"), var("n")
    t = decl_buffer((n,), "int32", "t")
    inner = lambda size: (
        lambda i: Allocate(t.data, "int32", [size], ONE, seq(BufferStore(t, i, [0]), BufferStore(a, t[0], [i])))
    )
    new = same_result(storage_rewrite, PrimFunc([a, n], loop(8, inner(n))), np.zeros(64, "int32"), np.int32(5))
    assert isinstance(new.body, Allocate)
    new = same_result(
        storage_rewrite, PrimFunc([a, n], loop(8, lambda i: inner(i + 1)(i))), np.zeros(64, "int32"), np.int32(5)
    )
    assert isinstance(new.body, For)


def test_prefetch_of_what_each_iteration_makes_is_left_out():
    a, t, b = decl_buffer((8,), "int32", "A"), decl_buffer((8,), "int32", "t"), decl_buffer((8,), "int32", "B")

    def body(i):
        inner = seq(BufferStore(t, a[i], [i]), BufferStore(b, t[i], [i]))
        return AttrStmt(t, "prefetch_scope", const(1), BufferRealize(t, [Range.from_min_extent(i, 1)], ONE, inner))

    func = PrimFunc([a, b], loop(8, body))
    new = same_result(inject_prefetch, func, np.arange(8, dtype="int32"), np.zeros(8, "int32"))
    assert not of(Prefetch, new)
