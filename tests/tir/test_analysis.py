"""Work, memory, effects, access regions and scopes of programs."""

import pytest

from tvm import tir
from tvm.ir.module import IRModule
from tvm.ir.prim import Range
from tvm.ir.type import PointerType, PrimType
from tvm.tir import analysis

i, j, k, n = (tir.Var(s, "int32") for s in "ijkn")


def matmul(size=8):
    a, b, c = (tir.decl_buffer((size, size), name=s) for s in "ABC")
    vi, vj = (tir.IterVar((0, size), s, 0) for s in ("vi", "vj"))
    vk = tir.IterVar((0, size), "vk", 2)
    index = [vi.var, vj.var]
    update = tir.BufferStore(c, c[vi, vj] + a[vi, vk] * b[vk, vj], index)
    block = tir.Block([vi, vj, vk], [], [], "C", update, init=tir.BufferStore(c, 0.0, index))
    stmt = tir.BlockRealize([i, j, k], True, block)
    for v in (k, j, i):
        stmt = tir.For(v, 0, size, 0, stmt)
    root = tir.Block([], [], [], "root", stmt)
    handles = {tir.Var(x.name.lower(), "handle"): x for x in (a, b, c)}
    return tir.PrimFunc([*handles], tir.BlockRealize([], True, root), None, handles, {"global_symbol": "main"}), block


def test_flops_of_a_matrix_product():
    func, _ = matmul(8)
    assert analysis.estimate_tir_flops(func) == analysis.estimate_tir_flops(IRModule({"f": func})) == 2 * 8**3


def test_flops_ignore_indices_and_conditions_and_take_the_dearer_branch():
    a, b = tir.decl_buffer((64,), name="A"), tir.decl_buffer((64,), name="B")
    value = tir.if_then_else(tir.all(i > 1, i < 60), a[i * 2 + 1] * 2.0 + 1.0, 0.0)
    assert analysis.estimate_tir_flops(tir.For(i, 0, 10, 0, tir.BufferStore(b, value, [i + 1]))) == 20
    branch = tir.IfThenElse(i < 3, tir.BufferStore(b, a[i] + 1.0, [i]), tir.BufferStore(b, a[i], [i]))
    assert analysis.estimate_tir_flops(branch) == 1
    vector = tir.BufferStore(b, a[tir.Ramp(0, 1, 4)] * tir.Broadcast(2.0, 4), [tir.Ramp(0, 1, 4)])
    assert analysis.estimate_tir_flops(vector) == 4


def test_flops_need_known_extents():
    with pytest.raises(ValueError, match="loop 'i' is n"):
        analysis.estimate_tir_flops(tir.For(i, 0, n, 0, tir.Evaluate(0)))


def allocate(name, size, body, scope="global", dtype="float32"):
    return tir.Allocate(tir.Var(name, PointerType(PrimType(dtype), scope)), dtype, [size], True, body)


def test_workspace_is_what_lives_at_one_time():
    leaf = tir.Evaluate(tir.call_extern("int32", "f"))
    two = tir.SeqStmt([allocate("p", 10, leaf), allocate("q", 20, leaf, "shared")])
    func = tir.PrimFunc([], allocate("outer", 3, two, dtype="int8"))
    assert analysis.calculate_workspace_bytes(func, 16) == 16 + 80
    assert analysis.calculate_allocated_bytes(func) == {"global": 43, "shared": 80}
    assert analysis.calculate_allocated_bytes(IRModule({"f": func}))["f"]["shared"] == 80


def test_constant_bytes():
    import numpy as np

    data = np.zeros(5, "float32")
    var = tir.Var("c", PointerType(PrimType("float32"), "global"))
    func = tir.PrimFunc([], tir.AllocateConst(var, "float32", [5], data, tir.Evaluate(1)))
    assert analysis.calculate_constant_bytes(func, 16) == 32


def test_effects():
    a = tir.decl_buffer((4,), name="A")
    kinds = tir.CallEffectKind
    assert analysis.side_effect(i + 1) == kinds.Pure
    assert analysis.side_effect(tir.exp(a[i])) == kinds.ReadState
    assert analysis.side_effect(tir.call_extern("int32", "f", i)) == kinds.UpdateState
    assert analysis.side_effect(tir.likely(i < 3)) == kinds.Pure


def test_purity():
    a = tir.decl_buffer((4,), name="A")
    h = tir.Var("a", "handle")
    assert analysis.is_pure_function(tir.PrimFunc([n], tir.Evaluate(tir.ret(n + 1))))
    scratch = tir.decl_buffer((4,), name="s")
    inner = tir.Allocate(scratch.data, "float32", [4], True, tir.BufferStore(scratch, 1.0, [0]))
    assert analysis.is_pure_function(tir.PrimFunc([], inner))
    store = tir.PrimFunc([h], tir.BufferStore(a, 1.0, [0]), None, {h: a}, {"global_symbol": "f"})
    assert not analysis.is_pure_function(store)
    with pytest.raises(AssertionError, match="function f is not pure: it writes buffer 'A'"):
        analysis.assert_pure_function(store)
    assert not analysis.is_pure_function(tir.PrimFunc([], tir.Evaluate(tir.call_packed("g"))))


