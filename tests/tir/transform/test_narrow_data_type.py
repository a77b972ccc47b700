"""Index arithmetic in fewer bits."""

from __future__ import annotations

import numpy as np

import tvm
from tvm import tir
from tvm.ir.visit import post_order


def test_what_is_read_for_an_index_is_read_at_narrowed_indices():
    builder = tir.ir_builder.create()
    places, values = tir.decl_buffer((4,), "int32", "places"), tir.decl_buffer((4,), "float32", "values")
    out = tir.decl_buffer((8,), "float32", "out")
    with builder.for_range(tir.const(0, "int64"), tir.const(4, "int64"), name="i", dtype="int64") as i:
        where = builder.buffer_ptr(places)[i].astype("int64")
        builder.buffer_ptr(out)[where] = builder.buffer_ptr(values)[i]
    func = tir.PrimFunc([places, values, out], builder.get()).with_attr("global_symbol", "main")
    mod = tvm.IRModule({"main": func})
    body = tir.transform.NarrowDataType(32)(mod)["main"].body
    loops = [n.loop_var for n in post_order(body) if isinstance(n, tir.For)]
    used = {n for n in post_order(body) if isinstance(n, tir.Var) and n.name == "i"}
    assert [v.dtype for v in loops] == ["int32"] and used == set(loops)
    arrays = [tvm.nd.array(a) for a in (np.int32([6, 0, 3, 1]), np.float32([1, 2, 3, 4]), np.zeros(8, "float32"))]
    tvm.build(mod, target="llvm")(*arrays)
    np.testing.assert_array_equal(arrays[2].numpy(), [2, 4, 0, 3, 0, 0, 1, 0])


def test_loops_beside_an_unknown_size_stay_wide_and_others_are_narrowed():
    size = tir.SizeVar("n", "int64")
    source, out = tir.decl_buffer((4, size), "float32", "source"), tir.decl_buffer((8,), "float32", "out")
    zero, four = tir.const(0, "int64"), tir.const(4, "int64")
    builder = tir.ir_builder.create()
    with builder.for_range(zero, four, name="i", dtype="int64") as i:
        builder.buffer_ptr(out)[i] = tir.BufferLoad(source, [i, tir.const(0, "int64")])
    with builder.for_range(zero, four, name="j", dtype="int64") as j:
        builder.buffer_ptr(out)[j + 4] = tir.const(1, "float32")
    func = tir.PrimFunc([source, out], builder.get()).with_attr("global_symbol", "main")
    mod = tvm.IRModule({"main": func})
    body = tir.transform.NarrowDataType(32)(tir.transform.StorageFlatten(64)(mod))["main"].body
    assert {n.loop_var.name: n.loop_var.dtype for n in post_order(body) if isinstance(n, tir.For)} == {
        "i": "int64", "j": "int32"}  # fmt: skip
    arrays = [tvm.nd.array(a) for a in (np.arange(12, dtype="float32").reshape(4, 3), np.zeros(8, "float32"))]
    tvm.build(mod, target="llvm")(*arrays)
    np.testing.assert_array_equal(arrays[1].numpy(), [0, 3, 6, 9, 1, 1, 1, 1])


def test_indices_stay_wide_where_the_function_says_so():
    builder, out = tir.ir_builder.create(), tir.decl_buffer((8,), "float32", "out")
    with builder.for_range(tir.const(0, "int64"), tir.const(8, "int64"), name="i", dtype="int64") as i:
        builder.buffer_ptr(out)[i] = tir.const(1, "float32")
    func = tir.PrimFunc([out], builder.get()).with_attr("global_symbol", "main")
    for attrs, dtype in (({}, "int32"), ({"tir.narrow_indices": False}, "int64")):
        mod = tvm.IRModule({"main": func.with_attr(attrs) if attrs else func})
        loops = [n for n in post_order(tir.transform.NarrowDataType(32)(mod)["main"].body) if isinstance(n, tir.For)]
        assert [n.loop_var.dtype for n in loops] == [dtype]
