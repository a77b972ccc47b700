"""Writes trained networks as programs and parameters of PaddlePaddle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle_writer
from trained_networks import Network, Writer


class Paddle(Writer):
    """Layers as operators of a program."""

    def __init__(self, network: Network):
        self.operators: list = []
        self.weights: dict[str, np.ndarray] = {}
        super().__init__(network)

    def op(self, kind: str, inputs: dict, out: str = "Out", more=(), **attrs) -> str:
        name = f"{kind}_{len(self.operators)}.tmp_0"
        outputs = {out: name, **{slot: f"{name}.{slot}" for slot in more}}
        self.operators.append((kind, inputs, outputs, attrs))
        return name

    def weight(self, array) -> str:
        name = f"w_{len(self.weights):04}"
        self.weights[name] = np.ascontiguousarray(array, "float32")
        return name

    def input(self, layer):
        return "x"

    def biased(self, x, bias, axis=1):
        return x if bias is None else self.op("elementwise_add", {"X": x, "Y": self.weight(bias)}, axis=axis)

    def conv(self, layer, x, weight, bias, stride, pads, dilation, groups):
        top, left, bottom, right = pads
        paddings = [top, left] if (top, left) == (bottom, right) else [top, bottom, left, right]
        kind = "depthwise_conv2d" if groups == self.input_shape(layer)[1] and groups > 1 else "conv2d"
        out = self.op(
            kind,
            {"Input": x, "Filter": self.weight(weight)},
            "Output",
            strides=stride,
            paddings=paddings,
            groups=groups,
            dilations=dilation,
            padding_algorithm="EXPLICIT",
            data_format="NCHW",
        )
        return self.biased(out, bias)

    def deconv(self, layer, x, weight, bias, stride, pads):
        out = self.op(
            "conv2d_transpose",
            {"Input": x, "Filter": self.weight(weight)},
            "Output",
            strides=stride,
            paddings=pads[:2],
            groups=1,
            dilations=[1, 1],
            padding_algorithm="EXPLICIT",
            output_size=[],
            output_padding=[],
            data_format="NCHW",
        )
        return self.biased(out, bias)

    def dense(self, layer, x, weight, bias):
        made = self.op("matmul_v2", {"X": x, "Y": self.weight(weight.T)}, trans_x=False, trans_y=False)
        return self.biased(made, bias)

    def norm(self, layer, x, gamma, beta, mean, var, eps):
        slots = {"Scale": gamma, "Bias": beta, "Mean": mean, "Variance": var}
        given = {slot: self.weight(array) for slot, array in slots.items()}
        name = self.op(
            "batch_norm",
            {"X": x, **given},
            "Y",
            ("SavedMean", "SavedVariance"),
            epsilon=eps,
            is_test=True,
            momentum=0.9,
            data_layout="NCHW",
            use_global_stats=False,
            trainable_statistics=False,
        )
        self.operators[-1][2].update(MeanOut=given["Mean"], VarianceOut=given["Variance"])
        return name

    def affine(self, layer, x, mul, add):
        if mul.size == add.size == 1:
            return self.op("scale", {"X": x}, scale=float(mul[0]), bias=float(add[0]), bias_after_scale=True)
        if (mul != 1).any():
            x = self.op("elementwise_mul", {"X": x, "Y": self.weight(mul)}, axis=1)
        return self.biased(x, add) if (add != 0).any() else x

    def relu(self, layer, x):
        return self.op("relu", {"X": x})

    def leaky(self, layer, x, alpha):
        return self.op("leaky_relu", {"X": x}, alpha=alpha)

    def clip(self, layer, x, low, high):
        return (
            self.op("relu6", {"X": x}, threshold=6.0)
            if (low, high) == (0, 6)
            else self.op("clip", {"X": x}, min=low, max=high)
        )

    def sigmoid(self, layer, x):
        return self.op("sigmoid", {"X": x})

    def softmax(self, layer, x, axis):
        return self.op("softmax", {"X": x}, axis=axis)

    def max(self, layer, x, size, stride, pads, ceil, kind="max"):
        top, left, bottom, right = pads
        paddings = [top, left] if (top, left) == (bottom, right) else [top, bottom, left, right]
        return self.op(
            "pool2d",
            {"X": x},
            pooling_type=kind,
            ksize=size,
            strides=stride,
            paddings=paddings,
            ceil_mode=ceil,
            global_pooling=False,
            adaptive=False,
            exclusive=True,
            padding_algorithm="EXPLICIT",
            data_format="NCHW",
        )

    def mean(self, layer, x):
        return self.op(
            "pool2d",
            {"X": x},
            pooling_type="avg",
            ksize=[1, 1],
            strides=[1, 1],
            paddings=[0, 0],
            ceil_mode=False,
            global_pooling=False,
            adaptive=True,
            exclusive=True,
            padding_algorithm="EXPLICIT",
            data_format="NCHW",
        )

    def add(self, layer, x, y):
        return self.op("elementwise_add", {"X": x, "Y": y}, axis=-1)

    def mul(self, layer, x, y):
        # The larger comes first.
        x, y = (x, y) if self.input_shape(layer) == layer.shape else (y, x)
        return self.op("elementwise_mul", {"X": x, "Y": y}, axis=-1)

    def concat(self, layer, *inputs, axis):
        return self.op("concat", {"X": list(inputs)}, axis=axis)

    def reshape(self, layer, x):
        return self.op("reshape2", {"X": x}, more=("XShape",), shape=list(layer.shape))

    def transpose(self, layer, x, axes):
        return self.op("transpose2", {"X": x}, more=("XShape",), axis=list(axes))

    def upsample(self, layer, x, factor):
        return self.op(
            "nearest_interp_v2",
            {"X": x},
            scale=[float(factor)] * 2,
            out_h=-1,
            out_w=-1,
            out_d=-1,
            interp_method="nearest",
            align_corners=False,
            align_mode=1,
            data_layout="NCHW",
        )


def write(network: Network, folder: Path) -> Path:
    """The program, with its parameters beside it."""
    made = Paddle(network)
    feeds = {"x": ((-1, *network.layers[0].shape[1:]), "float32")}
    program = paddle_writer.program(made.operators, feeds, made.outputs, made.weights)
    return paddle_writer.write(folder, "inference", program, made.weights)


def imported(network: Network, folder: Path):
    from tvm.relay.frontend import from_paddle

    return from_paddle(write(network, folder), {"x": network.layers[0].shape})
