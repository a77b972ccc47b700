"""InjectCopyIntrin: what a copy is given as describes it, and what is no copy is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te, tir
from tvm.driver.build_module import schedule_to_module
from tvm.ir.prim import const
from tvm.tir.stmt import AttrStmt, BufferStore, For, seq

PRAGMA = "copy_with_dma"


def flat(buffer):
    return tir.decl_buffer((1 << 20,), buffer.dtype, buffer.name, buffer.data)


def written_out(src, dst, pad_before, pad_after, pad_value):
    """The copy as loops, from what is said of it alone."""
    loops = [te.var(f"d{i}", e.dtype) for i, e in enumerate(dst.shape)]
    to = sum((v * s for v, s in zip(loops, dst.strides)), dst.elem_offset)
    before = pad_before or [const(0)] * len(loops)
    of = sum(((v - b) * s for v, b, s in zip(loops, before, src.strides)), src.elem_offset)
    value = flat(src)[of].astype(dst.dtype)
    if pad_value is not None:
        inside = tir.all(*(tir.all(v >= b, v < b + n) for v, b, n in zip(loops, before, src.shape)))
        value = tir.if_then_else(inside, value, pad_value)
    for whole, n, b, a in zip(dst.shape, src.shape, pad_before, pad_after):
        assert tvm.arith.Analyzer().can_prove_equal(whole, n + b + a)
    body = BufferStore(flat(dst), value, [to])
    for var, extent in reversed(list(zip(loops, dst.shape))):
        body = For(var, 0, extent, 0, body)
    return body


def run(schedule, args, *arrays):
    """Results of the program whose marked copies are written out, and how many they are."""
    made = []

    def lower(*copy):
        made.append(copy)
        return written_out(*copy)

    mod = tir.transform.StorageFlatten(64)(schedule_to_module(schedule, args))
    mod = tir.transform.InjectCopyIntrin(PRAGMA, lower)(tir.transform.Simplify()(mod))
    given = [tvm.nd.array(a) for a in arrays]
    tvm.build(mod, target="llvm")(*given)
    return given[-1].numpy(), made


def test_a_part_of_a_matrix():
    a = te.placeholder((6, 8), name="A")
    b = te.compute((3, 4), lambda i, j: a[i + 1, j * 2 + 1], name="B")
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], PRAGMA)
    x = np.arange(48, dtype="float32").reshape(6, 8)
    got, ((src, dst, before, after, value),) = run(s, [a, b], x, np.zeros((3, 4), "float32"))
    np.testing.assert_array_equal(got, x[1:4, 1::2])
    assert [[int(e) for e in b.strides] for b in (src, dst)] == [[8, 2], [4, 1]] and int(src.elem_offset) == 9
    assert before == after == [] and value is None


def test_sizes_that_are_known_late_and_a_cast():
    m, n = te.var("m"), te.var("n")
    a = te.placeholder((m, n), "int8", name="A")
    b = te.compute((m, n), lambda i, j: a[i, j].astype("int32"), name="B")
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], PRAGMA)
    x = np.arange(15, dtype="int8").reshape(3, 5)
    got, ((src, dst, *_),) = run(s, [a, b], x, np.zeros((3, 5), "int32"))
    np.testing.assert_array_equal(got, x)
    assert src.dtype == "int8" and dst.dtype == "int32"
    assert tuple(src.shape) == (m, n) and src.strides[0] is n and dst.strides[0] is n


@pytest.mark.parametrize("choose", [tir.if_then_else, tir.Select])
def test_padding(choose):
    a = te.placeholder((4, 5), name="A")
    b = te.compute((7, 6), lambda i, j: choose(tir.all(i >= 2, i < 6, j < 5), a[i - 2, j], const(3.0)), name="B")
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], PRAGMA)
    x = np.random.default_rng(0).random((4, 5)).astype("float32")
    got, ((src, _, before, after, value),) = run(s, [a, b], x, np.zeros((7, 6), "float32"))
    np.testing.assert_array_equal(got, np.pad(x, ((2, 1), (0, 1)), constant_values=3))
    assert [int(e) for e in before] == [2, 0] and [int(e) for e in after] == [1, 1] and float(value) == 3
    assert [int(e) for e in src.shape] == [4, 5]


def test_padding_that_depends_on_the_tile():
    a = te.placeholder((12,), name="A")
    p = te.compute((14,), lambda i: tir.if_then_else(tir.all(i >= 1, i <= 12), a[i - 1], const(0.0)), name="P")
    b = te.compute((12,), lambda i: p[i] + p[i + 1] + p[i + 2], name="B")
    s = te.create_schedule(b.op)
    outer, _ = s[b].split(b.op.axis[0], factor=4)
    s[p].compute_at(s[b], outer)
    s[p].pragma(s[p].op.axis[0], PRAGMA)
    x = np.arange(1, 13, dtype="float32")
    got, made = run(s, [a, b], x, np.zeros(12, "float32"))
    np.testing.assert_array_equal(got, np.convolve(x, np.ones(3, "float32"), "same"))
    assert len(made) == 1


def test_one_element():
    a = te.placeholder((1,), name="A")
    b = te.compute((1,), lambda i: a[i], name="B")
    s = te.create_schedule(b.op)
    s[b].pragma(b.op.axis[0], PRAGMA)
    got, ((src, dst, *_),) = run(s, [a, b], np.float32([5]), np.zeros(1, "float32"))
    assert got[0] == 5 and [int(e) for e in (*src.shape, *src.strides, *dst.strides)] == [1, 1, 1]


def test_what_is_no_copy_is_refused():
    a, b = (tir.decl_buffer((64,), "int32", name) for name in "AB")
    i, n = te.var("i"), te.var("n")
    copy = BufferStore(b, a[i], [i])
    for words, body in (
        ("the loop over i does not start at zero", For(i, 1, 4, 0, copy)),
        ("more than one store", For(i, 0, 4, 0, seq(copy, copy))),
        ("not one element of a buffer", For(i, 0, 4, 0, BufferStore(b, a[i] + 1, [i]))),
        ("not linear in the loop variables", For(i, 0, 4, 0, BufferStore(b, a[i % 3], [i]))),
        (
            "not a conjunction of loop bounds",
            For(i, 0, 4, 0, BufferStore(b, tir.if_then_else(i % 2 == 0, a[i], 0), [i])),
        ),
    ):
        mod = tvm.IRModule.from_expr(tir.PrimFunc([a.data, b.data, n], AttrStmt(n, "pragma_" + PRAGMA, const(1), body)))
        with pytest.raises(tvm.TVMError, match=f"pragma {PRAGMA}: the statement is not a copy of memory: .*{words}"):
            tir.transform.InjectCopyIntrin(PRAGMA, written_out)(mod)
        if words.startswith("the loop"):
            mod["main"] = mod["main"].with_body(AttrStmt(n, "pragma_" + PRAGMA, const(1), For(i, 0, 4, 0, copy)))
            with pytest.raises(tvm.TVMError, match="must return a statement, got None"):
                tir.transform.InjectCopyIntrin(PRAGMA, lambda *_: None)(mod)
