"""Phases of dilated convolutions: what each of them holds, and that they are put together again."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.relay.transform.cpu.phases import Phases, merge_phases, split_phases


def evaluate(data, function):
    x = relay.var("x", shape=data.shape)
    return relay.create_executor(mod=tvm.IRModule.from_expr(relay.Function([x], function(x)))).evaluate()(data).numpy()


def random_side(rng) -> tuple[Phases, int]:
    """One dimension, and its padding behind."""
    size, before, after, count = (int(rng.integers(*ends)) for ends in ((1, 14), (0, 9), (0, 9), (1, 6)))
    results = size + before + after - 2 * count
    return (Phases(size, results, before, count), after) if results > 0 else random_side(rng)


@pytest.mark.parametrize("draw", range(6))
def test_a_window_on_each_phase_reads_what_the_dilated_one_reads(draw, rng):
    """A window of 3x3 ones, of which NumPy sums up the elements."""
    (rows, below), (columns, right) = random_side(rng), random_side(rng)
    print(rows, below, columns, right)
    data = rng.integers(0, 100, (2, 1, rows.size, columns.size, 3)).astype("float32")
    images = evaluate(data, lambda x: split_phases(x, data.shape, (rows, columns)))
    assert images.shape == (2 * rows.count * columns.count, 1, rows.length, columns.length, 3)
    assert rows.after(3) >= 0 and columns.after(3) >= 0
    around = ((0, 0), (0, 0), *((s.before, s.after(3)) for s in (rows, columns)), (0, 0))
    images = np.pad(images, around)
    height, width = rows.phase_outputs, columns.phase_outputs
    sums = sum(images[:, :, y : y + height, x : x + width] for y in range(3) for x in range(3))
    shape = (2, 1, rows.output_size, columns.output_size, 3)
    got = evaluate(sums, lambda x: merge_phases(x, shape, (rows, columns)))
    padded = np.pad(data, ((0, 0), (0, 0), (rows.padding, below), (columns.padding, right), (0, 0)))
    want = sum(
        padded[:, :, y * rows.count :, x * columns.count :][:, :, : rows.output_size, : columns.output_size]
        for y in range(3) for x in range(3)
    )  # fmt: skip
    np.testing.assert_array_equal(got, want)


def test_a_convolution_without_dilation_stays_as_it_is():
    x = relay.var("x", shape=(1, 2, 8, 9, 16))
    sides = (Phases(8, 8, 1, 1), Phases(9, 7, 0, 1))
    assert split_phases(x, (1, 2, 8, 9, 16), sides) is x and merge_phases(x, (1, 2, 8, 7, 16), sides) is x
