"""Every legal state computes the right thing: random states and their children, written to a record and read again,
leave what plain loops leave. The suite runs a few of each program; ``python -m tools fuzz states`` runs many.
"""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import pytest

from tests.auto_scheduler.programs import arrays_of, products_of_matrices, run
from tvm import auto_scheduler, te, topi
from tvm.auto_scheduler import HardwareParams, MeasureInput, MeasureResult, SearchTask, SketchPolicy
from tvm.auto_scheduler.measure_record import dump_record_to_string, load_record_from_string
from tvm.testing import auto_scheduler as workloads

# States of each program; half of them are children of others.
COUNT = max(int(os.environ.get("TVM_TEST_STATES", "40")) // 10, 2)


@auto_scheduler.register_workload
def states_dense(n: int, m: int, k: int) -> list[Any]:
    a, b, c = te.placeholder((n, k), name="a"), te.placeholder((m, k), name="b"), te.placeholder((m,), name="c")
    return [a, b, c, topi.nn.relu(topi.add(topi.nn.dense(a, b), c))]


@auto_scheduler.register_workload
def states_conv_nhwc(size: int, channels: int, filters: int, stride: int) -> list[Any]:
    a = te.placeholder((1, size, size, channels), name="a")
    b = te.placeholder((3, 3, channels, filters), name="b")
    return [a, b, topi.nn.relu(topi.nn.conv2d_nhwc(a, b, stride, 1, 1, "float32"))]


@auto_scheduler.register_workload
def states_depthwise(size: int, channels: int, stride: int) -> list[Any]:
    a = te.placeholder((1, channels, size, size), name="a")
    b = te.placeholder((channels, 1, 3, 3), name="b")
    return [a, b, topi.nn.relu(topi.nn.depthwise_conv2d_nchw(a, b, stride, 1, 1))]


@auto_scheduler.register_workload
def states_transposed(size: int, channels: int, filters: int) -> list[Any]:
    a = te.placeholder((1, channels, size, size), name="a")
    b = te.placeholder((channels, filters, 3, 3), name="b")
    return [a, b, topi.nn.conv2d_transpose_nchw(a, b, (2, 2), (1, 1, 1, 1), "float32", (0, 0))]


@auto_scheduler.register_workload
def states_bytes(n: int, m: int, k: int) -> list[Any]:
    """What a dot product of bytes computes, on CPUs that have one."""
    a, b = te.placeholder((n, k), "int8", name="a"), te.placeholder((m, k), "int8", name="b")
    return [a, b, topi.nn.relu(topi.nn.dense(a, b, out_dtype="int32"))]


@auto_scheduler.register_workload
def states_norm(n: int, m: int) -> list[Any]:
    a = te.placeholder((n, m), name="a")
    i, j = te.reduce_axis((0, n), name="i"), te.reduce_axis((0, m), name="j")
    total = te.compute((1,), lambda _: te.sum(a[i, j] * a[i, j], axis=[i, j]), name="total")
    return [a, te.compute((1,), lambda x: te.sqrt(total[x]), name="norm")]


@auto_scheduler.register_workload
def states_layer_norm(n: int, m: int) -> list[Any]:
    a, b, c = te.placeholder((n, m), name="a"), te.placeholder((m,), name="b"), te.placeholder((m,), name="c")
    return [a, b, c, topi.nn.layer_norm(a, b, c, [1])]


@auto_scheduler.register_workload
def states_mean_of_pixels(size: int, channels: int) -> list[Any]:
    a = te.placeholder((1, size, size + 2, channels), name="a")
    return [a, topi.nn.global_pool(a, "avg", "NHWC")]


@auto_scheduler.register_workload
def states_winograd(batch: int, size: int, channels: int, filters: int, tile: int, layout: str) -> list[Any]:
    shape = (size, size + 1, channels) if layout == "NHWC" else (channels, size, size + 1)
    a = te.placeholder((batch, *shape), name="a")
    b = te.placeholder((tile + 2, tile + 2, channels, filters), name="b")
    return [a, b, topi.nn.relu(topi.nn.conv2d_winograd_tiles(a, b, (1, 1, 2, 0), layout))]


PROGRAMS = {
    "product with bias": (states_dense, (12, 20, 18)),
    "two products": (workloads.double_matmul_auto_scheduler_test, (12,)),
    "convolution": (workloads.conv2d_nchw_bn_relu_auto_scheduler_test, (1, 7, 8, 3, 4, 3, 1, 1)),
    "convolution, channels last": (states_conv_nhwc, (8, 6, 8, 2)),
    "depthwise": (states_depthwise, (9, 4, 1)),
    "transposed convolution": (states_transposed, (5, 4, 6)),
    "reduction": (workloads.min_nm_auto_scheduler_test, (6, 30)),
    "softmax": (workloads.softmax_nm_auto_scheduler_test, (6, 24)),
    "softmax of many rows": (workloads.softmax_abcd_auto_scheduler_test, (2, 3, 21, 12)),
    "layer norm": (states_layer_norm, (70, 36)),
    "mean of pixels": (states_mean_of_pixels, (5, 22)),
    "product of bytes": (states_bytes, (12, 16, 24)),
    "matrix norm": (states_norm, (12, 20)),
    "tiles of Winograd's algorithm": (states_winograd, (2, 5, 8, 12, 2, "NHWC")),
    "products of matrices": (products_of_matrices, (6, 5, 4, 4)),
    "products of odd matrices": (products_of_matrices, (4, 3, 5, 3)),
    "pooling": (workloads.max_pool2d_auto_scheduler_test, (1, 7, 8, 6, 1)),
}


def candidates(policy: SketchPolicy, count: int) -> list[Any]:
    """States by chance, and children of a population of them."""
    space = policy.space
    assert space is not None

    def score(groups):
        return [np.zeros(len(group)) for group in groups]

    parents, _ = space.scored(space.random(8 * count), score)
    children, _ = space.scored(space.children(parents), score)
    return [*policy._built(parents, -(-count // 2)), *policy._built(children, count // 2)]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_states_that_are_written_and_read_compute_what_plain_loops_compute(name, seed):
    function, args = PROGRAMS[name]
    task = SearchTask(
        func=function, args=args, target="llvm", hardware_params=HardwareParams(num_cores=4, target="llvm")
    )
    dag = task.compute_dag
    arrays = arrays_of(dag, seed)
    expected = run(dag, dag.init_state, arrays)
    policy = SketchPolicy(task, seed=random.Random(seed).getrandbits(32), verbose=0)
    for candidate in candidates(policy, COUNT):
        line = dump_record_to_string(MeasureInput(task, candidate.state), MeasureResult([1.0], 0, "", 1.0, 1.0))
        inp, _ = load_record_from_string(line)
        assert inp.state.transform_steps == candidate.key
        for got, wanted in zip(run(dag, inp.state, arrays), expected):
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4, err_msg=str(candidate.state))
