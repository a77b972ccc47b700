"""Twins of sketches: which read compact copies of operands, which add in lanes, and what these compute."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tvm
from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler import SearchTask, SketchPolicy
from tvm.auto_scheduler.annotate import Choices
from tvm.auto_scheduler.dataflow_steps import CacheReadStep
from tvm.auto_scheduler.packing import packed, with_sums_in_lanes
from tvm.testing import auto_scheduler as workloads


@auto_scheduler.register_workload
def packing_test_convolution(size, channels, filters):
    data, weight = te.placeholder((1, size, size, channels)), te.placeholder((3, 3, channels, filters))
    return [data, weight, topi.nn.conv2d_nhwc(data, weight, 2, 1, 1)]


@auto_scheduler.register_workload
def packing_test_transposed(n):
    """A product whose second operand is read down its columns by lanes."""
    a, b = te.placeholder((n, n)), te.placeholder((n, n))
    k = te.reduce_axis((0, n))
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k))]


def policy_of(function, *args):
    return SketchPolicy(SearchTask(func=function, args=args, target="llvm"), verbose=0, seed=0)


def copies(sketch):
    return [step for step in sketch.transform_steps if isinstance(step, CacheReadStep)]


@pytest.mark.parametrize(
    "function, args, count",
    [
        ("matmul_auto_scheduler_test_rename_1", (64, 64, 64), 1),
        (packing_test_convolution, (14, 16, 32), 1),
        (workloads.double_matmul_auto_scheduler_test, (64,), 2),
    ],
)
def test_what_lanes_read_again_and_again_is_copied_in_a_twin_of_each_sketch(function, args, count):
    policy = policy_of(function, *args)
    dag, plain = policy.search_task.compute_dag, [state.state_object for state in policy.generate_sketches()]
    assert [len(copies(sketch)) for sketch in plain] == [0] * len(plain)
    twins = policy.breeder.sketches[len(plain) :]
    assert [len(copies(sketch)) for sketch in twins] == [count] * len(plain)
    assert [packed(dag, twin) for twin in twins] == [None] * len(twins)


@pytest.mark.parametrize(
    "function, args",
    [
        (workloads.matmul_auto_scheduler_test, (64, 64, 64)),
        (packing_test_transposed, (64,)),
        (workloads.softmax_nm_auto_scheduler_test, (8, 64)),
        (workloads.max_pool2d_auto_scheduler_test, (1, 8, 8, 16, 1)),
    ],
)
def test_free_layouts_columns_and_what_is_not_tiled_have_no_copies(function, args):
    assert not any(copies(sketch) for sketch in policy_of(function, *args).breeder.sketches)


@pytest.mark.parametrize(
    "function, args",
    [
        ("matmul_auto_scheduler_test_rename_1", (30, 48, 36)),
        (packing_test_convolution, (9, 6, 20)),
    ],
)
def test_states_with_copies_compute_what_plain_loops_do(function, args):
    policy = policy_of(function, *args)
    dag, breeder = policy.search_task.compute_dag, policy.breeder
    rng = np.random.default_rng(0)
    values = [rng.uniform(-1, 1, [int(d) for d in t.shape]).astype("float32") for t in dag.tensors]

    def result(steps):
        arrays = [tvm.nd.array(value) for value in values]
        tvm.build(*dag.apply_steps_from_state(steps), "llvm")(*arrays)
        return arrays[-1].numpy()

    expected = result(dag.init_state)
    twins = [sketch for sketch in breeder.sketches if copies(sketch)]
    for number in range(12):
        sketch = twins[number % len(twins)]
        state = auto_scheduler.annotate.annotate(dag, sketch, Choices(random.Random(number)), breeder.limits)
        np.testing.assert_allclose(result(state), expected, rtol=1e-4, atol=1e-4)


@auto_scheduler.register_workload
def packing_test_pool(layout, shape):
    data = te.placeholder(shape)
    return [data, topi.nn.global_pool(data, "avg", layout)]


def test_sums_of_elements_beside_each_other_are_lanes_in_a_twin():
    policy = policy_of(packing_test_pool, "NHWC", (1, 5, 6, 44))
    plain = policy.generate_sketches()
    twin = policy.breeder.sketches[-1]
    (total,) = [stage for stage in twin.stages if stage.op.name.endswith("sum") and not stage.op.name.endswith("rf")]
    kinds = [it.kind.name for it in total.iters]
    assert kinds[-3:] == ["REDUCTION", "REDUCTION", "SPATIAL"] and len(total.iters) == 7
    assert not any(state.state_object == twin for state in plain)
    assert with_sums_in_lanes(policy.search_task.compute_dag, twin) is None


def test_terms_beside_each_other_are_no_lanes():
    policy = policy_of(packing_test_pool, "NCHW", (1, 44, 5, 6))
    dag = policy.search_task.compute_dag
    assert [with_sums_in_lanes(dag, state.state_object) for state in policy.generate_sketches()] == [None] * len(
        policy.generate_sketches()
    )
