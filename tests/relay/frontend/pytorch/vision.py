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
        library.impl("nms", _nms, "CPU")
        import sys

        for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        import torchvision

        torchvision.extension._assert_has_ops = torchvision.ops.boxes._assert_has_ops = lambda: None
        torchvision.ops.roi_align.__globals__["_assert_has_ops"] = lambda: None
    return torchvision


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
        left = left[common / (area[best] + area[left] - common) <= iou_threshold]
    return torch.stack(kept) if kept else torch.zeros(0, dtype=torch.int64)
