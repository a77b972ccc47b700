"""Converters of box operators: anchors, non-maximum suppression, regions of interest."""

from __future__ import annotations

import math

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .table import Context, op


@op(
    "_contrib_MultiBoxPrior",
    "sizes:floats=(1,) ratios:floats=(1,) clip:bool=False steps:floats=(-1,-1) offsets:floats=(0.5,0.5)",
)
def multibox_prior(ctx, inputs, attrs):
    for name in ("sizes", "ratios", "steps", "offsets"):
        values = getattr(attrs, name)
        if not values or not all(map(math.isfinite, values)) or name in ("steps", "offsets") and len(values) != 2:
            raise TVMError(f"the attribute {name}={values} is not supported")
    ctx.spatial(inputs[0])
    return relay.vision.multibox_prior(inputs[0], attrs.sizes, attrs.ratios, attrs.steps, attrs.offsets, attrs.clip)


@op(
    "_contrib_MultiBoxDetection",
    "clip:bool=True threshold:float=0.01 background_id:int=0 nms_threshold:float=0.5"
    " force_suppress:bool=False variances:floats=(0.1,0.1,0.2,0.2) nms_topk:int=-1",
)
def multibox_detection(ctx, inputs, attrs):
    if attrs.background_id != 0:
        raise TVMError(f"the attribute background_id={attrs.background_id} is not supported; it must be 0")
    if len(attrs.variances) != 4:
        raise TVMError(f"the attribute variances={attrs.variances} must have 4 elements")
    boxes, count = relay.vision.multibox_transform_loc(
        *inputs, clip=attrs.clip, threshold=attrs.threshold, variances=attrs.variances
    )
    places = relay.zeros((ctx.known_size(inputs[0], 0), ctx.known_size(inputs[0], 2)), "int32")
    return relay.vision.non_max_suppression(
        boxes,
        count,
        places,
        -1,
        attrs.nms_threshold,
        force_suppress=attrs.force_suppress,
        top_k=attrs.nms_topk,
        coord_start=2,
        score_index=1,
        id_index=0,
        return_indices=False,
        invalid_to_bottom=False,
    )


# -- box arithmetic ---------------------------------------------------------------------------------------------------


def _columns(x: RelayExpr, first: int, count: int = 4) -> list[RelayExpr]:
    return [relay.strided_slice(x, [first + k], [first + k + 1], [1], [-1]) for k in range(count)]


def _corners(ctx: Context, x: RelayExpr, first: int) -> list[RelayExpr]:
    """Convert boxes given by center and size to corners."""
    cx, cy, w, h = _columns(x, first)
    half = ctx.like(0.5, x)
    dx, dy = relay.multiply(w, half), relay.multiply(h, half)
    return [relay.subtract(cx, dx), relay.subtract(cy, dy), relay.add(cx, dx), relay.add(cy, dy)]


def _middles(ctx: Context, x: RelayExpr, first: int) -> list[RelayExpr]:
    left, top, right, bottom = _columns(x, first)
    half = ctx.like(0.5, x)
    return [
        relay.multiply(relay.add(left, right), half),
        relay.multiply(relay.add(top, bottom), half),
        relay.subtract(right, left),
        relay.subtract(bottom, top),
    ]


def _replaced(ctx: Context, x: RelayExpr, first: int, columns: list[RelayExpr]) -> RelayExpr:
    size = ctx.known_size(x, ctx.rank(x) - 1)
    parts = [relay.strided_slice(x, [0], [first], [1], [-1])] if first else []
    parts += columns
    end = first + len(columns)
    parts += [relay.strided_slice(x, [end], [size], [1], [-1])] if end < size else []
    return ctx.made(relay.concatenate(parts, -1))


