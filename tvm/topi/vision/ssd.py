"""Anchors and detections of single-shot detectors (SSD)."""

from __future__ import annotations

import math
from collections.abc import Callable

from ... import te, tir
from ...error import ExprValueError
from ...ir import primop
from ...ir.prim import PrimExpr, const
from ...tir.ir_builder import create
from .. import tag
from ..assumptions import agree
from ..loops import INDEPENDENT, nest
from ..scan import cumsum
from ..utils import check_tensor, equal_const_int, get_const_int, get_const_tuple, get_float_tuple
from .nms import non_max_suppression, store_once


def multibox_prior(data, sizes=(1,), ratios=(1,), steps=(-1, -1), offsets=(0.5, 0.5), clip=False):
    """The anchors (1, n, 4) for an image of the size of ``data``: corners x1, y1, x2, y2 as fractions of the image.
    Each element has one box for each size with the first ratio, and one for each other ratio with the first size.

    Raises
    ------
    ExprValueError
        The data does not have 4 dimensions.
    """
    check_tensor(data, "multibox_prior")
    if len(data.shape) != 4:
        raise ExprValueError(f"multibox_prior: images must be (N, C, H, W), got {len(data.shape)} dimensions")
    height, width = get_const_tuple(data.shape[2:])
    dtype = data.dtype
    # Fractions of the image, in double precision for a constant size. An image without elements has no boxes.
    tall, wide = (max(side, 1) if isinstance(side, int) else primop.cast(dtype, side) for side in (height, width))
    sizes, ratios, steps, offsets = (get_float_tuple(v) for v in (sizes, ratios, steps, offsets))
    step_y, step_x = (own if own > 0 else 1.0 / side for own, side in zip(steps, (tall, wide)))
    halves = [(size * tall / wide / 2, size / 2) for size in sizes]
    halves += [(sizes[0] * tall / wide * math.sqrt(r) / 2, sizes[0] / math.sqrt(r) / 2) for r in ratios[1:]]
    count = len(halves)

    def element(_, box, side):
        kind, cell = box % count, box // count
        row = max(width, 1) if isinstance(width, int) else width
        centre_x = (primop.cast(dtype, cell % row) + const(offsets[1], dtype)) * _number(step_x, dtype)
        centre_y = (primop.cast(dtype, cell // row) + const(offsets[0], dtype)) * _number(step_y, dtype)
        half_x, half_y = (_chosen(kind, [pair[n] for pair in halves], dtype) for n in (0, 1))
        across = primop.equal(side % 2, 0)
        centre, half = tir.Select(across, centre_x, centre_y), tir.Select(across, half_x, half_y)
        value = tir.Select(side < 2, centre - half, centre + half)
        return te.max(te.min(value, const(1, dtype)), const(0, dtype)) if clip else value

    return te.compute((1, height * width * count, 4), element, name="T_multibox_prior", tag=tag.INJECTIVE)


def _number(value: float | PrimExpr, dtype: str) -> PrimExpr:
    return primop.cast(dtype, value) if isinstance(value, PrimExpr) else const(value, dtype)


def _chosen(which: PrimExpr, values: list[float | PrimExpr], dtype: str) -> PrimExpr:
    result = _number(values[-1], dtype)
    for n in reversed(range(len(values) - 1)):
        result = tir.Select(primop.equal(which, n), _number(values[n], dtype), result)
    return result


def _check_predictions(cls_prob, loc_pred, anchor) -> None:
    for tensor, rank in ((cls_prob, 3), (loc_pred, 2), (anchor, 3)):
        check_tensor(tensor, "multibox_transform_loc")
        if len(tensor.shape) != rank:
            raise ExprValueError(f"multibox_transform_loc: expected {rank} dimensions, got {len(tensor.shape)}")
    batch, classes, n = cls_prob.shape
    for own, whole in ((loc_pred.shape[0], batch), (loc_pred.shape[1], n * 4), (anchor.shape[1], n)):
        if not agree(own, whole, "offsets and anchors of the same size as the scores"):
            raise ExprValueError(
                f"multibox_transform_loc: sizes {own} of offsets or anchors and {n} of scores do not match"
            )
    if get_const_int(classes) < 2:
        raise ExprValueError("multibox_transform_loc: there must be at least one class besides the background")


def multibox_transform_loc(
    cls_prob,
    loc_pred,
    anchor,
    clip=True,
    threshold=0.01,
    variances=(0.1, 0.1, 0.2, 0.2),
    keep_background=False,
    *,
    gpu=None,
):
    """[boxes (batch, n, 6): class, score and corners of the anchors with a detection, in front, followed by -1; their
    number for each batch]. Class 0 of ``cls_prob`` (batch, classes, n) is the background, and the others count from 0.
    With ``keep_background`` the background is an ordinary class that includes scores below the threshold, so that all
    anchors have boxes.

    Raises
    ------
    ExprValueError
        A tensor has the wrong number of dimensions, or there is no class besides the background.
    """
    _check_predictions(cls_prob, loc_pred, anchor)
    batch, classes, n = cls_prob.shape
    dtype, spread = cls_prob.dtype, get_float_tuple(variances)
    first = 0 if keep_background else 1
    least = const(float(threshold), dtype)

    def sees(score):
        return const(True, "bool") if keep_background else score >= least

    def best_class(ib, scores, b, i):
        best = ib.allocate("int32", (1,), name="best", scope="local")
        best[0] = first
        with ib.for_range(first, classes, name="c") as c:
            with ib.if_scope(scores[b, c, i] > scores[b, best[0], i]):
                best[0] = c
        return best

    def put(ins, boxes, b, i, best, place):
        scores, moves, anchors = ins
        own = [anchors[0, i, side] for side in range(4)]
        shift = [moves[b, i * 4 + side] for side in range(4)]
        seen = tir.Select(scores[b, best, i] >= least, best, 0) if keep_background else best - 1
        boxes[b, place, 0] = primop.cast(dtype, seen)
        boxes[b, place, 1] = scores[b, best, i]
        for side, corner in enumerate(_moved(own, shift, spread, clip, dtype)):
            boxes[b, place, 2 + side] = corner

    inputs = [cls_prob, loc_pred, anchor]
    if gpu is not None and not equal_const_int(n, 0):
        return _boxes_on_gpu(inputs, sees, best_class, put, gpu)
    return _boxes_in_order(inputs, sees, best_class, put)


def _boxes_in_order(inputs: list, sees: Callable, best_class: Callable, put: Callable) -> list[te.Tensor]:
    """Compute ``multibox_transform_loc`` with a loop over the anchors that counts those with a detection."""
    (batch, _, n), dtype = inputs[0].shape, inputs[0].dtype

    def statement(ins, outs):
        ib = create()
        scores, moves, anchors, boxes, counts = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with ib.for_range(0, batch, name="b", annotations={INDEPENDENT: 1}) as b:
            found = ib.allocate("int32", (1,), name="found", scope="local")
            found[0] = 0
            with ib.for_range(0, n, name="i") as i:
                best = best_class(ib, scores, b, i)
                with ib.if_scope(sees(scores[b, best[0], i])):
                    put((scores, moves, anchors), boxes, b, i, best[0], found[0])
                    found[0] = found[0] + 1
            counts[b] = found[0]
            with ib.for_range(0, n - found[0], name="rest") as rest:
                for value in range(6):
                    boxes[b, found[0] + rest, value] = const(-1, dtype)
        return ib.get()

    return _boxes_and_counts(inputs, statement)


def _boxes_and_counts(inputs: list, statement: Callable) -> list[te.Tensor]:
    """Return the boxes and their number for each batch, computed by a statement from the scores and further inputs."""
    (batch, _, n), dtype = inputs[0].shape, inputs[0].dtype
    name = "multibox_transform_loc"
    return te.extern([(batch, n, 6), (batch,)], inputs, statement, dtype=[dtype, "int32"], name=name, tag=name)


def _boxes_on_gpu(inputs: list, sees: Callable, best_class: Callable, put: Callable, gpu) -> list[te.Tensor]:
    """Compute ``multibox_transform_loc`` with many threads: each anchor computes its position independently as the
    number of anchors with a detection before it."""
    (batch, _, n), dtype = inputs[0].shape, inputs[0].dtype

    def look(ins, outs):
        ib = create()
        scores, classes, seen = (ib.buffer_ptr(b) for b in (*ins, *outs))

        def one(i):
            best = best_class(ib, scores, i[0], i[1])
            classes[tuple(i)] = best[0]
            seen[tuple(i)] = primop.cast("int32", sees(scores[i[0], best[0], i[1]]))

        nest(ib, (batch, n), one, independent_axes=True)
        return ib.get()

    classes, seen = te.extern(
        [(batch, n), (batch, n)], inputs[:1], look, dtype=["int32", "int32"], name="seen", tag="seen"
    )
    before = cumsum(seen, 1, gpu=gpu)

    def move(ins, outs):
        ib = create()
        given, (best, marks, numbers) = [ib.buffer_ptr(b) for b in ins[:3]], [ib.buffer_ptr(b) for b in ins[3:]]
        boxes, counts = (ib.buffer_ptr(out) for out in outs)

        def one(i):
            b, box = i
            found = numbers[b, n - 1]
            with ib.if_scope(primop.not_equal(marks[b, box], 0)):
                put(given, boxes, b, box, best[b, box], numbers[b, box] - 1)
            with ib.if_scope(box >= found):
                for value in range(6):
                    boxes[b, box, value] = const(-1, dtype)
            store_once(ib, box, counts, b, found)

        nest(ib, (batch, n), one, independent_axes=True)
        return ib.get()

    return _boxes_and_counts([*inputs, classes, seen, before], move)


def _moved(anchor: list[PrimExpr], shift: list[PrimExpr], spread: tuple, clip: bool, dtype: str) -> list[PrimExpr]:
    half = const(0.5, dtype)
    factors = [const(value, dtype) for value in spread]
    corners = []
    for n in (0, 1):
        length, middle = anchor[n + 2] - anchor[n], (anchor[n] + anchor[n + 2]) * half
        centre = shift[n] * factors[n] * length + middle
        reach = te.exp(shift[n + 2] * factors[n + 2]) * length * half
        corners.append((centre - reach, centre + reach))
    box = [corners[0][0], corners[1][0], corners[0][1], corners[1][1]]
    if clip:
        box = [te.max(const(0, dtype), te.min(const(1, dtype), value)) for value in box]
    return box


def multibox_detection(
    cls_prob, loc_pred, anchor, clip=True, threshold=0.01, nms_threshold=0.5, force_suppress=False,
    variances=(0.1, 0.1, 0.2, 0.2), nms_topk=-1, *, gpu=None,
):  # fmt: skip
    """The detections (batch, n, 6): class, score and corners by descending score, -1 if suppressed."""
    boxes, counts = multibox_transform_loc(cls_prob, loc_pred, anchor, clip, threshold, variances, gpu=gpu)
    batch, n = boxes.shape[0], boxes.shape[1]
    places = te.compute((batch, n), lambda b, i: primop.cast("int32", i), name="places", tag=tag.INJECTIVE)
    return non_max_suppression(
        boxes, counts, places, -1, nms_threshold, force_suppress, nms_topk, 2, 1, 0, False, False, gpu=gpu
    )


__all__ = ["multibox_detection", "multibox_prior", "multibox_transform_loc"]
