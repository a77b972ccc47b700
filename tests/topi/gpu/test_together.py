"""Operators on GPUs whose steps seem to follow each other: running sums, suppression of boxes, what is found."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
import tvm.testing
from tests.topi.test_vision import detections, greedy
from tvm import te, topi
from tvm.ir.visit import pre_order
from tvm.tir import pipeline
from tvm.tir.stmt import AttrStmt


def results(values, make):
    """What an operator makes on OpenCL."""
    target, device = tvm.target.Target("opencl", host="llvm"), tvm.cl(0)
    with target:
        inputs = [te.placeholder(v.shape, str(v.dtype)) for v in values]
        made = make(*inputs)
        outs = list(made) if isinstance(made, (list, tuple)) else [made]
        s = topi.schedule.schedule_for(outs, target)
    arrays = [tvm.nd.array(np.ascontiguousarray(v), device) for v in values]
    arrays += [tvm.nd.array(np.zeros([int(d) for d in o.shape], o.dtype), device) for o in outs]
    tvm.build(s, [*inputs, *outs], target)(*arrays)
    return [a.numpy() for a in arrays[len(values) :]]


def threads_of(made) -> list[int]:
    """Threads of all blocks of each kernel; of one where their number is not known."""
    outs = list(made) if isinstance(made, (list, tuple)) else [made]
    device = tvm.target.Target("cuda", host="llvm")
    inputs = _placeholders(outs)
    lowered = tvm.lower(topi.schedule.schedule_for(outs, device), [*inputs, *outs])
    _, parts = pipeline.split_host_device(lowered, device, device.host)
    counts = []
    for kernel in parts.functions.values():
        count = 1
        for node in pre_order(kernel.body):
            if isinstance(node, AttrStmt) and node.attr_key == "thread_extent":
                count *= getattr(node.value, "value", 1)
        counts.append(count)
    return counts


def _placeholders(outs):
    found, todo = {}, list(outs)
    while todo:
        t = todo.pop()
        if not t.op.input_tensors:
            found[t] = None
        todo += t.op.input_tensors
    return list(found)


@tvm.testing.requires_opencl
@pytest.mark.parametrize("shape, axis", [((1,), 0), ((64,), 0), ((65,), 0), ((4099,), 0), ((70_001,), 0),
                                         ((3, 331, 2), 1), ((130, 5), 0), ((2, 2, 97), -1)])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_in_chunks(shape, axis, exclusive, rng):
    x = rng.integers(-5, 6, shape).astype("int32")
    (got,) = results([x], lambda t: topi.cumsum(t, axis, "int64", exclusive))
    wanted = np.cumsum(x, axis, "int64") - (x if exclusive else 0)
    np.testing.assert_array_equal(got, wanted)


@tvm.testing.requires_opencl
def test_running_products_and_sums_of_fractions(rng):
    x = rng.uniform(0.99, 1.01, (3, 500)).astype("float32")
    (got,) = results([x], lambda t: topi.cumprod(t, 1))
    np.testing.assert_allclose(got, np.cumprod(x.astype("float64"), 1), rtol=1e-4, atol=1e-4)
    (got,) = results([x], topi.cumsum)
    np.testing.assert_allclose(got, np.cumsum(x.astype("float64")), rtol=1e-4, atol=1e-4)


def test_one_long_line_has_many_threads():
    with tvm.target.Target("cuda"):
        assert max(threads_of(topi.cumsum(te.placeholder((100_000,))))) >= 1000
        assert len(threads_of(topi.cumsum(te.placeholder((10_000, 70)), 1))) == 1, "lines enough for all threads"


@tvm.testing.requires_opencl
@pytest.mark.parametrize("shape", [(1,), (7, 11), (3, 5, 67), (1031,)])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_argwhere(shape, share, rng):
    x = (rng.random(shape) < share).astype("float32")
    wanted = np.argwhere(x)
    rows = max(len(wanted), 1)
    (got,) = results([x], lambda t: topi.argwhere((rows, len(shape)), t))
    np.testing.assert_array_equal(got[: len(wanted)], wanted)
    if len(wanted) > 2:
        (got,) = results([x], lambda t: topi.argwhere((len(wanted) - 2, len(shape)), t))
        np.testing.assert_array_equal(got, wanted[:-2])


@tvm.testing.requires_opencl
@pytest.mark.parametrize("n", [1, 2, 137, 700])
def test_valid_boxes_are_moved_to_the_front(n, rng):
    data = detections(rng, 3, n)
    count, boxes, places = results([data], lambda t: topi.vision.get_valid_counts(t, 0.3, 0, 1))
    for b in range(3):
        kept = [i for i in range(n) if data[b, i, 1] > np.float32(0.3) and data[b, i, 0] >= 0]
        assert count[b] == len(kept) and places[b, : len(kept)].tolist() == kept
        np.testing.assert_array_equal(boxes[b, : len(kept)], data[b, kept])
        assert (boxes[b, len(kept) :] == -1).all() and (places[b, len(kept) :] == -1).all()


@tvm.testing.requires_opencl
@pytest.mark.parametrize("n", [1, 61, 523])
@pytest.mark.parametrize("limit, force, top_k", [(-1, False, -1), (5, True, 40)])
def test_boxes_suppressed_by_a_block(n, limit, force, top_k, rng):
    data = detections(rng, 2, n)
    count = np.array([n, n // 2], "int32")
    places = np.tile(np.arange(n, dtype="int32"), (2, 1))
    kept, number = results(
        [data, count, places],
        lambda d, c, p: topi.vision.non_max_suppression(d, c, p, limit, 0.5, force, top_k, 2, 1, 0, True),
    )
    for b in range(2):
        wanted, _ = greedy(data[b], int(count[b]), limit, 0.5, force, top_k)
        assert number[b, 0] == len(wanted) and kept[b, : len(wanted)].tolist() == wanted
        assert (kept[b, len(wanted) :] == -1).all()


def test_suppression_has_a_block_for_each_image():
    with tvm.target.Target("cuda"):
        d, c, p = te.placeholder((2, 900, 6)), te.placeholder((2,), "int32"), te.placeholder((2, 900), "int32")
        assert 512 in threads_of(topi.vision.non_max_suppression(d, c, p))


@tvm.testing.requires_opencl
def test_random_words_do_not_depend_on_the_threads():
    state = np.arange(1, 11, dtype="uint64")
    target = tvm.target.Target("llvm")
    with target:
        gen = te.placeholder((10,), "uint64")
        made = topi.random.threefry_generate(gen, (1001,))
        s = topi.schedule.schedule_for(made, target)
    arrays = [tvm.nd.array(state), tvm.nd.array(np.zeros(10, "uint64")), tvm.nd.array(np.zeros(1001, "uint64"))]
    tvm.build(s, [gen, *made], target)(*arrays)
    after, words = results([state], lambda t: topi.random.threefry_generate(t, (1001,)))
    np.testing.assert_array_equal(after, arrays[1].numpy())
    np.testing.assert_array_equal(words, arrays[2].numpy())
