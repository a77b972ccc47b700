"""strided_set as NumPy assigns to a slice; variances of halves."""

from __future__ import annotations

import numpy as np
import pytest
from compiled import run

from tvm import relay

CASES = [
    ([1, 1], [4, 4, 3], None),
    ([1, 1, 0], [4, 4], None),
    ([1, 1], [4, 4], None),
    ([1, 1], [4, 4, 3], [1]),
    ([1], [3], [1, 1]),
    ([1, 3, 2], [4, 0], [1, -1, -1]),
]


@pytest.mark.parametrize("begin, end, strides", CASES)
def test_bounds_that_are_not_given_are_the_whole_dimension(begin, end, strides, rng):
    x = rng.standard_normal((3, 4, 3)).astype("float32")
    steps = strides or []
    cut = tuple(slice(*[v[i] if i < len(v) else None for v in (begin, end, steps)]) for i in range(3))
    want = x.copy()
    v = rng.standard_normal(want[cut].shape).astype("float32")
    want[cut] = v
    got = run(lambda a, b: relay.strided_set(a, b, begin, end, strides), x, v)
    np.testing.assert_array_equal(got, want)


def test_a_step_of_zero_that_a_program_brings_ends_nothing():
    x, v = np.zeros((3, 4), "float32"), np.ones((3, 4), "float32")
    zero = np.array([0, 0], "int64")
    got = run(lambda a, b, s: relay.strided_set(a, b, [0, 0], [3, 4], s), x, v, zero)
    np.testing.assert_array_equal(got, v)


@pytest.mark.parametrize("count", [3072, 70000])
@pytest.mark.parametrize("unbiased", [False, True])
def test_variances_of_many_halves(count, unbiased, rng):
    x = rng.random(count).astype("float16")
    build = {
        "variance": lambda a: relay.variance(a, unbiased=unbiased),
        "std": lambda a: relay.std(a, unbiased=unbiased),
        "mean_variance": lambda a: relay.mean_variance(a, unbiased=unbiased)[1],
    }
    exact = x.astype("float64").var(ddof=int(unbiased))
    for name, make in build.items():
        got = run(make, x)
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, exact**0.5 if name == "std" else exact, rtol=2e-3, err_msg=name)
