"""Regions of interest: ROI align, ROI pooling, and proposals from anchors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import te, tir
from ...error import ExprValueError
from ...ir import primop
from ...ir.prim import PrimExpr, const
from ...tir.ir_builder import create
from ..assumptions import agree, refuse_empty
from ..loops import nest
from ..sort import merge_sort, sorted_parts
from ..utils import check_tensor, get_const_int, simplify
from .boxes import crew, overlap, suppress


def _mode(mode: Any) -> str:
    """Return the name of a mode, given its name or its index."""
    names = ("avg", "max")
    text = mode.decode() if isinstance(mode, bytes) else names[mode] if mode in (0, 1) else str(mode)
    if text not in names:
        raise ExprValueError(f"roi_align: mode must be avg or max (0 or 1), got '{text}'")
    return text


def _pooled(pooled_size: Any) -> tuple[int, int]:
    values = [pooled_size] * 2 if isinstance(pooled_size, int) else [get_const_int(v) for v in pooled_size]
    return values[0], values[1]


def _check_rois(data: Any, rois: Any, what: str, *wanted: int) -> None:
    """Check images and regions; the ``wanted`` dimensions must not be empty."""
    check_tensor(data, what), check_tensor(rois, what)
    if len(data.shape) != 4:
        raise ExprValueError(f"{what}: images must have 4 dimensions, got {len(data.shape)}")
    if len(rois.shape) != 2 or get_const_int(rois.shape[1]) != 5:
        raise ExprValueError(f"{what}: regions must be rows of (image, x1, y1, x2, y2), got {list(rois.shape)}")
    for place in wanted:
        refuse_empty(data.shape[place], rois.shape, what)


def _neighbours(read: Callable, y: PrimExpr, x: PrimExpr, height: PrimExpr, width: PrimExpr) -> list[PrimExpr]:
    """Return the four elements around a position, each multiplied by its weight; zero if the position is more than one
    element outside the image."""
    dtype = y.dtype
    one = const(1, dtype)

    def along(at, size):
        at = te.max(at, const(0, dtype))
        # Apply both bounds, so that a NaN position is inside too.
        low = te.max(te.min(primop.cast("int32", at), size - 1), 0)
        high = te.min(low + 1, size - 1)
        share = tir.Select(low >= size - 1, const(0, dtype), at - primop.cast(dtype, low))
        return (low, one - share), (high, share)

    edge = const(-1.0, dtype)
    outside = tir.any(y < edge, y > primop.cast(dtype, height), x < edge, x > primop.cast(dtype, width))
    near_y = te.min(te.max(y, edge), primop.cast(dtype, height))
    near_x = te.min(te.max(x, edge), primop.cast(dtype, width))
    parts = []
    for row, row_weight in along(near_y, height):
        for column, column_weight in along(near_x, width):
            weight = tir.Select(outside, const(0, dtype), row_weight * column_weight)
            parts.append(read(row, column) * weight)
    return parts


def _roi_align(data, rois, pooled_size, spatial_scale, mode, sample_ratio, at: int, aligned: bool, weighted_max: bool):
    _check_rois(data, rois, "roi_align", 0, at, at + 1)
    mode = _mode(mode)
    pooled = _pooled(pooled_size)
    sample_ratio = get_const_int(sample_ratio)
    channel = 1 if at == 2 else 3
    images, height, width = data.shape[0], data.shape[at], data.shape[at + 1]
    dtype = data.dtype
    shape = list(data.shape)
    shape[0], shape[at], shape[at + 1] = rois.shape[0], *pooled

    def statement(ins, outs):
        ib = create()
        source, regions, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])

        def region(indices):
            (roi,) = indices
            image = te.max(te.min(primop.cast("int32", regions[roi, 0]), images - 1), 0)
            bins, starts, grids = [], [], []
            for n, side in enumerate(("h", "w")):
                begin, end = (_edge(regions[roi, 2 - n + 2 * last], spatial_scale, aligned, dtype) for last in (0, 1))
                length = end - begin if aligned else te.max(end - begin, const(1.0, dtype))
                size = ib.allocate(dtype, (2,), name=f"bin_{side}", scope="local")
                size[0], size[1] = length * const(1.0 / pooled[n], dtype), begin
                bins.append(size[0]), starts.append(size[1])
                grids.append(const(sample_ratio, "int32") if sample_ratio > 0 else _samples(size[0]))
            total = ib.allocate(dtype, (1,), name="total", scope="local")

            def element(inner):
                c, ph, pw = inner
                ranges = [(const(0, "int32"), grid) for grid in grids]
                if sample_ratio <= 0:
                    rows = zip(starts, bins, (ph, pw), grids, (height, width))
                    ranges = [_samples_inside(ib, *row) for row in rows]
                counts = [te.max(last - first, 0) for first, last in ranges]
                # Samples outside the image are zero: a mean excludes them, and a maximum starts with one.
                some_outside = tir.any(counts[0] < grids[0], counts[1] < grids[1])
                none = tir.Select(some_outside, const(0, dtype), te.min_value(dtype))
                total[0] = const(0, dtype) if mode == "avg" else none
                with ib.for_range(0, counts[0], name="iy") as iy, ib.for_range(0, counts[1], name="ix") as ix:
                    rows = zip(starts, bins, (ph, pw), (iy, ix), grids, ranges)
                    places = [_place(start, size, p, first + i, grid) for start, size, p, i, grid, (first, _) in rows]

                    def read(row, column):
                        return source[(image, c, row, column) if channel == 1 else (image, row, column, c)]

                    parts = _neighbours(read, places[0], places[1], height, width)
                    _collect(total, parts, mode, weighted_max)
                # Divide by one axis after the other, because the product may exceed the dtype.
                share = [primop.cast(dtype, te.max(grid, 1)) for grid in grids]
                value = total[0] / share[0] / share[1] if mode == "avg" else total[0]
                where = (roi, c, ph, pw) if channel == 1 else (roi, ph, pw, c)
                result[where] = tir.Select(tir.all(grids[0] > 0, grids[1] > 0), value, const(0, dtype))

            nest(ib, [data.shape[channel], *pooled], element)

        nest(ib, [rois.shape[0]], region, independent_axes=True)
        return ib.get()

    return te.extern([tuple(shape)], [data, rois], statement, dtype=dtype, name="roi_align", tag="roi_align")


def _place(start: PrimExpr, size: PrimExpr, number: PrimExpr, sample: PrimExpr, samples: PrimExpr) -> PrimExpr:
    """Return the coordinate of a sample in a bin, at the center of its share of the bin."""
    dtype = size.dtype
    share = (primop.cast(dtype, sample) + const(0.5, dtype)) / primop.cast(dtype, samples)
    return start + size * (primop.cast(dtype, number) + share)


def _samples(size: PrimExpr) -> PrimExpr:
    """Return the number of samples of a bin along one axis: one for each element of its width. Regions are data and may
    be arbitrarily large or NaN; beyond the limit a float cannot distinguish the positions of samples."""
    limit = const(1 << 15 if size.dtype == "float16" else 1 << 20, size.dtype)
    wanted = te.ceil(size)
    return primop.cast("int32", tir.Select(wanted > const(0, size.dtype), te.min(wanted, limit), const(0, size.dtype)))


def _samples_inside(ib, start, size, p, grid, extent) -> tuple[PrimExpr, PrimExpr]:
    """Return the first sample of bin ``p`` that can touch the image and the one after the last. Samples are at least
    half an element apart, so that the image bounds their number for any size of the region."""
    dtype = size.dtype
    zero, count = const(0, dtype), primop.cast(dtype, grid)

    def at(place, spare: int):
        number = ((place - start) / size - primop.cast(dtype, p)) * count + const(spare, dtype)
        # NaN fails both comparisons and becomes the first sample.
        within = tir.Select(number > zero, tir.Select(number < count, number, count), zero)
        return primop.cast("int32", within)

    ends = ib.allocate("int32", (2,), name="samples", scope="local")
    # The rounding error of a bound is smaller than the margin of samples.
    ends[0] = at(const(-1.0, dtype), -4)
    ends[1] = at(primop.cast(dtype, extent), 4)
    return ends[0], ends[1]


def _edge(value: PrimExpr, scale: float, aligned: bool, dtype: str) -> PrimExpr:
    place = primop.cast(dtype, value) * const(float(scale), dtype)
    return place - const(0.5, dtype) if aligned else place


def _collect(total, parts: list[PrimExpr], mode: str, weighted_max: bool) -> None:
    if mode == "max" and weighted_max:
        for part in parts:
            total[0] = te.max(total[0], part)
        return
    value = parts[0] + parts[1] + parts[2] + parts[3]
    total[0] = total[0] + value if mode == "avg" else te.max(total[0], value)


def roi_align_nchw(data, rois, pooled_size, spatial_scale, mode, sample_ratio=-1, aligned=False, weighted_max=False):
    """Each region (image, x1, y1, x2, y2) as ``pooled_size`` bins. Each bin is the mean (or maximum) of interpolated
    samples: ``sample_ratio`` in a row, or as many as the width of the bin in elements.

    ``aligned`` measures positions from the center of elements, and allows regions smaller than one element.
    ``weighted_max`` takes the maximum of the four weighted neighbours of each sample, as ONNX does.
    """
    return _roi_align(data, rois, pooled_size, spatial_scale, mode, sample_ratio, 2, aligned, weighted_max)


def roi_align_nhwc(data, rois, pooled_size, spatial_scale, mode, sample_ratio=-1, aligned=False, weighted_max=False):
    """roi_align_nchw with channels last."""
    return _roi_align(data, rois, pooled_size, spatial_scale, mode, sample_ratio, 1, aligned, weighted_max)


def roi_pool_nchw(data, rois, pooled_size, spatial_scale):
    """``roi_pool`` for data with channels first."""
    return roi_pool(data, rois, pooled_size, spatial_scale)


def roi_pool(data, rois, pooled_size, spatial_scale, layout="NCHW"):
    """Each region (image, x1, y1, x2, y2) as ``pooled_size`` bins. Each bin is the maximum of its elements, or 0
    without elements."""
    # Bins of an image without elements are empty, but there must be at least one image.
    _check_rois(data, rois, "roi_pool", layout.index("N"))
    pooled = _pooled(pooled_size)
    images, channels, height, width = (data.shape[layout.index(c)] for c in "NCHW")
    dtype = data.dtype

    def stored(n, c, y, x):
        return (n, c, y, x) if layout == "NCHW" else (n, y, x, c)

    def statement(ins, outs):
        ib = create()
        source, regions, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(ins[1]), ib.buffer_ptr(outs[0])

        def span(roi, n, p, size):
            """Return the first and last index of a bin along one axis."""
            scale = const(float(spatial_scale), dtype)
            begin = primop.cast("int32", te.round(regions[roi, 2 - n] * scale))
            end = primop.cast("int32", te.round(regions[roi, 4 - n] * scale))
            length = primop.cast(dtype, te.max(end - begin + 1, 1))
            share = length * const(1.0 / pooled[n], dtype)
            # Bins that meet at an element boundary must do so despite rounding.
            nudge = const(1e-5, dtype)
            low = primop.cast("int32", te.floor(primop.cast(dtype, p) * share + nudge))
            high = primop.cast("int32", te.ceil(primop.cast(dtype, p + 1) * share - nudge))
            return tuple(te.max(te.min(edge + begin, size), 0) for edge in (low, high))

        def element(indices):
            roi, c, ph, pw = indices if layout == "NCHW" else [indices[i] for i in (0, 3, 1, 2)]
            best = ib.allocate(dtype, (1,), name="best", scope="local")
            image = te.max(te.min(primop.cast("int32", regions[roi, 0]), images - 1), 0)
            rows, columns = span(roi, 0, ph, height), span(roi, 1, pw, width)
            empty = tir.any(rows[1] <= rows[0], columns[1] <= columns[0])
            best[0] = tir.Select(empty, const(0, dtype), te.min_value(dtype))
            with ib.for_range(0, te.max(rows[1] - rows[0], 0), name="y") as y:
                with ib.for_range(0, te.max(columns[1] - columns[0], 0), name="x") as x:
                    best[0] = te.max(best[0], source[stored(image, c, rows[0] + y, columns[0] + x)])
            result[stored(roi, c, ph, pw)] = best[0]

        nest(ib, list(shape), element, independent_axes=True)
        return ib.get()

    shape = stored(rois.shape[0], channels, *pooled)
    return te.extern([shape], [data, rois], statement, dtype=dtype, name="roi_pool", tag="roi_pool")


# --- proposals -----------------------------------------------------------------------------------------------------


def anchor_sizes(scales, ratios, feature_stride: int) -> list[tuple[float, float, float, float]]:
    """Return the corners of the anchors of the first cell: boxes with the cell's area in each ratio, in each scale."""
    side, middle = float(feature_stride), (feature_stride - 1) * 0.5
    anchors = []
    for ratio in ratios:
        base = math.floor(math.sqrt(side * side / ratio) + 0.5)
        for scale in scales:
            width = base * scale
            height = math.floor(base * ratio + 0.5) * scale
            anchors.append(
                (middle - 0.5 * (width - 1), middle - 0.5 * (height - 1), middle + 0.5 * (width - 1),
                 middle + 0.5 * (height - 1))
            )  # fmt: skip
    return anchors


