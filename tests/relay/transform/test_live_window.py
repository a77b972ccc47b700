"""Convolutions lose the taps that meet nothing but padding, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.relay.test_transform import check_same_result, module, operators
from tvm import relay
from tvm.relay import transform
from tvm.relay.transform.live_window import Side, without_dead_taps


def simplified(body):
    before = module(body)
    after = transform.FoldConstant()(transform.SimplifyExpr(kernels=True)(before))
    assert str(before["main"].body.checked_type) == str(transform.InferType()(after)["main"].body.checked_type)
    return before, after


def conv2d(rng, size, kernel, layouts=("NCHW", "OIHW"), groups=1, **options):
    sizes = {"N": 1, "C": 4, "H": size[0], "W": size[1]}
    shapes = {"O": 6 if groups == 1 else 4, "I": 4 // groups, "H": kernel[0], "W": kernel[1]}
    weight = rng.standard_normal([shapes[c] for c in layouts[1]]).astype("float32")
    data = relay.var("x", shape=[sizes[c] for c in layouts[0]])
    return relay.nn.conv2d(
        data,
        relay.const(weight),
        kernel_size=kernel,
        channels=shapes["O"],
        groups=groups,
        data_layout=layouts[0],
        kernel_layout=layouts[1],
        **options,
    )


@pytest.mark.parametrize("size, kernel, options, window, padding", [
    ((5, 7), (3, 3), {"padding": 9, "dilation": 9}, (1, 1), (0, 0, 0, 0)),
    ((5, 7), (3, 3), {"padding": 6, "dilation": 6}, (1, 3), (0, 6, 0, 6)),
    ((1, 1), (3, 3), {"padding": 1}, (1, 1), (0, 0, 0, 0)),
    ((2, 2), (5, 5), {"padding": 2}, (3, 3), (1, 1, 1, 1)),
    ((4, 9), (3, 3), {"padding": (9, 3, 4, 3), "dilation": (4, 3)}, (2, 3), (5, 3, 4, 3)),
])  # fmt: skip
def test_taps_in_the_padding_are_cut_away(size, kernel, options, window, padding, rng):
    before, after = simplified(conv2d(rng, size, kernel, **options))
    conv = after["main"].body
    assert tuple(conv.attrs.kernel_size) == window and tuple(conv.attrs.padding) == padding
    assert operators(after) == {"nn.conv2d": 1}
    check_same_result(before, after, rng)


@pytest.mark.parametrize("layouts, groups", [(("NHWC", "HWIO"), 1), (("NHWC", "HWOI"), 4), (("NCHW", "OIHW"), 4)])
def test_layouts_and_groups_are_kept(layouts, groups, rng):
    before, after = simplified(conv2d(rng, (3, 4), (3, 5), layouts, groups, padding=(3, 6), dilation=3))
    assert tuple(after["main"].body.attrs.kernel_size) == (1, 3)
    check_same_result(before, after, rng)


def test_one_and_three_dimensions(rng):
    x = relay.var("x", shape=(1, 3, 4))
    weight = relay.const(rng.standard_normal((2, 3, 5)).astype("float32"))
    before, after = simplified(relay.nn.conv1d(x, weight, padding=8, dilation=4, kernel_size=5, channels=2))
    assert tuple(after["main"].body.attrs.kernel_size) == (1,)
    check_same_result(before, after, rng)
    x = relay.var("x", shape=(1, 3, 1, 4, 2))
    weight = relay.const(rng.standard_normal((2, 3, 3, 3, 3)).astype("float32"))
    before, after = simplified(relay.nn.conv3d(x, weight, padding=1, kernel_size=(3, 3, 3), channels=2))
    assert tuple(after["main"].body.attrs.kernel_size) == (1, 3, 3)
    check_same_result(before, after, rng)


def test_weights_that_are_no_constants_are_cut_when_the_model_runs(rng):
    x, w = relay.var("x", shape=(1, 3, 1, 1)), relay.var("w", shape=(2, 3, 3, 3))
    before, after = simplified(relay.nn.conv2d(x, w, padding=1, kernel_size=3, channels=2))
    assert operators(after) == {"nn.conv2d": 1, "strided_slice": 1}
    check_same_result(before, after, rng)


def test_every_small_window_keeps_its_results(rng):
    """All that is kept is checked tap by tap; what is cut away met padding only."""
    cut = 0
    for _ in range(4000):
        size, taps, stride, dilation, low, high = (int(rng.integers(a, b)) for a, b in
                                                   ((1, 9), (1, 6), (1, 5), (1, 9), (0, 20), (0, 20)))  # fmt: skip
        side = Side(size, taps, stride, dilation, low, high)
        if side.results < 1:
            continue
        reads = reading(side)
        got = without_dead_taps(side)
        if got is None:
            continue
        cut += 1
        first, kept = got
        assert kept.results == side.results and kept.before >= 0 and kept.after >= 0
        assert [{(tap + first, at) for tap, at in row} for row in reading(kept)] == reads
    assert cut > 100


def reading(side: Side) -> list[set[tuple[int, int]]]:
    """By result, the taps that meet data and the elements they meet."""
    taps, data = np.arange(side.taps), range(side.size)
    places = [i * side.stride + taps * side.dilation - side.before for i in range(side.results)]
    return [{(int(tap), int(at)) for tap, at in zip(taps, row) if at in data} for row in places]
