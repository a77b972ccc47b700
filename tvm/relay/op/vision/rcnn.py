"""Region-of-interest operators."""

from __future__ import annotations

from .... import topi
from ..record import OPAQUE, OUT_ELEMWISE_FUSABLE, call, op
from ..reshape import ints


def _pair(size) -> tuple:
    size = ints(size)
    return size * 2 if len(size) == 1 else size


def _align_compute(attrs, inputs, out):
    function = topi.vision.roi_align_nchw if attrs.layout == "NCHW" else topi.vision.roi_align_nhwc
    return function(
        inputs[0],
        inputs[1],
        attrs.pooled_size,
        attrs.spatial_scale,
        attrs.mode,
        attrs.sample_ratio,
        attrs.aligned,
        attrs.weighted_max,
    )


@op("vision.roi_align", 2, pattern=OUT_ELEMWISE_FUSABLE, compute=_align_compute)
def roi_align(
    data,
    rois,
    pooled_size,
    spatial_scale,
    sample_ratio=-1,
    layout="NCHW",
    mode="avg",
    aligned=False,
    weighted_max=False,
):
    """Resample regions of interest to one size by interpolation.

    ``aligned`` measures coordinates from pixel centers; ``weighted_max`` takes the maximum of weighted neighbours, as
    ONNX does.

    Raises
    ------
    ValueError
        The layout is neither NCHW nor NHWC.
    """
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"roi_align: layout must be NCHW or NHWC, got '{layout}'")
    return call(
        "vision.roi_align",
        data,
        rois,
        pooled_size=_pair(pooled_size),
        spatial_scale=float(spatial_scale),
        sample_ratio=int(sample_ratio),
        layout=layout,
        mode=mode,
        aligned=bool(aligned),
        weighted_max=bool(weighted_max),
    )


@op(
    "vision.roi_pool",
    2,
    pattern=OUT_ELEMWISE_FUSABLE,
    compute=lambda attrs, inputs, out: topi.vision.roi_pool(
        inputs[0], inputs[1], attrs.pooled_size, attrs.spatial_scale, attrs.layout
    ),
)
def roi_pool(data, rois, pooled_size, spatial_scale, layout="NCHW"):
    """Pool regions of interest to one size by the maximum of each part.

    Raises
    ------
    ValueError
        The layout is neither NCHW nor NHWC.
    """
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"roi_pool: layout must be NCHW or NHWC, got '{layout}'")
    return call(
        "vision.roi_pool", data, rois, pooled_size=_pair(pooled_size), spatial_scale=float(spatial_scale), layout=layout
    )


def _proposal_compute(attrs, inputs, out, gpu=None):
    return topi.vision.proposal(
        *inputs,
        attrs.scales,
        attrs.ratios,
        attrs.feature_stride,
        attrs.threshold,
        attrs.rpn_pre_nms_top_n,
        attrs.rpn_post_nms_top_n,
        attrs.rpn_min_size,
        attrs.iou_loss,
        gpu=gpu,
    )


@op("vision.proposal", 3, pattern=OPAQUE, compute=_proposal_compute)
def proposal(
    cls_prob,
    bbox_pred,
    im_info,
    scales,
    ratios,
    feature_stride,
    threshold,
    rpn_pre_nms_top_n,
    rpn_post_nms_top_n,
    rpn_min_size,
    iou_loss,
):
    """Generate region proposals: move the anchors, clip them to the image, and keep the best ones."""
    return call(
        "vision.proposal",
        cls_prob,
        bbox_pred,
        im_info,
        scales=tuple(float(s) for s in scales),
        ratios=tuple(float(r) for r in ratios),
        feature_stride=int(feature_stride),
        threshold=float(threshold),
        rpn_pre_nms_top_n=int(rpn_pre_nms_top_n),
        rpn_post_nms_top_n=int(rpn_post_nms_top_n),
        rpn_min_size=int(rpn_min_size),
        iou_loss=bool(iou_loss),
    )
