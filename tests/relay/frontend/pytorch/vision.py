"""torchvision for tests, also beside a PyTorch that its compiled operators were not built for."""

from __future__ import annotations

_KEPT: list = []


def torchvision():
    """The package. Where its own operators cannot be loaded, those that models need are written in Python here."""
    import torch

    try:
        import torchvision
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        _KEPT.append(library)
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define(
            "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
            "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"
        )
        # Scripts of whole detectors name it where they train.
        library.define("box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor")
        library.define(
            "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
            "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
            "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor"
        )
        library.impl("deform_conv2d", _deform_conv2d, "CPU")
        library.impl("nms", _nms, "CPU")
        library.impl("roi_align", _roi_align, "CPU")
        import sys

        for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        import torchvision

        torchvision.extension._assert_has_ops = torchvision.ops.boxes._assert_has_ops = _nothing
        torchvision.ops.roi_align.__globals__.update(_assert_has_ops=_nothing, _has_ops=_yes)
    return torchvision


def _nothing() -> None:
    pass


def _yes() -> bool:
    return True


def _roi_align(self, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    """As torchvision's compiled operator, for which samples outside the image are zeros; its implementation in Python
    takes the nearest element for them."""
    import torch

    def shares(begin, end, bins: int, size: int):
        """How much of each element of an axis is in each bin."""
        begin, end = (v * spatial_scale - (0.5 if aligned else 0.0) for v in (begin, end))
        length = end - begin if aligned else (end - begin).clamp(min=1)
        count = sampling_ratio if sampling_ratio > 0 else int((length / bins).ceil())
        samples = (torch.arange(count, dtype=rois.dtype) + 0.5) / max(count, 1)
        at = begin + (torch.arange(bins)[:, None] + samples) * (length / bins)
        inside = (at >= -1) & (at <= size)
        near = (1 - (at.clamp(0, size - 1)[..., None] - torch.arange(size)).abs()).clamp(min=0)
        return (near * inside[..., None]).sum(1) / max(count, 1)

    made = [
        torch.einsum(
            "ph,chw,qw->cpq",
            shares(y0, y1, pooled_height, self.shape[2]),
            self[int(image)],
            shares(x0, x1, pooled_width, self.shape[3]),
        )
        for image, x0, y0, x1, y1 in rois
    ]
    return torch.stack(made) if made else self.new_zeros(0, self.shape[1], pooled_height, pooled_width)


def _nms(boxes, scores, iou_threshold):
    import torch

    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    left, kept = torch.argsort(scores, descending=True, stable=True), []
    while left.numel():
        best, left = left[0], left[1:]
        kept.append(best)
        low = torch.maximum(boxes[best, :2], boxes[left, :2])
        high = torch.minimum(boxes[best, 2:], boxes[left, 2:])
        common = (high - low).clamp(min=0).prod(1)
        # Two boxes without an area have no ratio, and both are kept.
        left = left[~(common / (area[best] + area[left] - common) > iou_threshold)]
    return torch.stack(kept) if kept else torch.zeros(0, dtype=torch.int64)


def _deform_conv2d(
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
    """Every place of the window is read between four elements, those outside the image being zeros."""
    import torch

    count, channels, height, width = self.shape
    outputs, inner, rows, columns = weight.shape
    high, wide = offset.shape[2:]
    shift = offset.reshape(count, offset_groups, rows, columns, 2, high, wide)
    share = torch.ones_like(shift[:, :, :, :, 0])
    if use_mask:
        share = mask.reshape(share.shape)
    parts = self.reshape(count, offset_groups, channels // offset_groups, height, width)
    taken = self.new_zeros(count, offset_groups, channels // offset_groups, rows, columns, high, wide)
    for n, g, i, j, y, x in torch.cartesian_prod(*map(torch.arange, (count, offset_groups, rows, columns, high, wide))):
        at_y = y * stride_h - pad_h + i * dilation_h + shift[n, g, i, j, 0, y, x]
        at_x = x * stride_w - pad_w + j * dilation_w + shift[n, g, i, j, 1, y, x]
        near_y = (1 - (at_y - torch.arange(height)).abs()).clamp(min=0)
        near_x = (1 - (at_x - torch.arange(width)).abs()).clamp(min=0)
        taken[n, g, :, i, j, y, x] = torch.einsum("h,chw,w->c", near_y, parts[n, g], near_x) * share[n, g, i, j, y, x]
    taken = taken.reshape(count, groups, inner, rows, columns, high, wide)
    weight = weight.reshape(groups, outputs // groups, inner, rows, columns)
    made = torch.einsum("ngcijyx,gocij->ngoyx", taken, weight).reshape(count, outputs, high, wide)
    return made + bias[:, None, None]
