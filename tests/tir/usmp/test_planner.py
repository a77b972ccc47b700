"""Planned programs: they compute what they computed before, in the memory that the plan says."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tvm
from tests.tir.usmp.programs import allocate, buffer, call, copy, function, loop, pool
from tvm import tir
from tvm.error import TVMError
from tvm.ir.memory_pools import ConstantMemoryPools, ConstantPoolInfo, WorkspaceMemoryPools
from tvm.ir.module import GlobalVar
from tvm.ir.prim import Call, Var, const
from tvm.ir.visit import post_order
from tvm.tir import usmp
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.op import call_cpacked
from tvm.tir.stmt import Allocate, AllocateConst, BufferStore, Evaluate, For, ForKind, LetStmt, seq

# More than stays on the stack.
COUNT = 1100


def each(store, kind=ForKind.SERIAL):
    i = Var("i", "int32")
    return For(i, 0, COUNT, kind, store(i))


def kernel(var, factor, workspace, target, kind=ForKind.SERIAL):
    """``out[i] = mid[last - i]`` with ``mid = a * factor + b``, through workspace or at once."""
    a, b, out, mid = (decl_buffer((COUNT,), "int32", n) for n in ("a", "b", "out", "mid"))
    if workspace:
        body = seq(
            each(lambda i: BufferStore(mid, a[i] * factor + b[i], (i,)), kind),
            each(lambda i: BufferStore(out, mid[COUNT - 1 - i], (i,)), kind),
        )
        body = Allocate(mid.data, "int32", (COUNT,), True, body)
    else:
        body = each(lambda i: BufferStore(out, a[COUNT - 1 - i] * factor + b[COUNT - 1 - i], (i,)), kind)
    return function(var.name_hint, [a, b, out], body, target)


def random_program(numbers, target, kind=ForKind.SERIAL):
    """A graph of kernels, and its function in NumPy. Some tensors are parts of a larger one."""
    kernels = [GlobalVar(f"k{n}") for n in range(4)]
    factors = [numbers.randrange(-3, 4) for _ in kernels]
    functions = {v: kernel(v, f, n % 2, target, kind) for n, (v, f) in enumerate(zip(kernels, factors))}
    x, y = (decl_buffer((COUNT,), "int32", n) for n in "xy")
    tensors, steps, memories, aliases = [x.data], [], [], []
    for n in range(numbers.randrange(4, 12)):
        given = [numbers.choice(range(max(0, len(tensors) - 4), len(tensors))) for _ in range(2)]
        steps.append((numbers.randrange(len(kernels)), *given))
        whole = numbers.random() < 0.3 and memories and memories[-1][1] == COUNT
        if whole:
            # The second half of the memory that the last tensor got.
            memories[-1] = (memories[-1][0], 2 * COUNT)
            at = Call(
                "handle", tvm.ir.Op.get("tir.handle_add_byte_offset"), (memories[-1][0], const(4 * COUNT, "int64"))
            )
            tensors.append(Var(f"part{n}", "handle"))
            aliases.append((tensors[-1], at))
        else:
            memory = decl_buffer((COUNT,), "int32", f"sid_{n}").data
            memories.append((memory, COUNT))
            tensors.append(memory)
    result = [f for f, *_ in steps][-1]
    calls = [(f, tensors[a], tensors[b], tensors[n + 1]) for n, (f, a, b) in enumerate(steps)]
    calls.append((result, tensors[-1], tensors[1], y.data))
    body = seq(*(Evaluate(Call("int32", kernels[f], args)) for f, *args in calls))
    for var, at in reversed(aliases):
        body = LetStmt(var, at, body)
    for memory, count in reversed(memories):
        body = Allocate(memory, "int32", (count,), True, body)

    def expected(values):
        made = [values]
        for f, a, b in [*steps, (result, len(steps), 1)]:
            made.append((made[a] * np.int32(factors[f]) + made[b])[::-1])
        return made[-1]

    return tvm.IRModule({**functions, "main": function("main", [x, y], body, target)}), expected


def simulate(mod, expected, target, pools=None, algorithm=None):
    """Run a planned program in pools of exactly the planned sizes; return the sizes."""
    planned, infos = usmp.plan(mod, "main", pools, algorithm)
    lib = tvm.build(planned, target=target)
    x = np.arange(COUNT, dtype="int32") * 7 - 1000
    y = tvm.nd.array(np.zeros(COUNT, "int32"))
    memory = [tvm.nd.array(np.full(info.allocated_size, 0x5A, "uint8")) for info in infos]
    assert [info.pool_var_idx for info in infos] == list(range(2, 2 + len(infos)))
    for _ in range(2):
        lib["main"](tvm.nd.array(x), y, *memory)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y.numpy(), expected(x))
    assert not any(isinstance(n, Allocate) for n in post_order(planned["main"].body))
    return [info.allocated_size for info in infos]


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("number", range(3))
def test_random_programs_compute_the_same(target, number, seed):
    numbers = random.Random(seed * 10 + number)
    mod, expected = random_program(numbers, target)
    sizes = [simulate(mod, expected, target, algorithm=a)[0] for a in ("search", "greedy_by_size")]
    assert 0 < sizes[0] <= sizes[1]
    limited = [pool("fast", 3 * 4 * COUNT), pool("slow")]
    assert simulate(mod, expected, target, WorkspaceMemoryPools(limited))[0] <= 3 * 4 * COUNT


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_packed_calls_pass_pools_as_tensors(target):
    var = GlobalVar("k")
    x, y, s = (decl_buffer((COUNT,), "int32", n) for n in ("x", "y", "s"))
    null = Call("handle", tvm.ir.Op.get("tir.reinterpret"), (const(0, "uint64"),))
    body = seq(Evaluate(call_cpacked("k", x, x, s, null)), Evaluate(call_cpacked("k", s, x, y, null)))
    main = function("main", [x, y], Allocate(s.data, "int32", (COUNT,), True, body), target)
    mod = tvm.IRModule({var: kernel(var, 3, True, target), "main": main})

    def expected(values):
        return ((values * 4)[::-1] * 3 + values)[::-1]

    assert simulate(mod, expected, target) == [8 * COUNT]


def test_a_parallel_kernel_keeps_its_workspace_and_shares_the_rest(seed):
    mod, expected = random_program(random.Random(seed), "llvm", ForKind.PARALLEL)
    assert simulate(mod, expected, "llvm")


def test_small_memory_of_kernels_stays_on_the_stack():
    a, small, large = buffer("a", 8192), buffer("small", 4096), buffer("large", 4097)
    k = function("k", [a], allocate(small, allocate(large, seq(copy(small, a), copy(large, small), copy(a, large)))))
    s = buffer("s", 8)
    planned, (info,) = usmp.plan(
        tvm.IRModule({"k": k, "main": function("main", [], allocate(s, call("k", s)))}), "main"
    )
    assert [n.buffer_var.name for n in post_order(planned["k"].body) if isinstance(n, Allocate)] == ["small"]
    assert info.allocated_size == 16 + 4097


def test_constants_stay_in_the_code_unless_there_is_a_pool_for_them():
    data, out, s = tvm.nd.array(np.arange(64, dtype="int8")), buffer("out", 64), buffer("s", 64)
    weights = buffer("weights", 64)
    body = AllocateConst(weights.data, "int8", (64,), data, allocate(s, seq(copy(s, weights), copy(out, s))))
    mod = tvm.IRModule({"main": function("main", [out], body)})
    planned, infos = usmp.plan(mod, "main")
    assert [i.pool.pool_name for i in infos] == ["global_workspace"]
    assert any(isinstance(n, AllocateConst) for n in post_order(planned["main"].body))
    flash = ConstantPoolInfo("flash", [])
    for pools in (ConstantMemoryPools([flash]), [flash, pool("ram")]):
        planned, infos = usmp.plan(mod, "main", pools)
        assert {i.pool.pool_name for i in infos} == {"flash", pools[1].pool_name if pools[1:] else "global_workspace"} \
            if isinstance(pools, list) else {"flash", "global_workspace"}  # fmt: skip
        assert not any(isinstance(n, AllocateConst) for n in post_order(planned["main"].body))


def test_inputs_and_outputs_in_the_workspace():
    x, y, s = buffer("x", 100), buffer("y", 50), buffer("s", 80)
    main = function("main", [x, y], allocate(s, seq(copy(s, x), copy(y, s))))
    with tvm.transform.PassContext(config={"tir.usmp.use_workspace_io": True}):
        planned, (info,) = usmp.plan(tvm.IRModule({"main": main}), "main")
    places = planned["main"].attrs["io_tensor_pool_allocations"]
    assert set(places) == {"x_handle", "y_handle"} and len(planned["main"].params) == 1
    # The output takes the place of the input, which is read before.
    assert info.allocated_size == 180 and places["x_handle"].byte_offset == 80 == places["y_handle"].byte_offset


def test_options_and_custom_algorithms():
    s, t = buffer("s", 64), buffer("t", 32)
    main = function("__tvm_main__", [], allocate(s, allocate(t, seq(copy(s), copy(t, s)))))
    mod = tvm.IRModule({"__tvm_main__": main})
    seen = []

    @tvm.register_func("tir.usmp.algo.one_after_the_other", override=True)
    def one_after_the_other(buffers, memory_pressure):
        seen.append(memory_pressure)
        found, offset = {}, 0
        for one in buffers:
            found[one] = usmp.PoolAllocation(one.pool_candidates[0], offset)
            offset += one.size_bytes
        return found

    name = "one_after_the_other"
    with tvm.transform.PassContext(config={"tir.usmp.custom_algorithm": name, "tir.usmp.algorithm": "hill_climb"}):
        assert usmp.plan(mod)[1][0].allocated_size == 96
    with tvm.transform.PassContext(config={"tir.usmp.algorithm": name}):
        assert usmp.plan(mod)[1][0].allocated_size == 96
    assert usmp.plan(mod, algorithm=name)[1][0].allocated_size == 96 and seen == [96, 96, 96]
    with tvm.transform.PassContext(config={"tir.usmp.algorithm": "greedy_by_sise"}):
        with pytest.raises(TVMError, match="unknown planning algorithm 'greedy_by_sise'.*greedy_by_size"):
            usmp.plan(mod)


@pytest.mark.parametrize(
    "place, words",
    [
        (lambda b, p: None, "did not place the buffer 't'"),
        (lambda b, p: usmp.PoolAllocation(pool("other"), 0), "pool 'other', but its candidate pools are ram"),
        (lambda b, p: usmp.PoolAllocation(p, 72), "'t' at byte 72 of pool 'ram', which is not a multiple of .* 16"),
        (lambda b, p: usmp.PoolAllocation(p, 96), "but the pool has only 100 bytes and the buffer ends at 128"),
        (lambda b, p: usmp.PoolAllocation(p, 48), "'[st]' .* overlaps '[st]', which is live at the same time"),
    ],
)
def test_plans_of_custom_algorithms_are_checked(place, words):
    s, t, ram = buffer("s", 64), buffer("t", 32), pool("ram", 100)
    main = function("main", [], allocate(s, allocate(t, seq(copy(s), copy(t, s)))))

    @tvm.register_func("tir.usmp.algo.wrong", override=True)
    def wrong(buffers, memory_pressure):
        found = {b: usmp.PoolAllocation(ram, 0) for b in buffers}
        found[buffers[1]] = place(buffers[1], ram)
        return {b: p for b, p in found.items() if p is not None}

    with pytest.raises(TVMError, match=words):
        usmp.plan(tvm.IRModule({"main": main}), "main", [ram], "wrong")


def test_the_pass_plans_annotated_allocations():
    s = buffer("s", 64)
    mod = tvm.IRModule({"__tvm_main__": function("__tvm_main__", [], allocate(s, copy(s)))})
    planner = tvm.get_global_func("tir.transform.UnifiedStaticMemoryPlanner")()
    assert "pool_args" not in mod["__tvm_main__"].attrs and planner(mod)["__tvm_main__"].attrs["pool_args"] == ()
    annotated = tvm.get_global_func("tir.usmp.transform.AssignPoolInfo")()(mod)
    assert planner(annotated)["__tvm_main__"].attrs["pool_args"][0].allocated_size == 64
    with tvm.transform.PassContext(config={"tir.usmp.use_workspace_io": True}):
        assert planner(mod)["__tvm_main__"].attrs["pool_args"][0].allocated_size == 64


def test_programs_and_pools_that_cannot_be_planned():
    s = buffer("s", 64)
    mod = tvm.IRModule({"main": function("main", [], allocate(s, copy(s)))})
    with pytest.raises(TVMError, match="the module has no function 'start'"):
        usmp.plan(mod, "start")
    with pytest.raises(TVMError, match="a memory pool must be a WorkspacePoolInfo or a ConstantPoolInfo, got 'sram'"):
        usmp.plan(mod, "main", ["sram"])
    with pytest.raises(TVMError, match="pool 'ram' has 63 bytes and the plan needs 64: 1 bytes are missing"):
        usmp.plan(mod, "main", [pool("ram", 63)])
    assert usmp.plan(mod, "main", [pool("ram", 64)])[1][0].allocated_size == 64


def test_a_program_of_many_statements_needs_no_recursion():
    memories = [buffer(f"s{n}", 16) for n in range(1500)]
    body = seq(copy(memories[0]), *(copy(b, a) for a, b in zip(memories, memories[1:])))
    for memory in reversed(memories):
        body = allocate(memory, body)
    planned, (info,) = usmp.plan(tvm.IRModule({"main": function("main", [], body)}), "main")
    assert info.allocated_size == 32 and isinstance(planned["main"], PrimFunc)


def test_lists_of_names():
    assert usmp.utils.CANDIDATE_MEMORY_POOL_ATTR == "candidate_memory_pools"
    assert not usmp.utils.use_workspace_io_is_enabled()
    with tvm.transform.PassContext(config={"tir.usmp.use_workspace_io": True}):
        assert usmp.utils.use_workspace_io_is_enabled()
    assert tir.usmp is usmp and loop(Evaluate(const(0, "int32"))).extent.value == 4