@op(
    "_contrib_box_nms",
    "overlap_thresh:float=0.5 valid_thresh:float=0 topk:int=-1 coord_start:int=2 score_index:int=1"
    " id_index:int=-1 background_id:int=-1 force_suppress:bool=False in_format:center|corner=corner"
    " out_format:center|corner=corner",
)
def box_nms(ctx, inputs, attrs):
    """Apply non-maximum suppression. The output starts with the remaining boxes, best first; the other rows are -1."""
    x = inputs[0]
    dims = ctx.known_shape(x)
    size = dims[-1]
    if len(dims) < 2 or not 0 <= attrs.coord_start <= size - 4 or not 0 <= attrs.score_index < size:
        raise TVMError(
            f"coord_start={attrs.coord_start} and score_index={attrs.score_index} are out of range for shape {dims}"
        )
    if not -1 <= attrs.id_index < size:
        raise TVMError(f"the attribute id_index={attrs.id_index} is out of range for shape {dims}")
    x = ctx.made(relay.reshape(x, (-1, *dims[-2:])))
    if attrs.id_index >= 0 and attrs.background_id >= 0:
        kind, score = _columns(x, attrs.id_index, 1)[0], _columns(x, attrs.score_index, 1)[0]
        lowest = ctx.like(-3e38, x)
        x = _replaced(
            ctx, x, attrs.score_index, [relay.where(relay.equal(kind, ctx.like(attrs.background_id, x)), lowest, score)]
        )
    if attrs.in_format == "center":
        x = _replaced(ctx, x, attrs.coord_start, _corners(ctx, x, attrs.coord_start))
    count, boxes, places = relay.vision.get_valid_counts(x, attrs.valid_thresh, attrs.id_index, attrs.score_index)
    out = relay.vision.non_max_suppression(
        boxes,
        count,
        places,
        -1,
        attrs.overlap_thresh,
        force_suppress=attrs.force_suppress or attrs.id_index < 0,
        top_k=attrs.topk,
        coord_start=attrs.coord_start,
        score_index=attrs.score_index,
        id_index=attrs.id_index,
        return_indices=False,
        invalid_to_bottom=True,
    )
    out = ctx.made(out)
    if attrs.out_format == "center":
        gone = relay.less(_columns(out, attrs.score_index, 1)[0], ctx.like(0, out))
        middles = _middles(ctx, out, attrs.coord_start)
        minus = ctx.like(-1, out)
        out = _replaced(ctx, out, attrs.coord_start, [relay.where(gone, minus, m) for m in middles])
    return relay.reshape(out, dims)


@op("_contrib_box_iou", "format:center|corner=corner")
def box_iou(ctx, inputs, attrs):
    """Return the intersection over union (IoU) of each box of one list with each box of another list."""
    dims = [ctx.known_shape(x)[:-1] for x in inputs]
    if any(ctx.known_size(x, ctx.rank(x) - 1) != 4 for x in inputs):
        raise TVMError("the last axis of boxes must have 4 elements")
    sides = []
    for k, x in enumerate(inputs):
        flat = ctx.made(relay.reshape(x, (-1, 4)))
        box = _corners(ctx, flat, 0) if attrs.format == "center" else _columns(flat, 0)
        sides.append([relay.reshape(c, (-1, 1) if k == 0 else (1, -1)) for c in box])
    (l, t, r, b), (l2, t2, r2, b2) = sides
    zero = ctx.like(0, inputs[0])
    width = relay.maximum(relay.subtract(relay.minimum(r, r2), relay.maximum(l, l2)), zero)
    height = relay.maximum(relay.subtract(relay.minimum(b, b2), relay.maximum(t, t2)), zero)
    shared = relay.multiply(width, height)
    areas = [
        relay.multiply(relay.subtract(x2, x1), relay.subtract(y2, y1))
        for x1, y1, x2, y2 in ((l, t, r, b), (l2, t2, r2, b2))
    ]
    whole = relay.subtract(relay.add(*areas), shared)
    some = relay.greater(whole, zero)
    out = relay.where(
        some, relay.divide(shared, relay.where(some, whole, relay.ones_like(whole))), relay.zeros_like(whole)
    )
    return relay.reshape(out, (*dims[0], *dims[1]))


