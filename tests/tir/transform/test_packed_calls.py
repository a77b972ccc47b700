"""Compiled packed entries: what they accept, what they refuse, and in which words."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import TVMError


def vector_add(n=8, dtype="float32"):
    a, b = te.placeholder((n,), dtype, "A"), te.placeholder((n,), dtype, "B")
    c = te.compute((n,), lambda i: a[i] + b[i], name="C")
    return tvm.build(te.create_schedule(c.op), [a, b, c], "llvm", name="add")


def arrays(n=8, dtype="float32"):
    return [tvm.nd.array(np.arange(n, dtype=dtype)) for _ in range(3)]


def zeros(*shape):
    return tvm.nd.array(np.zeros(shape, "float32"))


@pytest.fixture(scope="module")
def add():
    return vector_add()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda a, b, c: (a, b), "add: expected 3 arguments, got 2"),
        (lambda a, b, c: (a, tvm.nd.array(np.zeros(8)), c), "add: argument 1 (B): expected float32, got float64"),
        (lambda a, b, c: (a, b, zeros(5)), "add: argument 2 (C): expected shape[0] == 8, got 5"),
        (lambda a, b, c: (zeros(2, 4), b, c), "add: argument 0 (A): expected 1 dimensions, got 2"),
        (lambda a, b, c: (a, 3, c), "add: argument 1 (B): expected an array"),
    ],
)
def test_refusals_name_function_argument_and_what_was_found(add, change, text):
    with pytest.raises(TVMError) as raised:
        add(*change(*arrays()))
    assert text in str(raised.value)


def test_result(add):
    a, b, c = arrays()
    add(a, b, c)
    np.testing.assert_array_equal(c.numpy(), np.arange(8) * 2)


def test_symbolic_sizes_must_agree():
    add = vector_add(te.var("n"))
    a, b, c = arrays(6)
    add(a, b, c)
    np.testing.assert_array_equal(c.numpy(), np.arange(6) * 2)
    with pytest.raises(TVMError, match=r"add: argument 1 \(B\): expected shape\[0\] == 6, got 4"):
        add(a, arrays(4)[1], c)


def test_scalars_are_checked():
    n, x = te.var("n"), te.var("x", "float32")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] * x, name="B")
    scale = tvm.build(te.create_schedule(b.op), [n, x, a, b], "llvm", name="scale")
    one, two = tvm.nd.array(np.arange(4, dtype="float32")), tvm.nd.array(np.zeros(4, "float32"))
    scale(4, 2.5, one, two)
    np.testing.assert_array_equal(two.numpy(), np.arange(4) * 2.5)
    scale(4, 2, one, two)
    np.testing.assert_array_equal(two.numpy(), np.arange(4) * 2)
    with pytest.raises(TVMError, match=r"scale: argument 2 \(A\): expected shape\[0\] == 5, got 4"):
        scale(5, 2.0, one, two)
    with pytest.raises(TVMError, match=r"scale: argument 0 \(n\): expected int32, got type code 2"):
        scale(4.5, 2.0, one, two)
    with pytest.raises(TVMError, match=r"scale: argument 0 \(n\): expected a value that fits int32, got 1099511627776"):
        scale(1 << 40, 2.0, one, two)


def test_strided_buffers_take_their_strides_from_the_tensor():
    n = te.var("n")
    a = te.placeholder((n, 4), name="A")
    b = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="B")
    view = tvm.tir.decl_buffer(a.shape, a.dtype, "A", strides=[te.var("s0"), te.var("s1")], elem_offset=te.var("o"))
    f = tvm.build(te.create_schedule(b.op), [a, b], "llvm", binds={a: view}, name="f")
    x = np.arange(24, dtype="float32").reshape(3, 8)
    out = tvm.nd.array(np.zeros((3, 4), "float32"))
    f(tvm.nd.array(x[:, :4].copy()), out)
    np.testing.assert_array_equal(out.numpy(), x[:, :4] + 1)
    f(tvm.nd.from_dlpack(x[:, ::2]), out)
    np.testing.assert_array_equal(out.numpy(), x[:, ::2] + 1)


def test_dense_buffers_refuse_strides():
    f = vector_add(4)
    wide = np.arange(8, dtype="float32")
    _, b, c = arrays(4)
    with pytest.raises(TVMError, match=r"add: argument 0 \(A\): expected a compact row-major array"):
        f(tvm.nd.from_dlpack(wide[::2]), b, c)


def test_plain_pointers_accept_tensors():
    ib = tvm.tir.ir_builder.create()
    n = te.size_var("n")
    a, c = ib.pointer("float32", name="A"), ib.pointer("float32", name="C")
    with ib.for_range(0, n, name="i") as i:
        a[i] = c[i] + 1.0
    f = tvm.build(tvm.tir.PrimFunc([a, c, n], ib.get()).with_attr("global_symbol", "f"), target="llvm")
    x, y = tvm.nd.array(np.arange(5, dtype="float32")), tvm.nd.array(np.zeros(5, "float32"))
    f(y, x, 5)
    np.testing.assert_array_equal(y.numpy(), np.arange(5) + 1)
    with pytest.raises(TVMError, match=r"f: argument 0 \(A\): expected a handle, got type code 0"):
        f(3, x, 5)


def test_bool_tensors():
    a = te.placeholder((4,), "bool", "A")
    b = te.compute((4,), lambda i: tvm.tir.Not(a[i]), name="B")
    f = tvm.build(te.create_schedule(b.op), [a, b], "llvm")
    out = tvm.nd.array(np.zeros(4, "bool"))
    f(tvm.nd.array(np.array([True, False, True, False])), out)
    np.testing.assert_array_equal(out.numpy(), [False, True, False, True])
    f(tvm.nd.array(np.array([1, 0, 1, 1], "uint8")), out)
    np.testing.assert_array_equal(out.numpy(), [False, True, False, False])


def test_empty_tensors():
    add = vector_add(te.var("n"))
    a, b, c = (tvm.nd.array(np.zeros(0, "float32")) for _ in range(3))
    add(a, b, c)
    assert c.shape == (0,)


def test_functions_of_a_module_call_each_other():
    twice = tvm.ir.GlobalVar("twice")
    a = tvm.tir.decl_buffer((4,), "float32", "A")
    i = te.var("i")
    inner = tvm.tir.PrimFunc([a], tvm.tir.For(i, 0, 4, 0, tvm.tir.BufferStore(a, a[i] * 2.0, [i])))
    b = tvm.tir.decl_buffer((4,), "float32", "B")
    call = tvm.tir.Evaluate(tvm.tir.Call("int32", twice, [b.data]))
    outer = tvm.tir.PrimFunc([b], tvm.tir.SeqStmt([call, call]))
    mod = tvm.IRModule({twice: inner.with_attr("global_symbol", "twice")})
    mod[tvm.ir.GlobalVar("four")] = outer.with_attr("global_symbol", "four")
    built = tvm.build(mod, target="llvm")
    x = tvm.nd.array(np.arange(4, dtype="float32"))
    built["four"](x)
    np.testing.assert_array_equal(x.numpy(), np.arange(4) * 4)
    built["twice"](x)
    np.testing.assert_array_equal(x.numpy(), np.arange(4) * 8)


def test_sizes_of_tensors_are_given_to_functions_of_a_module():
    """After the arguments, in the order in which tensors have them: here a function calls itself with half of a row."""
    n, m, k = (tvm.tir.SizeVar(name, "int64") for name in "nmk")
    a, b = tvm.tir.decl_buffer((n, m), "float32", "A"), tvm.tir.decl_buffer((k,), "float32", "B")
    name = tvm.ir.GlobalVar("halved")
    again = tvm.tir.Evaluate(tvm.tir.Call("int32", name, [a.data, b.data, n, m // 2, k]))
    store = tvm.tir.BufferStore(b, tvm.tir.Cast("float32", n * 100 + m * 10 + k), [tvm.tir.IntImm("int64", 0)])
    function = tvm.tir.PrimFunc([a, b], tvm.tir.IfThenElse(m > 3, again, store)).with_attr("global_symbol", "halved")
    out = zeros(5)
    tvm.build(tvm.IRModule({name: function}), target="llvm")["halved"](zeros(2, 13), out)
    assert out.numpy()[0] == 235
    few = tvm.tir.Evaluate(tvm.tir.Call("int32", name, [a.data, b.data]))
    with pytest.raises(TVMError, match="reads the sizes k, m, n from its tensor arguments"):
        tvm.build(tvm.IRModule({name: function.with_body(few)}), target="llvm")
    with pytest.raises(TVMError, match="halved takes 2 arguments, but the call passes 3"):
        three = tvm.tir.Evaluate(tvm.tir.Call("int32", name, [a.data, b.data, n]))
        tvm.build(tvm.IRModule({name: function.with_body(three)}), target="llvm")
