"""Buffers of programs: sizes, pools, alignments, and which are live at the same time."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.tir.usmp.programs import (
    allocate,
    buffer,
    call,
    convolution,
    copy,
    direct,
    function,
    linear_structure,
    loop,
    param,
    pointwise,
    pool,
    resnet_structure,
    with_pools,
)
from tvm import tir
from tvm.error import TVMError
from tvm.ir.module import GlobalVar
from tvm.ir.prim import Call, StringImm, Var, const
from tvm.relay.backend import Executor
from tvm.tir.op import call_cpacked
from tvm.tir.stmt import (
    AllocateConst,
    AttrStmt,
    BufferStore,
    Evaluate,
    ForKind,
    IfThenElse,
    LetStmt,
    While,
    seq,
)
from tvm.tir.usmp.analysis import extract_buffer_info


def found_in(functions, main="main", pools=None):
    mod = with_pools(tvm.IRModule(functions), pools or [pool()])
    analysis = extract_buffer_info(mod[main], mod)
    return {b.name_hint: b for b in analysis.buffer_info_stmts}, analysis


def conflicts(found):
    return {name: {other.name_hint for other in b.conflicts} for name, b in found.items()}


def in_main(body, *memories, params=()):
    for memory in reversed(memories):
        body = allocate(memory, body)
    return function("main", list(params), body)


def test_a_chain_of_operators():
    fast, slow = pool("fast_memory"), pool("slow_memory")
    mod = with_pools(linear_structure(), [fast, slow])
    analysis = extract_buffer_info(mod["__tvm_main__"], mod)
    found = {b.name_hint: b for b in analysis.buffer_info_stmts}
    assert conflicts(found) == {
        "sid_9": {"PaddedInput_7"},
        "sid_8": {"PaddedInput_7", "Conv2dOutput_7", "tensor_2"},
        "PaddedInput_7": {"sid_9", "sid_8", "Conv2dOutput_7"},
        "Conv2dOutput_7": {"sid_8", "PaddedInput_7"},
        "tensor_2": {"sid_8"},
    }
    sizes = {name: b.size_bytes for name, b in found.items()}
    assert sizes == {
        "sid_9": 301056, "sid_8": 802816, "PaddedInput_7": 314646, "Conv2dOutput_7": 256, "tensor_2": 200704,
    }  # fmt: skip
    assert all(b.pool_candidates == (fast, slow) and b.alignment == 16 for b in found.values())
    assert analysis.memory_pressure == 802816 + 314646 + 256


def test_a_residual_block():
    mod = with_pools(resnet_structure(), [pool()])
    found = {b.name_hint: b for b in extract_buffer_info(mod["__tvm_main__"], mod).buffer_info_stmts}
    expected = {
        "sid_7": "PaddedInput_1 sid_2 Conv2dOutput_1 PaddedInput_2",
        "Conv2dOutput_3": "PaddedInput_3 sid_6",
        "sid_6": "Conv2dOutput_2 PaddedInput_2 sid_2 PaddedInput_3 Conv2dOutput_3",
        "Conv2dOutput": "sid_8 sid_2 PaddedInput",
        "PaddedInput_3": "sid_6 sid_2 Conv2dOutput_3",
        "Conv2dOutput_2": "PaddedInput_2 sid_2 sid_6",
        "PaddedInput_1": "sid_8 sid_2 sid_7 Conv2dOutput_1",
        "Conv2dOutput_1": "sid_7 PaddedInput_1 sid_2",
        "PaddedInput": "sid_2 sid_8 Conv2dOutput",
        "sid_8": "PaddedInput sid_2 Conv2dOutput PaddedInput_1",
        "PaddedInput_2": "sid_7 sid_2 Conv2dOutput_2 sid_6",
        "sid_2": "PaddedInput sid_8 Conv2dOutput PaddedInput_1 sid_7 Conv2dOutput_1 PaddedInput_2 Conv2dOutput_2"
        " sid_6 PaddedInput_3",
    }
    assert conflicts(found) == {name: set(names.split()) for name, names in expected.items()}


@pytest.mark.parametrize("kind, names", [(ForKind.SERIAL, {"padded", "acc"}), (ForKind.UNROLLED, {"padded", "acc"}),
                                         (ForKind.PARALLEL, {"padded"}), (ForKind.VECTORIZED, {"padded"})])  # fmt: skip
def test_memory_inside_a_parallel_loop_belongs_to_each_task(kind, names):
    padded, acc, a, b = buffer("padded", 64), buffer("acc", 8), buffer("a", 64), buffer("b", 64)
    tasks = loop(loop(allocate(acc, seq(copy(acc, padded), copy(b, acc)))), kind=kind)
    found, _ = found_in({"main": function("main", [a, b], allocate(padded, seq(copy(padded, a), tasks)))})
    assert set(found) == names


def test_memory_of_a_function_called_in_a_parallel_loop_belongs_to_each_task():
    inner, a, b = buffer("inner", 64), buffer("a", 64), buffer("b", 64)
    kernel = function("k", [a, b], allocate(inner, seq(copy(inner, a), copy(b, inner))))
    s, t = buffer("s", 64), buffer("t", 64)
    body = seq(call("k", s, t), loop(call("k", s, t), kind=ForKind.PARALLEL))
    found, _ = found_in({"k": kernel, "main": in_main(body, s, t)})
    assert set(found) == {"s", "t"}


def test_a_function_called_twice_has_two_lifetimes():
    inner = buffer("inner", 64)
    kernel = convolution("k", buffer("data_pad", 64), inner, buffer("x", 64), buffer("y", 64))
    s = [buffer(f"s{n}", 64) for n in range(4)]
    body = seq(call("k", s[0], s[1]), call("move", s[1], s[2]), call("k", s[2], s[3]))
    found, analysis = found_in({"k": kernel, "main": in_main(body, *s)})
    assert conflicts(found) == {
        "s0": {"data_pad"},
        "s1": {"data_pad", "inner", "s2"},
        "s2": {"data_pad", "s1"},
        "s3": {"data_pad", "inner"},
        "data_pad": {"inner", "s0", "s1", "s2", "s3"},
        "inner": {"data_pad", "s1", "s3"},
    }
    assert analysis.memory_pressure == 3 * 64


def test_a_name_is_unique_in_the_program():
    kernels = {
        name: convolution(name, buffer("pad", 64), buffer("acc", 64), buffer("x", 64), buffer("y", 64))
        for name in ("k", "l")
    }
    s, t, u = buffer("s", 64), buffer("pad2", 64), buffer("u", 64)
    body = seq(call("k", s, t), call("l", t, u))
    found, _ = found_in({**kernels, "main": in_main(body, s, t, u)})
    assert set(found) == {"s", "pad2", "u", "pad", "acc", "pad3", "acc2"}


def test_a_value_carried_through_a_loop_is_live_in_all_of_it():
    state, temporary, before, after = (buffer(n, 64) for n in ("state", "temporary", "before", "after"))
    body = seq(
        copy(before), copy(state, before), loop(seq(copy(temporary, state), copy(state, temporary))), copy(after)
    )
    found, _ = found_in({"main": in_main(body, state, temporary, before, after)})
    assert conflicts(found) == {
        "state": {"before", "temporary"}, "temporary": {"state"}, "before": {"state"}, "after": set(),
    }  # fmt: skip


def test_parts_of_a_loop_of_one_iteration_and_memory_inside_a_loop_are_separate():
    first, second = buffer("first", 64), buffer("second", 64)
    out = buffer("out", 64)
    parts = seq(seq(copy(first), copy(out, first)), seq(copy(second), copy(out, second)))
    found, _ = found_in({"main": in_main(loop(parts, 1), first, second, params=[out])})
    assert conflicts(found) == {"first": set(), "second": set()}
    found, _ = found_in({"main": in_main(loop(parts, 2), first, second, params=[out])})
    assert conflicts(found) == {"first": {"second"}, "second": {"first"}}
    inside = loop(allocate(first, allocate(second, parts)), 2)
    found, _ = found_in({"main": function("main", [out], inside)})
    assert conflicts(found) == {"first": set(), "second": set()}


def test_a_while_loop_and_branches():
    flag, first, second, both = (buffer(n, 4, "int32") for n in ("flag", "first", "second", "both"))
    branch = IfThenElse(flag[0] > 0, seq(copy(first), copy(both, first)), seq(copy(second), copy(both, second)))
    found, _ = found_in({"main": in_main(seq(copy(both), branch), first, second, both, params=[flag])})
    assert conflicts(found) == {"first": {"both"}, "second": {"both"}, "both": {"first", "second"}}
    repeated = While(both[0] > 0, seq(copy(first, both), copy(both, first), copy(second), copy(flag, second)))
    found, _ = found_in({"main": in_main(seq(copy(both), repeated), first, second, both, params=[flag])})
    assert conflicts(found)["both"] == {"first", "second"}


def test_aliases_are_uses_of_the_memory_that_they_point_into():
    whole, x, later = buffer("whole", 64), buffer("x", 64), buffer("later", 64)
    second = Var("second", "handle")
    at = Call("handle", tvm.ir.Op.get("tir.handle_add_byte_offset"), (whole.data, const(32, "int64")))
    third = Var("third", "handle")
    body = seq(
        call("write", x, whole), call("write", x, second), call("in_place", third, third), call("move", later, later)
    )
    body = LetStmt(second, at, LetStmt(third, tir.address_of(whole[7]), body))
    found, _ = found_in({"main": in_main(body, whole, x, later)})
    assert conflicts(found) == {"whole": {"x"}, "x": {"whole"}, "later": set()}


def test_every_form_of_a_call_enters_the_function():
    a, b = buffer("a", 64), buffer("b", 64)
    var = GlobalVar("k")
    kernel = convolution("k", buffer("pad", 64), buffer("acc", 8), a, b)
    s, t = buffer("s", 64), buffer("t", 64)
    array = Call("handle", tvm.ir.Op.get("tir.tvm_stack_make_array"), (s.data, 0, 0, 1, 0, 0))
    for body in (
        call("k", s, t),
        direct(var, s, t),
        Evaluate(
            call_cpacked("k", s.data, t.data, Call("handle", tvm.ir.Op.get("tir.reinterpret"), (const(0, "uint64"),)))
        ),
        Evaluate(call_cpacked("k", array, t.data)),
        IfThenElse(Call("int32", var, (s.data, t.data)) != 0, Evaluate(tir.ret(const(-1, "int32")))),
        LetStmt(Var("status", "int32"), Call("int32", var, (s.data, t.data)), Evaluate(const(0, "int32"))),
    ):
        found, _ = found_in({var: kernel, "main": in_main(body, s, t)})
        assert conflicts(found)["s"] == {"pad"} and conflicts(found)["t"] == {"pad", "acc"}, body


def test_a_function_that_is_not_in_the_module_uses_all_its_arguments_at_once():
    s, t = buffer("s", 64), buffer("t", 64)
    found, _ = found_in({"main": in_main(seq(call("f", s, t)), s, t)})
    assert conflicts(found) == {"s": {"t"}, "t": {"s"}}
    access = Call("handle", tvm.ir.Op.get("tir.tvm_access_ptr"), (tir.type_annotation("int8"), s.data, 0, 4, 1))
    found, _ = found_in({"main": in_main(seq(Evaluate(tir.call_extern("int32", "f", access)), copy(t)), s, t)})
    assert conflicts(found) == {"s": set(), "t": set()}


def test_an_address_in_memory_may_be_used_until_the_function_ends():
    s, t, table = buffer("s", 64), buffer("t", 64), buffer("table", 4, "handle")
    body = seq(BufferStore(table, s.data, (0,)), copy(t))
    found, _ = found_in({"main": in_main(body, s, t, params=[table])})
    assert conflicts(found) == {"s": {"t"}, "t": {"s"}}
    a = buffer("a", 64)
    keeps = function("keeps", [a, table], BufferStore(table, a.data, (0,)))
    body = seq(call("keeps", s, Var("table", "handle")), copy(t))
    found, _ = found_in({"keeps": keeps, "main": in_main(body, s, t)})
    assert conflicts(found) == {"s": {"t"}, "t": {"s"}}


def test_inputs_are_live_from_the_start_and_outputs_until_the_end():
    given, made, s, t = (buffer(n, 64) for n in ("given", "made", "s", "t"))
    body = seq(copy(s), copy(t, s), copy(made, given), copy(s), copy(t, s))
    body = allocate(s, allocate(t, body))
    body = allocate(given, allocate(made, body, {"output_tensor": "made"}), {"input_tensor": "given"})
    found, _ = found_in({"main": function("main", [], body)})
    assert conflicts(found)["given"] == {"made", "s", "t"} and conflicts(found)["made"] == {"given", "s", "t"}


def test_memory_that_cannot_be_planned_is_left_alone():
    n = Var("n", "int32")
    sized, shared, optional, unmarked = (buffer(name, 64) for name in ("sized", "shared", "optional", "unmarked"))
    shared = tir.decl_buffer((64,), "int8", "shared", scope="shared")
    body = seq(copy(sized), copy(shared), copy(optional))
    body = tir.Allocate(sized.data, "int8", (n,), True, body)
    body = tir.Allocate(optional.data, "int8", (64,), n > 0, allocate(shared, body))
    found, _ = found_in({"main": function("main", [n], body)})
    assert found == {}
    mod = tvm.IRModule({"main": in_main(copy(unmarked), unmarked)})
    assert extract_buffer_info(mod["main"], mod).buffer_info_stmts == {}


def test_constants_are_live_all_the_time():
    data = [tvm.nd.array(np.arange(n, dtype="int8")) for n in (24, 40)]
    weights = [buffer("w0", 24), buffer("w1", 40)]
    s, t = buffer("s", 64), buffer("t", 64)
    body = seq(copy(s, weights[0]), copy(t, s, weights[1]))
    for memory, array in zip(weights, data):
        body = AllocateConst(memory.data, "int8", memory.shape, array, body)
    found, analysis = found_in({"main": in_main(body, s, t)})
    assert conflicts(found) == {"w0": {"w1"}, "w1": {"w0"}, "s": {"t"}, "t": {"s"}}
    assert [found[n].size_bytes for n in ("w0", "w1")] == [24, 40] and analysis.memory_pressure == 128


def test_alignments():
    plain, vector, promised = buffer("plain", 8), buffer("vector", 8), buffer("promised", 8)
    vector = tir.decl_buffer((8,), "float32x8", "vector")
    body = AttrStmt(promised.data, "storage_alignment", const(64, "int32"), Evaluate(const(0, "int32")))
    main = in_main(body, promised, plain, vector)
    found, _ = found_in({"main": main})
    assert {n: b.alignment for n, b in found.items()} == {"plain": 16, "vector": 32, "promised": 64}
    mod = with_pools(tvm.IRModule({"main": main}), [pool()])
    mod = mod.with_attr("executor", Executor("aot", {"workspace-byte-alignment": 4}))
    found = {b.name_hint: b.alignment for b in extract_buffer_info(mod["main"], mod).buffer_info_stmts}
    assert found == {"plain": 4, "vector": 32, "promised": 64}


def test_programs_that_cannot_be_planned():
    s, a = buffer("s", 64), buffer("a", 64)
    recursive = function("k", [a], call("k", a))
    with pytest.raises(TVMError, match="k calls itself"):
        found_in({"k": recursive, "main": in_main(call("k", s), s)})
    with pytest.raises(TVMError, match="k takes 1 arguments, but 2 are given"):
        found_in({"k": pointwise("k", a), "main": in_main(call("k", s, s), s)})
    lowered = Call("int32", tvm.ir.Op.get("tir.tvm_call_packed_lowered"), (StringImm("k"), s.data, 0, 1))
    with pytest.raises(TVMError, match="plan memory before LowerTVMBuiltin"):
        found_in({"main": in_main(Evaluate(lowered), s)})
    realized = tir.BufferRealize(s, (tvm.ir.Range(0, 64),), True, copy(s))
    with pytest.raises(TVMError, match="requires flattened buffers; found BufferRealize"):
        found_in({"main": function("main", [], realized)})
    constant = AllocateConst(s.data, "int8", s.shape, 3, copy(a, s))
    with pytest.raises(TVMError, match="the constant 's' has no data: 3"):
        found_in({"main": function("main", [a], constant)})
    assert param("p").dtype == "handle"
