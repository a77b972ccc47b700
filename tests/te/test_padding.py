"""Loops that skip padding: what they leave out, how much of it is made, and where that is refused."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te, tir, topi
from tvm.error import ScheduleError
from tvm.te.padding import idle_loads, interior
from tvm.tir.stmt_functor import post_order_visit


def convolution(size, taps, dilation, stride=1, before=None, after=None, value=0.0, combine="sum"):
    """(placeholders, the padded data, the result) of a window over rows and columns."""
    before = before if before is not None else [(k - 1) * d // 2 for k, d in zip(taps, dilation)]
    after = after if after is not None else before
    x, w = te.placeholder((3, *size), name="x"), te.placeholder((3, *taps), name="w")
    padded = topi.nn.pad(x, (0, *before), (0, *after), value, name="padded")
    c = te.reduce_axis((0, 3), "c")
    kh, kw = (te.reduce_axis((0, k), name) for k, name in zip(taps, ("kh", "kw")))
    out = [
        (n + lo + hi - (k - 1) * d - 1) // stride + 1 for n, lo, hi, k, d in zip(size, before, after, taps, dilation)
    ]

    def body(i, j):
        at = padded[c, i * stride + kh * dilation[0], j * stride + kw * dilation[1]]
        if combine == "max":
            return te.max(at, axis=[c, kh, kw])
        return te.sum(at * w[c, kh, kw], axis=[c, kh, kw])

    return (x, w), padded, te.compute(out, body, name="y")


def scheduled(y, tile, skipped=("kh", "kw")):
    s = te.create_schedule(y.op)
    i, j = y.op.axis
    c, kh, kw = y.op.reduce_axis
    i_outer, i_inner = s[y].split(i, factor=tile[0])
    j_outer, j_inner = s[y].split(j, factor=tile[1])
    s[y].reorder(i_outer, j_outer, kh, kw, c, i_inner, j_inner)
    for name, axis in (("kh", kh), ("kw", kw)):
        if name in skipped:
            s[y].skip_padding(axis)
    return s


def run(s, inputs, y, arrays):
    out = tvm.nd.array(np.full([int(d) for d in y.shape], 7, "float32"))
    tvm.build(s, [*inputs, y], "llvm")(*map(tvm.nd.array, arrays), out)
    return out.numpy()


def reference(y, arrays, taps, dilation, stride, before, after, combine="sum"):
    x, w = arrays
    edges = ((0, 0), *zip(before, after))
    padded = np.pad(x.astype("float64"), edges, constant_values=-np.inf if combine == "max" else 0)
    out = np.full([int(d) for d in y.shape], -np.inf if combine == "max" else 0.0)
    for u in range(taps[0]):
        for v in range(taps[1]):
            a, b = u * dilation[0], v * dilation[1]
            rows = slice(a, a + (out.shape[0] - 1) * stride + 1, stride)
            part = padded[:, rows, b : b + (out.shape[1] - 1) * stride + 1 : stride]
            out = np.maximum(out, part.max(0)) if combine == "max" else out + np.einsum("chw,c->hw", part, w[:, u, v])
    return out


def memory(s, inputs, y) -> int:
    """Elements of the padded data."""
    found = []
    func = tvm.lower(s, [*inputs, y])["main"]
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, tir.Allocate) else None)
    (allocated,) = (n for n in found if "padded" in n.buffer_var.name)
    return int(np.prod([int(e) for e in allocated.extents]))


@pytest.mark.parametrize("tile", [(1, 1), (1, 4), (2, 3), (3, 11)])
def test_results_are_those_of_all_taps(tile, rng):
    for _ in range(6):
        size = [int(v) for v in rng.integers(3, 13, 2)]
        taps = [int(v) for v in rng.integers(1, 5, 2)]
        dilation = [int(v) for v in rng.integers(1, 9, 2)]
        stride = int(rng.integers(1, 4))
        spans = [(k - 1) * d for k, d in zip(taps, dilation)]
        before, after = ([int(v) + k for v, k in zip(rng.integers(0, 9, 2), spans)] for _ in range(2))
        inputs, _, y = convolution(size, taps, dilation, stride, before, after)
        arrays = [rng.standard_normal([int(d) for d in t.shape]).astype("float32") for t in inputs]
        got = run(scheduled(y, tile), inputs, y, arrays)
        np.testing.assert_allclose(got, reference(y, arrays, taps, dilation, stride, before, after), 1e-4, 1e-4)


def test_padding_is_made_only_as_far_as_steps_with_data_read():
    inputs, _, y = convolution((9, 11), (3, 3), (8, 8))
    whole = memory(scheduled(y, (1, 4), ()), inputs, y)
    assert whole == 3 * 25 * 27
    # Of rows one is read at a time, of columns four: three of padding on each side are beside data.
    assert memory(scheduled(y, (1, 4)), inputs, y) == 3 * 9 * 17
    assert memory(scheduled(y, (1, 4), ("kh",)), inputs, y) == 3 * 9 * 27


def test_the_identity_of_the_combiner_is_skipped_too(rng):
    options = {"value": float("-inf"), "combine": "max"}
    inputs, padded, y = convolution((6, 7), (3, 3), (4, 5), **options)
    assert [load.producer for load, _ in idle_loads(y.op)] == [padded]
    assert memory(scheduled(y, (1, 2)), inputs, y) == 3 * 6 * 9
    arrays = [rng.standard_normal([int(d) for d in t.shape]).astype("float32") for t in inputs]
    want = reference(y, arrays, (3, 3), (4, 5), 1, (4, 5), (4, 5), "max")
    np.testing.assert_array_equal(run(scheduled(y, (1, 2)), inputs, y, arrays), want.astype("float32"))


def test_padding_that_counts_is_read(rng):
    inputs, padded, y = convolution((4, 5), (3, 3), (3, 3), value=2.0)
    assert interior(padded.op) is not None and idle_loads(y.op) == []
    arrays = [np.ones([int(d) for d in t.shape], "float32") for t in inputs]
    got = run(scheduled(y, (1, 2)), inputs, y, arrays)
    # A corner meets data with four taps, and twos with five, in each of three channels.
    assert got[0, 0] == 3 * (4 * 1 + 5 * 2)


def test_loops_of_data_and_of_threads_are_refused():
    inputs, _, y = convolution((4, 5), (3, 3), (3, 3))
    s = te.create_schedule(y.op)
    with pytest.raises(ScheduleError, match="skip_padding.*axis i is not a loop of the reduction"):
        s[y].skip_padding(y.op.axis[0])
    s[y].skip_padding(y.op.reduce_axis[1])
    s[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match="stage y: no step of loop kh can be skipped.*threads"):
        tvm.lower(s, [*inputs, y])


def test_the_step_is_recorded_and_repeated():
    inputs, _, y = convolution((9, 11), (3, 3), (8, 8))
    s = scheduled(y, (1, 4))
    again = te.schedule.replay(s.steps, [y.op])
    assert memory(again, inputs, y) == 3 * 9 * 17
