"""Packed entries: what is checked, in which words, and how sizes are bound.

The entry runs in the reference interpreter with stand-ins for the runtime's services, so the checks the pass itself
emits are seen; the runtime's own check of a tensor is tested with the runtime.
"""

from __future__ import annotations

import interpreter
import numpy as np
import pytest
from interpreter import Interpreter, Memory

import tvm
from tvm.error import TVMError
from tvm.ir.module import IRModule
from tvm.ir.op import Op
from tvm.ir.prim import Call, Var, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import BufferStore, Evaluate, For, ForKind, seq
from tvm.tir.transform.make_packed_api import make_packed_api_module
from tvm.tir.transform.storage_flatten import storage_flatten

CODES = {np.ndarray: 7, int: 0, float: 2, str: 11, bool: 15}


class Caller(Interpreter):
    """Calls packed entries; ``text`` is the last error."""

    text = ""

    def struct_get(self, e):
        where, index, field = self.eval(e.args[0]), int(self.eval(e.args[1])), int(self.eval(e.args[2]))
        if field == 12:
            return where[index]
        return {
            1: Memory(where.base_memory if hasattr(where, "base_memory") else where.reshape(-1)),
            2: Memory(np.array(where.shape, "int64")),
            3: Memory(np.array(where.strides, "int64") // where.itemsize),
            8: np.uint64(0),
        }[field]

    def check_tensor(self, e):
        name, index, value = e.args[1].value, int(e.args[2]), self.eval(e.args[3])
        ndim = int(e.args[8])
        want = [int(self.eval(a)) for a in e.args[9 : 9 + ndim]]
        label = f"{e.args[0].value}: argument {index} ({name}): "
        if not isinstance(value, np.ndarray):
            return self.fail(label + "expected an array")
        if value.dtype.name != e.args[5].dtype:
            return self.fail(label + f"expected {e.args[5].dtype}, got {value.dtype.name}")
        if value.ndim != ndim:
            return self.fail(label + f"expected {ndim} dimensions, got {value.ndim}")
        for i, (w, g) in enumerate(zip(want, value.shape)):
            if w not in (-1, g):
                return self.fail(label + f"expected shape[{i}] == {w}, got {g}")
        return 0

    def fail(self, text):
        self.text = text
        return -1

    def raise_value(self, e):
        return self.fail(e.args[0].value + str(int(self.eval(e.args[1]))))


@pytest.fixture(autouse=True)
def runtime_services(monkeypatch):
    for name, method in (
        ("tvm_struct_get", "struct_get"),
        ("tvm_check_tensor", "check_tensor"),
        ("tvm_raise_value", "raise_value"),
    ):
        monkeypatch.setitem(interpreter.SPECIAL, name, lambda self, e, m=method: getattr(self, m)(e))
    monkeypatch.setitem(interpreter.SPECIAL, "handle_add_byte_offset", lambda self, e: self.eval(e.args[0]))


def call(mod, name, *args):
    """Status and error text of one packed call."""
    caller = Caller(module=mod)
    codes = np.array([CODES[type(a)] for a in args] or [0], "int32")
    status = caller.invoke(mod[name], [list(args), Memory(codes), len(args), [None], Memory(np.zeros(1, "int32")), 0])
    return int(status), caller.text


def build(func):
    return make_packed_api_module(IRModule({"add": storage_flatten(func.with_attr("global_symbol", "add"))}))


def add(n=8):
    a, b, c = (decl_buffer((n,), "float32", x) for x in "ABC")
    i = Var("i", "int32")
    return PrimFunc([a, b, c], For(i, 0, n, 0, BufferStore(c, a[i] + b[i], [i])))


def arrays(n=8, dtype="float32"):
    return [np.arange(n, dtype=dtype) for _ in range(3)]


def test_module_has_raw_and_packed_function():
    mod = build(add())
    raw, entry = mod["add_compute_"], mod["add"]
    assert [p.name for p in raw.params] == ["A", "B", "C"] and not raw.buffer_map
    assert entry.attrs["calling_conv"] == 1 and len(entry.params) == 6
    a, b, c = arrays()
    assert call(mod, "add", a, b, c) == (0, "")
    np.testing.assert_array_equal(c, a + b)


def test_number_of_arguments():
    assert call(build(add()), "add", *arrays()[:2]) == (-1, "add: expected 3 arguments, got 2")


def test_dtype_shape_and_rank():
    mod = build(add())
    a, b, c = arrays()
    assert call(mod, "add", a, b.astype("float64"), c)[1] == "add: argument 1 (B): expected float32, got float64"
    assert call(mod, "add", a, b, c[:5])[1] == "add: argument 2 (C): expected shape[0] == 8, got 5"
    assert call(mod, "add", a.reshape(2, 4), b, c)[1] == "add: argument 0 (A): expected 1 dimensions, got 2"
    assert call(mod, "add", 3, b, c)[1] == "add: argument 0 (A): expected an array"


def test_symbolic_size_is_bound_once_and_compared_after():
    mod = build(add(Var("n", "int32")))
    assert [p.name for p in mod["add_compute_"].params] == ["A", "B", "C", "n"]
    a, b, c = arrays(6)
    assert call(mod, "add", a, b, c) == (0, "")
    np.testing.assert_array_equal(c, a + b)
    assert call(mod, "add", a, b[:4], c)[1] == "add: argument 1 (B): expected shape[0] == 6, got 4"


def test_size_given_as_argument_is_compared_with_shapes():
    n = Var("n", "int32")
    a, i = decl_buffer((n,), "float32", "A"), Var("i", "int32")
    mod = build(PrimFunc([a, n], For(i, 0, n, 0, BufferStore(a, const(1, "float32"), [i]))))
    x = np.zeros(4, "float32")
    assert call(mod, "add", x, 4) == (0, "") and x.all()
    assert call(mod, "add", x, 5)[1] == "add: argument 0 (A): expected shape[0] == 5, got 4"
    assert call(mod, "add", x, 4.0)[1] == "add: argument 1 (n): expected int32, got type code 2"
    assert call(mod, "add", x, 1 << 40)[1] == f"add: argument 1 (n): expected a value that fits int32, got {1 << 40}"


def test_square_and_derived_shapes_are_checked_after_binding():
    n = Var("n", "int32")
    a, b = decl_buffer((n + 1,), "float32", "A"), decl_buffer((n, n), "float32", "B")
    mod = build(PrimFunc([a, b], BufferStore(b, a[0], [0, 0])))
    assert call(mod, "add", np.zeros(4, "float32"), np.zeros((3, 3), "float32")) == (0, "")
    bad = call(mod, "add", np.zeros(4, "float32"), np.zeros((3, 5), "float32"))
    assert bad[1] == "add: argument 1 (B): expected shape[1] == 3, got 5"
    bad = call(mod, "add", np.zeros(7, "float32"), np.zeros((3, 3), "float32"))
    assert bad[1] == "add: argument 0 (A): expected shape[0] == 4, got 7"


def test_float_scalar_accepts_an_integer():
    a, x = decl_buffer((1,), "float32", "A"), Var("x", "float32")
    mod = build(PrimFunc([a, x], BufferStore(a, x, [0])))
    y = np.zeros(1, "float32")
    assert call(mod, "add", y, 2.5) == (0, "") and y[0] == 2.5
    assert call(mod, "add", y, 3) == (0, "") and y[0] == 3


def test_unbound_variable_is_refused():
    a, m, i = decl_buffer((8,), "float32", "A"), Var("m", "int32"), Var("i", "int32")
    with pytest.raises(TVMError, match="add: m is used but not bound by any argument"):
        build(PrimFunc([a], For(i, 0, m, 0, BufferStore(a, const(1, "float32"), [i]))))
    b = decl_buffer((m * 2,), "float32", "B")
    with pytest.raises(TVMError, match="the shape of B uses m, but no argument binds it"):
        build(PrimFunc([b], Evaluate(const(0))))


def test_returned_value_goes_through_the_result():
    a = decl_buffer((2,), "int32", "A")
    body = seq(Evaluate(Call("int32", Op.get("tir.ret"), (a[0] + a[1],))))
    raw = build(PrimFunc([a], body))["add_compute_"]
    assert [p.name for p in raw.params] == ["A", "out_ret_value", "out_ret_tcode"]


def test_a_negative_number_is_a_value_and_not_a_status():
    func = PrimFunc([], Evaluate(Call("int32", Op.get("tir.ret"), (const(-1, "int32"),))))
    found = tvm.build(func.with_attr("global_symbol", "f"), target="llvm")
    assert found["f"]() == -1


def test_a_return_from_one_task_of_a_parallel_loop_is_refused():
    inner = Evaluate(Call("int32", Op.get("tir.ret"), (const(1, "int32"),)))
    loop = For(Var("i", "int32"), const(0, "int32"), const(8, "int32"), ForKind.PARALLEL, inner)
    with pytest.raises(TVMError, match="add: tir.ret cannot be used in parallel scope, where it ends only one task"):
        build(PrimFunc([], loop))
