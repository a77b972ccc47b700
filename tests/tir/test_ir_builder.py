"""The statement builder."""

import textwrap

import pytest

from tvm import tir
from tvm.tir import ir_builder


def same(stmt, expected):
    assert str(stmt) == textwrap.dedent(expected).strip()


def test_loops_and_conditions():
    ib = ir_builder.create()
    n = tir.Var("n", "int32")
    a = ib.pointer("float32", name="A")
    with ib.for_range(0, n, name="i") as i:
        with ib.if_scope(ib.likely((i % 2) == 0)):
            a[i] = a[i] + 1
        with ib.else_scope():
            a[0] = a[i] + 2
    same(
        ib.get(),
        """
        n = T.int32()
        A = T.Buffer((1,))
        for i in range(n):
            if T.likely(i % 2 == 0):
                A[i] = A[i] + T.float32(1)
            else:
                A[0] = A[i] + T.float32(2)
        """,
    )


def test_attributes_allocations_and_lets_hold_for_the_rest_of_the_scope():
    ib = ir_builder.create()
    x = tir.Var("x", "int32")
    out = ib.allocate("float32", 8, name="out", scope="local")
    ib.scope_attr(x, "pragma", 3)
    v = ib.let("v", x * 2)
    out[v] = 1.0
    stmt = ib.get()
    assert isinstance(stmt, tir.Allocate) and stmt.body.attr_key == "pragma" and stmt.body.body.var is v
    assert stmt.body.body.body.buffer.data is stmt.buffer_var and stmt.body.body.body.buffer.scope() == "local"


def test_new_scope_ends_its_allocations():
    ib = ir_builder.create()
    with ib.new_scope():
        a = ib.allocate("int32", (4,), name="a")
        a[0] = 1
    ib.emit(tir.call_extern("int32", "f"))
    stmt = ib.get()
    assert isinstance(stmt, tir.SeqStmt) and isinstance(stmt[0], tir.Allocate) and len(stmt) == 2


def test_buffer_with_several_dimensions_takes_flat_or_full_indices():
    buffer = tir.decl_buffer((4, 8), "int64", "B")
    ib = ir_builder.create()
    b = ib.buffer_ptr(buffer)
    with ib.for_range(0, 32, name="f") as f:
        b[f] = b[f // 8, f % 8] + 1
    stmt = ib.get()
    assert str(stmt.body.indices[0]) == "f // 8" and str(stmt.body.indices[1]) == "f % 8"
    assert stmt.body.value.b.dtype == "int64"
    with pytest.raises(ValueError, match="B has 2 dimensions, but 3"):
        b[1, 2, 3]


def test_vector_pointer_accesses_several_elements():
    ib = ir_builder.create()
    a = ib.pointer("float32x4", name="A")
    a[2] = a[0] * 2.0
    stmt = ib.get()
    assert str(stmt.indices[0]) == "T.Ramp(8, 1, 4)" and stmt.value.dtype == "float32x4"


def test_statements_made_by_hand_take_buffers_of_a_builder():
    ib = ir_builder.create()
    buffer = tir.decl_buffer((4,), "float32", name="A")
    a = ib.buffer_ptr(buffer)
    ib.emit(tir.BufferStore(a, a[1] * 2, [0]))
    ib.emit(tir.Call(None, "tir.tvm_storage_sync", ["shared"]))
    store, sync = ib.get()
    assert store.buffer is buffer and sync.value.dtype == "void"


def test_default_loop_names_differ():
    ib = ir_builder.create()
    names = []
    for _ in range(5):
        with ib.for_range(0, 2) as v:
            names.append(v.name)
            ib.emit(tir.call_extern("int32", "f", v))
    assert names == ["i", "j", "k", "i_0", "i_1"]


def test_loop_kinds_types_and_while():
    ib = ir_builder.create()
    with ib.for_range(tir.const(2, "int64"), 10, kind="parallel") as v, ib.while_loop(v < 5):
        ib.emit(tir.call_extern("int32", "f", v))
    stmt = ib.get()
    assert stmt.kind == tir.ForKind.PARALLEL and stmt.loop_var.dtype == stmt.extent.dtype == "int64"
    assert stmt.min.value == 2 and stmt.extent.value == 8 and isinstance(stmt.body, tir.While)
    with pytest.raises(ValueError, match="unknown kind 'fast'"):
        ib.for_range(0, 1, kind="fast")


def test_misuse_is_refused():
    ib = ir_builder.create()
    with pytest.raises(RuntimeError, match="follow an if_scope"):
        ib.else_scope()
    scope = ib.if_scope(tir.const(1, "int32") > tir.Var("z", "int32"))
    scope.__enter__()
    with pytest.raises(RuntimeError, match="1 scopes are still open"):
        ib.get()
    with pytest.raises(TypeError, match="emit takes a statement"):
        ib.emit(3)


def test_exception_in_a_scope_is_not_hidden():
    ib = ir_builder.create()
    with pytest.raises(KeyError), ib.for_range(0, 2):
        raise KeyError("mine")
