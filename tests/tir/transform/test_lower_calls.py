"""Packed calls, tensors on the stack, workspace, and intrinsics."""

from __future__ import annotations

import numpy as np
import pytest
from lowered import of, results, var

from tvm.error import TVMError
from tvm.ir.op import Op
from tvm.ir.prim import Call, Div, FloorDiv, FloorMod, Mod, Select, StringImm, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, BufferStore, Evaluate, For, ForKind, LetStmt, While, seq
from tvm.tir.transform.lower_intrin import lower_intrin
from tvm.tir.transform.lower_tvm_builtin import lower_tvm_builtin


def packed(name, *args, dtype="int32"):
    return Call(dtype, Op.get("tir.tvm_call_packed"), (StringImm(name), *args))


def tensor(buffer):
    shape = Call("handle", Op.get("tir.tvm_stack_make_shape"), buffer.shape)
    args = (buffer.data, shape, const(0, "int32"), const(len(buffer.shape)), const(0, buffer.dtype), buffer.elem_offset)
    return Call("handle", Op.get("tir.tvm_stack_make_array"), args)


def calls(node, name):
    return [c for c in of(Call, node) if getattr(c.op, "name", "") == "tir." + name]


def test_arguments_are_put_on_the_stack_before_the_call():
    a = decl_buffer((4, 5), "float32", "A")
    body = Evaluate(packed("f", tensor(a), const(3), const(1.5, "float32"), StringImm("text")))
    new = lower_tvm_builtin(PrimFunc([a], body))
    stacks = {n.value.args[0].value: int(n.value.args[1]) for n in of(LetStmt, new)}
    assert stacks == {"arg_value": 5, "arg_tcode": 5, "shape": 2, "array": 1}
    lowered = calls(new, "tvm_call_packed_lowered")[0]
    assert [int(x) for x in lowered.args[3:5]] == [0, 4]
    codes = [int(s.value) for s in of(BufferStore, new) if s.buffer.data.name == "stack_tcode"]
    assert codes == [7, 0, 2, 11]
    values = [c.args[3].dtype for c in calls(new, "tvm_struct_set") if int(c.args[2]) == 12]
    assert values == ["handle", "int64", "float64", "handle"]


def test_parallel_body_has_its_own_stack():
    a, i = decl_buffer((4,), "int32", "A"), var("i")
    new = lower_tvm_builtin(PrimFunc([a], For(i, 0, 4, ForKind.PARALLEL, Evaluate(packed("f", i)))))
    assert isinstance(new.body, For) and isinstance(new.body.body, LetStmt)


def test_stack_is_as_large_as_the_largest_statement():
    a = decl_buffer((4,), "int32", "A")
    body = seq(Evaluate(packed("f", const(1))), Evaluate(packed("g", packed("h", const(1)), const(2))))
    new = lower_tvm_builtin(PrimFunc([a], body))
    size = next(int(n.value.args[1]) for n in of(LetStmt, new) if n.value.args[0].value == "arg_value")
    assert size == 5


def test_large_memory_comes_from_the_workspace():
    a, t, s = decl_buffer((4,), "int32", "A"), decl_buffer((4096,), "int32", "t"), decl_buffer((8,), "int32", "s")
    body = seq(BufferStore(t, const(1), [0]), BufferStore(s, t[0], [0]), BufferStore(a, s[0], [0]))
    for x, n in ((t, 4096), (s, 8)):
        body = Allocate(x.data, "int32", [n], const(True), body)
    new = lower_tvm_builtin(PrimFunc([a], body))
    assert [n.buffer_var.name for n in of(Allocate, new)] == ["s"]
    request = calls(new, "TVMBackendAllocWorkspace")[0]
    assert [int(x) for x in (request.args[0], request.args[2])] == [1, 16384]
    assert len(calls(new, "TVMBackendFreeWorkspace")) == 1 and calls(new, "tvm_throw_last_error")


def test_memory_of_unknown_size_comes_from_the_workspace():
    n, t = var("n"), decl_buffer((1,), "int32", "t", scope="local")
    func = PrimFunc([n], Allocate(t.data, "int32", [n], const(True), BufferStore(t, const(1), [0])))
    assert calls(lower_tvm_builtin(func), "TVMBackendAllocWorkspace") and not of(Allocate, lower_tvm_builtin(func))


def test_vectors_and_while_conditions_are_refused():
    a = decl_buffer((4,), "int32", "A")
    with pytest.raises(TVMError, match="must be scalars or tensors, got a vector of type int32x4"):
        lower_tvm_builtin(PrimFunc([a], Evaluate(packed("f", const(1, "int32x4")))))
    with pytest.raises(TVMError, match="condition of a while loop"):
        loop = While(packed("f", const(1)) < 3, Evaluate(packed("f", const(1))))
        lower_tvm_builtin(PrimFunc([a], loop))


def divisions(divisor, low, dtype="int32"):
    """Quotients and remainders of low, low + 1, ... by ``divisor``."""
    q, r, i = decl_buffer((16,), dtype, "q"), decl_buffer((16,), dtype, "r"), var("i", dtype)
    by = const(divisor, dtype) if isinstance(divisor, int) else divisor
    x = i + const(low, dtype)
    params = [q, r] + ([] if isinstance(divisor, int) else [divisor])
    body = seq(BufferStore(q, FloorDiv(x, by), [i]), BufferStore(r, FloorMod(x, by), [i]))
    return PrimFunc(params, For(i, 0, 16, 0, body))


@pytest.mark.parametrize("divisor", [1, 2, 3, 8, -3])
@pytest.mark.parametrize("low", [0, -9])
def test_division_rounds_down(divisor, low):
    func = divisions(divisor, low)
    new = lower_intrin(func)
    assert not of((FloorDiv, FloorMod), new)
    x = np.arange(16) + low
    q, r = results(new, [np.zeros(16, "int32"), np.zeros(16, "int32")])
    np.testing.assert_array_equal(q, x // divisor)
    np.testing.assert_array_equal(r, x % divisor)


def test_known_signs_need_no_correction():
    new = lower_intrin(divisions(3, 0))
    assert of(Div, new) and of(Mod, new) and not of(Select, new)
    assert of(Select, lower_intrin(divisions(3, -9)))


@pytest.mark.parametrize("divisor", [4, -4, 7, -7])
def test_division_by_a_variable(divisor):
    d = var("d")
    new = lower_intrin(divisions(d, -9))
    x = np.arange(16) - 9
    q, r = results(new, [np.zeros(16, "int32"), np.zeros(16, "int32"), np.int32(divisor)])[:2]
    np.testing.assert_array_equal(q, x // divisor)
    np.testing.assert_array_equal(r, x % divisor)
