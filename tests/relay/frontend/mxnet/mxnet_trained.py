"""Writes trained networks as symbols and parameters of MXNet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from mxnet_writer import Net, params_bytes
from trained_networks import Network, Writer


class MXNet(Writer):
    """Layers as nodes of a symbol, in the words of Gluon's export."""

    def __init__(self, network: Network):
        self.net = Net()
        super().__init__(network)

    def var(self, name: str, array, kind: str = "arg"):
        name = f"{name}{len(self.net.nodes)}"
        self.net.params[f"{kind}:{name}"] = np.asarray(array, "float32")
        return self.net.var(name)

    def input(self, layer):
        return self.net.var("data")

    def padded(self, x, pads):
        top, left, bottom, right = pads
        if (top, left) == (bottom, right):
            return x, (top, left)
        width = (0, 0, 0, 0, top, bottom, left, right)
        return self.net.op("Pad", x, mode="constant", pad_width=width, constant_value=0), (0, 0)

    def conv(self, layer, x, weight, bias, stride, pads, dilation, groups):
        x, pad = self.padded(x, pads)
        given = [self.var("weight", weight), *([] if bias is None else [self.var("bias", bias)])]
        return self.net.op(
            "Convolution",
            x,
            *given,
            kernel=weight.shape[2:],
            stride=tuple(stride),
            pad=pad,
            num_filter=len(weight),
            num_group=groups,
            dilate=tuple(dilation),
            no_bias=bias is None,
            layout="NCHW",
        )

    def deconv(self, layer, x, weight, bias, stride, pads):
        given = [self.var("weight", weight), *([] if bias is None else [self.var("bias", bias)])]
        return self.net.op(
            "Deconvolution",
            x,
            *given,
            kernel=weight.shape[2:],
            stride=tuple(stride),
            pad=(0, 0),
            num_filter=weight.shape[1],
            no_bias=bias is None,
        )

    def dense(self, layer, x, weight, bias):
        given = [self.var("weight", weight), *([] if bias is None else [self.var("bias", bias)])]
        return self.net.op("FullyConnected", x, *given, num_hidden=len(weight), no_bias=bias is None)

    def norm(self, layer, x, gamma, beta, mean, var, eps):
        rows = [
            self.var("gamma", gamma),
            self.var("beta", beta),
            self.var("running_mean", mean, "aux"),
            self.var("running_var", var, "aux"),
        ]
        return self.net.op("BatchNorm", x, *rows, eps=eps, fix_gamma=False, momentum=0.9, use_global_stats=False)

    def affine(self, layer, x, mul, add):
        for numbers, one, many, none in ((mul, "_mul_scalar", "broadcast_mul", 1),
                                         (add, "_plus_scalar", "broadcast_add", 0)):  # fmt: skip
            if numbers.size > 1:
                x = self.net.op(many, x, self.var("constant", numbers.reshape(1, -1, 1, 1)))
            elif numbers[0] != none:
                x = self.net.op(one, x, scalar=float(numbers[0]))
        return x

    def relu(self, layer, x):
        return self.net.relu(x)

    def leaky(self, layer, x, alpha):
        return self.net.op("LeakyReLU", x, act_type="leaky", slope=alpha)

    def clip(self, layer, x, low, high):
        return self.net.op("clip", x, a_min=low, a_max=high)

    def sigmoid(self, layer, x):
        return self.net.op("sigmoid", x)

    def softmax(self, layer, x, axis):
        return self.net.op("softmax", x, axis=axis)

    def max(self, layer, x, size, stride, pads, ceil, kind="max"):
        x, pad = self.padded(x, pads)
        return self.net.op(
            "Pooling",
            x,
            pool_type=kind,
            kernel=tuple(size),
            stride=tuple(stride),
            pad=pad,
            pooling_convention="full" if ceil else "valid",
        )

    def mean(self, layer, x):
        return self.net.op("Pooling", x, pool_type="avg", kernel=(1, 1), global_pool=True)

    def add(self, layer, x, y):
        return self.net.op("elemwise_add", x, y)

    def mul(self, layer, x, y):
        return self.net.op("broadcast_mul", x, y)

    def concat(self, layer, *inputs, axis):
        return self.net.op("Concat", *inputs, num_args=len(inputs), dim=axis)

    def reshape(self, layer, x):
        flat = len(layer.shape) == 2
        return self.net.op("Flatten", x) if flat else self.net.op("Reshape", x, shape=layer.shape)

    def transpose(self, layer, x, axes):
        return self.net.op("transpose", x, axes=tuple(axes))

    def upsample(self, layer, x, factor):
        return self.net.op("UpSampling", x, scale=factor, sample_type="nearest", num_args=1)


def write(network: Network, folder: Path) -> Path:
    """The symbol, with the file of parameters beside it."""
    made = MXNet(network)
    (folder / "net-symbol.json").write_text(made.net.symbol(*made.outputs))
    (folder / "net-0000.params").write_bytes(params_bytes(made.net.params))
    return folder / "net-symbol.json"


def imported(network: Network, folder: Path):
    from tvm.relay.frontend import from_mxnet

    path = write(network, folder)
    params = (folder / "net-0000.params").read_bytes()
    return from_mxnet(path.read_text(), {"data": network.layers[0].shape}, arg_params=params)
