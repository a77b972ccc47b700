"""The detection models of torchvision with seeded weights that make their scores differ.

They run in double precision: what is found depends on the order of scores and on overlaps beside a threshold, which
rounding in single precision changes in either program.
"""

from __future__ import annotations

from typing import Any

from tests.relay.frontend.pytorch.support import settle

# By name: the sizes that an image is brought to, where the model lets them be chosen.
DETECTION: dict[str, dict[str, Any]] = {
    **{name: {"min_size": 64, "max_size": 96} for name in (
        "fcos_resnet50_fpn", "retinanet_resnet50_fpn", "retinanet_resnet50_fpn_v2", "fasterrcnn_resnet50_fpn",
        "fasterrcnn_resnet50_fpn_v2", "fasterrcnn_mobilenet_v3_large_fpn", "fasterrcnn_mobilenet_v3_large_320_fpn",
        "maskrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn_v2", "keypointrcnn_resnet50_fpn")},
    "ssd300_vgg16": {},
    "ssdlite320_mobilenet_v3_large": {},
}  # fmt: skip


def detector(name: str) -> tuple[Any, list]:
    """A model of one image that gives boxes, scores, labels and what else it finds, and an image."""
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision

    options = DETECTION[name]
    inner = torchvision().models.get_model(
        name, weights=None, weights_backbone=None, num_classes=2 if "keypoint" in name else 5, **options)
    _spread(inner)
    image = torch.rand(3, 64, 80)
    settle(inner, lambda: inner([image, image * 0.9 + 0.1]))

    class Found(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = inner

        def forward(self, image):
            return tuple(self.model([image])[0].values())

    return Found().double(), [image.double()]


def _spread(model) -> None:
    """Weights of the heads whose results are as large as what they read: as they begin, all scores are nearly one."""
    import torch

    for name, part in model.named_modules():
        if isinstance(part, (torch.nn.Conv2d, torch.nn.Linear)) and ("head" in name or "rpn" in name):
            width = part.weight[0].numel()
            torch.nn.init.normal_(part.weight, std=width**-0.5)
            if part.bias is not None:
                torch.nn.init.normal_(part.bias, std=0.1)
