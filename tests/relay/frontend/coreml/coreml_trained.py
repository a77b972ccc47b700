"""Writes trained networks as Core ML models of both kinds: a neural network, and an ML program in a package with
weights of float16."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from coreml_writer import NetworkWriter, ProgramWriter
from trained_networks import Network, Writer


class CoreMLNetwork(Writer):
    """Layers of a neural network (specification 5)."""

    def __init__(self, network: Network):
        self.writer = NetworkWriter()
        super().__init__(network)
        for name in self.outputs:
            self.writer.output(name)

    def op(self, kind: str, *inputs: str, **params) -> str:
        return self.writer.layer(kind, list(inputs), **params)

    def input(self, layer):
        return self.writer.input("data", layer.shape)

    @staticmethod
    def valid(pads) -> dict:
        top, left, bottom, right = pads
        sides = [{"startEdgeSize": a, "endEdgeSize": b} for a, b in ((top, bottom), (left, right))]
        return {"paddingAmounts": {"borderAmounts": sides}}

    @staticmethod
    def biased(bias) -> dict:
        return {} if bias is None else {"hasBias": True, "bias": np.asarray(bias)}

    def conv(self, layer, x, weight, bias, stride, pads, dilation, groups):
        return self.op(
            "convolution",
            x,
            outputChannels=len(weight),
            kernelChannels=weight.shape[1],
            nGroups=groups,
            kernelSize=list(weight.shape[2:]),
            stride=stride,
            dilationFactor=dilation,
            valid=self.valid(pads),
            weights=weight,
            **self.biased(bias),
        )

    def deconv(self, layer, x, weight, bias, stride, pads):
        return self.op(
            "convolution",
            x,
            outputChannels=weight.shape[1],
            kernelChannels=len(weight),
            kernelSize=list(weight.shape[2:]),
            stride=stride,
            isDeconvolution=True,
            valid=self.valid(pads),
            weights=weight,
            **self.biased(bias),
        )

    def dense(self, layer, x, weight, bias):
        return self.op(
            "innerProduct",
            x,
            inputChannels=weight.shape[1],
            outputChannels=len(weight),
            weights=weight,
            **self.biased(bias),
        )

    def norm(self, layer, x, gamma, beta, mean, var, eps):
        return self.op(
            "batchnorm", x, channels=len(gamma), gamma=gamma, beta=beta, mean=mean, variance=var, epsilon=eps
        )

    def affine(self, layer, x, mul, add):
        if mul.size == add.size == 1:
            return self.op("activation", x, linear={"alpha": float(mul[0]), "beta": float(add[0])})
        shapes = [[1] if v.size == 1 else [v.size, 1, 1] for v in (mul, add)]
        return self.op("scale", x, shapeScale=shapes[0], scale=mul, hasBias=True, shapeBias=shapes[1], bias=add)

    def relu(self, layer, x):
        return self.op("activation", x, ReLU={})

    def leaky(self, layer, x, alpha):
        return self.op("activation", x, leakyReLU={"alpha": alpha})

    def clip(self, layer, x, low, high):
        return self.op("clip", x, minVal=low, maxVal=high)

    def sigmoid(self, layer, x):
        return self.op("activation", x, sigmoid={})

    def softmax(self, layer, x, axis):
        return self.op("softmaxND", x, axis=axis)

    def max(self, layer, x, size, stride, pads, ceil):
        return self.op("pooling", x, type=0, kernelSize=size, stride=stride, valid=self.valid(pads))

    def mean(self, layer, x):
        return self.op("pooling", x, type=1, globalPooling=True)

    def add(self, layer, x, y):
        return self.op("addBroadcastable", x, y)

    def mul(self, layer, x, y):
        return self.op("multiplyBroadcastable", x, y)

    def concat(self, layer, *inputs, axis):
        return self.op("concatND", *inputs, axis=axis)

    def reshape(self, layer, x):
        return self.op("reshapeStatic", x, targetShape=list(layer.shape))

    def transpose(self, layer, x, axes):
        return self.op("transpose", x, axes=list(axes))

    def upsample(self, layer, x, factor):
        return self.op("upsample", x, scalingFactor=[factor, factor], mode=0)


class CoreMLProgram(Writer):
    """Operations of an ML program, which computes in float32 with weights in float16, as compressed packages have."""

    def __init__(self, network: Network):
        self.writer = ProgramWriter()
        super().__init__(network)
        for name in self.outputs:
            self.writer.output(name)

    def op(self, kind: str, **inputs):
        return self.writer.op(kind, **inputs)

    def weight(self, array):
        half = np.asarray(array, "float32").astype("float16")
        return self.op("cast", x=self.writer.blob(half.tobytes(), "float16", half.shape), dtype="fp32")

    def given(self, **arrays) -> dict:
        return {name: np.asarray(array, "float32") for name, array in arrays.items() if array is not None}

    def input(self, layer):
        return self.writer.input("data", layer.shape)

    @staticmethod
    def window(stride, pads) -> dict:
        top, left, bottom, right = pads
        return {"strides": list(stride), "pad_type": "custom", "pad": [top, bottom, left, right]}

    def conv(self, layer, x, weight, bias, stride, pads, dilation, groups):
        return self.op(
            "conv",
            x=x,
            weight=self.weight(weight),
            groups=groups,
            dilations=list(dilation),
            **self.window(stride, pads),
            **self.given(bias=bias),
        )

    def deconv(self, layer, x, weight, bias, stride, pads):
        return self.op(
            "conv_transpose", x=x, weight=self.weight(weight), **self.window(stride, pads), **self.given(bias=bias)
        )

    def dense(self, layer, x, weight, bias):
        return self.op("linear", x=x, weight=self.weight(weight), **self.given(bias=bias))

    def norm(self, layer, x, gamma, beta, mean, var, eps):
        return self.op("batch_norm", x=x, epsilon=eps, **self.given(gamma=gamma, beta=beta, mean=mean, variance=var))

    def affine(self, layer, x, mul, add):
        for kind, numbers, none in (("mul", mul, 1), ("add", add, 0)):
            if (numbers != none).any():
                shape = () if numbers.size == 1 else (1, -1, 1, 1)
                x = self.op(kind, x=x, y=np.asarray(numbers, "float32").reshape(shape))
        return x

    def relu(self, layer, x):
        return self.op("relu", x=x)

    def leaky(self, layer, x, alpha):
        return self.op("leaky_relu", x=x, alpha=alpha)

    def clip(self, layer, x, low, high):
        return self.op("clip", x=x, alpha=low, beta=high)

    def sigmoid(self, layer, x):
        return self.op("sigmoid", x=x)

    def softmax(self, layer, x, axis):
        return self.op("softmax", x=x, axis=axis)

    def max(self, layer, x, size, stride, pads, ceil):
        return self.op("max_pool", x=x, kernel_sizes=list(size), ceil_mode=ceil, **self.window(stride, pads))

    def mean(self, layer, x):
        return self.op("reduce_mean", x=x, axes=[2, 3], keep_dims=True)

    def add(self, layer, x, y):
        return self.op("add", x=x, y=y)

    def mul(self, layer, x, y):
        return self.op("mul", x=x, y=y)

    def concat(self, layer, *inputs, axis):
        return self.op("concat", values=tuple(inputs), axis=axis, interleave=False)

    def reshape(self, layer, x):
        return self.op("reshape", x=x, shape=list(layer.shape))

    def transpose(self, layer, x, axes):
        return self.op("transpose", x=x, perm=list(axes))

    def upsample(self, layer, x, factor):
        return self.op("upsample_nearest_neighbor", x=x, scale_factor_height=factor, scale_factor_width=factor)


def write(network: Network, folder: Path) -> Path:
    """A neural network in one file."""
    (folder / "net.mlmodel").write_bytes(CoreMLNetwork(network).writer.bytes())
    return folder / "net.mlmodel"


def write_package(network: Network, folder: Path) -> Path:
    """An ML program in a package."""
    return CoreMLProgram(network).writer.package(folder / "net.mlpackage")


def imported(network: Network, folder: Path):
    from tvm.relay.frontend import from_coreml

    return from_coreml(write(network, folder))


def imported_package(network: Network, folder: Path):
    from tvm.relay.frontend import from_coreml

    return from_coreml(write_package(network, folder))