def _predicted(anchor: list, move: list[PrimExpr], iou_loss: bool, dtype: str) -> list[PrimExpr]:
    """Return the corners of an anchor moved by a predicted offset."""
    if iou_loss:
        return [corner + shift for corner, shift in zip(anchor, move)]
    one, half = const(1.0, dtype), const(0.5, dtype)
    width, height = anchor[2] - anchor[0] + one, anchor[3] - anchor[1] + one
    middle_x, middle_y = anchor[0] + half * (width - one), anchor[1] + half * (height - one)
    new_x, new_y = move[0] * width + middle_x, move[1] * height + middle_y
    new_width, new_height = te.exp(move[2]) * width, te.exp(move[3]) * height
    return [
        new_x - half * (new_width - one), new_y - half * (new_height - one),
        new_x + half * (new_width - one), new_y + half * (new_height - one),
    ]  # fmt: skip


def _check_proposals(cls_prob, bbox_pred, im_info, anchors: int) -> None:
    for tensor in (cls_prob, bbox_pred, im_info):
        check_tensor(tensor, "proposal")
    batch, channels, height, width = cls_prob.shape
    for own, whole in ((bbox_pred.shape[0], batch), (im_info.shape[0], batch), (bbox_pred.shape[2], height),
                       (bbox_pred.shape[3], width)):  # fmt: skip
        if not agree(own, whole, "offsets and images of the same size as the scores"):
            raise ExprValueError(f"proposal: sizes {own} and {whole} of the scores do not match")
    if get_const_int(channels) != 2 * anchors:
        raise ExprValueError(f"proposal: scores must have 2 channels for each of {anchors} anchors, got {channels}")


