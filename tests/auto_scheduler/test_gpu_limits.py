"""What a block holds: as in closed form in the lowered kernel; what does not fit is refused before it is lowered."""

from __future__ import annotations

import math

import pytest

from tests.auto_scheduler.gpu_tasks import CUDA, PROGRAMS, breeder_of, drawn, policy_of
from tests.codegen.gpu_programs import kernels_of as lowered_kernels
from tvm.auto_scheduler import HardwareParams
from tvm.auto_scheduler.gpu_limits import are_likely, kernels_of, thread_options
from tvm.auto_scheduler.loop_steps import SplitStep
from tvm.auto_scheduler.queries import has_cross_thread_reduction
from tvm.dtype import info
from tvm.ir.visit import post_order
from tvm.testing import auto_scheduler as workloads
from tvm.tir.stmt import Allocate, AttrStmt


def facts(func) -> tuple[int, int, int, int]:
    """Blocks, threads, bytes of shared memory and of registers of a kernel; warps share their fragments."""
    sizes, extents = {"shared": 0, "local": 0, "wmma": 0}, {}
    for node in post_order(func.body):
        if isinstance(node, Allocate):
            scope = node.buffer_var.type_annotation.storage_scope.split(".")[0]
            sizes[scope] += math.prod(int(e) for e in node.extents) * info(node.dtype).bits // 8
        if isinstance(node, AttrStmt) and node.attr_key == "thread_extent":
            extents[node.node.thread_tag] = int(node.value)
    threads = math.prod(extents.get(f"threadIdx.{x}", 1) for x in "xyz")
    return extents.get("blockIdx.x", 1), threads, sizes["shared"], sizes["local"] + sizes["wmma"] // 32


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_block_has_what_its_lowered_kernel_has(name, seed):
    breeder = breeder_of(name, seed)
    (candidate,) = drawn(breeder, 1)
    schedule, args = breeder.dag.apply_steps_from_state(candidate.state)
    lowered = sorted(facts(f) for f in lowered_kernels(schedule, args, CUDA).functions.values())
    blocks = kernels_of(breeder.dag, candidate.state)
    found = sorted((b.blocks, b.threads, b.shared_bytes, b.local_bytes) for b in blocks.values())
    crosses = any(has_cross_thread_reduction(candidate.state, n) for n in range(len(candidate.state.stages)))
    if crosses:
        # Threads exchange less where those of a warp do it by themselves.
        assert [(b, t, r) for b, t, _, r in found] == [(b, t, r) for b, t, _, r in lowered]
        assert all(a >= b for (_, _, a, _), (_, _, b, _) in zip(found, lowered))
    else:
        assert found == lowered, str(candidate.state)


@pytest.mark.parametrize(
    "limit, what",
    [
        ({"max_threads_per_block": 64}, lambda b: b.threads <= 64),
        ({"max_shared_memory_per_block": 1024}, lambda b: b.shared_bytes <= 1024),
        ({"max_vthread_extent": 2}, lambda b: b.virtual_threads <= 2),
        ({"max_local_memory_per_block": 4096}, lambda b: b.local_bytes * b.threads <= 4096),
    ],
)
def test_states_keep_to_what_is_said_of_the_machine(limit, what, seed):
    hardware = HardwareParams(target=CUDA, **limit)
    policy = policy_of(workloads.matmul_auto_scheduler_test, (64, 96, 64), seed=seed, hardware=hardware)
    breeder = policy.breeder
    parents = drawn(breeder, 8)
    children = [child for child in (breeder.child(p, parents) for p in parents) if child is not None]
    for candidate in (*parents, *children):
        assert all(map(what, kernels_of(breeder.dag, candidate.state).values())), str(candidate.state)
    # Without the limit, some states go beyond it.
    free = policy_of(workloads.matmul_auto_scheduler_test, (64, 96, 64), seed=seed).breeder
    assert not all(what(b) for c in drawn(free, 64) for b in kernels_of(free.dag, c.state).values())


def test_threads_are_powers_of_two_up_to_the_work_there_is():
    limits = policy_of(workloads.matmul_auto_scheduler_test, (8, 8, 8)).breeder.limits.gpu
    assert thread_options(100, limits) == ((32,), (64,), (128,))
    assert thread_options(5, limits) == ((8,),)
    assert thread_options(1, limits) == ((1,),)
    assert thread_options(10**6, limits)[-1] == (1024,)


def test_parts_of_a_reduction_are_no_tiles():
    limits = policy_of(workloads.matmul_auto_scheduler_test, (8, 8, 8)).breeder.limits.gpu
    assert are_likely([SplitStep(2, 2, 2048, (1024,))], [(1024,)], limits)
    tiles = [SplitStep(2, n, 256, (None, None, 16)) for n in range(2)]
    assert are_likely(tiles, [(2, 2, 16), (2, 2, 16)], limits)
    assert not are_likely(tiles, [(8, 2, 16), (8, 1, 16)], limits)
    assert not are_likely(tiles, [(1, 8, 16), (1, 8, 16)], limits)
