"""Boxes and regions against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.topi.evaluate import evaluate
from tvm import te, topi
from tvm.topi.testing import roi_python


def overlap(a, b, extra=0.0):
    a, b = ((min(x[0], x[2]), min(x[1], x[3]), max(x[0], x[2]), max(x[1], x[3])) for x in (a, b))
    width = max(min(a[2], b[2]) - max(a[0], b[0]) + extra, 0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]) + extra, 0)
    union = sum((x[2] - x[0] + extra) * (x[3] - x[1] + extra) for x in (a, b)) - width * height
    return width * height / union if union > 0 else 0.0


def random_boxes(rng, *shape):
    corners = rng.uniform(0, 1, (*shape, 2))
    return np.concatenate([corners, corners + rng.uniform(0.1, 0.6, (*shape, 2))], -1).astype("float32")


def detections(rng, batch=2, n=23):
    ids, scores = rng.integers(-1, 3, (batch, n, 1)), rng.uniform(-0.2, 1, (batch, n, 1))
    return np.concatenate([ids, scores, random_boxes(rng, batch, n)], -1).astype("float32")


def test_get_valid_counts(rng):
    data = detections(rng)
    count, boxes, places = evaluate([data], lambda t: topi.vision.get_valid_counts(t, 0.3, 0, 1))
    for b in range(2):
        kept = [i for i in range(23) if data[b, i, 1] > np.float32(0.3) and data[b, i, 0] >= 0]
        assert count[b] == len(kept) and places[b, : len(kept)].tolist() == kept
        np.testing.assert_array_equal(boxes[b, : len(kept)], data[b, kept])
        assert (boxes[b, len(kept) :] == -1).all() and (places[b, len(kept) :] == -1).all()
    threshold = np.array(0.3, "float32")
    again = evaluate([data, threshold], lambda t, s: topi.vision.get_valid_counts(t, s, 0, 1))
    np.testing.assert_array_equal(again[0], count)


def greedy(data, count, limit, threshold, force, top_k):
    """Places kept, in order, and the order by falling score."""
    order = sorted(range(count), key=lambda i: -data[i, 1])
    considered = order[:top_k] if top_k > 0 else order
    kept = []
    for i in considered:
        if data[i, 1] <= 0 or data[i, 0] < 0 or (0 < limit <= len(kept)):
            continue
        if not any(
            (force or data[i, 0] == data[j, 0]) and overlap(data[i, 2:], data[j, 2:]) >= threshold for j in kept
        ):
            kept.append(i)
    return kept, order


@pytest.mark.parametrize("limit, force, top_k", [(-1, False, -1), (3, False, -1), (-1, True, 9), (2, True, 5)])
def test_non_max_suppression(rng, limit, force, top_k):
    data = detections(rng)
    data[..., 1] = np.abs(data[..., 1])
    count = np.array([23, 11], "int32")
    places = rng.permuted(np.tile(np.arange(23, dtype="int32") + 100, (2, 1)), axis=1)

    def make(d, c, i):
        call = topi.vision.non_max_suppression
        first = call(d, c, i, limit, 0.4, force, top_k, return_indices=True)
        return [
            *first,
            *(call(d, c, i, limit, 0.4, force, top_k, return_indices=False, invalid_to_bottom=v) for v in (0, 1)),
        ]

    indices, total, scattered, front = evaluate([data, count, places], make)
    for b in range(2):
        kept, order = greedy(data[b], int(count[b]), limit, 0.4, force, top_k)
        assert total[b, 0] == len(kept)
        assert indices[b, : len(kept)].tolist() == places[b, kept].tolist() and (indices[b, len(kept) :] == -1).all()
        np.testing.assert_array_equal(front[b, : len(kept)], data[b, kept])
        assert (front[b, len(kept) :] == -1).all()
        for place in range(23):
            box = order[place] if place < len(order) else None
            wanted = data[b, box] if box in kept else np.full(6, -1)
            np.testing.assert_array_equal(scattered[b, place], wanted)


@pytest.mark.parametrize("limit", [0, 3, 1000])
def test_all_class_non_max_suppression(rng, limit):
    boxes, scores = random_boxes(rng, 2, 13), rng.uniform(0, 1, (2, 3, 13)).astype("float32")
    boxes[0, :5] = boxes[0, :5][:, [2, 3, 0, 1]]  # corners in the other order

    def reference(b, c):
        kept = []
        for i in np.argsort(-scores[b, c], kind="stable"):
            if scores[b, c, i] <= np.float32(0.25) or len(kept) >= limit:
                continue
            if all(overlap(boxes[b, i], boxes[b, j]) <= 0.3 for j in kept):
                kept.append(int(i))
        return kept

    wanted = [[(b, c, i) for c in range(3) for i in reference(b, c)] for b in range(2)]
    got, total = evaluate(
        [boxes, scores], lambda b, s: topi.vision.all_class_non_max_suppression(b, s, limit, 0.3, 0.25)
    )
    flat = wanted[0] + wanted[1]
    assert total.tolist() == [len(flat)] and got[: len(flat)].tolist() == [list(w) for w in flat]
    assert (got[len(flat) :] == -1).all()
    if limit != 3:
        return
    parameters = [np.array([limit], "int64"), np.array([0.3], "float32"), np.array(0.25, "float32")]
    again = evaluate([boxes, scores, *parameters], topi.vision.all_class_non_max_suppression)
    np.testing.assert_array_equal(again[0], got)
    rows, best, totals = evaluate(
        [boxes, scores], lambda b, s: topi.vision.all_class_non_max_suppression(b, s, limit, 0.3, 0.25, "tensorflow")
    )
    for b in range(2):
        order = sorted(wanted[b], key=lambda w: -scores[w])
        assert totals[b] == len(order) and rows[b, : len(order)].tolist() == [list(w[1:]) for w in order]
        np.testing.assert_array_equal(best[b, : len(order)], [scores[w] for w in order])


def test_suppression_of_many_scores_by_several_threads(rng):
    """Few of the scores are above the threshold, some of them equal, and one class has none."""
    boxes = random_boxes(rng, 2, 900)
    scores = (np.floor(rng.uniform(0, 1, (2, 20, 900)) * 64) / 64).astype("float32")
    scores[1, 3] = 0.0

    def reference(b, c):
        kept = []
        for i in np.argsort(-scores[b, c], kind="stable"):
            if scores[b, c, i] <= np.float32(0.9):
                break
            if len(kept) < 7 and all(overlap(boxes[b, i], boxes[b, j]) <= 0.3 for j in kept):
                kept.append(int(i))
        return kept

    wanted = [[b, c, i] for b in range(2) for c in range(20) for i in reference(b, c)]
    got, total = evaluate([boxes, scores], lambda b, s: topi.vision.all_class_non_max_suppression(b, s, 7, 0.3, 0.9))
    assert total.tolist() == [len(wanted)] and got[: len(wanted)].tolist() == wanted
    assert (got[len(wanted) :] == -1).all()


@pytest.mark.parametrize("batch, classes, n", [(0, 3, 5), (2, 0, 5), (2, 3, 0)])
@pytest.mark.parametrize("form, counted", [("onnx", 1), ("tensorflow", None)])
def test_suppression_without_boxes_counts_none(batch, classes, n, form, counted):
    given = [np.zeros((batch, n, 4), "float32"), np.zeros((batch, classes, n), "float32")]
    *_, total = evaluate(given, lambda b, s: topi.vision.all_class_non_max_suppression(b, s, 3, 0.3, 0.25, form))
    assert total.tolist() == [0] * (batch if counted is None else counted)


REGIONS = np.array([[0, 1, 2, 7, 9], [1, -3, 0.5, 4.2, 30], [1, 4, 4, 4, 4], [0, 20, 20, 25, 24]], "float32")


def test_roi_align(rng):
    data = rng.normal(size=(2, 3, 9, 11)).astype("float32")
    cases = [
        (scale, ratio, mode, aligned, weighted)
        for scale, ratio in ((1.0, 2), (0.5, -1))
        for mode, aligned, weighted in (
            ("avg", False, False), (b"max", False, False), ("avg", True, False), ("max", True, True),
            (0, False, False), (1, True, False),
        )
    ]  # fmt: skip

    def make(d, r):
        return [topi.vision.roi_align_nchw(d, r, (3, 2), s, m, n, a, w) for s, n, m, a, w in cases]

    for got, (scale, ratio, mode, aligned, weighted) in zip(evaluate([data, REGIONS], make), cases):
        wanted = roi_python.roi_align_nchw_python(data, REGIONS, (3, 2), scale, ratio, mode, aligned, weighted)
        np.testing.assert_allclose(
            got, wanted, rtol=1e-4, atol=1e-5, err_msg=str((scale, ratio, mode, aligned, weighted))
        )
    last = data.transpose(0, 2, 3, 1).copy()
    got = evaluate([last, REGIONS], lambda d, r: topi.vision.roi_align_nhwc(d, r, 2, 1.0, "avg", 2))
    np.testing.assert_allclose(got, roi_python.roi_align_nhwc_python(last, REGIONS, 2, 1.0, 2), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="avg or max"):
        topi.vision.roi_align_nchw(te.placeholder((1, 1, 3, 3)), te.placeholder((1, 5)), 2, 1.0, "sum")
    with pytest.raises(ValueError, match="rows of"):
        topi.vision.roi_align_nchw(te.placeholder((1, 1, 3, 3)), te.placeholder((1, 4)), 2, 1.0, "avg")


def test_roi_pool(rng):
    data = rng.normal(size=(2, 3, 9, 11)).astype("float32")
    for size, scale in (((3, 2), 1.0), (4, 0.5)):
        got = evaluate([data, REGIONS], lambda d, r: topi.vision.rcnn.roi_pool_nchw(d, r, size, scale))
        np.testing.assert_array_equal(got, roi_python.roi_pool_nchw_python(data, REGIONS, size, scale))


def test_reorg(rng):
    data = rng.normal(size=(2, 8, 4, 6)).astype("float32")
    got = evaluate([data], lambda t: topi.vision.reorg(t, 2))
    np.testing.assert_array_equal(got, roi_python.reorg_python(data, 2))
    with pytest.raises(ValueError, match="are not divisible"):
        topi.vision.reorg(te.placeholder((1, 3, 4, 4)), 2)


def test_multibox_prior():
    data = np.zeros((1, 3, 4, 5), "float32")
    sizes, ratios = (0.4, 0.7), (1, 2, 0.5)
    for clip in (False, True):
        got = evaluate([data], lambda t: topi.vision.ssd.multibox_prior(t, sizes, ratios, clip=clip))
        wanted = []
        for y, x in np.ndindex(4, 5):
            cy, cx = (y + 0.5) / 4, (x + 0.5) / 5
            halves = [(s * 4 / 5 / 2, s / 2) for s in sizes]
            halves += [(0.4 * 4 / 5 * math.sqrt(r) / 2, 0.4 / math.sqrt(r) / 2) for r in ratios[1:]]
            wanted += [(cx - w, cy - h, cx + w, cy + h) for w, h in halves]
        wanted = np.array([wanted], "float32")
        np.testing.assert_allclose(got, np.clip(wanted, 0, 1) if clip else wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 3, 0, 4), (1, 3, 4, 0), (1, 3, 0, 0)])
def test_an_image_without_elements_has_no_anchors(shape):
    got = evaluate([np.zeros(shape, "float32")], lambda t: topi.vision.ssd.multibox_prior(t, (0.4, 0.7), (1, 2)))
    assert got.shape == (1, 0, 4)


def test_multibox_detection(rng):
    n = 7
    scores = rng.dirichlet(np.ones(3), (2, n)).transpose(0, 2, 1).astype("float32")
    anchors, moves = random_boxes(rng, 1, n), (rng.normal(size=(2, n * 4)) * 0.3).astype("float32")
    boxes, counts = evaluate([scores, moves, anchors], lambda *t: topi.vision.multibox_transform_loc(*t, True, 0.4))
    for b in range(2):
        rows = []
        for i in range(n):
            best = 1 + int(np.argmax(scores[b, 1:, i]))
            if scores[b, best, i] < np.float32(0.4):
                continue
            box, own = anchors[0, i].astype("float64"), moves[b, i * 4 : i * 4 + 4].astype("float64")
            size, middle = box[2:] - box[:2], (box[2:] + box[:2]) / 2
            centre, half = own[:2] * 0.1 * size + middle, np.exp(own[2:] * 0.2) * size / 2
            rows.append([best - 1, scores[b, best, i], *np.clip([*(centre - half), *(centre + half)], 0, 1)])
        assert counts[b] == len(rows)
        if rows:
            np.testing.assert_allclose(boxes[b, : len(rows)], np.array(rows), rtol=1e-4, atol=1e-5)
        assert (boxes[b, len(rows) :] == -1).all()
    found = evaluate([scores, moves, anchors], lambda *t: topi.vision.ssd.multibox_detection(*t, True, 0.4, 0.5))
    for b in range(2):
        kept, order = greedy(boxes[b], int(counts[b]), -1, 0.5, False, -1)
        for place in range(n):
            box = order[place] if place < len(order) else None
            np.testing.assert_array_equal(found[b, place], boxes[b, box] if box in kept else np.full(6, -1))


def test_multibox_keeps_the_background_as_a_class(rng):
    n, threshold = 9, np.float32(0.5)
    scores = rng.dirichlet(np.ones(3), (2, n)).transpose(0, 2, 1).astype("float32")
    anchors, moves = random_boxes(rng, 1, n), (rng.normal(size=(2, n * 4)) * 0.3).astype("float32")

    def boxes_of(least, keep):
        return evaluate(
            [scores, moves, anchors],
            lambda *t: topi.vision.multibox_transform_loc(*t, False, least, keep_background=keep),
        )

    kept, counts = boxes_of(threshold, True)
    best, score = scores.argmax(1), scores.max(1)
    np.testing.assert_array_equal(counts, [n, n])
    np.testing.assert_array_equal(kept[..., 0], np.where(score < threshold, 0, best))
    np.testing.assert_array_equal(kept[..., 1], score)
    np.testing.assert_array_equal(kept[..., 2:], boxes_of(0.0, False)[0][..., 2:])


def propose(scores, moves, info, scales, ratios, stride, threshold, pre, post, least):
    """The proposal layer, image by image, anchors as numbers."""
    out = []
    anchors = topi.vision.rcnn.anchor_sizes(scales, ratios, stride)
    count = len(anchors)
    for b in range(scores.shape[0]):
        rows = []
        for y, x in np.ndindex(*scores.shape[2:]):
            for a, anchor in enumerate(anchors):
                box = np.array(anchor) + np.array([x, y, x, y]) * stride
                move = moves[b, a * 4 : a * 4 + 4, y, x].astype("float64")
                size = box[2:] - box[:2] + 1
                middle = box[:2] + 0.5 * (size - 1)
                centre, new = move[:2] * size + middle, np.exp(move[2:]) * size
                found = np.concatenate([centre - 0.5 * (new - 1), centre + 0.5 * (new - 1)])
                found = np.clip(found, 0, np.array([info[b, 1], info[b, 0]] * 2) - 1)
                score = scores[b, count + a, y, x]
                if (found[2:] - found[:2] + 1 < least * info[b, 2]).any():
                    found, score = found + np.array([-1, -1, 1, 1]) * least * info[b, 2] / 2, -1.0
                if y >= int(info[b, 0] / stride) or x >= int(info[b, 1] / stride):
                    score = -1.0
                rows.append((score, found))
        order = sorted(range(len(rows)), key=lambda i: -rows[i][0])[:pre]
        kept = []
        for i in order:
            if len(kept) < post and all(overlap(rows[i][1], rows[j][1], 1.0) <= threshold for j in kept):
                kept.append(i)
        out += [[b, *rows[kept[n % len(kept)]][1]] for n in range(post)]
    return np.array(out)


def test_proposal(rng):
    scales, ratios, stride = (2.0, 4.0), (0.5, 1.0, 2.0), 8
    scores = rng.uniform(0, 1, (2, 12, 3, 4)).astype("float32")
    moves = (rng.normal(size=(2, 24, 3, 4)) * 0.2).astype("float32")
    info = np.array([[24, 32, 1], [20, 27, 1]], "float32")
    for pre, post in ((30, 10), (12, 16)):
        got = evaluate(
            [scores, moves, info],
            lambda *t: topi.vision.rcnn.proposal(*t, scales, ratios, stride, 0.6, pre, post, 6, False),
        )
        wanted = propose(scores, moves, info, scales, ratios, stride, 0.6, pre, post, 6)
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)