@op(
    "_contrib_box_decode",
    "std0:float=1 std1:float=1 std2:float=1 std3:float=1 clip:float=-1 format:center|corner=center",
)
def box_decode(ctx, inputs, attrs):
    """Decode predicted offsets relative to anchors into box corners."""
    x, anchors = inputs
    own = _columns(anchors, 0) if attrs.format == "center" else _middles(ctx, anchors, 0)
    ax, ay, aw, ah = own
    dx, dy, dw, dh = (
        relay.multiply(c, ctx.like(s, x))
        for c, s in zip(_columns(x, 0), (attrs.std0, attrs.std1, attrs.std2, attrs.std3))
    )
    if attrs.clip > 0:
        dw, dh = (relay.minimum(d, ctx.like(attrs.clip, x)) for d in (dw, dh))
    half = ctx.like(0.5, x)
    w, h = (relay.multiply(relay.multiply(relay.exp(d), a), half) for d, a in ((dw, aw), (dh, ah)))
    cx, cy = (relay.add(relay.multiply(d, size), at) for d, size, at in ((dx, aw, ax), (dy, ah, ay)))
    return relay.concatenate([relay.subtract(cx, w), relay.subtract(cy, h), relay.add(cx, w), relay.add(cy, h)], -1)


# -- regions of interest ----------------------------------------------------------------------------------------------


def _pair(values, what: str) -> tuple[int, int]:
    if len(values) != 2 or any(v is None or not 0 < v < 1 << 16 for v in values):
        raise TVMError(f"the attribute {what}={values} must have 2 positive elements")
    return tuple(values)


@op(
    "_contrib_ROIAlign",
    "pooled_size:dims spatial_scale:float sample_ratio:int=-1 position_sensitive:bool=False aligned:bool=False",
)
def roi_align(ctx, inputs, attrs):
    if attrs.position_sensitive:
        raise TVMError("the attribute position_sensitive=True is not supported")
    return relay.vision.roi_align(
        inputs[0],
        inputs[1],
        _pair(attrs.pooled_size, "pooled_size"),
        attrs.spatial_scale,
        attrs.sample_ratio,
        mode="avg",
        aligned=attrs.aligned,
    )


@op("ROIPooling", "pooled_size:dims spatial_scale:float")
def roi_pooling(ctx, inputs, attrs):
    return relay.vision.roi_pool(inputs[0], inputs[1], _pair(attrs.pooled_size, "pooled_size"), attrs.spatial_scale)


@op(
    "_contrib_Proposal _contrib_MultiProposal",
    "rpn_pre_nms_top_n:int=6000 rpn_post_nms_top_n:int=300"
    " threshold:float=0.7 rpn_min_size:int=16 scales:floats=(4,8,16,32) ratios:floats=(0.5,1,2)"
    " feature_stride:int=16 output_score:bool=False iou_loss:bool=False",
)
def proposal(ctx, inputs, attrs):
    if attrs.output_score:
        raise TVMError("the attribute output_score=True is not supported")
    if attrs.feature_stride < 1 or attrs.rpn_post_nms_top_n < 1 or not attrs.scales or not attrs.ratios:
        raise TVMError(
            "the attributes feature_stride, rpn_post_nms_top_n, scales and ratios must be positive or non-empty"
        )
    _, kinds, height, width = ctx.known_shape(inputs[0])
    anchors = len(attrs.scales) * len(attrs.ratios)
    if kinds != 2 * anchors:
        raise TVMError(f"{kinds} score channels do not match {anchors} anchors; expected 2 for each anchor")
    total = anchors * height * width
    best = min(attrs.rpn_pre_nms_top_n if attrs.rpn_pre_nms_top_n > 0 else total, total)
    return relay.vision.proposal(
        *inputs,
        attrs.scales,
        attrs.ratios,
        attrs.feature_stride,
        attrs.threshold,
        best,
        attrs.rpn_post_nms_top_n,
        attrs.rpn_min_size,
        attrs.iou_loss,
    )
