"""Writes trained networks as nets of Caffe2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from caffe2_writer import add
from trained_networks import Network, Writer

from tvm.relay.frontend.caffe2.schema import FILES


class Caffe2(Writer):
    """Layers as operators of the net that runs, weights as those of the net before it."""

    def __init__(self, network: Network):
        self.init, self.predict = FILES.messages["Net"](name="init"), FILES.messages["Net"](name="predict")
        self.weights: list[str] = []
        super().__init__(network)
        self.predict.external_input.extend(["data", *self.weights])
        self.predict.external_output.extend(self.outputs)

    def op(self, kind: str, *inputs: str, more: int = 0, **args) -> str:
        name = f"{kind.lower()}_{len(self.predict.op)}"
        add(self.predict, kind, inputs, [name, *(f"{name}_{i}" for i in range(more))], **args)
        return name

    def weight(self, array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(name)
        add(
            self.init,
            "GivenTensorFill",
            [],
            [name],
            shape=list(array.shape),
            values=np.asarray(array, "float32").reshape(-1).tolist(),
        )
        return name

    def input(self, layer):
        return "data"

    @staticmethod
    def window(size, stride, pads) -> dict:
        top, left, bottom, right = pads
        return {
            "kernel_h": size[0],
            "kernel_w": size[1],
            "stride_h": stride[0],
            "stride_w": stride[1],
            "pad_t": top,
            "pad_l": left,
            "pad_b": bottom,
            "pad_r": right,
            "order": "NCHW",
        }

    def conv(self, layer, x, weight, bias, stride, pads, dilation, groups):
        given = [self.weight(weight), *([] if bias is None else [self.weight(bias)])]
        return self.op(
            "Conv",
            x,
            *given,
            group=groups,
            dilation_h=dilation[0],
            dilation_w=dilation[1],
            **self.window(weight.shape[2:], stride, pads),
        )

    def deconv(self, layer, x, weight, bias, stride, pads):
        given = [self.weight(weight), *([] if bias is None else [self.weight(bias)])]
        return self.op("ConvTranspose", x, *given, **self.window(weight.shape[2:], stride, pads))

    def dense(self, layer, x, weight, bias):
        return self.op("FC", x, self.weight(weight), self.weight(np.zeros(len(weight)) if bias is None else bias))

    def norm(self, layer, x, gamma, beta, mean, var, eps):
        given = [self.weight(a) for a in (gamma, beta, mean, var)]
        return self.op("SpatialBN", x, *given, is_test=1, epsilon=float(eps), order="NCHW")

    def affine(self, layer, x, mul, add):
        for kind, numbers, none in (("Mul", mul, 1), ("Add", add, 0)):
            if (numbers != none).any():
                numbers = numbers if numbers.size == 1 else numbers.reshape(-1, 1, 1)
                x = self.op(kind, x, self.weight(numbers), broadcast=1)
        return x

    def relu(self, layer, x):
        return self.op("Relu", x)

    def leaky(self, layer, x, alpha):
        return self.op("LeakyRelu", x, alpha=alpha)

    def clip(self, layer, x, low, high):
        return self.op("Clip", x, min=low, max=high)

    def sigmoid(self, layer, x):
        return self.op("Sigmoid", x)

    def softmax(self, layer, x, axis):
        return self.op("Softmax", x, axis=axis)

    def max(self, layer, x, size, stride, pads, ceil):
        return self.op("MaxPool", x, **self.window(size, stride, pads))

    def mean(self, layer, x):
        return self.op("AveragePool", x, global_pooling=1, order="NCHW")

    def add(self, layer, x, y):
        return self.op("Sum", x, y)

    def mul(self, layer, x, y):
        x, y = (x, y) if self.input_shape(layer) == layer.shape else (y, x)
        return self.op("Mul", x, y)

    def concat(self, layer, *inputs, axis):
        return self.op("Concat", *inputs, more=1, axis=axis)

    def reshape(self, layer, x):
        return self.op("Reshape", x, more=1, shape=list(layer.shape))

    def transpose(self, layer, x, axes):
        return self.op("Transpose", x, axes=list(axes))

    def upsample(self, layer, x, factor):
        return self.op("ResizeNearest", x, width_scale=float(factor), height_scale=float(factor), order="NCHW")


def write(network: Network, folder: Path) -> Path:
    """The net that runs, with the one that fills its weights beside it."""
    made = Caffe2(network)
    (folder / "init_net.pb").write_bytes(made.init.SerializeToString())
    (folder / "predict_net.pb").write_bytes(made.predict.SerializeToString())
    return folder / "predict_net.pb"


def imported(network: Network, folder: Path):
    from tvm.relay.frontend import from_caffe2

    path = write(network, folder)
    return from_caffe2(folder / "init_net.pb", path, shape={"data": network.layers[0].shape})
