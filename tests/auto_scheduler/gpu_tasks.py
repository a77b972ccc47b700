"""Tasks for GPUs that the tests share."""

from __future__ import annotations

import random
from typing import Any

from tvm import te, topi
from tvm.auto_scheduler import ComputeDAG, HardwareParams, SearchTask, SketchPolicy
from tvm.auto_scheduler.evolution import Breeder
from tvm.testing import auto_scheduler as workloads

CUDA = "cuda -arch=sm_80"


def depthwise(channels: int, size: int) -> list[Any]:
    data, kernel = te.placeholder((1, channels, size, size), name="data"), te.placeholder((channels, 1, 3, 3), name="w")
    return [data, kernel, topi.nn.relu(topi.nn.depthwise_conv2d_nchw(data, kernel, 1, 1, 1))]


def norms(count: int, rows: int, columns: int) -> list[Any]:
    x = te.placeholder((count, rows, columns), name="x")
    i, j = te.reduce_axis((0, rows), name="i"), te.reduce_axis((0, columns), name="j")
    squares = te.compute((count,), lambda b: te.sum(x[b, i, j] * x[b, i, j], axis=[i, j]), name="squares")
    return [x, te.compute((count,), lambda b: te.sqrt(squares[b]), name="norm")]


def row_norm(rows: int, columns: int) -> list[Any]:
    """Rows less their means, over their variances: two reductions for one consumer."""
    x = te.placeholder((rows, columns), name="x")
    k, m = te.reduce_axis((0, columns), name="k"), te.reduce_axis((0, columns), name="m")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
    squares = te.compute((rows,), lambda i: te.sum(x[i, m] * x[i, m], axis=m), name="squares")
    scale = 1.0 / columns

    def value(i, j):
        mean = total[i] * scale
        return (x[i, j] - mean) * te.rsqrt(squares[i] * scale - mean * mean + 1e-3)

    return [x, te.compute((rows, columns), value, name="normal")]


PROGRAMS = {
    "matmul": (workloads.matmul_auto_scheduler_test, (24, 40, 36)),
    "long reduction": (workloads.matmul_auto_scheduler_test, (4, 3, 150)),
    "parts": (workloads.matmul_auto_scheduler_test, (12, 10, 256)),
    "parts of a convolution": (workloads.conv2d_nchw_bn_relu_auto_scheduler_test, (1, 5, 5, 32, 4, 3, 1, 1)),
    "two products": (workloads.double_matmul_auto_scheduler_test, (16,)),
    "shared operand": (workloads.parallel_matmul_auto_scheduler_test, (16,)),
    "convolution": (workloads.conv2d_nchw_bn_relu_auto_scheduler_test, (1, 7, 8, 6, 8, 3, 1, 1)),
    "depthwise": (depthwise, (6, 9)),
    "pooling": (workloads.max_pool2d_auto_scheduler_test, (1, 7, 8, 6, 1)),
    "minimum": (workloads.min_nm_auto_scheduler_test, (6, 70)),
    "softmax": (workloads.softmax_nm_auto_scheduler_test, (6, 50)),
    "norms": (norms, (5, 9, 11)),
    "row norm": (row_norm, (5, 45)),
    "scalar sum": (workloads.zero_rank_reduce_auto_scheduler_test, (90,)),
    "scalar": (workloads.zero_rank_compute_auto_scheduler_test, (8,)),
    "winograd": (workloads.conv2d_winograd_nhwc_auto_scheduler_test, (1, 8, 8, 4, 4, 3, 1, 1)),
}


def task_of(function: Any, args: tuple, target: str = CUDA, hardware: HardwareParams | None = None) -> SearchTask:
    dag = ComputeDAG(function(*args))
    return SearchTask(compute_dag=dag, workload_key=dag.workload_key(), target=target, hardware_params=hardware)


def policy_of(function: Any, args: tuple, target: str = CUDA, seed: int = 0, **options: Any) -> SketchPolicy:
    return SketchPolicy(task_of(function, args, target, options.pop("hardware", None)), seed=seed, verbose=0, **options)


def breeder_of(name: str, seed: int, target: str = CUDA) -> Breeder:
    breeder = policy_of(*PROGRAMS[name], target).breeder
    return Breeder(breeder.dag, breeder.sketches, breeder.limits, random.Random(seed))


def drawn(breeder: Breeder, count: int) -> list[Any]:
    """Candidates by chance that fit the target."""
    found: list[Any] = []
    for _ in range(50 * count):
        candidate = breeder.random()
        if candidate is not None:
            found.append(candidate)
        if len(found) == count:
            return found
    raise AssertionError("hardly a state fits the target")
