"""Writes trained networks as prototxt and caffemodel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from caffe_writer import inputs, layer, weights
from trained_networks import Network, Writer, symmetric


class Caffe(Writer):
    """Layers of the newer format."""

    def __init__(self, network: Network):
        self.text, self.count = "", 0
        self.blobs: dict[str, list] = {}
        self.kinds: dict[str, str] = {}
        super().__init__(network)

    def op(self, kind: str, *bottoms: str, param: str = "", blobs=()) -> str:
        self.count += 1
        name = f"{kind.lower()}{self.count}"
        self.text += layer(kind, " ".join(bottoms), name, param)
        if len(blobs):
            self.blobs[name], self.kinds[name] = list(blobs), kind
        return name

    def input(self, layer):
        self.text += inputs(data=layer.shape)
        return "data"

    @staticmethod
    def window(size, stride, pad) -> str:
        return (
            f"kernel_h: {size[0]} kernel_w: {size[1]} stride_h: {stride[0]} stride_w: {stride[1]} pad_h: {pad[0]} "
            f"pad_w: {pad[1]}"
        )

    def conv(self, layer, x, weight, bias, stride, pads, dilation, groups):
        weight, pad = symmetric(layer)
        param = (
            f"convolution_param {{ num_output: {len(weight)} {self.window(weight.shape[2:], stride, pad)} "
            f"group: {groups} dilation: {dilation[0]} bias_term: {'false' if bias is None else 'true'} }}"
        )
        return self.op("Convolution", x, param=param, blobs=[weight, *([] if bias is None else [bias])])

    def deconv(self, layer, x, weight, bias, stride, pads):
        param = (
            f"convolution_param {{ num_output: {weight.shape[1]} "
            f"{self.window(weight.shape[2:], stride, pads[:2])} "
            f"bias_term: {'false' if bias is None else 'true'} }}"
        )
        return self.op("Deconvolution", x, param=param, blobs=[weight, *([] if bias is None else [bias])])

    def dense(self, layer, x, weight, bias):
        param = f"inner_product_param {{ num_output: {len(weight)} bias_term: {'false' if bias is None else 'true'} }}"
        return self.op("InnerProduct", x, param=param, blobs=[weight, *([] if bias is None else [bias])])

    def scaled(self, x, mul, add):
        return self.op("Scale", x, param="scale_param { bias_term: true }", blobs=[mul, add])

    def norm(self, layer, x, gamma, beta, mean, var, eps):
        param = f"batch_norm_param {{ use_global_stats: true eps: {eps} }}"
        x = self.op("BatchNorm", x, param=param, blobs=[mean, var, np.ones(1)])
        return self.scaled(x, gamma, beta)

    def affine(self, layer, x, mul, add):
        if mul.size == add.size == 1:
            return self.op("Power", x, param=f"power_param {{ scale: {float(mul[0])} shift: {float(add[0])} }}")
        whole = np.zeros(layer.shape[1])
        return self.scaled(x, whole + mul, whole + add)

    def relu(self, layer, x):
        return self.op("ReLU", x)

    def leaky(self, layer, x, alpha):
        return self.op("ReLU", x, param=f"relu_param {{ negative_slope: {alpha} }}")

    def clip(self, layer, x, low, high):
        return self.op("Clip", x, param=f"clip_param {{ min: {low} max: {high} }}")

    def sigmoid(self, layer, x):
        return self.op("Sigmoid", x)

    def softmax(self, layer, x, axis):
        return self.op("Softmax", x, param=f"softmax_param {{ axis: {axis} }}")

    def max(self, layer, x, size, stride, pads, ceil):
        mode = "" if ceil else "round_mode: FLOOR"
        return self.op("Pooling", x, param=f"pooling_param {{ pool: MAX {self.window(size, stride, pads)} {mode} }}")

    def mean(self, layer, x):
        return self.op("Pooling", x, param="pooling_param { pool: AVE global_pooling: true }")

    def add(self, layer, x, y):
        return self.op("Eltwise", x, y, param="eltwise_param { operation: SUM }")

    def mul(self, layer, x, y):
        first, second = (self.shapes[i] for i in layer.inputs)
        if first == second:
            return self.op("Eltwise", x, y, param="eltwise_param { operation: PROD }")
        # A number for each channel: the factors have as many axes as they count.
        x, y, small = (x, y, second) if first == layer.shape else (y, x, first)
        y = self.op("Reshape", y, param=f"reshape_param {{ shape {{ dim: {small[0]} dim: {small[1]} }} }}")
        return self.op("Scale", x, y, param="scale_param { axis: 0 }")

    def concat(self, layer, *inputs, axis):
        return self.op("Concat", *inputs, param=f"concat_param {{ axis: {axis} }}")

    def reshape(self, layer, x):
        dims = " ".join(f"dim: {d}" for d in layer.shape)
        return self.op("Reshape", x, param=f"reshape_param {{ shape {{ {dims} }} }}")

    def transpose(self, layer, x, axes):
        return self.op("Permute", x, param="permute_param { " + " ".join(f"order: {a}" for a in axes) + " }")

    def upsample(self, layer, x, factor):
        # A deconvolution with ones, a group for each channel.
        channels = layer.shape[1]
        size = [factor, factor]
        param = (
            f"convolution_param {{ num_output: {channels} {self.window(size, size, (0, 0))} group: {channels} "
            "bias_term: false }"
        )
        return self.op("Deconvolution", x, param=param, blobs=[np.ones((channels, 1, factor, factor))])


def write(network: Network, folder: Path) -> Path:
    """The prototxt, with the caffemodel beside it."""
    made = Caffe(network)
    (folder / "net.prototxt").write_text(made.text)
    (folder / "net.caffemodel").write_bytes(weights(made.blobs, kinds=made.kinds))
    return folder / "net.prototxt"


def imported(network: Network, folder: Path):
    from tvm.relay.frontend import from_caffe

    path = write(network, folder)
    return from_caffe(path.with_suffix(".caffemodel"), path)