def proposal(
    cls_prob, bbox_pred, im_info, scales, ratios, feature_stride, threshold, rpn_pre_nms_top_n, rpn_post_nms_top_n,
    rpn_min_size, iou_loss, *, gpu=None,
):  # fmt: skip
    """The regions (image, x1, y1, x2, y2) by descending score from the predictions of a region proposal network. If
    there are fewer than ``rpn_post_nms_top_n``, the selected regions are repeated.

    Raises
    ------
    ExprValueError
        The scores do not have two channels for each anchor.
    """
    anchors = anchor_sizes([float(s) for s in scales], [float(r) for r in ratios], get_const_int(feature_stride))
    _check_proposals(cls_prob, bbox_pred, im_info, len(anchors))
    batch, _, height, width = cls_prob.shape
    n = simplify(height * width * len(anchors))
    post, dtype = get_const_int(rpn_post_nms_top_n), cls_prob.dtype
    pre = get_const_int(rpn_pre_nms_top_n)

    considered = te.min(n, pre) if pre > 0 else n

    def cell(ib, ins, b, y, x, keys, corners, row=()):
        scores, moves, info = (ib.buffer_ptr(buffer) for buffer in ins)
        found = (scores, moves, info, anchors, cls_prob.shape, feature_stride, rpn_min_size, iou_loss)
        _predict(ib, b, y, x, *found, keys, corners, dtype, row)

    def too_near(box):
        return lambda i, j: overlap(box(i), box(j), 1.0) > const(float(threshold), dtype)

    if gpu is not None:
        return _proposal_on_gpu([cls_prob, bbox_pred, im_info], n, considered, post, cell, too_near, gpu)

    def statement(ins, outs):
        ib = create()
        result = ib.buffer_ptr(outs[0])

        def image(indices):
            (b,) = indices
            keys, places = ib.allocate(dtype, (n * 2,), name="keys"), ib.allocate("int32", (n * 2,), name="places")
            corners = ib.allocate(dtype, (n, 4), name="corners")
            nest(ib, [height, width], lambda i: cell(ib, ins, b, i[0], i[1], keys, corners))
            alive, kept_boxes = ib.allocate("int32", (n,), name="alive"), ib.allocate("int32", (post,), name="chosen")
            with ib.for_range(0, n, name="i") as i:
                alive[i] = 1
                places[i] = i
            begin = merge_sort(ib, keys, places, n, False)

            def box(i):
                return [corners[places[begin + i], side] for side in range(4)]

            def keep(i, number):
                kept_boxes[number] = places[begin + i]

            kept = suppress(ib, considered, alive, const(post, "int32"), too_near(box), keep)
            with ib.for_range(0, post, name="row") as row:
                chosen = kept_boxes[row % te.max(kept[0], 1)]
                result[b * post + row, 0] = primop.cast(dtype, b)
                for side in range(4):
                    result[b * post + row, side + 1] = corners[chosen, side]

        nest(ib, [batch], image, independent_axes=True)
        return ib.get()

    return te.extern(
        [(simplify(batch * post), 5)], [cls_prob, bbox_pred, im_info], statement, dtype=dtype, name="proposal",
        tag="proposal",
    )  # fmt: skip


