"""Converters of torchvision's operators."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ..common.deformable import masked_deformable
from .table import op


@op("torchvision::nms")
def nms(ctx, dets, scores, iou_threshold):
    """Return the indices of the best boxes; their number is known at run time."""
    count = ctx.size(dets, 0)
    data = relay.expand_dims(relay.concatenate([relay.expand_dims(scores, 1), dets], 1), 0)
    size = ctx.tensor(count, "int32")
    places = relay.expand_dims(relay.arange(const(0, "int32"), size, const(1, "int32"), "int32"), 0)
    found = relay.vision.non_max_suppression(
        data,
        relay.reshape(size, (1,)),
        places,
        max_output_size=-1,
        iou_threshold=float(iou_threshold),
        force_suppress=True,
        top_k=-1,
        coord_start=1,
        score_index=0,
        id_index=-1,
        return_indices=True,
        invalid_to_bottom=False,
    )
    kept, counted = found[0], found[1]
    first = relay.reshape(kept, (-1,))
    stop = relay.reshape(relay.cast(counted, "int64"), (1,))
    return relay.cast(relay.strided_slice(first, const([0], "int64"), stop, const([1], "int64"), [0]), "int64")


@op("torchvision::roi_align")
def roi_align(ctx, self, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return relay.vision.roi_align(
        self, rois, (pooled_height, pooled_width), float(spatial_scale), int(sampling_ratio), aligned=bool(aligned)
    )


@op("torchvision::roi_pool")
def roi_pool(ctx, self, rois, spatial_scale, pooled_height, pooled_width):
    if ctx.wants(1):
        raise TVMError("the indices of the maxima are not supported")
    made = relay.vision.roi_pool(self, rois, (pooled_height, pooled_width), float(spatial_scale))
    return made, const(0, "int64")


@op("torchvision::deform_conv2d")
def deform_conv2d(
    ctx,
    self,
    weight,
    offset,
    mask,
    bias,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    groups,
    offset_groups,
    use_mask,
):
    window = {"strides": (stride_h, stride_w), "padding": (pad_h, pad_w), "dilation": (dilation_h, dilation_w),
              "deformable_groups": offset_groups}  # fmt: skip
    if use_mask:
        return relay.nn.bias_add(masked_deformable(ctx, self, offset, mask, weight, groups, **window), bias)
    outputs, _, *kernel = ctx.known_shape(weight)
    out = relay.nn.deformable_conv2d(self, offset, weight, groups=groups, channels=outputs, kernel_size=tuple(kernel),
                                     **window)  # fmt: skip
    return relay.nn.bias_add(out, bias)
