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
        "fasterrcnn_resnet50_fpn_v2", "fasterrcnn_mobilenet_v3_large_fpn", "fasterrcnn_mobilenet_v3_large_320_fpn")},
    # The heads of masks and keypoints cost more than all else for each box that is found.
    **{name: {"min_size": 64, "max_size": 96, "rpn_post_nms_top_n_test": 40, "box_detections_per_img": 4} for name in (
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
        name, weights=None, weights_backbone=None, num_classes=2 if "keypoint" in name else 5, **options
    )
    _spread(inner)
    image = torch.rand(3, 64, 80)
    settle(inner, lambda: inner([image, image * 0.9 + 0.1]))

    return _found(inner), [image.double()]


def _found(detector):
    """A model of one image that gives what a detector finds in it, in double precision."""
    import torch

    class Found(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = detector

        def forward(self, image):
            # Masks that a trace pastes into the image are of single precision.
            found = self.model([image])[0].values()
            return tuple(v.to(image.dtype) if v.is_floating_point() else v for v in found)

    return Found().double()


def small_detector(kind: str) -> tuple[Any, list]:
    """A ``FasterRCNN``, ``MaskRCNN`` or ``KeypointRCNN`` of two levels and few channels, and an image."""
    import torch

    from tests.relay.frontend.pytorch.vision import torchvision

    vision = torchvision()
    from torchvision.models.detection import anchor_utils, faster_rcnn, keypoint_rcnn, mask_rcnn

    class Levels(torch.nn.Module):
        out_channels = 4

        def __init__(self):
            super().__init__()
            self.first, self.second = (torch.nn.Conv2d(n, 4, 3, 4 if n == 3 else 2, 1) for n in (3, 4))

        def forward(self, x):
            x = torch.relu(self.first(x))
            return {"0": x, "1": self.second(x)}

    def pool(size: int):
        return vision.ops.MultiScaleRoIAlign(["0", "1"], size, 2)

    heads = {
        "FasterRCNN": {},
        "MaskRCNN": {
            "mask_roi_pool": pool(4),
            "mask_head": mask_rcnn.MaskRCNNHeads(4, [6], 1),
            "mask_predictor": mask_rcnn.MaskRCNNPredictor(6, 5, 3),
        },
        "KeypointRCNN": {
            "keypoint_roi_pool": pool(4),
            "keypoint_head": keypoint_rcnn.KeypointRCNNHeads(4, [6]),
            "keypoint_predictor": keypoint_rcnn.KeypointRCNNPredictor(6, 2),
        },
    }[kind]
    classes = 2 if kind == "KeypointRCNN" else 3
    model = getattr(vision.models.detection, kind)(
        Levels(),
        min_size=32,
        max_size=40,
        box_roi_pool=pool(3),
        box_head=faster_rcnn.TwoMLPHead(36, 8),
        box_predictor=faster_rcnn.FastRCNNPredictor(8, classes),
        rpn_post_nms_top_n_test=12,
        box_detections_per_img=5,
        rpn_anchor_generator=anchor_utils.AnchorGenerator(((8,), (16,)), ((0.5, 1.0),) * 2),
        **heads,
    )
    _spread(model)
    return _found(model.eval()), [torch.rand(3, 32, 40).double()]


def _spread(model) -> None:
    """Weights of the heads whose results are as large as what they read: as they begin, all scores are nearly one."""
    import torch

    for name, part in model.named_modules():
        if isinstance(part, (torch.nn.Conv2d, torch.nn.Linear)) and ("head" in name or "rpn" in name):
            width = part.weight[0].numel()
            torch.nn.init.normal_(part.weight, std=width**-0.5)
            if part.bias is not None:
                torch.nn.init.normal_(part.bias, std=0.1)
