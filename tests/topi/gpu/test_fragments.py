"""The intrinsics over fragments in schedules by hand, on the emulator of CUDA."""

from __future__ import annotations

import numpy as np
import pytest

from tests import cuda_emulator
from tests.cuda_emulator.marks import needs_emulator
from tvm import te
from tvm.topi.gpu import fragments


def scheduled(m, n, k, dtype):
    """A product that one warp computes with all of its fragments at once: rows of n // 16 or k // 16 of them."""
    a, b = te.placeholder((m, k), dtype, name="a"), te.placeholder((k, n), dtype, name="b")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype("float32") * b[r, j].astype("float32"), axis=r), name="c")
    s = te.create_schedule(c.op)
    warp = te.thread_axis((0, 32), "threadIdx.x")
    sums = s.cache_write(c, "wmma.accumulator")
    shared = [s.cache_read(x, "shared", [sums]) for x in (a, b)]
    held = [s.cache_read(x, f"wmma.matrix_{use}", [sums]) for x, use in zip(shared, "ab")]
    block, i = s[c].split(c.op.axis[0], nparts=1)
    s[c].bind(block, te.thread_axis("blockIdx.x"))

    def divide(stage, axes, lengths, intrinsic, *between):
        parts = [stage.split(axis, factor=length) for axis, length in zip(axes, lengths)]
        stage.reorder(*(outer for outer, _ in parts), *between, *(inner for _, inner in parts))
        for outer, _ in parts:
            stage.unroll(outer)
        stage.tensorize(parts[0][1], intrinsic)

    depth = fragments.K[dtype]
    divide(s[c], (i, c.op.axis[1]), (16, 16), fragments.store(dtype))
    s[sums].compute_at(s[c], block)
    axes = (*s[sums].op.axis, *s[sums].op.reduce_axis)
    divide(s[sums], axes, (16, 16, depth), fragments.multiply(True, False, dtype))
    for x, copy, use, shape in zip(shared, held, "ab", ((16, depth), (depth, 16))):
        s[x].compute_at(s[c], block)
        s[x].bind(s[x].split(s[x].fuse(*s[x].op.axis), factor=32)[1], warp)
        s[copy].compute_at(s[c], block)
        divide(s[copy], s[copy].op.axis, shape, fragments.load(use, use == "a", dtype))
    return s, [a, b, c]


@needs_emulator
@pytest.mark.parametrize("m, n, k, dtype", [
    (16, 15 * 16, 16, "float16"), (32, 17 * 16, 32, "float16"), (16, 33 * 16, 16, "float16"),
    (32, 32, 20 * 16, "float16"), (16, 19 * 16, 16, "float32"), (16, 16, 18 * 8, "float32"),
])  # fmt: skip
def test_rows_of_any_number_of_fragments_are_kept_apart(m, n, k, dtype, rng):
    # Small integers are exact in both types.
    a, b = (rng.integers(-4, 5, shape).astype("float32") for shape in ((m, k), (k, n)))
    schedule, args = scheduled(m, n, k, dtype)
    got = cuda_emulator.run(schedule, args, [a.astype(dtype), b.astype(dtype), np.zeros((m, n), "float32")])[-1]
    np.testing.assert_array_equal(got, a @ b)
