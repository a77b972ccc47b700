"""Known networks of DarkNet as configurations, in any width, and weights drawn for them."""

from __future__ import annotations

import numpy as np
from darknet_cases import conv, image, layer
from darknet_numpy import Net

_TINY = "10,14, 23,27, 37,58, 81,82, 135,169, 344,319"


class Drawn(Net):
    """Draws weights and follows shapes, without computing. Deep networks want a smaller ``gain``, or their numbers grow
    beyond all bounds."""

    gain = 1.7

    def conv(self, channels, filters, size, groups):
        self.draw(filters, low=-0.5, high=0.5)
        if self.int("batch_normalize", 0):
            self.draw(filters, low=0.5, high=1.5)
            self.draw(filters, low=-0.2, high=0.2)
            self.draw(filters, low=0.5, high=1.5)
        depth = channels // groups
        reach = (2.0 / (depth * size * size)) ** 0.5 * self.gain
        if self.layers[self.number + 1 :][:1] and self.layers[self.number + 1][0] == "shortcut":
            # What is added to a short cut is small, so that the sum of many does not grow beyond all numbers.
            reach *= 0.3
        self.draw(filters, depth, size, size, low=-reach, high=reach)

        def run(x, stride, pad, dilation, name):
            sizes = [(s + 2 * pad - (size - 1) * dilation - 1) // t + 1 for s, t in zip(x.shape[2:], stride)]
            return np.zeros((len(x), filters, *sizes))

        return run

    def layer_yolo(self, x):
        return x


def _conv(filters: int, size: int = 3, stride: int = 1, activation: str = "leaky") -> str:
    return conv(batch_normalize=1, filters=filters, size=size, stride=stride, pad=1, activation=activation)


def _head(filters: int, mask: str, classes: int, anchors: str = _TINY, boxes: int = 6, **more) -> str:
    return layer("convolutional", size=1, stride=1, pad=1, filters=filters, activation="linear") + layer(
        "yolo", mask=mask, anchors=anchors, classes=classes, num=boxes, jitter=0.3, ignore_thresh=0.7, **more
    )


def yolov3_tiny(size: int = 96, part: int = 1, classes: int = 80) -> str:
    """YOLOv3-tiny; ``part`` divides the widths."""
    boxes = 3 * (classes + 5)
    text = image(3, size, size)
    for filters in (16, 32, 64, 128, 256, 512):
        text += _conv(filters // part) + layer("maxpool", size=2, stride=2 if filters < 512 else 1)
    text += _conv(1024 // part) + _conv(256 // part, 1) + _conv(512 // part) + _head(boxes, "3,4,5", classes)
    text += layer("route", layers=-4) + _conv(128 // part, 1) + layer("upsample", stride=2)
    text += layer("route", layers="-1, 8")
    return text + _conv(256 // part) + _head(boxes, "0,1,2", classes)


def yolov4_tiny(size: int = 96, part: int = 1, classes: int = 80) -> str:
    """YOLOv4-tiny: blocks whose half of the channels goes through two convolutions."""
    boxes = 3 * (classes + 5)
    text = image(3, size, size) + _conv(32 // part, stride=2) + _conv(64 // part, stride=2)
    for filters in (64, 128, 256):
        text += _conv(filters // part) + layer("route", layers=-1, groups=2, group_id=1)
        text += _conv(filters // 2 // part) * 2 + layer("route", layers="-1,-2") + _conv(filters // part, 1)
        text += layer("route", layers="-6,-1") + layer("maxpool", size=2, stride=2)
    more = {"scale_x_y": 1.05, "anchors": _TINY}
    text += _conv(512 // part) + _conv(256 // part, 1) + _conv(512 // part) + _head(boxes, "3,4,5", classes, **more)
    text += layer("route", layers=-4) + _conv(128 // part, 1) + layer("upsample", stride=2)
    text += layer("route", layers="-1, 23") + _conv(256 // part) + _head(boxes, "1,2,3", classes, **more)
    return text


def _residual(filters: int, part: int) -> str:
    return (
        _conv(filters // 2 // part, 1) + _conv(filters // part) + layer("shortcut", **{"from": -3}, activation="linear")
    )


def yolov3(size: int = 96, part: int = 1, classes: int = 80) -> str:
    """YOLOv3: the residual network of 53 layers, and heads on three sizes."""
    boxes = 3 * (classes + 5)
    anchors = "10,13, 16,30, 33,23, 30,61, 62,45, 59,119, 116,90, 156,198, 373,326"
    text = image(3, size, size) + _conv(32 // part)
    for filters, blocks in ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)):
        text += _conv(filters // part, stride=2) + _residual(filters, part) * blocks
    for filters, mask, beside in ((1024, "6,7,8", 61), (512, "3,4,5", 36), (256, "0,1,2", 0)):
        pair = _conv(filters // 2 // part, 1) + _conv(filters // part)
        text += pair * 3 + _head(boxes, mask, classes, anchors, boxes=9)
        if beside:
            text += layer("route", layers=-4) + _conv(filters // 4 // part, 1) + layer("upsample", stride=2)
            text += layer("route", layers=f"-1, {beside}")
    return text


def yolov2_tiny(size: int = 96, part: int = 1, classes: int = 80) -> str:
    """YOLOv2-tiny, whose last layer is a region."""
    text = image(3, size, size)
    for filters in (16, 32, 64, 128, 256, 512):
        text += _conv(filters // part) + layer("maxpool", size=2, stride=2 if filters < 512 else 1)
    text += _conv(1024 // part) + _conv(512 // part)
    text += layer("convolutional", size=1, stride=1, pad=1, filters=5 * (classes + 5), activation="linear")
    anchors = "0.57,0.67, 1.87,2.06, 3.33,5.47, 7.88,3.52, 9.77,9.16"
    return text + layer("region", anchors=anchors, classes=classes, num=5, softmax=1, coords=4)


def darknet_resnet(size: int = 64, part: int = 1, classes: int = 100) -> str:
    """The residual classifier that YOLOv3 stands on, with a part of its blocks."""
    text = image(3, size, size) + _conv(32 // part)
    for filters, blocks in ((64, 1), (128, 2), (256, 2), (512, 1)):
        text += _conv(filters // part, stride=2) + _residual(filters, part) * blocks
    text += layer("avgpool") + layer("convolutional", filters=classes, size=1, stride=1, pad=1, activation="linear")
    return text + layer("softmax", groups=1)


NETWORKS = {"yolov2-tiny": yolov2_tiny, "yolov3-tiny": yolov3_tiny, "yolov4-tiny": yolov4_tiny, "yolov3": yolov3,
            "darknet-resnet": darknet_resnet}  # fmt: skip
# The widths that tests take of the original ones, and the original sizes of images.
PART = 8
SIZES = {**dict.fromkeys(NETWORKS, 416), "darknet-resnet": 256}


def drawn(name: str, part: int = PART, size: int = 0) -> tuple[str, bytes, np.ndarray]:
    """A network's text, its weights and an image."""
    text = NETWORKS[name](part=part, **({"size": size} if size else {}))
    net = Drawn(text, np.random.default_rng(len(name)))
    net.gain = 1.5 if name == "yolov3" else net.gain
    shape = (1, *(int(net.options[k]) for k in ("channels", "height", "width")))
    net.run(np.zeros(shape))
    y, x = np.mgrid[: shape[2], : shape[3]] / shape[2]
    data = np.stack([np.sin(9 * x * y), np.cos(7 * x), np.sin(5 * y + 3 * x)])[None] * 0.5 + 0.5
    return text, net.weights(), data.astype("float32")
