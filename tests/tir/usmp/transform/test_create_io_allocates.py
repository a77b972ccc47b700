"""Inputs and outputs as allocations of the main function."""

from __future__ import annotations

import pytest

import tvm
from tests.tir.usmp.programs import allocate, buffer, call, copy, function, param, pointwise
from tvm import tir
from tvm.error import TVMError
from tvm.ir.prim import Call, Var, const
from tvm.ir.visit import post_order
from tvm.tir.stmt import Allocate, Evaluate, LetStmt, seq
from tvm.tir.usmp.transform import create_allocates_for_io
from tvm.tir.usmp.transform.create_io_allocates import create_io_allocates

NAME = "tvmgen_default_fused_cast_subtract"


def tensor(name):
    return buffer(name, *{"i": (150528, "uint8"), "o": (452, "int16")}[name[0]])


def program(inputs, outputs, *calls, kernel=True):
    body = seq(*calls)
    main = function("__tvm_main__", [*inputs, *outputs], body)
    made = pointwise(NAME, buffer("a", 150528, "uint8"), buffer("b", 1, "int16"), buffer("c", 452, "int16"))
    return tvm.IRModule({**({NAME: made} if kernel else {}), "__tvm_main__": main})


def found(mod):
    """The allocations around the body of the main function: {kind: {name: (size, dtype)}}."""
    made = {"input_tensor": {}, "output_tensor": {}}
    stmt = mod["__tvm_main__"].body
    while isinstance(stmt, Allocate):
        ((kind, name),) = stmt.annotations.items()
        made[kind][name] = (stmt.extents[0].value, stmt.dtype)
        stmt = stmt.body
    return made["input_tensor"], made["output_tensor"]


def handles(names, size, dtype):
    return {f"{name}_handle": (size, dtype) for name in names.split()}


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("inputs, outputs", [("i", "o"), ("i", "o1 o2"), ("i1 i2", "o"), ("i1 i2", "o1 o2")])
def test_inputs_and_outputs_of_calls(inputs, outputs, kernel):
    given, made = [tensor(n) for n in inputs.split()], [tensor(n) for n in outputs.split()]
    calls = [call(NAME, given[n % len(given)], param("p0"), out) for n, out in enumerate(made)]
    if len(made) < len(given):
        calls = [call(NAME, *given, made[0])]
    mod = create_allocates_for_io()(program(given, made, *calls, kernel=kernel))
    assert found(mod) == (handles(inputs, 150528, "uint8"), handles(outputs, 452, "int16"))
    assert mod["__tvm_main__"].params == () and mod["__tvm_main__"].buffer_map == {}


def test_stores_decide_and_not_the_order_of_parameters():
    a, b = buffer("a", 64), buffer("b", 64)
    first = function("first", [a, b], copy(a, b))
    x, y, s = buffer("x", 64), buffer("y", 64), buffer("s", 64)
    alias = Var("alias", "handle")
    at = Call("handle", tvm.ir.Op.get("tir.handle_add_byte_offset"), (y.data, const(0, "int64")))
    body = allocate(s, seq(call("first", s, x), LetStmt(alias, at, call("first", alias, s))))
    mod = create_io_allocates(tvm.IRModule({"first": first, "main": function("main", [y, x], body)}), "main")
    kinds = {n.buffer_var.name: tuple(n.annotations) for n in post_order(mod["main"].body) if isinstance(n, Allocate)}
    assert kinds == {"x": ("input_tensor",), "y": ("output_tensor",), "s": ()}


def test_attributes_name_the_inputs_and_outputs():
    """A parameter that neither attribute lists, such as a constant, stays a parameter."""
    a, b, c = (buffer(name, 64) for name in "abc")
    main = function("__tvm_main__", [a, b, c], copy(a, b))
    first, second, third = main.params
    main = main.with_attr({"input_vars": (second,), "output_vars": (main.buffer_map[third],)})
    mod = create_io_allocates(tvm.IRModule({"__tvm_main__": main}))
    assert found(mod) == ({second.name: (64, "int8")}, {third.name: (64, "int8")})
    assert mod["__tvm_main__"].params == (first,) and list(mod["__tvm_main__"].buffer_map) == [first]


def test_the_mask_of_an_access_pointer_decides():
    x, y = buffer("x", 64), buffer("y", 64)

    def access(memory, mask):
        op = tvm.ir.Op.get("tir.tvm_access_ptr")
        return Call("handle", op, (tir.type_annotation("int8"), memory.data, 0, 64, mask))

    body = Evaluate(tir.call_extern("int32", "gemm", access(y, 2), access(x, 1), const(64, "int32")))
    mod = create_io_allocates(tvm.IRModule({"main": function("main", [x, y], body)}), "main")
    kinds = {n.buffer_var.name: tuple(n.annotations) for n in post_order(mod["main"].body) if isinstance(n, Allocate)}
    assert kinds["y"] == ("output_tensor",)


def test_a_resource_handle_stays_a_parameter():
    x, y, handle = buffer("x", 64), buffer("y", 64), Var("resource_handle", "handle")
    main = function("main", [x, y, handle], call("k", x, y))
    assert create_io_allocates(tvm.IRModule({"main": main}), "main")["main"].params == (handle,)


def test_programs_without_a_main_function_or_with_dynamic_shapes():
    with pytest.raises(TVMError, match="cannot allocate inputs and outputs in pools: the module has no PrimFunc"):
        create_io_allocates(tvm.IRModule(), "main")
    n = Var("n", "int32")
    x = tir.decl_buffer((n,), "int8", "x")
    with pytest.raises(TVMError, match="main: 'x_handle' has shape .*; memory planning needs constant shapes"):
        create_io_allocates(tvm.IRModule({"main": function("main", [n, x], copy(x))}), "main")
