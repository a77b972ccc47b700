"""Schedule, compile, check and time a 1024 x 1024 float32 matmul.

The schedule is the classic one: block the loops, pack one operand so that the inner loop
reads memory in order, keep a block of the result in registers, use every core and vector instructions.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import tvm
from tvm import te


def matmul(size: int, block_rows: int, block_columns: int, block_k: int, lanes: int):
    """Return the schedule and its arguments. Registers hold ``block_rows`` x ``block_columns`` of the output."""
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")

    # B in panels: panel j contains block_columns columns, row by row.
    packed = te.compute(
        (size // block_columns, size, block_columns), lambda j, r, c: b[r, j * block_columns + c], name="packed_B"
    )
    c = te.compute(
        (size, size),
        lambda i, j: te.sum(
            a[i, k] * packed[tvm.tir.indexdiv(j, block_columns), k, tvm.tir.indexmod(j, block_columns)], axis=k
        ),
        name="C",
    )

    s = te.create_schedule(c.op)
    block = s.cache_write(c, "local")
    row_outer, column_outer, row_inner, column_inner = s[c].tile(*c.op.axis, block_rows, block_columns)
    s[c].reorder(column_outer, row_outer, row_inner, column_inner)
    s[c].vectorize(s[c].split(column_inner, lanes)[1])
    s[c].parallel(column_outer)

    s[block].compute_at(s[c], row_outer)
    row, column = s[block].op.axis
    (reduce_axis,) = s[block].op.reduce_axis
    k_outer, k_inner = s[block].split(reduce_axis, block_k)
    column, vector = s[block].split(column, lanes)
    s[block].reorder(k_outer, k_inner, row, column, vector)
    s[block].vectorize(vector)
    s[block].unroll(column)
    s[block].unroll(row)
    s[block].unroll(k_inner)

    panel, _, column = s[packed].op.axis
    s[packed].vectorize(s[packed].split(column, lanes)[1])
    s[packed].parallel(panel)
    return s, [a, b, c]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="rows and columns; a multiple of 64")
    parser.add_argument("--target", default="llvm", help="what to compile for")
    parser.add_argument("--show", action="store_true", help="print the lowered loops")
    options = parser.parse_args()
    if options.size % 64 or options.size <= 0:
        parser.error("--size must be a multiple of 64")

    target = tvm.target.Target(options.target)
    lanes = target.features.lanes(32)
    # Half of the vector registers are accumulators: four rows of as many vectors as fit.
    block_rows, block_columns = 4, lanes * max(1, target.features.vector_registers // 8)
    schedule, arguments = matmul(options.size, block_rows, block_columns, 4, lanes)
    if options.show:
        print(tvm.lower(schedule, arguments, simple_mode=True))
    start = time.perf_counter()
    function = tvm.build(schedule, arguments, target, name="matmul")
    build_time = time.perf_counter() - start

    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((options.size, options.size), dtype="float32") for _ in range(2))
    a, b, c = tvm.nd.array(x), tvm.nd.array(y), tvm.nd.empty((options.size, options.size))
    function(a, b, c)
    expected = x @ y
    np.testing.assert_allclose(c.numpy(), expected, rtol=1e-3, atol=1e-3)

    operations = 2.0 * options.size**3
    timer = function.time_evaluator(function.entry_name, tvm.cpu(), number=10, repeat=7)
    # The two run in turns, so that other work on the machine affects both; the best time of each counts.
    ours, theirs = [], []
    for _ in range(3):
        ours.append(timer(a, b, c).min)
        theirs.append(numpy_time(x, y, 10))
    ours, theirs = operations / min(ours) / 1e9, operations / min(theirs) / 1e9
    print(f"target {target}, {tvm.runtime.num_threads()} threads, register block {block_rows} x {block_columns}")
    print(f"compiled in {build_time:.2f} s")
    print(
        f"{options.size}x{options.size} float32 matmul: result checked, "
        f"{ours:.1f} GFLOPS ours, {theirs:.1f} GFLOPS NumPy, ratio {ours / theirs:.2f}"
    )


def numpy_time(x: np.ndarray, y: np.ndarray, number: int) -> float:
    out = np.empty_like(x)
    best = float("inf")
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(number):
            np.matmul(x, y, out=out)
        best = min(best, (time.perf_counter() - start) / number)
    return best


if __name__ == "__main__":
    main()
