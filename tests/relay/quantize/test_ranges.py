"""Ranges of tensors by their values, and the integers of a range."""

from __future__ import annotations

import numpy as np
import pytest

from tvm.relay.quantize.ranges import BINS, Histogram, asymmetric, symmetric


def counted(*arrays: np.ndarray) -> Histogram:
    histogram = Histogram()
    for array in arrays:
        histogram.add(array)
    return histogram


def test_bins_that_widen_count_as_bins_that_were_wide_at_once(rng):
    small, large = rng.normal(size=500) * 0.01, rng.normal(size=500) * 100
    grown, direct = counted(np.zeros(3), small, large), counted(large, small, np.zeros(3))
    assert grown.reach == direct.reach and grown.counts.sum() == direct.counts.sum() == 1003
    np.testing.assert_array_equal(grown.counts, direct.counts)
    assert (grown.low, grown.high) == (large.min(), large.max())


def test_a_percentile_leaves_out_its_share_of_both_ends():
    rng = np.random.default_rng(3)
    values = rng.normal(size=20_000)
    low, high = counted(values).inside(99.0)
    bin_width = 2 * 8 / BINS
    np.testing.assert_allclose((low, high), np.percentile(values, [0.5, 99.5]), atol=2 * bin_width + 0.01)
    assert counted(values).inside(100.0) == (values.min(), values.max())


def test_the_least_loss_of_information_leaves_out_what_is_rare():
    rng = np.random.default_rng(3)
    body, far = rng.normal(size=100_000).astype("float32"), np.float32([40.0])
    low, high = counted(np.concatenate([body, far])).least_loss(8)
    assert 2 < high < 10 and -10 < low < -2
    even = rng.uniform(-1, 1, 100_000)
    low, high = counted(even).least_loss(8)
    assert high > 0.95 and low < -0.95


def relu6(rng, count: int, spread: float) -> np.ndarray:
    return np.clip(rng.normal(size=count) * spread, 0, 6).astype("float32")


def test_spikes_where_a_tensor_is_cut_off_do_not_hide_its_distribution():
    """A ReLU6 has half of its values at 0 and some at 6: the least loss keeps what lies between them."""
    rng = np.random.default_rng(5)
    # Many values at 6: the tensor is cut off there, and so is the range.
    assert counted(relu6(rng, 200_000, 4.0)).least_loss(8) == (0.0, 6.0)
    # None at 6: a half of a normal distribution, of which nothing but the tail may go.
    low, high = counted(relu6(rng, 200_000, 1.0)).least_loss(8)
    assert low == 0.0 and 3.0 < high < 5.0
    # Cut off at both ends, and at one of them.
    assert counted(np.clip(rng.normal(size=100_000), -1, 1)).least_loss(8) == (-1.0, 1.0)
    low, high = counted(np.maximum(rng.normal(size=100_000), -0.5)).least_loss(8)
    assert low == -0.5 and high > 2.5
    # Zeros in nine of ten places (padding, dropout) change nothing.
    dense = rng.normal(size=50_000)
    sparse = np.concatenate([dense, np.zeros(450_000)])
    assert counted(sparse).least_loss(8) == counted(dense).least_loss(8)


def test_the_least_loss_of_heavy_tails_and_of_an_even_spread():
    rng = np.random.default_rng(7)
    values = np.abs(rng.standard_t(2, 400_000))
    low, high = counted(values).least_loss(8)
    error = {}
    for top in (high, values.max()):
        scale = top / 255
        error[top] = np.abs(np.clip(np.round(values / scale), 0, 255) * scale - values)
    # Most values are nearer than in the range of all of them, and few are left out.
    assert np.median(error[high]) < np.median(error[values.max()]) / 4 and np.mean(values > high) < 0.01
    assert counted(rng.uniform(0, 6, 100_000)).least_loss(8)[1] > 5.8


def test_of_few_values_none_is_left_out():
    rng = np.random.default_rng(9)
    few = relu6(rng, 2_000, 1.0)
    assert counted(few).least_loss(8) == (0.0, few.max())
    assert counted(np.array([1.0, -3.0])).least_loss(8) == (-3.0, 1.0)


def test_values_at_the_ends_are_counted_over_arrays():
    histogram = counted(np.array([0.0, 1.0, 1.0]), np.array([2.0, 0.0]), np.array([2.0, 2.0, -1.0]), np.array([-1.0]))
    assert (histogram.at_low, histogram.at_high, histogram.zeros) == (2, 3, 2)


def test_a_constant_tensor_and_an_empty_one_have_integers(rng):
    assert counted(np.zeros(4), np.zeros((0, 3))).least_loss(8) == (0.0, 0.0)
    assert counted(np.full(4, 3.0)).inside(99.0) == (3.0, 3.0)
    assert asymmetric(0.0, 0.0, 8).scale > 0 and symmetric(0.0, 8).scale > 0


def test_values_that_are_not_finite_are_refused():
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="not finite"):
            counted(np.array([0.0, bad]))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("low, high", [(-1.0, 3.0), (0.5, 2.0), (-4.0, -1.0), (-1e-30, 1e-30), (0.0, 7e30)])
def test_integers_hold_zero_exactly_and_the_ends_within_a_step(low, high, dtype):
    meant = asymmetric(low, high, 8, dtype)
    info = np.iinfo(dtype)
    assert info.min <= meant.zero <= info.max
    ends = np.clip(np.round(np.array([low, high]) / meant.scale) + meant.zero, info.min, info.max)
    np.testing.assert_allclose((ends - meant.zero) * meant.scale, [low, high], atol=float(meant.scale))


def test_fewer_bits_have_fewer_integers():
    assert symmetric(1.0, 4).scale == np.float32(1 / 7)
    assert asymmetric(0.0, 15.0, 4) == (np.float32(1.0), -8, "int8")
