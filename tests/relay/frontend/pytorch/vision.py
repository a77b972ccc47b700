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
        library.define("roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
                       "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor")
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
    """torchvision's own implementation by other operators."""
    import torchvision

    inner = torchvision.ops.roi_align.__globals__["_roi_align"]
    return inner.__wrapped__(self, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned)


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
