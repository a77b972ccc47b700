"""Instructions of CUDA put in the place of loops, on the emulator."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests import cuda_emulator
from tests.cuda_emulator.marks import needs_emulator
from tvm import te, topi


def product(kind: str, sums: str, m: int, n: int, k: int):
    """A product of matrices of bytes, four of them at a time by dp4a, a thread for each element."""
    a, b = te.placeholder((m, k), kind, "a"), te.placeholder((n, k), kind, "b")
    r = te.reduce_axis((0, k), "r")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, r].astype(sums) * b[j, r].astype(sums), axis=r), name="c")
    s = te.create_schedule(c.op)
    reads = s.cache_read(a, "local", [c]), s.cache_read(b, "local", [c])
    own = s.cache_write(c, "local")
    block, thread = s[c].op.axis
    s[c].bind(block, te.thread_axis("blockIdx.x"))
    s[c].bind(thread, te.thread_axis("threadIdx.x"))
    s[own].compute_at(s[c], thread)
    outer, inner = s[own].split(s[own].op.reduce_axis[0], 4)
    s[own].reorder(outer, *s[own].op.axis, inner)
    for read in reads:
        s[read].compute_at(s[own], outer)
    s[own].tensorize(s[own].op.axis[1], topi.cuda.tensor_intrin.dp4a("local", "local", "local", (kind, kind)))
    return s, [a, b, c]


@needs_emulator
@pytest.mark.parametrize("kind, sums", [("int8", "int32"), ("uint8", "uint32")])
def test_bytes_multiply_in_fours(kind, sums, rng):
    limits = np.iinfo(kind)
    x, y = (rng.integers(limits.min, limits.max + 1, shape).astype(kind) for shape in ((6, 24), (10, 24)))
    s, tensors = product(kind, sums, 6, 10, 24)
    host = tvm.target.Target("cuda -arch=sm_80", host="llvm")
    assert "__dp4a(" in tvm.build(s, tensors, host).imported_modules[0].get_source()
    got = cuda_emulator.run(s, tensors, [x, y, np.zeros((6, 10), sums)], "sm_80")[2]
    np.testing.assert_array_equal(got, x.astype(sums) @ y.astype(sums).T)


def test_bytes_of_two_signs_are_refused():
    with pytest.raises(tvm.TVMError, match="operands must be both int8 or both uint8, got uint8 and int8"):
        topi.cuda.tensor_intrin.dp4a(dtypes=("uint8", "int8"))
