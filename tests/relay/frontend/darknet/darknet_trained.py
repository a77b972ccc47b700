"""Writes trained networks as configurations and weights of DarkNet."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from trained_networks import Layer, Network, Writer, symmetric


class DarkNet(Writer):
    """Sections; normalization and activation go into the convolution before, as configurations have them. A value is
    the number of its section, the image that is fed is -1."""

    def __init__(self, network: Network):
        self.sections: list[tuple[str, dict]] = []
        self.arrays: list[list[np.ndarray]] = []
        self.readers = [0] * len(network.layers)
        for layer in network.layers:
            for i in layer.inputs:
                self.readers[i] += 1
        super().__init__(network)

    def add_section(self, name: str, x: int | None = None, arrays=(), **options) -> int:
        """A section that reads ``x``, which a section [route] brings if it is not the one before."""
        if x is not None and x != len(self.sections) - 1:
            self.add_section("route", layers=x)
        self.sections.append((name, options))
        self.arrays.append(list(arrays))
        return len(self.sections) - 1

    def input(self, layer):
        return -1

    def conv(self, layer, x, weight, bias, stride, pads, dilation, groups):
        weight, pad = symmetric(layer)
        assert weight.shape[2] == weight.shape[3] and pad[0] == pad[1]
        bias = np.zeros(len(weight)) if bias is None else bias
        return self.add_section(
            "convolutional",
            x,
            [bias, weight],
            filters=len(weight),
            size=weight.shape[2],
            stride_y=stride[0],
            stride_x=stride[1],
            padding=pad[0],
            groups=groups,
            dilation=dilation[0],
            activation="linear",
        )

    def dense(self, layer, x, weight, bias):
        bias = np.zeros(len(weight)) if bias is None else bias
        return self.add_section("connected", x, [bias, weight], output=len(weight), activation="linear")

    def own(self, layer: Layer, x: int) -> bool:
        """Whether a layer is the only reader of a convolution or a product, which it can go into."""
        kinds = ("convolutional", "connected", "shortcut")
        return (x >= 0 and self.sections[x][0] in kinds and self.readers[layer.inputs[0]] == 1
                and self.sections[x][1]["activation"] == "linear")  # fmt: skip

    def norm(self, layer, x, gamma, beta, mean, var, eps):
        assert self.own(layer, x) and self.sections[x][0] == "convolutional"
        bias, weight = self.arrays[x]
        self.sections[x][1]["batch_normalize"] = 1
        self.arrays[x] = [beta, gamma, mean - bias, var + eps, weight]
        return x

    def affine(self, layer, x, mul, add):
        """A convolution of each channel on its own."""
        channels = layer.shape[1]
        whole = np.zeros(channels)
        return self.add_section(
            "convolutional",
            x,
            [whole + add, whole + mul],
            filters=channels,
            size=1,
            stride=1,
            padding=0,
            groups=channels,
            activation="linear",
        )

    def activation(self, layer, x, name):
        if self.own(layer, x):
            self.sections[x][1]["activation"] = name
            return x
        return self.add_section("activation", x, activation=name)

    def relu(self, layer, x):
        return self.activation(layer, x, "relu")

    def sigmoid(self, layer, x):
        return self.activation(layer, x, "logistic")

    def leaky(self, layer, x, alpha):
        assert abs(alpha - 0.1) < 1e-6
        return self.activation(layer, x, "leaky")

    def clip(self, layer, x, low, high):
        """Other ends than 6 are reached by factors around relu6."""
        assert low == 0
        if high == 6:
            return self.activation(layer, x, "relu6")
        one, none = np.ones(1), np.zeros(1)
        x = self.affine(layer, x, one * 6 / high, none)
        self.sections[x][1]["activation"] = "relu6"
        return self.affine(layer, x, one * high / 6, none)

    def softmax(self, layer, x, axis):
        return self.add_section("softmax", x, groups=1)

    def max(self, layer, x, size, stride, pads, ceil):
        return self.add_section("maxpool", x, size=size[0], stride=stride[0], padding=pads[0] + pads[2])

    def mean(self, layer, x):
        return self.add_section("avgpool", x)

    def add(self, layer, x, y):
        return self.add_section("shortcut", max(x, y), **{"from": min(x, y)}, activation="linear")

    def mul(self, layer, x, y):
        first, second = (self.shapes[i] for i in layer.inputs)
        if first == second:
            return self.add_section("sam", max(x, y), **{"from": min(x, y)})
        x, y = (x, y) if first == layer.shape else (y, x)
        return self.add_section("scale_channels", y, **{"from": x})

    def concat(self, layer, *inputs, axis):
        assert axis == 1
        return self.add_section("route", layers=",".join(str(i) for i in inputs))

    def reshape(self, layer, x):
        # Products flatten what they read.
        return x

    def upsample(self, layer, x, factor):
        return self.add_section("upsample", x, stride=factor)


def write(network: Network, folder: Path) -> Path:
    """The configuration, with its weights beside it."""
    made = DarkNet(network)
    assert made.outputs == [len(made.sections) - 1], "a network of DarkNet has one output"
    _, channels, height, width = network.layers[0].shape
    text = f"[net]\nbatch=1\nchannels={channels}\nheight={height}\nwidth={width}\n"
    for name, options in made.sections:
        text += f"\n[{name}]\n" + "".join(f"{k}={v}\n" for k, v in options.items())
    (folder / "net.cfg").write_text(text)
    numbers = [np.asarray(a, "<f4").reshape(-1) for arrays in made.arrays for a in arrays]
    data = struct.pack("<iiiq", 0, 2, 5, 0) + np.concatenate(numbers).tobytes()
    (folder / "net.weights").write_bytes(data)
    return folder / "net.cfg"


def imported(network: Network, folder: Path):
    from tvm.relay.frontend import from_darknet

    return from_darknet(write(network, folder))
