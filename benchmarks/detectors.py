"""Object detectors of the zoo in torch: networks of the sizes used on cameras and phones.

``yolo`` has a backbone of cross-stage blocks with SiLU, a feature pyramid, and heads on three feature maps; ``face`` is
a small network of depthwise and 1x1 convolutions with few channels on large maps. The outputs of the heads are
concatenated into one tensor.
"""

from __future__ import annotations

import torch
from torch import nn


def convolution(inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, activation=nn.SiLU):
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), activation())


class CrossStage(nn.Module):
    """A cross-stage block: half of the channels pass through residual blocks; then all channels are concatenated."""

    def __init__(self, inputs: int, outputs: int, blocks: int, shortcut: bool = True):
        super().__init__()
        half = outputs // 2
        self.left, self.right = convolution(inputs, half), convolution(inputs, half)
        self.blocks = nn.ModuleList(
            nn.Sequential(convolution(half, half), convolution(half, half, 3)) for _ in range(blocks)
        )
        self.shortcut, self.join = shortcut, convolution(2 * half, outputs)

    def forward(self, x):
        y = self.left(x)
        for block in self.blocks:
            y = y + block(y) if self.shortcut else block(y)
        return self.join(torch.cat([y, self.right(x)], 1))


class Pooled(nn.Module):
    """Spatial pooling: three max pools in a row, concatenated with their input."""

    def __init__(self, channels: int):
        super().__init__()
        self.reduce, self.join = convolution(channels, channels // 2), convolution(channels * 2, channels)
        self.pool = nn.MaxPool2d(5, 1, 2)

    def forward(self, x):
        parts = [self.reduce(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.join(torch.cat(parts, 1))


class Yolo(nn.Module):
    def __init__(self, width: int = 36, classes: int = 80):
        super().__init__()
        c = [width * 2**i for i in range(5)]
        self.stem = nn.Sequential(convolution(3, c[0], 3, 2), convolution(c[0], c[1], 3, 2), CrossStage(c[1], c[1], 1))
        self.middle = nn.Sequential(convolution(c[1], c[2], 3, 2), CrossStage(c[2], c[2], 2))
        self.deep = nn.Sequential(convolution(c[2], c[3], 3, 2), CrossStage(c[3], c[3], 3))
        self.deepest = nn.Sequential(convolution(c[3], c[4], 3, 2), CrossStage(c[4], c[4], 1), Pooled(c[4]))
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.turn_deep, self.turn_middle = convolution(c[4], c[3]), convolution(c[3], c[2])
        self.merge_deep = CrossStage(2 * c[3], c[3], 1, False)
        self.merge_middle = CrossStage(2 * c[2], c[2], 1, False)
        self.down_middle, self.down_deep = convolution(c[2], c[2], 3, 2), convolution(c[3], c[3], 3, 2)
        self.out_deep = CrossStage(2 * c[2], c[3], 1, False)
        self.out_deepest = CrossStage(2 * c[3], c[4], 1, False)
        self.heads = nn.ModuleList(nn.Conv2d(channels, 3 * (5 + classes), 1) for channels in c[2:])

    def forward(self, data):
        middle = self.middle(self.stem(data))
        deep = self.deep(middle)
        turned_deep = self.turn_deep(self.deepest(deep))
        merged = self.merge_deep(torch.cat([self.up(turned_deep), deep], 1))
        turned = self.turn_middle(merged)
        fine = self.merge_middle(torch.cat([self.up(turned), middle], 1))
        coarse = self.out_deep(torch.cat([self.down_middle(fine), turned], 1))
        coarsest = self.out_deepest(torch.cat([self.down_deep(coarse), turned_deep], 1))
        found = [head(x).flatten(2) for head, x in zip(self.heads, (fine, coarse, coarsest))]
        return torch.cat(found, 2).sigmoid()


class Face(nn.Module):
    def __init__(self, anchors: int = 2):
        super().__init__()

        def block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
            wide = convolution(inputs, inputs, 3, stride, inputs, nn.ReLU)
            return nn.Sequential(wide, convolution(inputs, outputs, 1, activation=nn.ReLU))

        self.stem = nn.Sequential(convolution(3, 32, 3, 2, activation=nn.ReLU), *(block(32, 32) for _ in range(4)))
        self.fine = nn.Sequential(block(32, 48, 2), *(block(48, 48) for _ in range(3)), block(48, 64, 2), block(64, 64))
        self.coarse = nn.Sequential(block(64, 96, 2), *(block(96, 96) for _ in range(3)))
        self.heads = nn.ModuleList(nn.Conv2d(channels, anchors * 17, 1) for channels in (64, 96))

    def forward(self, data):
        fine = self.fine(self.stem(data))
        found = [head(x).flatten(2) for head, x in zip(self.heads, (fine, self.coarse(fine)))]
        return torch.cat(found, 2)


DETECTORS = {"yolo": Yolo, "face": Face}
