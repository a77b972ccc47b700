"""Known networks of Caffe, in any width, with weights drawn for them."""

from __future__ import annotations

import numpy as np
from caffe_writer import layer, weights


class Builder:
    """Writes layers one after the other, and draws their weights."""

    def __init__(self, seed: int, size: int):
        self.rng = np.random.default_rng(seed)
        self.text = f'name: "net" input: "data" input_dim: 1 input_dim: 3 input_dim: {size} input_dim: {size}\n'
        self.blobs: dict[str, list] = {}
        self.channels = {"data": 3}
        self.count = 0

    def draw(self, *shape, low=-1.0, high=1.0):
        return self.rng.uniform(low, high, shape).astype("float32")

    def add(self, kind: str, bottoms: str, param: str = "", blobs=(), channels: int = 0, top: str = "") -> str:
        self.count += 1
        top = top or f"{kind.lower()}{self.count}"
        self.text += layer(kind, bottoms, top, param, name=f"{kind.lower()}{self.count}")
        if blobs:
            self.blobs[f"{kind.lower()}{self.count}"] = list(blobs)
        self.channels[top] = channels or self.channels[bottoms.split()[0]]
        return top

    def conv(
        self,
        x: str,
        filters: int,
        size: int,
        stride: int = 1,
        group: int = 1,
        pad: int | None = None,
        bias: bool = False,
    ) -> str:
        depth = self.channels[x] // group
        reach = (6.0 / (depth * size * size)) ** 0.5
        pad = size // 2 if pad is None else pad
        param = (
            f"convolution_param {{ num_output: {filters} kernel_size: {size} stride: {stride} pad: {pad} "
            f"group: {group} bias_term: {str(bias).lower()} }}"
        )
        blobs = [self.draw(filters, depth, size, size, low=-reach, high=reach), *([self.draw(filters)] if bias else [])]
        return self.add("Convolution", x, param, blobs, filters)

    def normalized(self, x: str, relu: bool = True) -> str:
        n = self.channels[x]
        blobs = [self.draw(n, low=-3, high=3), self.draw(n, low=8, high=20), np.array([10.0], "float32")]
        x = self.add("BatchNorm", x, "batch_norm_param { use_global_stats: true }", blobs, top=x)
        blobs = [self.draw(n, low=0.5, high=1.5), self.draw(n)]
        x = self.add("Scale", x, "scale_param { bias_term: true }", blobs, top=x)
        return self.add("ReLU", x, top=x) if relu else x

    def classified(self, x: str, classes: int) -> str:
        n = self.channels[x]
        x = self.add("Pooling", x, "pooling_param { pool: AVE global_pooling: true }")
        reach = (6.0 / n) ** 0.5
        x = self.add(
            "InnerProduct",
            x,
            f"inner_product_param {{ num_output: {classes} }}",
            [self.draw(classes, n, low=-reach, high=reach), self.draw(classes)],
            classes,
        )
        return self.add("Softmax", x, top="prob")


def mobilenet(b: Builder, part: int, classes: int = 100) -> None:
    """MobileNet: each channel on its own, then all of a place."""
    x = b.normalized(b.conv("data", 32 // part, 3, 2))
    plan = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
    for filters, stride in plan:
        x = b.normalized(b.conv(x, b.channels[x], 3, stride, b.channels[x]))
        x = b.normalized(b.conv(x, filters // part, 1))
    b.classified(x, classes)


def resnet(b: Builder, part: int, classes: int = 100) -> None:
    """ResNet-50: blocks of three convolutions beside a short cut."""
    x = b.normalized(b.conv("data", 64 // part, 7, 2, pad=3))
    x = b.add("Pooling", x, "pooling_param { pool: MAX kernel_size: 3 stride: 2 }")
    for filters, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for k in range(blocks):
            stride = 2 if k == 0 and filters > 64 else 1
            short = x if k else b.normalized(b.conv(x, 4 * filters // part, 1, stride), False)
            own = b.normalized(b.conv(x, filters // part, 1, stride))
            own = b.normalized(b.conv(own, filters // part, 3))
            own = b.normalized(b.conv(own, 4 * filters // part, 1), False)
            x = b.add("Eltwise", f"{short} {own}", "eltwise_param { operation: SUM }")
            x = b.add("ReLU", x, top=x)
    b.classified(x, classes)


def ssd(b: Builder, part: int, classes: int = 5) -> None:
    """A single-shot detector with heads on three sizes."""
    x, heads = "data", []
    for k, filters in enumerate((64, 128, 256, 256)):
        x = b.normalized(b.conv(x, filters // part, 3, 2))
        if k:
            heads.append((x, 12 * 2**k))
    if heads:
        first = heads[0][0]
        n = b.channels[first]
        norm = b.add("Normalize", first, "norm_param { across_spatial: false channel_shared: false scale_filler { "
                     'type: "constant" value: 20 } }', [np.full(n, 5.0, "float32")])  # fmt: skip
        heads[0] = (norm, heads[0][1])
    parts: dict[str, list[str]] = {"boxes": [], "scores": [], "priors": []}
    for x, size in heads:
        for what, numbers in (("boxes", 4), ("scores", classes)):
            y = b.conv(x, 4 * numbers, 3, bias=True)
            y = b.add("Permute", y, "permute_param { order: 0 order: 2 order: 3 order: 1 }")
            parts[what].append(b.add("Flatten", y, "flatten_param { axis: 1 }"))
        param = (
            f"prior_box_param {{ min_size: {size} max_size: {size * 2} aspect_ratio: 2 flip: true clip: false "
            "variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 }"
        )
        parts["priors"].append(b.add("PriorBox", f"{x} data", param))
    boxes = b.add("Concat", " ".join(parts["boxes"]), "concat_param { axis: 1 }")
    scores = b.add("Concat", " ".join(parts["scores"]), "concat_param { axis: 1 }")
    priors = b.add("Concat", " ".join(parts["priors"]), "concat_param { axis: 2 }")
    scores = b.add("Reshape", scores, f"reshape_param {{ shape {{ dim: 0 dim: -1 dim: {classes} }} }}")
    scores = b.add("Flatten", b.add("Softmax", scores, "softmax_param { axis: 2 }"), "flatten_param { axis: 1 }")
    b.add("DetectionOutput", f"{boxes} {scores} {priors}", f"detection_output_param {{ num_classes: {classes} "
          "share_location: true background_label_id: 0 nms_param { nms_threshold: 0.45 top_k: 100 } code_type: "
          "CENTER_SIZE keep_top_k: 50 confidence_threshold: 0.3 }", top="detections")  # fmt: skip


NETWORKS = {"mobilenet": (mobilenet, 64), "resnet50": (resnet, 64), "ssd": (ssd, 64)}
# The widths that tests take of the original ones, and the original sizes of images.
PART = 8
SIZES = {"mobilenet": 224, "resnet50": 224, "ssd": 300}


def drawn(name: str, part: int = PART, size: int = 0) -> tuple[str, bytes, np.ndarray]:
    """A network's text, its file of weights and an image."""
    make, own = NETWORKS[name]
    size = size or own
    b = Builder(len(name), size)
    make(b, part)
    y, x = np.mgrid[:size, :size] / size
    data = np.stack([np.sin(9 * x * y), np.cos(7 * x), np.sin(5 * y + 3 * x)])[None]
    return b.text, weights(b.blobs, kinds={n: _kind(n) for n in b.blobs}), data.astype("float32")


def _kind(name: str) -> str:
    names = ("Convolution", "BatchNorm", "Scale", "InnerProduct", "Normalize")
    return next(n for n in names if name.rstrip("0123456789") == n.lower())
