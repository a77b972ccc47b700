"""Flattening: positions, minimums, strides, alignment, views, wide indices."""

from __future__ import annotations

import numpy as np
import pytest
from interpreter import run

import tvm
from tvm.error import TVMError
from tvm.ir.op import Op
from tvm.ir.prim import BufferLoad, Call, FloorDiv, FloorMod, IntImm, Range, Var, const
from tvm.ir.visit import post_order
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, AttrStmt, BufferRealize, BufferStore, Evaluate, For, ForKind, Prefetch, seq
from tvm.tir.transform.storage_flatten import storage_flatten
from tvm.topi.utils import simplify


def nest(extents, body, names="ijkl"):
    variables = [Var(n, "int32") for n, _ in zip(names, extents)]
    made = body(*variables)
    for var, extent in reversed(list(zip(variables, extents))):
        made = For(var, 0, extent, ForKind.SERIAL, made)
    return made


def stores(func):
    return [n for n in post_order(func.body) if isinstance(n, BufferStore)]


def test_arguments_become_flat_and_keep_their_pointer():
    a, b = decl_buffer((4, 5), "float32", "A"), decl_buffer((4, 5), "float32", "B")
    func = PrimFunc([a, b], nest((4, 5), lambda i, j: BufferStore(b, a[i, j] * 2.0, [i, j])))
    flat = storage_flatten(func)
    store = stores(flat)[0]
    assert len(store.indices) == 1 and store.buffer.data is b.data and int(store.buffer.shape[0]) == 20
    assert store.indices[0].dtype == "int32"
    x, y = np.random.default_rng(0).random((4, 5), "float32"), np.zeros((4, 5), "float32")
    run(flat, x, y)
    np.testing.assert_array_equal(y, x * 2)


def test_realize_minimum_is_subtracted():
    a, b = decl_buffer((10,), "int32", "A"), decl_buffer((10,), "int32", "B")
    t = decl_buffer((10, 3), "int32", "t")
    fill = nest((4, 3), lambda i, j: BufferStore(t, a[i + 5] * (j + 1), [i + 5, j + 2]))
    use = nest((4,), lambda i: BufferStore(b, t[i + 5, 2] + t[i + 5, 4], [i]))
    body = BufferRealize(t, [Range.from_min_extent(5, 4), Range.from_min_extent(2, 3)], const(True), seq(fill, use))
    func = PrimFunc([a, b], body)
    flat = storage_flatten(func)
    assert isinstance(flat.body, Allocate) and int(flat.body.extents[0]) == 12
    x = np.arange(10, dtype="int32")
    got, want = np.zeros(10, "int32"), np.zeros(10, "int32")
    run(func, x, want)
    run(flat, x, got)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got[:4], x[5:9] * 4)


def test_strides_of_an_argument_are_honoured():
    m = Var("stride", "int32")
    a = decl_buffer((3, 4), "float32", "A", strides=[m, const(1)])
    b = decl_buffer((3, 4), "float32", "B")
    flat = storage_flatten(PrimFunc([a, b], nest((3, 4), lambda i, j: BufferStore(b, a[i, j], [i, j]))))
    wide = np.random.default_rng(1).random((3, 7), "float32")
    y = np.zeros((3, 4), "float32")
    run(flat, wide[:, :4], y)
    np.testing.assert_array_equal(y, wide[:, :4])


def test_storage_align_pads_the_stride():
    t, b = decl_buffer((4, 5), "float32", "t"), decl_buffer((4,), "float32", "B")
    body = seq(
        nest((4, 5), lambda i, j: BufferStore(t, (i * 5 + j).astype("float32"), [i, j])),
        nest((4,), lambda i: BufferStore(b, t[i, 4], [i])),
    )
    body = BufferRealize(t, [Range(0, 4), Range(0, 5)], const(True), body)
    alignment = Call("handle", Op.get("tir.tvm_tuple"), (const(0), const(8), const(1)))
    body = AttrStmt(t, "buffer_dim_align", alignment, body)
    flat = storage_flatten(PrimFunc([b], body))
    assert int(flat.body.extents[0]) == 9 * 4
    y = np.zeros(4, "float32")
    run(flat, y)
    np.testing.assert_array_equal(y, [4, 9, 14, 19])


