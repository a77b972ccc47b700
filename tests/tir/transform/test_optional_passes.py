"""Passes outside of the default pipeline: common expressions, single definitions, bfloat16, forced types, entries."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from lowered import of, results, same_result, var

import tvm
from tvm.error import TVMError
from tvm.ir.module import IRModule
from tvm.ir.op import Op
from tvm.ir.prim import Add, Call, Cast, FloorDiv, IterVar, Let, Mul, Var, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import exp
from tvm.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, IfThenElse, LetStmt, seq
from tvm.tir.transform.bf16_legalize import bf16_compute_legalize, bf16_storage_legalize
from tvm.tir.transform.common_subexpr_elim import common_subexpr_elim
from tvm.tir.transform.convert_ssa import convert_ssa
from tvm.tir.transform.force_narrow_index_to_int32 import force_narrow_index_to_int32
from tvm.tir.transform.make_unpacked_api import make_unpacked_api
from tvm.tir.transform.merge_dynamic_shared_memory_allocations import merge_dynamic_shared_memory_allocations
from tvm.tir.transform.remove_assume import remove_assume


def test_common_expressions_are_named_where_their_variables_are_known():
    b, i, n, m = decl_buffer((64,), "int32", "B"), var("i"), var("n"), var("m")
    expensive = lambda: (n + m) * n * m
    body = For(
        i,
        0,
        8,
        0,
        seq(BufferStore(b, expensive() + (i * n + m) * 2, [i]), BufferStore(b, expensive() + (i * n + m) * 3, [i + 8])),
    )
    new = same_result(common_subexpr_elim, PrimFunc([b, n, m], body), np.zeros(64, "int32"), np.int32(5), np.int32(7))
    outside, inside = new.body, new.body.body
    assert isinstance(outside, LetStmt) and isinstance(inside, For) and isinstance(inside.body, LetStmt)
    assert len(of(Mul, new)) == 5


def test_what_may_fail_is_not_moved():
    b, n = decl_buffer((64,), "int32", "B"), var("n")
    guarded = lambda at: IfThenElse(n > 0, BufferStore(b, FloorDiv(const(12), n), [at]))
    func = PrimFunc([b, n], seq(guarded(0), guarded(1)))
    new = same_result(common_subexpr_elim, func, np.zeros(64, "int32"), np.int32(0))
    assert len(of(FloorDiv, new)) == 2


def test_loads_are_not_named():
    b, i = decl_buffer((8,), "int32", "B"), var("i")
    body = For(i, 0, 4, 0, seq(BufferStore(b, b[0] + 1, [0]), BufferStore(b, b[0] + 1, [0])))
    new = same_result(common_subexpr_elim, PrimFunc([b], body), np.zeros(8, "int32"))
    assert not of(LetStmt, new) and len(of(Add, new)) == 2


def test_a_case_that_alone_needs_an_expression_names_it():
    b, n, m = decl_buffer((8,), "int32", "B"), var("n"), var("m")
    store = lambda value, at: BufferStore(b, value, [at])
    both = lambda second, third: PrimFunc(
        [b, n, m], IfThenElse(n > 0, seq(store(n + m, 0), store(second, 1)), store(third, 2))
    )
    for flag in (0, 1):
        given = np.zeros(8, "int32"), np.int32(flag), np.int32(7)
        one = same_result(common_subexpr_elim, both(n + m, m), *given)
        assert isinstance(one.body, IfThenElse) and isinstance(one.body.then_case, LetStmt) and len(of(Add, one)) == 1
        two = same_result(common_subexpr_elim, both(m, n + m), *given)
        assert isinstance(two.body, LetStmt) and len(of(Add, two)) == 1


def test_a_named_expression_uses_the_names_of_its_parts():
    b, n, m, k = decl_buffer((8,), "int32", "B"), var("n"), var("m"), var("k")
    values = [(n + m) * k, (n + m) * k, n + m]
    func = PrimFunc([b, n, m, k], seq(*(BufferStore(b, v, [i]) for i, v in enumerate(values))))
    new = same_result(common_subexpr_elim, func, np.zeros(8, "int32"), np.int32(2), np.int32(3), np.int32(4))
    small, large = new.body, new.body.body
    assert [small.var.name, large.var.name] == ["cse_var_2", "cse_var_1"]
    assert isinstance(small.value, Add) and isinstance(large.value, Mul) and large.value.a is small.var
    assert [s.value for s in large.body.seq] == [large.var, large.var, small.var]


def test_expressions_of_a_definition_are_named_behind_it():
    b, n, x, y = (decl_buffer((8,), "int32", "B"), *map(var, "nxy"))
    stores = [BufferStore(b, (x + y) * 3 + (n + 4) * i, [i]) for i in range(2)]
    inner = LetStmt(x, n * 2, LetStmt(y, x + 1, seq(*stores)))
    new = same_result(common_subexpr_elim, PrimFunc([b, n], inner), np.zeros(8, "int32"), np.int32(5))
    nest, node = [], new.body
    while isinstance(node, LetStmt):
        nest.append(node.var.name)
        node = node.body
    assert nest == ["x", "y", "cse_var_1"]


def test_what_an_expression_defines_has_no_name_outside_of_it():
    b, n, x = decl_buffer((8,), "int32", "B"), var("n"), var("x")
    value = lambda: Let(x, n * 2, (x + n) * (x + n))
    func = PrimFunc([b, n], seq(BufferStore(b, value(), [0]), BufferStore(b, value(), [1])))
    new = same_result(common_subexpr_elim, func, np.zeros(8, "int32"), np.int32(5))
    assert len(of(Mul, new)) == 3 and len(of(Add, new)) == 4


def test_one_variable_of_two_loops_names_expressions_in_each():
    b, i, n = decl_buffer((16,), "int32", "B"), var("i"), var("n")
    loop = lambda at: For(i, 0, 4, 0, seq(BufferStore(b, i * n, [i + at]), BufferStore(b, i * n + 1, [i + at + 4])))
    new = same_result(common_subexpr_elim, PrimFunc([b, n], seq(loop(0), loop(8))), np.zeros(16, "int32"), np.int32(3))
    assert [isinstance(x.body, LetStmt) for x in of(For, new)] == [True, True] and len(of(Mul, new)) == 2


def test_equivalent_expressions_are_one_where_that_is_asked_for():
    b, n, m, k = decl_buffer((8,), "int32", "B"), var("n"), var("m"), var("k")
    func = PrimFunc([b, n, m, k], seq(BufferStore(b, n * (m + k), [0]), BufferStore(b, n * m + n * k, [1])))
    given = np.zeros(8, "int32"), np.int32(2), np.int32(3), np.int32(4)
    assert not of(LetStmt, same_result(common_subexpr_elim, func, *given))
    new = same_result(lambda f: common_subexpr_elim(f, identify_equiv_terms=True), func, *given)
    assert [s.value for s in of(BufferStore, new)] == [new.body.var] * 2


def test_second_definitions_get_variables_of_their_own():
    b, i, x = decl_buffer((8,), "int32", "B"), var("i"), var("x")
    t = decl_buffer((1,), "int32", "t")
    part = lambda at: For(
        i,
        0,
        2,
        0,
        LetStmt(
            x,
            i * 2,
            Allocate(
                t.data, "int32", [1], const(True), seq(BufferStore(t, x, [0]), BufferStore(b, t[0] + at, [i + at]))
            ),
        ),
    )
    new = same_result(convert_ssa, PrimFunc([b], seq(part(0), part(4))), np.zeros(8, "int32"))
    for kind, name in ((For, "loop_var"), (LetStmt, "var"), (Allocate, "buffer_var")):
        assert len({id(getattr(n, name)) for n in of(kind, new)}) == 2


def test_assumptions_go():
    b = decl_buffer((8,), "int32", "B")
    told = Evaluate(Call("bool", Op.get("tir.assume"), (b[0].equal(0),)))
    assert isinstance(remove_assume(PrimFunc([b], seq(told, BufferStore(b, const(1), [0])))).body, BufferStore)


def bfloat_function():
    a, b, i = decl_buffer((64,), "bfloat16", "A"), decl_buffer((64,), "bfloat16", "B"), var("i")
    value = exp(a[i]) * a[i] + const(1.5, "bfloat16")
    return PrimFunc([a, b], For(i, 0, 64, 0, BufferStore(b, value, [i])))


def bfloat_data():
    return np.random.default_rng(5).normal(size=64).astype(ml_dtypes.bfloat16)


def test_bfloat16_is_computed_in_float32_and_rounded_each_time():
    new = bf16_compute_legalize(bfloat_function())
    assert all(n.dtype == "float32" for n in of((Add, Mul), new)) and of(Cast, new)
    x = bfloat_data()
    got = results(new, [x, np.zeros_like(x)])[1]
    wide = np.float32

    def rounded(v):
        return v.astype(ml_dtypes.bfloat16).astype(wide)

    want = rounded(rounded(rounded(np.exp(x.astype(wide))) * x.astype(wide)) + 1.5)
    np.testing.assert_array_equal(got.astype(wide), want)


def test_bfloat16_is_stored_as_words():
    computed = bf16_compute_legalize(bfloat_function())
    new = bf16_storage_legalize(computed)
    assert {b.dtype for b in new.buffer_map.values()} == {"uint16"}
    assert not [n for n in of(Cast, new) if "bfloat" in n.dtype]
    x = bfloat_data()
    want = results(computed, [x, np.zeros_like(x)])[1]
    got = results(new, [x.view("uint16"), np.zeros(64, "uint16")])[1]
    np.testing.assert_array_equal(got.view(ml_dtypes.bfloat16), want)


def test_indices_are_narrow_or_refused():
    a, i = decl_buffer((64,), "int32", "A"), Var("i", "int64")
    new = force_narrow_index_to_int32(PrimFunc([a], For(i, 0, 64, 0, BufferStore(a, const(1), [i]))))
    assert new.body.loop_var.dtype == "int32"
    large = decl_buffer((1 << 31,), "int8", "L")
    with pytest.raises(TVMError, match="L has 2147483648 elements; the largest 32-bit index is"):
        force_narrow_index_to_int32(PrimFunc([large], BufferStore(large, const(1, "int8"), [0])))
    n = Var("n", "int64")
    with pytest.raises(TVMError, match="may not fit in 32 bits"):
        force_narrow_index_to_int32(PrimFunc([a, n], For(i, 0, n, 0, BufferStore(a, const(1), [i]))))


def test_dynamic_shared_memory_is_one_piece():
    tx = IterVar((0, 1), var("threadIdx_x"), IterVar.ThreadIndex, "threadIdx.x")
    b = decl_buffer((8,), "int32", "B")
    parts = [decl_buffer((5,), "int32", f"s{i}", scope="shared.dyn") for i in range(2)]
    body = seq(
        BufferStore(parts[0], const(3), [4]),
        BufferStore(parts[1], const(4), [0]),
        BufferStore(b, parts[0][4] * 10 + parts[1][0], [0]),
    )
    for s in parts:
        body = Allocate(s.data, "int32", [5], const(True), body)
    func = PrimFunc([b], AttrStmt(tx, "thread_extent", const(1), body))
    new = same_result(merge_dynamic_shared_memory_allocations, func, np.zeros(8, "int32"))
    assert [int(n.extents[0]) for n in of(Allocate, new)] == [64]


def test_unpacked_interface_takes_pointers():
    a, i = decl_buffer((8,), "int32", "A"), var("i")
    attrs = {"global_symbol": "f", "target": tvm.target.Target("cuda", host="llvm")}
    func = PrimFunc([a], For(i, 0, 8, 0, BufferStore(a, i, [i])), attrs=attrs)
    new = make_unpacked_api(IRModule({"f": func}))["f"]
    assert [p.name for p in new.params] == ["A"] and not new.buffer_map
    around = [new.body, new.body.body]
    assert [(s.node.value, s.attr_key, int(s.value)) for s in around] == [
        ("default", "device_id", 0),
        ("default", "device_type", tvm.cuda(0).device_type),
    ]
    with pytest.raises(TVMError, match="f: Require the target attribute"):
        make_unpacked_api(IRModule({"f": PrimFunc([a], func.body, attrs={"global_symbol": "f"})}))
    n = var("n")
    b = decl_buffer((n,), "int32", "B")
    func = PrimFunc([b], For(i, 0, n, 0, BufferStore(b, i, [i])), attrs=attrs)
    with pytest.raises(TVMError, match="the unpacked interface does not pass the sizes n"):
        make_unpacked_api(IRModule({"f": func}))


def test_unpacked_interface_runs():
    a, i = decl_buffer((8,), "int32", "A"), var("i")
    attrs = {"global_symbol": "f", "target": tvm.target.Target("llvm")}
    func = PrimFunc([a], For(i, 0, 8, 0, BufferStore(a, i * 2, [i])), attrs=attrs)
    same_result(lambda f: make_unpacked_api(IRModule({"f": f}))["f"], func, np.zeros(8, "int32"))


def test_every_pass_has_a_name_a_doc_and_a_maker():
    transform = tvm.tir.transform
    for name in transform.__all__:
        assert getattr(transform, name).__doc__, name
    assert tvm.ir.transform.find_pass("tir.Simplify").info.name == "tir.Simplify"
