"""Where writes go whose memory a warpgroup multiplies, and where the program waits for its products."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, var

from tvm import tir
from tvm.arith import Analyzer
from tvm.error import TVMError
from tvm.ir.prim import BufferLoad, Call, IterVar, Ramp, Var, const
from tvm.ir.subst import substitute
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, ForKind, SeqStmt, seq
from tvm.tir.transform.inject_double_buffer import inject_double_buffer
from tvm.tir.transform.merge_dynamic_shared_memory_allocations import merge_dynamic_shared_memory_allocations
from tvm.tir.transform.prepare_warpgroup_products import prepare_warpgroup_products, swizzled


def number(e) -> int:
    return int(Analyzer().simplify(e))


@pytest.mark.parametrize("size", [2, 4])
def test_pieces_of_a_row_change_places_by_its_number(size, rng):
    i = var("i")
    for index in (i, i * 3 + 5, 1024 * 7 + i):
        where = swizzled(index, size)
        for at in rng.integers(0, 5000, 40):
            byte = number(substitute(index, {i: const(int(at), "int32")})) * size
            wanted = byte ^ (byte >> 7 & 7) << 4
            assert number(substitute(where, {i: const(int(at), "int32")})) * size == wanted


def test_each_element_has_a_place_of_its_own():
    i = var("i")
    where = swizzled(i, 2)
    places = [number(substitute(where, {i: const(at, "int32")})) for at in range(1024)]
    assert sorted(places) == list(range(1024))
    # Sixteen bytes stay together.
    assert all(places[at] + 1 == places[at + 1] for at in range(1024) if at % 8 != 7)


def memory(name: str, size: int = 4096):
    return decl_buffer((size,), "float16", name, scope="shared.dyn")


def product(left, right, sums):
    def pointer(buffer):
        return tir.call_intrin("handle", "tir.tvm_access_ptr", tir.type_annotation("float16"), buffer.data, 0, 4096, 1)

    sides = (pointer(left), 1, 64, pointer(right), 1, 64)
    step = tir.call_intrin("void", "tir.ptx_wgmma", "float16", 64, 64, 64, sums, 0, *sides)
    return seq(Evaluate(step), Evaluate(tir.call_intrin("void", "tir.ptx_wgmma_wait", 1)))


def names(node) -> list[str]:
    """Of the calls of intrinsics, in order, with the number a wait leaves."""
    return [
        c.op.name.removeprefix("tir.") + (str(c.args[0]) if c.op.name.endswith("wait") else "")
        for c in of(Call, node)
        if getattr(c.op, "name", "").startswith("tir.ptx_wgmma")
    ]


def function(body, *buffers) -> PrimFunc:
    for buffer in buffers:
        body = Allocate(buffer.data, buffer.dtype, buffer.shape, const(True, "bool"), body)
    return PrimFunc([], body)


def test_writes_move_and_the_end_is_waited_for_outside_of_loops():
    left, right, other, sums = memory("left"), memory("right"), memory("other"), Var("sums", "handle")
    k, t = var("k"), var("t")
    index = Ramp(t * 8 + k * 4096, const(1, "int32"), 8)
    value = tir.op.reinterpret("float16x8", const(0, "int16x8"))
    fills = [BufferStore(buffer, value, (index,)) for buffer in (left, right, other)]
    loop = For(k, 0, 4, ForKind.SERIAL, seq(*fills, product(left, right, sums)))
    after = Evaluate(tir.call_intrin("handle", "tir.tvm_storage_sync", "shared"))
    made = prepare_warpgroup_products(function(seq(loop, after), left, right, other))
    stores = {s.buffer.name: s.indices[0] for s in of(BufferStore, made.body)}
    assert stores["other"] is index and "bitwise_xor" in str(stores["left"]) and "bitwise_xor" in str(stores["right"])
    assert stores["left"].lanes == 8
    assert names(made.body) == ["ptx_wgmma", "ptx_wgmma_wait1", "ptx_wgmma_wait0"]
    outer = next(s for s in of(SeqStmt, made.body) if any(isinstance(x, For) for x in s.seq))
    assert [type(s) for s in outer.seq] == [For, Evaluate, Evaluate]
    assert names(outer.seq[1]) == ["ptx_wgmma_wait0"]


def test_memory_that_is_also_read_is_refused():
    left, right, sums = memory("left"), memory("right"), Var("sums", "handle")
    out, zero = decl_buffer((4,), "float16", "out"), const(0, "int32")
    body = seq(product(left, right, sums), BufferStore(out, BufferLoad(left, (zero,)), (zero,)))
    with pytest.raises(TVMError, match="left is an operand of ptx_wgmma"):
        prepare_warpgroup_products(function(body, left, right))


def test_vectors_longer_than_a_piece_are_refused():
    left, right, sums = memory("left"), memory("right"), Var("sums", "handle")
    value = tir.op.reinterpret("float16x16", const(0, "int16x16"))
    store = BufferStore(left, value, (Ramp(const(0, "int32"), const(1, "int32"), 16),))
    with pytest.raises(TVMError, match="inside one chunk of 16 bytes"):
        prepare_warpgroup_products(function(seq(store, product(left, right, sums)), left, right))


def test_what_is_still_read_has_a_piece_more():
    left, right, sums = memory("left"), memory("right"), Var("sums", "handle")
    k = var("k")
    fill = BufferStore(left, const(0, "float16"), (const(0, "int32"),))
    body = AttrStmt(left.data, "double_buffer_scope", const(3, "int32"), seq(fill, product(left, right, sums)))
    body = Allocate(left.data, "float16", (const(4096, "int32"),), const(True, "bool"), body)
    made = inject_double_buffer(function(For(k, 0, 16, ForKind.SERIAL, body), right))
    pieces = next(a for a in of(Allocate, made.body) if a.buffer_var is left.data)
    # Three pieces ahead were asked for; one of them is what the last products still read.
    assert np.prod([int(x) for x in pieces.extents]) == 4 * 4096
    (loop,) = of(For, made.body)
    assert loop.annotations["double_buffer_ahead"] == 2


def test_matrices_begin_where_their_pattern_does():
    left, right, sums = memory("left"), memory("right"), Var("sums", "handle")
    small = decl_buffer((24,), "float16", "small", scope="shared.dyn")
    zero = const(0, "int32")
    x = IterVar((0, 32), var("x"), IterVar.ThreadIndex, "threadIdx.x")
    stores = [BufferStore(b, const(0, "float16"), (zero,)) for b in (small, left, right)]
    body = seq(*stores, product(left, right, sums), BufferStore(small, const(1, "float16"), (zero,)))
    body = function(body, small, left, right).body
    made = merge_dynamic_shared_memory_allocations(PrimFunc([], AttrStmt(x, "thread_extent", const(32, "int32"), body)))
    offsets = [int(c.args[2]) * 2 for c in of(Call, made.body) if getattr(c.op, "name", "") == "tir.tvm_access_ptr"]
    assert offsets == [1024, 1024 + 8192]
