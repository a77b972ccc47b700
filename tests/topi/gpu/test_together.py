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
@pytest.mark.parametrize(
    "shape, axis",
    [
        ((1,), 0),
        ((64,), 0),
        ((65,), 0),
        ((4099,), 0),
        ((70_001,), 0),
        ((3, 331, 2), 1),
        ((130, 5), 0),
        ((2, 2, 97), -1),
    ],
)
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_in_chunks(shape, axis, exclusive, rng):
    x = rng.integers(-5, 6, shape).astype("int32")
    (got,) = results([x], lambda t: topi.cuda.cumsum(t, axis, "int64", exclusive))
    wanted = np.cumsum(x, axis, "int64") - (x if exclusive else 0)
    np.testing.assert_array_equal(got, wanted)


@tvm.testing.requires_opencl
def test_running_products_and_sums_of_fractions(rng):
    x = rng.uniform(0.99, 1.01, (3, 500)).astype("float32")
    (got,) = results([x], lambda t: topi.cuda.cumprod(t, 1))
    np.testing.assert_allclose(got, np.cumprod(x.astype("float64"), 1), rtol=1e-4, atol=1e-4)
    (got,) = results([x], topi.cuda.cumsum)
    np.testing.assert_allclose(got, np.cumsum(x.astype("float64")), rtol=1e-4, atol=1e-4)


def test_one_long_line_has_many_threads():
    with tvm.target.Target("cuda"):
        assert max(threads_of(topi.cuda.cumsum(te.placeholder((100_000,))))) >= 1000
        assert len(threads_of(topi.cuda.cumsum(te.placeholder((10_000, 70)), 1))) == 1, "lines enough for all threads"


@tvm.testing.requires_opencl
@pytest.mark.parametrize("shape", [(1,), (7, 11), (3, 5, 67), (1031,)])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_argwhere(shape, share, rng):
    x = (rng.random(shape) < share).astype("float32")
    wanted = np.argwhere(x)
    rows = max(len(wanted), 1)
    (got,) = results([x], lambda t: topi.cuda.argwhere((rows, len(shape)), t))
    np.testing.assert_array_equal(got[: len(wanted)], wanted)
    if len(wanted) > 2:
        (got,) = results([x], lambda t: topi.cuda.argwhere((len(wanted) - 2, len(shape)), t))
        np.testing.assert_array_equal(got, wanted[:-2])


@tvm.testing.requires_opencl
@pytest.mark.parametrize("n", [1, 2, 137, 700])
def test_valid_boxes_are_moved_to_the_front(n, rng):
    data = detections(rng, 3, n)
    count, boxes, places = results([data], lambda t: topi.cuda.get_valid_counts(t, 0.3, 0, 1))
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
        lambda d, c, p: topi.cuda.non_max_suppression(d, c, p, limit, 0.5, force, top_k, 2, 1, 0, True),
    )
    for b in range(2):
        wanted, _ = greedy(data[b], int(count[b]), limit, 0.5, force, top_k)
        assert number[b, 0] == len(wanted) and kept[b, : len(wanted)].tolist() == wanted
        assert (kept[b, len(wanted) :] == -1).all()


def test_suppression_has_a_block_for_each_image():
    with tvm.target.Target("cuda"):
        d, c, p = te.placeholder((2, 900, 6)), te.placeholder((2,), "int32"), te.placeholder((2, 900), "int32")
        assert 512 in threads_of(topi.cuda.non_max_suppression(d, c, p))


