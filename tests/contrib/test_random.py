"""Random arrays drawn by a program."""

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.contrib import random


def draw(tensor, value):
    function = tvm.build(te.create_schedule(tensor.op), [tensor], "llvm")
    random.seed(value)
    out = tvm.nd.empty([int(d) for d in tensor.shape], tensor.dtype)
    function(out)
    return out.numpy()


@pytest.mark.parametrize("make, mean, low, high", [
    (lambda: random.randint(-5, 6, (300, 40)), 0, -5, 5),
    (lambda: random.randint(0, 100, (300, 40), dtype="int64"), 49.5, 0, 99),
    (lambda: random.uniform(2, 4, (300, 40)), 3, 2, 4),
    (lambda: random.normal(3, 4, (300, 40)), 3, -40, 46),
], ids=["randint", "int64", "uniform", "normal"])  # fmt: skip
def test_numbers_have_their_distribution_and_repeat_with_the_seed(make, mean, low, high):
    got = draw(make(), 7)
    assert got.min() >= low and got.max() <= high and len(np.unique(got)) > 10
    assert abs(got.mean() - mean) < 0.02 * (high - low)
    np.testing.assert_array_equal(got, draw(make(), 7))
    assert (got != draw(make(), 8)).any()