def test_access_region_of_a_reduction_block():
    func, block = matmul()
    by_var = {b.data: b for b in func.buffer_map.values()}
    reads, writes, opaque = analysis.get_block_access_region(block, by_var)
    assert [str(r) for r in reads] == ["A[vi, vk]", "B[vk, vj]"]
    assert [str(r) for r in writes] == ["C[vi, vj]"] and opaque == []


def test_access_region_relaxes_inner_loops():
    a, b = tir.decl_buffer((64, 64), name="A"), tir.decl_buffer((64, 64), name="B")
    vi = tir.IterVar((0, 8), "vi", 0)
    loads = a[vi * 8 + i, j] + a[vi * 8 + i + 1, j]
    body = tir.For(i, 0, 7, 0, tir.For(j, 4, 4, 0, tir.BufferStore(b, loads, [vi * 8 + i, j])))
    block = tir.Block([vi], [], [], "b", body)
    reads, writes, _ = analysis.get_block_access_region(block, {})
    assert str(reads[0]) == "A[vi * 8:vi * 8 + 8, 4:8]" and str(writes[0]) == "B[vi * 8:vi * 8 + 7, 4:8]"


def test_access_region_of_nested_blocks_and_pointers():
    func, _ = matmul()
    a = next(iter(func.buffer_map.values()))
    inner = tir.Block(
        [tir.IterVar((0, 8), "vx", 0)], [tir.BufferRegion(a, [Range.from_min_extent(i, 1), Range(0, 8)])], [], "x",
        tir.Evaluate(0),
    )  # fmt: skip
    pointer = tir.Evaluate(tir.call_extern("int32", "f", a.access_ptr("w")))
    bare = tir.Evaluate(tir.call_extern("int32", "g", a.data))
    nested = tir.For(i, 2, 3, 0, tir.BlockRealize([i], True, inner))
    reads, writes, opaque = analysis.get_block_access_region(
        tir.Block([], [], [], "b", tir.SeqStmt([nested, pointer])), {a.data: a}
    )
    assert str(reads[0]) == "A[2:5, 0:8]" and str(writes[0]) == "A[0:8, 0:8]" and opaque == []
    reads, writes, opaque = analysis.get_block_access_region(tir.Block([], [], [], "b", bare), {a.data: a})
    assert (reads, writes, str(opaque[0])) == ([], [], "A[0:8, 0:8]")
    reads, writes = analysis.get_block_read_write_region(tir.Block([], [], [], "b", bare), {a.data: a})
    assert str(reads[0]) == str(writes[0]) == "A[0:8, 0:8]"


def test_innermost_scope_of_accesses():
    a, b, c = (tir.decl_buffer((8,), name=s) for s in "ABC")
    first = tir.For(i, 0, 8, 0, tir.BufferStore(b, a[i], [i]))
    inner = tir.For(k, 0, 2, 0, tir.BufferStore(c, b[j], [j]))
    second = tir.For(j, 0, 8, 0, inner)
    root = tir.Block([], [], [], "root", tir.SeqStmt([first, second]), alloc_buffers=[b])
    handles = {tir.Var(x.name.lower(), "handle"): x for x in (a, c)}
    func = tir.PrimFunc([*handles], tir.BlockRealize([], True, root), None, handles)
    lca = analysis.detect_buffer_access_lca(func)
    assert lca[a] is first and lca[b] is root and lca[c] is inner


def test_entry_and_anchor():
    func, block = matmul()
    other = tir.PrimFunc([], tir.Evaluate(0))
    assert analysis.find_entry_func(IRModule({"x": func}))[0].name_hint == "x"
    assert analysis.find_entry_func(IRModule({"x": other, "main": func}))[1] is func
    marked = other.with_attr("tir.is_entry_func", True)
    assert analysis.find_entry_func(IRModule({"x": marked, "main": func}))[1] is marked
    with pytest.raises(ValueError, match="no entry function.*its functions are x, y"):
        analysis.find_entry_func(IRModule({"x": func, "y": other}))
    assert analysis.find_anchor_block(IRModule({"x": func})) is block
    assert analysis.find_anchor_block(IRModule({"y": other})) is None


def test_memory_scopes_of_parameters():
    func, _ = matmul()
    assert analysis.get_prim_func_arg_and_result_memory_constraints(func) == ["", "", ""]
    out = analysis.apply_prim_func_arg_and_result_memory_constraints(func, None, ["shared", "", "local"])
    assert analysis.get_prim_func_arg_and_result_memory_constraints(out) == ["shared", "", "local"]
    assert analysis.undefined_vars(out) == []


def test_expr_deep_equal():
    assert analysis.expr_deep_equal(i + j * 2, i + j * 2)
    assert not analysis.expr_deep_equal(i + j, j + i)
