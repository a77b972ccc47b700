"""Transpositions on GPUs: squares of shared memory, both sides along rows."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import te, topi

CASES = {
    "matrix": ((97, 131), lambda x: topi.transpose(x), lambda x: x.T),
    "exact": ((64, 96), lambda x: topi.transpose(x), lambda x: x.T),
    "channels last": ((2, 33, 5, 40), lambda x: topi.transpose(x, (0, 2, 3, 1)), lambda x: x.transpose(0, 2, 3, 1)),
    "channels first": ((2, 9, 17, 50), lambda x: topi.transpose(x, (0, 3, 1, 2)), lambda x: x.transpose(0, 3, 1, 2)),
    "reversed": ((19, 5, 67), lambda x: topi.transpose(x), lambda x: x.T),
    "after arithmetic": ((70, 90), lambda x: topi.transpose(topi.exp(x)) + 1.0, lambda x: np.exp(x).T + 1),
    "a part": ((90, 110), lambda x: topi.transpose(topi.strided_slice(x, [3, 5], [73, 99])), lambda x: x[3:73, 5:99].T),
}
OTHERS = {
    "with itself": ((80, 80), lambda x: topi.add(topi.transpose(x), x), lambda x: x.T + x),
    "too short": ((1000, 7), lambda x: topi.transpose(x), lambda x: x.T),
    "every second": (
        (90, 110),
        lambda x: topi.transpose(topi.strided_slice(x, [0, 0], [90, 110], [2, 2])),
        lambda x: x[::2, ::2].T,
    ),
    "padded": (
        (90, 110),
        lambda x: topi.transpose(topi.nn.pad(x, (1, 2), (3, 4))),
        lambda x: np.pad(x, ((1, 3), (2, 4))).T,
    ),
    "rows stay": ((40, 30, 64), lambda x: topi.transpose(x, (1, 0, 2)), lambda x: x.transpose(1, 0, 2)),
    "a dimension of one": ((1, 1, 90), lambda x: topi.transpose(x), lambda x: x.T),
}


def shared_squares(made, target) -> int:
    with target:
        s = topi.schedule.schedule_for([made], target)
    return sum(x.scope == "shared" for x in s.stages)


@tvm.testing.requires_opencl
@pytest.mark.parametrize("name, dtype", [
    (name, dtype) for name in (*CASES, *OTHERS) for dtype in ("float32", "int8")
    # Exponentials are of floats.
    if (name, dtype) != ("after arithmetic", "int8")])  # fmt: skip
def test_numbers(name, dtype, rng):
    shape, make, oracle = {**CASES, **OTHERS}[name]
    x = (rng.standard_normal(shape) * 4).astype(dtype)
    target = tvm.target.Target("opencl")
    with target:
        a = te.placeholder(shape, dtype)
        made = make(a)
        s = topi.schedule.schedule_for([made], target)
    wanted = oracle(x).astype(dtype)
    out = tvm.nd.array(np.zeros(wanted.shape, dtype), tvm.cl(0))
    tvm.build(s, [a, made], target)(tvm.nd.array(x, tvm.cl(0)), out)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert shared_squares(made, target) == (name in CASES)


def test_both_sides_go_along_rows():
    """The kernel reads and writes global memory by neighbouring threads, and pads rows of shared memory."""
    target = tvm.target.Target("cuda -arch=sm_90", host="llvm")
    with target:
        a = te.placeholder((256, 512), name="a")
        made = topi.transpose(a)
        function = tvm.build(topi.schedule.schedule_for([made], target), [a, made], target)
    source = function.imported_modules[0].get_source()
    assert "__shared__ " in source and "[1056]" in source, source


def test_several_outputs_are_left_alone():
    target = tvm.target.Target("cuda")
    with target:
        a = te.placeholder((64, 64))
        outs = [topi.transpose(a), topi.exp(a)]
        s = topi.schedule.schedule_for(outs, target)
    assert not any(x.scope == "shared" for x in s.stages)
