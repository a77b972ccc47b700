"""Arithmetic of halves in CUDA text: quotients without a branch are those of float32, rounded once more."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests import cuda_emulator as emulator
from tests.cuda_emulator.marks import needs_compiler, needs_emulator
from tvm import te

HALVES = np.arange(1 << 16, dtype="uint16").view("float16")
# Of both signs; next to zero and to the largest, powers of two, infinite, and what GELU divides by.
DIVISORS = (0.0, -0.0, 6e-8, -6.1e-5, 0.1, -1.0, 2.0**0.5, 3.0, 4.0, 2.3e3, 65504.0, -65504.0, np.inf, np.nan)


def quotients(x: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (x.astype("float32") / divisors.astype("float32")).astype("float16")


def same(got: np.ndarray, wanted: np.ndarray) -> None:
    """Bit by bit, signs of zeros too; one NaN is as good as another."""
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(got), ~numbers)
    np.testing.assert_array_equal(got[numbers].view("uint16"), wanted[numbers].view("uint16"))


@needs_emulator
def test_quotients_of_every_half(rng):
    drawn = rng.integers(0, 1 << 16, 20 - len(DIVISORS)).astype("uint16").view("float16")
    divisors = np.concatenate([np.array(DIVISORS, "float16"), drawn])
    a, b = te.placeholder((HALVES.size,), "float16"), te.placeholder((divisors.size,), "float16")
    made = te.compute((divisors.size, HALVES.size), lambda i, j: a[j] / b[i])
    s = te.create_schedule(made.op)
    block, thread = s[made].split(s[made].fuse(*made.op.axis), factor=512)
    s[made].bind(block, te.thread_axis("blockIdx.x"))
    s[made].bind(thread, te.thread_axis("threadIdx.x"))
    out = np.zeros((divisors.size, HALVES.size), "float16")
    got = emulator.run(s, [a, b, made], [HALVES, divisors, out])[-1]
    same(got, quotients(HALVES[None], divisors[:, None]))


@pytest.mark.parametrize("error", [-2, -1, 1, 2])
def test_a_reciprocal_that_is_nearly_right_is_enough(error, rng):
    """The formula with reciprocals that are off by so many digits, as those of a GPU may be, for all significands
    of the dividend."""
    x = np.arange(1024, 2048, dtype="float32")
    for divisor in rng.integers(1024, 2048, 100).astype("float32"):
        r = np.float32(1) / divisor
        for _ in range(abs(error)):
            r = np.nextafter(r, np.float32(np.sign(error) * np.inf))
        q = x * r
        # Exact in double precision, as a fused multiplication and addition is.
        rest = (x.astype("float64") - q.astype("float64") * divisor).astype("float32")
        better = (rest.astype("float64") * r + q).astype("float32")
        got = np.where(np.abs(rest) > 0, better, q).astype("float16")
        same(got, quotients(x, divisor))


@needs_compiler
def test_quotients_do_not_branch():
    target = tvm.target.Target("cuda -arch=sm_90", host="llvm")
    a = te.placeholder((1024,), "float16")
    made = te.compute(a.shape, lambda i: a[i] / te.const(1.4140625, "float16"))
    s = te.create_schedule(made.op)
    s[made].bind(made.op.axis[0], te.thread_axis("threadIdx.x"))
    ptx = tvm.build(s, [a, made], target).imported_modules[0].get_source("ptx")
    assert "rcp.approx.ftz.f32" in ptx and "div." not in ptx and "bra" not in ptx
