"""Optimize a matmul step by step: blocking, vectorization, loop order, packing, write cache, threads.

Each step is checked against NumPy and timed; ``--size`` sets the rows and columns (a multiple of 64).
"""

from __future__ import annotations

import argparse

import numpy as np

import tvm
import tvm.testing
from tvm import te

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--size", type=int, default=512)
N = parser.parse_args().size
BLOCK, K_BLOCK = 32, 4

A = te.placeholder((N, N), name="A")
B = te.placeholder((N, N), name="B")
k = te.reduce_axis((0, N), "k")
C = te.compute((N, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")

rng = np.random.default_rng(0)
x, y = rng.random((N, N), "float32"), rng.random((N, N), "float32")
expected = x @ y


def measure(step: str, schedule, arguments) -> None:
    function = tvm.build(schedule, arguments, "llvm", name="matmul")
    a, b, c = tvm.nd.array(x), tvm.nd.array(y), tvm.nd.empty((N, N))
    function(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), expected, rtol=1e-4)
    seconds = function.time_evaluator(function.entry_name, tvm.cpu(), number=1, repeat=3)(a, b, c).min
    print(f"{step:16s} {2 * N**3 / seconds / 1e9:8.2f} GFLOPS")


# 1. No schedule: three loops.
measure("plain", te.create_schedule(C.op), [A, B, C])


def blocked():
    schedule = te.create_schedule(C.op)
    i_outer, j_outer, i_inner, j_inner = schedule[C].tile(C.op.axis[0], C.op.axis[1], BLOCK, BLOCK)
    k_outer, k_inner = schedule[C].split(C.op.reduce_axis[0], factor=K_BLOCK)
    return schedule, i_outer, j_outer, k_outer, k_inner, i_inner, j_inner


# 2. Blocking: 32 x 32 blocks of the output and their operands fit into the cache.
s, io, jo, ko, ki, ii, ji = blocked()
s[C].reorder(io, jo, ko, ki, ii, ji)
measure("blocking", s, [A, B, C])

# 3. Vectorization of the innermost loop, which runs along a row of the output.
s[C].vectorize(ji)
measure("vectorization", s, [A, B, C])

# 4. Loop order: rows outside of the inner reduction, so that elements of A are read in order.
s, io, jo, ko, ki, ii, ji = blocked()
s[C].reorder(io, jo, ko, ii, ki, ji)
s[C].vectorize(ji)
measure("loop order", s, [A, B, C])

# 5. Packing of B, so that a block reads contiguous memory.
packed = te.compute((N / BLOCK, N, BLOCK), lambda big, row, small: B[row, big * BLOCK + small], name="packed")
C = te.compute(
    (N, N),
    lambda i, j: te.sum(A[i, k] * packed[j // BLOCK, k, tvm.tir.indexmod(j, BLOCK)], axis=k),
    name="C",
)
s, io, jo, ko, ki, ii, ji = blocked()
s[C].reorder(io, jo, ko, ii, ki, ji)
s[C].vectorize(ji)
big, row, small = s[packed].op.axis
s[packed].vectorize(small)
s[packed].parallel(big)
measure("packing", s, [A, B, C])

# 6. A write cache accumulates a block; 7. threads compute blocks of rows in parallel.
for step, threads in (("write cache", False), ("threads", True)):
    s = te.create_schedule(C.op)
    cache = s.cache_write(C, "global")
    io, jo, ii, ji = s[C].tile(C.op.axis[0], C.op.axis[1], BLOCK, BLOCK)
    s[cache].compute_at(s[C], jo)
    row, column = s[cache].op.axis
    ko, ki = s[cache].split(s[cache].op.reduce_axis[0], factor=K_BLOCK)
    s[cache].reorder(ko, row, ki, column)
    s[cache].unroll(ki)
    s[cache].vectorize(column)
    big, _, small = s[packed].op.axis
    s[packed].vectorize(small)
    s[packed].parallel(big)
    if threads:
        s[C].parallel(io)
    measure(step, s, [A, B, C])

# examples/demo_matmul.py keeps the block in registers, which is faster.
