"""Random schedules for devices, run thread by thread: a missing barrier or a wrong bound shows in the result.

Threads run until a barrier stops them, and memory holds garbage until it is written, so reading what another thread has
yet to write is seen at once.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from kernel_interpreter import run_kernel

import tvm
from tvm import te
from tvm.tir import pipeline

CUDA = tvm.target.Target("cuda", host="llvm")


def program(rng: random.Random):
    """Inputs, output, and what NumPy makes of the inputs."""
    n, m = rng.choice([3, 4, 6, 8]), rng.choice([2, 4, 5, 8])
    a = te.placeholder((n, m), "int32", "A")
    kind = rng.choice(["reverse", "stencil", "transpose", "sum", "matmul"])
    if kind == "reverse":
        return [a], te.compute((n, m), lambda i, j: a[n - 1 - i, m - 1 - j] + 1, name="B"), lambda x: x[::-1, ::-1] + 1
    if kind == "stencil":
        last = m - 1
        b = te.compute((n, m), lambda i, j: a[i, te.max(j - 1, 0)] + a[i, te.min(j + 1, last)] * 2, name="B")
        at = np.arange(m)
        return [a], b, lambda x: x[:, np.maximum(at - 1, 0)] + x[:, np.minimum(at + 1, last)] * 2
    if kind == "transpose":
        return [a], te.compute((m, n), lambda i, j: a[j, i] * 3, name="B"), lambda x: x.T * 3
    k = te.reduce_axis((0, m), "k")
    if kind == "sum":
        return [a], te.compute((n,), lambda i: te.sum(a[i, k], axis=k), name="B"), lambda x: x.sum(1)
    w = te.placeholder((m, n), "int32", "W")
    b = te.compute((n, n), lambda i, j: te.sum(a[i, k] * w[k, j], axis=k), name="B")
    return [a, w], b, lambda x, y: x @ y


def schedule(rng: random.Random, inputs, out):
    s = te.create_schedule(out.op)
    bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    threads = rng.choice([2, 3, 4])
    reduces = bool(out.op.reduce_axis)
    over_threads = reduces and rng.random() < 0.4
    caches = [s.cache_read(t, "shared", [out]) for t in inputs if rng.random() < 0.7]
    acc = None
    if reduces and not over_threads and rng.random() < 0.5:
        acc = s.cache_write(out, "local")
    fused = s[out].fuse(*s[out].op.axis)
    if over_threads:
        s[out].bind(fused, bx)
        s[out].bind(s[out].op.reduce_axis[0], tx)
        place = fused
        threads = int(s[out].op.reduce_axis[0].dom.extent)
    else:
        if rng.random() < 0.3:
            virtual, fused = s[out].split(fused, nparts=2)
            s[out].bind(virtual, te.thread_axis("vthread"))
            s[out].reorder(virtual, fused)
        block, thread = s[out].split(fused, factor=threads)
        s[out].bind(block, bx)
        s[out].bind(thread, tx)
        place = block
        if acc is not None:
            s[acc].compute_at(s[out], thread)
    reader = acc if acc is not None else out
    for cache in caches:
        where, at = s[out], place
        if reduces and not over_threads and rng.random() < 0.5:
            where, at = s[reader], s[reader].op.reduce_axis[0]
        s[cache].compute_at(where, at)
        if rng.random() < 0.3:
            s[cache].double_buffer()
        _, lane = s[cache].split(s[cache].fuse(*s[cache].op.axis), factor=threads)
        s[cache].bind(lane, tx)
    return s


@pytest.mark.parametrize("case", range(10))
def test_random_kernels(case, seed):
    rng = random.Random(seed * 100 + case)
    inputs, out, reference = program(rng)
    s = schedule(rng, inputs, out)
    data = [np.random.default_rng(case).integers(-5, 6, [int(d) for d in t.shape]).astype("int32") for t in inputs]
    mod = tvm.lower(s, [*inputs, out], name="f")
    _, device = pipeline.split_host_device(mod, CUDA, CUDA.host)
    kernel = device["f_kernel"]
    got = np.zeros([int(d) for d in out.shape], "int32")
    by_name = {t.name: x for t, x in zip(inputs, data)}
    by_name[out.name] = got
    run_kernel(kernel, *[by_name[p.name] for p in kernel.params])
    np.testing.assert_array_equal(got, reference(*data))
