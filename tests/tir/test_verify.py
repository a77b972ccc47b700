"""Checks of form, of host accesses, and of device limits."""

import pytest

from tvm import tir
from tvm.ir.module import IRModule
from tvm.ir.prim import Range
from tvm.ir.type import PointerType, PrimType
from tvm.target import Target
from tvm.tir.analysis import undefined_vars, verify_gpu_code, verify_memory, verify_ssa, verify_well_formed
from tvm.tir.verify import gpu_code_errors, memory_errors

i, j, n = (tir.Var(s, "int32") for s in "ijn")


def function(body, *buffers, params=(), **attrs):
    handles = {tir.Var(b.name.lower(), "handle"): b for b in buffers}
    return tir.PrimFunc([*handles, *params], body, None, handles, {"global_symbol": "main", **attrs})


def copy(extent=8, kind=0):
    a, b = tir.decl_buffer((8,), name="A"), tir.decl_buffer((8,), name="B")
    return tir.For(i, 0, extent, kind, tir.BufferStore(b, a[i], [i])), a, b


def test_undefined_vars_are_listed_in_order_of_use():
    body, a, b = copy(n + j)
    assert undefined_vars(body) == [n, j, a.data, b.data]
    assert [v.name for v in undefined_vars(function(body, a, b))] == ["n", "j"]
    assert undefined_vars(function(body, a, b, params=(n, j))) == []
    assert undefined_vars(i + j, [i])[0] is j
    assert undefined_vars(tir.Let(i, 1, i + 1)) == []


def test_scope_of_a_loop_variable_ends_with_the_loop():
    loop = tir.For(i, 0, 4, 0, tir.Evaluate(i))
    assert undefined_vars(tir.SeqStmt([loop, tir.Evaluate(i)]))[0] is i
    assert undefined_vars(loop) == []


def test_symbolic_shape_of_a_parameter_is_defined_by_it():
    a = tir.decl_buffer((n,), name="A")
    assert undefined_vars(function(tir.BufferStore(a, 1.0, [n - 1]), a)) == []


def test_verify_ssa():
    body, a, b = copy()
    assert verify_ssa(function(body, a, b))
    assert not verify_ssa(function(tir.SeqStmt([body, body]), a, b))
    assert not verify_ssa(function(tir.Evaluate(n)))
    assert verify_ssa(tir.Evaluate(n))


def test_well_formed_names_the_undefined_variable():
    body, a, b = copy(n)
    with pytest.raises(ValueError, match=r"function main: variable 'n' \(int32\) is used but never defined, in 'for i"):
        verify_well_formed(function(body, a, b))
    assert not verify_well_formed(function(body, a, b), assert_mode=False)
    assert verify_well_formed(IRModule({"main": function(body, a, b, params=(n,))}))


def test_well_formed_refuses_a_variable_redefined_in_its_scope():
    body = tir.For(i, 0, 4, 0, tir.For(i, 0, 2, 0, tir.Evaluate(i)))
    with pytest.raises(ValueError, match="'i' is defined again inside its own scope"):
        verify_well_formed(function(body))


def test_well_formed_refuses_loop_variables_inside_a_block():
    vi = tir.IterVar((0, 8), "vi", 0)
    b = tir.decl_buffer((8,), name="B")
    region = tir.BufferRegion(b, [Range.from_min_extent(vi.var, 1)])

    def nest(index):
        block = tir.Block([vi], [], [region], "b", tir.BufferStore(b, 1.0, [index]))
        return function(tir.For(i, 0, 8, 0, tir.BlockRealize([i], True, block)), b)

    assert verify_well_formed(nest(vi.var))
    with pytest.raises(ValueError, match="block 'b' uses the loop variable 'i' from outside"):
        verify_well_formed(nest(i))


def thread(tag, extent, body):
    axis = tir.IterVar(None, tag, tir.IterVar.ThreadIndex, tag)
    return tir.AttrStmt(axis, "thread_extent", extent, body)


def test_verify_memory_wants_thread_axes_on_a_gpu_only():
    body, a, b = copy()
    assert verify_memory(function(body, a, b, target=Target("llvm")))
    assert not verify_memory(function(body, a, b, target=Target("cuda")))
    assert verify_memory(function(thread("threadIdx.x", 8, body), a, b, target=Target("cuda")))
    assert "'B' is directly accessed by host memory" in memory_errors(function(body, a, b, target=Target("cuda")))[0]


def kernel(threads=64, local=16, dtype="float32", vthread=1):
    scratch = tir.Var("s", PointerType(PrimType(dtype), "shared"))
    store = tir.BufferStore(tir.decl_buffer((8,), dtype, data=scratch), tir.const(0, dtype), [0])
    inner = tir.Var("l", PointerType(PrimType("float32"), "local"))
    stmt = tir.Allocate(inner, "float32", [local], True, tir.Allocate(scratch, dtype, [256], True, store))
    return function(thread("blockIdx.x", 4, thread("threadIdx.x", threads, thread("vthread.x", vthread, stmt))))


@pytest.mark.parametrize(
    "limits,ok",
    [
        ({"max_threads_per_block": 64, "max_thread_x": 64}, True),
        ({"max_threads_per_block": 63}, False),
        ({"max_thread_x": 32}, False),
        ({"max_thread_y": 1}, True),
        ({"max_local_memory_per_block": 64, "max_shared_memory_per_block": 1024}, True),
        ({"max_local_memory_per_block": 63}, False),
        ({"max_shared_memory_per_block": 1023}, False),
        ({"max_vthread": 2}, True),
        ({"max_vthread": 1}, False),
        ({"max_kernels": 1}, True),
        ({"max_kernels": 0}, False),
    ],
)
def test_gpu_limits(limits, ok):
    assert verify_gpu_code(kernel(vthread=2), limits) == ok


def test_virtual_threads_made_loops_still_count():
    body = tir.Evaluate(tir.call_extern("int32", "f"))
    loop = tir.For(tir.Var("vthread.s", "int32"), 0, 16, tir.ForKind.UNROLLED, body)
    func = function(thread("blockIdx.x", 4, loop))
    assert verify_gpu_code(func, {"max_vthread": 16}) and not verify_gpu_code(func, {"max_vthread": 15})


def test_gpu_vector_width_and_unknown_limits():
    assert verify_gpu_code(kernel(dtype="float32x4"), {"max_vector_bytes": 16})
    assert gpu_code_errors(kernel(dtype="float32x4"), {"max_vector_bytes": 8}) == [
        "a vector of type float32x4 is 16, but max_vector_bytes is 8"
    ]
    with pytest.raises(ValueError, match="unknown limits max_cats"):
        verify_gpu_code(kernel(), {"max_cats": 3})