@pytest.mark.slow("compiles large kernels that sort and scan")
@tvm.testing.requires_opencl
@pytest.mark.parametrize("n, dtype", [(1, "int32"), (700, "float32"), (5003, "int64")])
@pytest.mark.parametrize("ordered", [True, False])
def test_unique(n, dtype, ordered, rng):
    data = rng.integers(0, max(n // 3, 1), n).astype(dtype)
    elements, firsts, inverse, total, counts = results([data], lambda t: topi.cuda.unique(t, ordered, True))
    wanted, where, _, often = np.unique(data, True, True, True)
    sequence = np.arange(len(wanted)) if ordered else np.argsort(where)
    assert total[0] == len(wanted)
    for got, reference in ((elements, wanted), (firsts, where), (counts, often)):
        np.testing.assert_array_equal(got[: len(wanted)], reference[sequence])
        assert not got[len(wanted) :].any()
    np.testing.assert_array_equal(elements[inverse], data)


@pytest.mark.slow("compiles large kernels that sort and scan")
@tvm.testing.requires_opencl
def test_unique_of_a_vector_of_any_length(rng):
    target, device = tvm.target.Target("opencl", host="llvm"), tvm.cl(0)
    with target:
        given = te.placeholder((te.var("n", "int64"),), "int32")
        made = topi.cuda.unique(given, False, True)
        built = tvm.build(topi.schedule.schedule_for(made, target), [given, *made], target)
    for n in (0, 1, 4003):
        data = rng.integers(0, 99, n).astype("int32")
        outs = [tvm.nd.empty(shape, "int32", device) for shape in ((n,), (n,), (n,), (1,), (n,))]
        built(tvm.nd.array(data, device), *outs)
        elements, firsts, inverse, total, counts = (out.numpy() for out in outs)
        wanted, where, often = np.unique(data, return_index=True, return_counts=True)
        sequence = np.argsort(where)
        assert total[0] == len(wanted)
        for got, reference in ((elements, wanted), (firsts, where), (counts, often)):
            np.testing.assert_array_equal(got[: len(wanted)], reference[sequence])
        np.testing.assert_array_equal(elements[inverse], data)


@pytest.mark.slow("compiles large kernels of vision operators")
@tvm.testing.requires_opencl
@pytest.mark.parametrize("n, limit", [(1, 5), (83, 4), (700, 1000)])
def test_boxes_of_all_classes_by_score(n, limit, rng):
    # Sides are small whole numbers: whether boxes overlap by more than a half does not depend on rounding.
    corner = rng.integers(0, 20, (2, n, 2))
    boxes = np.concatenate([corner, corner + rng.integers(1, 12, (2, n, 2))], 2).astype("float32")
    scores = rng.integers(0, 50, (2, 3, n)).astype("float32")
    result, best, total = results(
        [boxes, scores], lambda b, s: topi.cuda.all_class_non_max_suppression(b, s, limit, 0.5, 9.0, "tensorflow")
    )
    for image in range(2):
        kept = []
        for c in range(3):
            own = []
            for i in np.argsort(-scores[image, c], kind="stable"):
                if scores[image, c, i] > 9 and len(own) < limit and not any(near(boxes[image], i, j) for j in own):
                    own.append(i)
            kept += [(c, i) for i in own]
        kept.sort(key=lambda item: -scores[image, item[0], item[1]])
        assert total[image] == len(kept)
        assert result[image, : len(kept)].tolist() == [[c, int(i)] for c, i in kept]
        np.testing.assert_array_equal(best[image, : len(kept)], [scores[image, c, i] for c, i in kept])
        assert (result[image, len(kept) :] == -1).all() and not best[image, len(kept) :].any()


@pytest.mark.slow("compiles large kernels of vision operators")
@tvm.testing.requires_opencl
@pytest.mark.parametrize("batch, classes, n", [(0, 3, 5), (2, 0, 5), (2, 3, 0)])
@pytest.mark.parametrize("form", ["onnx", "tensorflow"])
def test_without_boxes_none_are_counted(batch, classes, n, form):
    target, device = tvm.target.Target("opencl", host="llvm"), tvm.cl(0)
    b, c, k = (te.var(name, "int64") for name in ("b", "c", "k"))
    with target:
        boxes, scores = te.placeholder((b, k, 4), "float32"), te.placeholder((b, c, k), "float32")
        made = topi.cuda.all_class_non_max_suppression(boxes, scores, 3, 0.5, 0.1, form)
        built = tvm.build(topi.schedule.schedule_for(made, target), [boxes, scores, *made], target)
    rows = batch * classes * n
    shapes = [(rows, 3), (1,)] if form == "onnx" else [(batch, classes * n, 2), (batch, classes * n), (batch,)]
    outs = [tvm.nd.array(np.full(shape, 7, t.dtype), device) for shape, t in zip(shapes, made)]
    given = [tvm.nd.empty(shape, "float32", device) for shape in ((batch, n, 4), (batch, classes, n))]
    built(*given, *outs)
    assert not outs[-1].numpy().any()


def near(boxes: np.ndarray, i: int, j: int) -> bool:
    low, high = np.maximum(boxes[i, :2], boxes[j, :2]), np.minimum(boxes[i, 2:], boxes[j, 2:])
    common = np.prod(np.maximum(high - low, 0))
    sizes = [np.prod(boxes[k, 2:] - boxes[k, :2]) for k in (i, j)]
    return 2 * common > sum(sizes) - common


@pytest.mark.slow("compiles large kernels of vision operators")
def test_steps_that_one_thread_did_have_many():
    with tvm.target.Target("cuda"):
        counts = threads_of(topi.cuda.unique(te.placeholder((20_000,), "int32"), False, True))
        assert sum(count >= 10_000 for count in counts) >= 4
        boxes, scores = te.placeholder((2, 900, 4)), te.placeholder((2, 5, 900))
        made = topi.cuda.all_class_non_max_suppression(boxes, scores, 9, 0.5, 0.1, "tensorflow")
        assert sorted(threads_of(made))[:2] >= [2, 256], "few threads add up the classes of an image"
        inputs = [te.placeholder((2, 12, 30, 40)), te.placeholder((2, 24, 30, 40)), te.placeholder((2, 3))]
        made = topi.cuda.proposal(*inputs, (2.0, 4.0), (0.5, 1.0, 2.0), 8, 0.6, 2000, 300, 6, False)
        assert min(threads_of(made)) >= 256
        inputs = [te.placeholder((2, 21, 3000)), te.placeholder((2, 12000)), te.placeholder((1, 3000, 4))]
        assert sum(c >= 6000 for c in threads_of(topi.cuda.multibox_transform_loc(*inputs))) == 2


@tvm.testing.requires_opencl
def test_random_words_do_not_depend_on_the_threads():
    state = np.arange(1, 11, dtype="uint64")
    target = tvm.target.Target("llvm")
    with target:
        gen = te.placeholder((10,), "uint64")
        made = topi.cuda.threefry_generate(gen, (1001,))
        s = topi.schedule.schedule_for(made, target)
    arrays = [tvm.nd.array(state), tvm.nd.array(np.zeros(10, "uint64")), tvm.nd.array(np.zeros(1001, "uint64"))]
    tvm.build(s, [gen, *made], target)(*arrays)
    after, words = results([state], lambda t: topi.cuda.threefry_generate(t, (1001,)))
    np.testing.assert_array_equal(after, arrays[1].numpy())
    np.testing.assert_array_equal(words, arrays[2].numpy())