def view_function(view, bounds):
    """An extern body that writes 1 through ``view`` laid over a region of an 8x6 argument."""
    a = decl_buffer((8, 6), "float32", "A")
    body = Evaluate(Call("int32", Op.get("tir.call_extern"), ("touch", view.access_ptr("w", extent=3))))
    region = Call("handle", Op.get("tir.tvm_tuple"), tuple(const(v) for v in bounds))
    return PrimFunc([a], AttrStmt((view, a), "buffer_bind_scope", region, body))


def test_view_is_bound_to_the_region():
    n, s = Var("n", "int32"), Var("s", "int32")
    view = decl_buffer((2, n), "float32", "view", strides=[s, const(1)], offset_factor=1)
    flat = storage_flatten(view_function(view, (4, 2, 1, 3)))
    pointer = next(n for n in post_order(flat.body) if isinstance(n, Call) and n.op.name == "tir.tvm_access_ptr")
    assert pointer.args[1].name == "A"
    x = np.zeros((8, 6), "float32")

    def touch(memory):
        memory[...] = 1

    run(flat, x, externs={"touch": touch})
    want = np.zeros((8, 6), "float32")
    want[4, 1:4] = 1
    np.testing.assert_array_equal(x, want)


def test_dense_view_of_a_strided_region_is_refused():
    view = decl_buffer((2, 3), "float32", "view", offset_factor=1)
    with pytest.raises(TVMError, match=r"view to a region of A: strides\[0\].* declared as 3, but the region has 6"):
        storage_flatten(view_function(view, (4, 2, 1, 3)))


def test_view_without_offset_variable_is_refused():
    view = decl_buffer((1, 3), "float32", "view")
    with pytest.raises(TVMError, match="elem_offset is declared as 0, but the region has 25"):
        storage_flatten(view_function(view, (4, 1, 1, 3)))


def test_large_memory_is_indexed_in_64_bits():
    a = decl_buffer((3, 1 << 30), "int8", "A")
    func = storage_flatten(PrimFunc([a], nest((3, 1 << 30), lambda i, j: BufferStore(a, const(1, "int8"), [i, j]))))
    index = stores(func)[0].indices[0]
    assert index.dtype == "int64"
    assert all(n.dtype == "int64" or isinstance(n, Var) for n in post_order(index))


def test_symbolic_rows_are_indexed_in_64_bits_and_vectors_are_not():
    n, m = Var("n", "int32"), Var("m", "int32")
    a, b = decl_buffer((n, m), "float32", "A"), decl_buffer((n,), "float32", "B")
    func = storage_flatten(
        PrimFunc(
            [a, b],
            nest(
                (n, m),
                lambda i, j: seq(BufferStore(a, const(1, "float32"), [i, j]), BufferStore(b, const(1, "float32"), [i])),
            ),
        )
    )
    assert [s.indices[0].dtype for s in stores(func)] == ["int64", "int32"]
    x, y = np.zeros((3, 4), "float32"), np.zeros(3, "float32")
    run(func, x, y)
    assert x.all() and y.all()


