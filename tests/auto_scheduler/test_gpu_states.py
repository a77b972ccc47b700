"""Random states for GPUs compute what plain loops compute: as CUDA on the emulator, and through OpenCL. A sample that
goes round with the seed; ``TVM_FUZZ_CASES`` says how many."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.auto_scheduler.gpu_tasks import CUDA, PROGRAMS, breeder_of, drawn
from tests.auto_scheduler.programs import arrays_of, run
from tests.codegen.gpu_programs import kernels_of
from tests.cuda_emulator.marks import needs_compiler, needs_emulator
from tvm.auto_scheduler import steps
from tvm.auto_scheduler.state import StateObject
from tvm.codegen.cuda import nvrtc
from tvm.codegen.cuda.build import emit
from tvm.testing import requires_opencl

CASES = int(os.environ.get("TVM_FUZZ_CASES", "3"))


def chosen(seed: int, number: int) -> str:
    """The program of a case: they come in turn."""
    return sorted(PROGRAMS)[(seed + number) % len(PROGRAMS)]


def compare(breeder: Any, candidate: Any, call: Any, seed: int) -> None:
    dag = breeder.dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)
    got = call(*dag.apply_steps_from_state(candidate.state), arrays)
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=f"{candidate.state}\n{candidate.decisions}")


@needs_emulator
@pytest.mark.parametrize("number", range(CASES))
def test_random_states_and_their_children_compute_the_same_as_cuda(number, seed):
    breeder = breeder_of(chosen(seed, number), seed + number)
    (candidate,) = drawn(breeder, 1)
    child = breeder.child(candidate, [candidate])
    compare(breeder, candidate if child is None else child, cuda_emulator.run, seed)


@requires_opencl
@pytest.mark.parametrize("number", range(CASES // 3))
def test_random_states_compute_the_same_through_opencl(number, seed):
    breeder = breeder_of(chosen(seed, number + 5), seed + number, "opencl")
    # What is unrolled takes the compiler of a CPU long.
    (candidate,) = drawn(breeder, 1)
    given = {key: 0 if key[0] == "unroll" else value for key, value in candidate.decisions.items()}

    def call(schedule, args, arrays):
        function = tvm.build(schedule, args, "opencl")
        held = [tvm.nd.array(array, tvm.opencl(0)) for array in arrays]
        function(*held)
        return [array.numpy() for array in held]

    compare(breeder, breeder.annotated(candidate.sketch, given), call, seed)


@pytest.mark.slow("compiles kernels with NVRTC")
@needs_compiler
@pytest.mark.parametrize("number", range(CASES // 3))
def test_the_text_of_random_states_compiles(number, seed):
    breeder = breeder_of(chosen(seed, number + 9), seed + number)
    (candidate,) = drawn(breeder, 1)
    schedule, args = breeder.dag.apply_steps_from_state(candidate.state)
    target = tvm.target.Target(CUDA)
    text, kernels = emit(kernels_of(schedule, args, CUDA), target)
    assert kernels and nvrtc.compile_cuda(text, "sm_80")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_state_that_is_written_and_read_is_the_same_candidate(name, seed):
    breeder = breeder_of(name, seed)
    for candidate in drawn(breeder, 3):
        lines = steps.to_json(candidate.key)
        read = StateObject((), tuple(steps.from_json(line) for line in lines))
        assert steps.to_json(read.transform_steps) == lines
        recovered = breeder.recovered(read)
        assert recovered is not None and recovered.key == candidate.key
        assert str(recovered.state) == str(candidate.state)


def test_children_of_states_differ_and_fit(seed):
    breeder = breeder_of("matmul", seed)
    breeder.generator = random.Random(seed)
    parents = drawn(breeder, 8)
    children = [breeder.child(parent, parents) for parent in parents * 5]
    fitting = [child for child in children if child is not None]
    assert len(fitting) > 10
    assert len({child.key for child in fitting} - {parent.key for parent in parents}) > 5