def _proposal_on_gpu(inputs: list, n, considered, post: int, cell: Callable, too_near: Callable, gpu) -> te.Tensor:
    """Compute ``proposal`` with many threads: one predicts the boxes of a cell, all sort, and a block for each image
    suppresses."""
    (batch, _, height, width), dtype = inputs[0].shape, inputs[0].dtype

    def predict(ins, outs):
        ib = create()
        keys, corners = (ib.buffer_ptr(out) for out in outs)

        def one(i):
            b, y, x = i
            cell(ib, ins, b, y, x, keys, corners, (b,))

        nest(ib, [batch, height, width], one, independent_axes=True)
        return ib.get()

    keys, corners = te.extern(
        [(batch, n), (batch, n, 4)], inputs, predict, dtype=[dtype, dtype], name="predicted", tag="predicted"
    )
    (order,) = sorted_parts(keys, 1, False, considered, {"indices": "int32"}, gpu=gpu)

    def choose(ins, outs):
        ib = create()
        sides, sequence, chosen, counts = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
        alive = ib.allocate("int32", (batch, considered), name="alive")
        workers = crew(ib, batch, gpu)
        with workers.item() as b:
            with workers.each(considered, "i") as i:
                alive[b, i] = 1
            workers.wait()

            def keep(i, number):
                chosen[b, number] = sequence[b, i]

            near = too_near(lambda i: [sides[b, sequence[b, i], side] for side in range(4)])
            kept = suppress(ib, considered, alive, const(post, "int32"), near, keep, workers, (b,))
            with workers.one():
                counts[b] = kept[0]
        return ib.get()

    chosen, counts = te.extern(
        [(batch, post), (batch,)], [corners, order], choose, dtype=["int32", "int32"], name="chosen", tag="chosen"
    )

    def put(ins, outs):
        ib = create()
        sides, boxes, kept, result = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))

        def one(i):
            b, row = i
            box = ib.let("box", boxes[b, te.indexmod(row, te.max(kept[b], 1))])
            result[b * post + row, 0] = primop.cast(dtype, b)
            for side in range(4):
                result[b * post + row, side + 1] = sides[b, box, side]

        nest(ib, [batch, post], one, independent_axes=True)
        return ib.get()

    shape = (simplify(batch * post), 5)
    return te.extern([shape], [corners, chosen, counts], put, dtype=dtype, name="proposal", tag="proposal")