@pytest.mark.parametrize("shape, divisions", [((None, 12, None), 0), ((None, 12, 5), 0), ((None, 3, None), 4)])
def test_quotients_of_fused_axes_are_the_loop_again_where_the_axes_lie_side_by_side(shape, divisions):
    """The loop is over axes of sizes n, 12 and m or 5; a buffer of another shape is read by its quotients."""
    n, m, f = Var("n", "int64"), Var("m", "int64"), Var("f", "int64")
    last = 5 if shape[2] == 5 else m
    a = decl_buffer((n, shape[1], last), "float32", "A")
    both = f // last
    body = BufferStore(a, const(1, "float32"), [both // 12, both % 12, f % last])
    func = storage_flatten(PrimFunc([a], For(f, const(0, "int64"), n * 12 * last, ForKind.SERIAL, body)))
    index = stores(func)[0].indices[0]
    assert sum(isinstance(node, (FloorDiv, FloorMod)) for node in post_order(index)) == divisions
    if not divisions:
        assert simplify(index) is f


def test_bool_is_stored_as_bytes():
    a, b = decl_buffer((4,), "bool", "A"), decl_buffer((4,), "bool", "B")
    func = storage_flatten(PrimFunc([a, b], nest((4,), lambda i: BufferStore(b, a[i].equal(const(False)), [i]))))
    store = stores(func)[0]
    assert store.buffer.dtype == "int8" and store.value.dtype == "int8"
    x, y = np.array([True, False, True, False]), np.zeros(4, "bool")
    run(func, x, y)
    np.testing.assert_array_equal(y, ~x)


def test_prefetch_touches_every_cache_line_once():
    a, b = decl_buffer((4, 64), "float32", "A"), decl_buffer((4,), "float32", "B")
    i = Var("i", "int32")
    body = For(i, 0, 4, 0, seq(Prefetch(a, [Range.from_min_extent(i, 1), Range(0, 64)]), BufferStore(b, a[i, 0], [i])))
    func = storage_flatten(PrimFunc([a, b], body))
    calls = [n for n in post_order(func.body) if isinstance(n, Call) and n.op.name == "tir.prefetch"]
    loops = [n for n in post_order(func.body) if isinstance(n, For) and n.loop_var.name.endswith("_1")]
    assert len(calls) == 1 and int(loops[0].extent) == 4
    run(func, np.ones((4, 64), "float32"), np.zeros(4, "float32"))


def test_wrong_number_of_indices_is_refused():
    a = decl_buffer((2, 3, 4), "float32", "A")
    store = BufferStore(a, const(0, "float32"), [0, 0])
    with pytest.raises(TVMError, match="A: accessed with 2 indices, but it has 3 dimensions"):
        storage_flatten(PrimFunc([a], store))


def test_single_index_of_a_dense_buffer_is_flat():
    a = decl_buffer((2, 3), "float32", "A")
    func = storage_flatten(PrimFunc([a], BufferStore(a, const(1, "float32"), [5])))
    x = np.zeros((2, 3), "float32")
    run(func, x)
    assert x[1, 2] == 1
    assert isinstance(stores(func)[0].indices[0], IntImm)


def test_loads_shared_by_many_uses_are_rewritten_once():
    a, b = decl_buffer((2, 3), "float32", "A"), decl_buffer((1,), "float32", "B")
    value = a[1, 2]
    for _ in range(60):
        value = value + value
    func = storage_flatten(PrimFunc([a, b], BufferStore(b, value, [0])))
    assert len([n for n in post_order(func.body) if isinstance(n, BufferLoad)]) == 1


@pytest.mark.parametrize("create", [False, True])
def test_sizes_of_buffers_are_noted_where_that_is_asked_for(create):
    a, t = decl_buffer((4, 5), "int32", "A"), decl_buffer((10, 3), "int32", "t")
    fill = nest((4,), lambda i: seq(BufferStore(t, i * 2, [i, 2]), BufferStore(a, t[i, 2], [i, 1])))
    body = BufferRealize(t, [Range.from_min_extent(0, 4), Range.from_min_extent(2, 3)], const(True), fill)
    mod = tvm.IRModule({"main": PrimFunc([a], body).with_attr("global_symbol", "main")})
    flat = tvm.tir.transform.StorageFlatten(64, create_bound_attribute=create)(mod)
    noted = {n.node: int(n.value) for n in post_order(flat["main"].body) if isinstance(n, AttrStmt)}
    assert noted == ({a.data: 20, t.data: 12} if create else {})
    got = tvm.nd.array(np.zeros((4, 5), "int32"))
    tvm.build(flat, target="llvm")["main"](got)
    np.testing.assert_array_equal(got.numpy()[:, 1], [0, 2, 4, 6])