def _predict(
    ib, b, y, x, scores, moves, info, anchors, shape, feature_stride, min_size, iou_loss, keys, corners, dtype, row=()
) -> None:
    """Compute boxes and scores of all anchors of a cell of an image (those of ``row``). A box that is too small, or of
    a cell outside the image, gets the score -1."""
    count, width = len(anchors), shape[3]
    zero, one, half = const(0.0, dtype), const(1.0, dtype), const(0.5, dtype)
    for a, anchor in enumerate(anchors):
        at = (*row, (y * width + x) * count + a)
        steps = [primop.cast(dtype, (x, y)[side % 2] * feature_stride) for side in range(4)]
        own = [const(corner, dtype) + step for corner, step in zip(anchor, steps)]
        found = _predicted(own, [moves[b, a * 4 + side, y, x] for side in range(4)], iou_loss, dtype)
        least = const(float(min_size), dtype) * info[b, 2]
        for side in range(4):
            last = info[b, 1 - side % 2] - one
            corners[(*at, side)] = te.max(te.min(found[side], last), zero)
        keys[at] = scores[b, count + a, y, x]
        real = [primop.cast("int32", info[b, place] / const(float(feature_stride), dtype)) for place in (0, 1)]
        small = tir.any(*[corners[(*at, side + 2)] - corners[(*at, side)] + one < least for side in (0, 1)])
        with ib.if_scope(small):
            for side in range(4):
                shift = -least * half if side < 2 else least * half
                corners[(*at, side)] = corners[(*at, side)] + shift
            keys[at] = const(-1.0, dtype)
        with ib.if_scope(tir.any(y >= real[0], x >= real[1])):
            keys[at] = const(-1.0, dtype)


__all__ = ["anchor_sizes", "proposal", "roi_align_nchw", "roi_align_nhwc", "roi_pool_nchw"]
