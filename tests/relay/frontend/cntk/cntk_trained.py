"""Writes trained networks as models of CNTK 2, dictionaries as CNTK 2.7 writes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from trained_networks import Network, Writer

from tvm.relay.frontend.cntk.schema import CONSTANT, FILES, INPUT, OPERATORS, PARAMETER

_NUMBERS = {name: number for number, name in OPERATORS.items()}
_BATCH, _VERSION = 2147483647, 24


class Sizes(tuple):
    """The sizes of a tensor, the fastest axis first."""


class Axis(int):
    """The number of a static axis."""


def _fill(message, value) -> None:
    """A value of Python as one of a dictionary."""
    message.version = 1
    if isinstance(value, bool):
        message.value_type, message.bool_value = 1, value
    elif isinstance(value, Axis):
        message.value_type = 8
        axis = message.axis_value
        axis.static_axis_idx, axis.is_ordered_dynamic_axis = int(value), int(value) != _BATCH
        axis.name = "defaultBatchAxis" if value == _BATCH else f"StaticAxis_{int(value)}"
    elif isinstance(value, int):
        message.value_type = 3 if value >= 0 else 2
        setattr(message, "size_t_value" if value >= 0 else "int_value", value)
    elif isinstance(value, float):
        message.value_type, message.double_value = 5, value
    elif isinstance(value, str):
        message.value_type, message.string_value = 6, value
    elif isinstance(value, Sizes):
        message.value_type = 7
        message.nd_shape_value.shape_dim.extend(value)
    elif isinstance(value, list):
        message.value_type = 9
        message.vector_value.SetInParent()
        for each in value:
            _fill(message.vector_value.value.add(), each)
    elif isinstance(value, dict):
        message.value_type = 10
        _pairs(message.dictionary_value, value)
    else:
        message.value_type = 11
        array = message.nd_array_view_value
        array.data_type = 1
        array.shape.shape_dim.extend(value.shape[::-1])
        array.float_values.value.extend(value.reshape(-1).tolist())


def _pairs(message, values: dict) -> None:
    message.version = 1
    for key, value in values.items():
        pair = message.data.add()
        pair.key = key
        _fill(pair.value, value)


class CNTK(Writer):
    """Layers as primitive functions."""

    def __init__(self, network: Network):
        self.variables: list[dict] = []
        self.functions: list[dict] = []
        super().__init__(network)
        if len(self.outputs) > 1:
            self.op("Combine", *self.outputs)
        self.root = {
            "type": "CompositeFunction",
            "uid": "CompositeFunction0",
            "version": 3,
            "root": self.functions[-1]["uid"],
            "inputs": self.variables,
            "primitive_functions": self.functions,
        }

    def bytes(self) -> bytes:
        made = FILES.messages["Dictionary"]()
        _pairs(made, self.root)
        return made.SerializeToString()

    def op(self, kind: str, *inputs: str, **attributes) -> str:
        key = f"{kind}{len(self.functions)}"
        self.functions.append(
            {
                "type": "PrimitiveFunction",
                "version": _VERSION,
                "uid": key,
                "op": _NUMBERS[kind],
                "inputs": list(inputs),
                "attributes": attributes,
            }
        )
        return f"{key}_Output_0"

    def variable(self, kind: int, name: str, shape, axes: list, **more) -> str:
        key = f"{name}{len(self.variables)}"
        self.variables.append(
            {
                "type": "Variable",
                "version": 1,
                "uid": key,
                "kind": kind,
                "data_type": 1,
                "name": key,
                "dynamic_axis": axes,
                "is_sparse": False,
                "needs_gradient": kind == PARAMETER,
                "shape": Sizes(shape),
                **more,
            }
        )
        return key

    def weight(self, array, constant: bool = False) -> str:
        """An array, whose last axis is the fastest one."""
        array = np.asarray(array, "float32")
        return self.variable(CONSTANT if constant else PARAMETER, "Parameter", array.shape[::-1], [], value=array)

    def input(self, layer):
        return self.variable(INPUT, "Input", layer.shape[:0:-1], [Axis(_BATCH)])

    def conv(self, layer, x, weight, bias, stride, pads, dilation, groups):
        top, left, bottom, right = pads
        depth = weight.shape[1]
        out = self.op("Convolution", self.weight(weight), x, strides=Sizes((stride[1], stride[0], depth)),
                      sharing=[True] * 3, autoPadding=[False] * 3, lowerPad=Sizes((left, top, 0)),
                      upperPad=Sizes((right, bottom, 0)), dilation=Sizes((dilation[1], dilation[0], 1)),
                      groups=groups, transpose=False, outputShape=Sizes((0,)), maxTempMemSizeInSamples=0,
                      kernelShape=Sizes(weight.shape[:0:-1]), sequential=False)  # fmt: skip
        return out if bias is None else self.op("Plus", out, self.weight(bias.reshape(-1, 1, 1)))

    def dense(self, layer, x, weight, bias):
        # The output is the fastest axis of the weights.
        out = self.op("Times", self.weight(weight.T), x, outputRank=1, inferInputRankToMap=-1)
        return out if bias is None else self.op("Plus", out, self.weight(bias))

    def affine(self, layer, x, mul, add):
        for kind, numbers, none in (("ElementTimes", mul, 1), ("Plus", add, 0)):
            if (numbers != none).any():
                rank = len(layer.shape) - 2 if numbers.size > 1 else 0
                x = self.op(kind, x, self.weight(numbers.reshape(-1, *[1] * rank)))
        return x

    def norm(self, layer, x, gamma, beta, mean, var, eps):
        given = [self.weight(a) for a in (gamma, beta, mean, var)]
        count = self.weight(np.array(1.0), constant=True)
        return self.op(
            "BatchNormalization",
            x,
            *given,
            count,
            spatial=True,
            normalizationTimeConstant=0.0,
            blendTimeConstant=float("inf"),
            epsilon=float(eps),
            useCuDNNEngine=False,
            disableRegularization=False,
        )

    def relu(self, layer, x):
        return self.op("ReLU", x)

    def clip(self, layer, x, low, high):
        return self.op("Clip", x, *(self.weight(np.array(v), constant=True) for v in (low, high)))

    def softmax(self, layer, x, axis):
        return self.op("Softmax", x, axis=Axis(len(layer.shape) - 1 - axis))

    def pool(self, kind: int, x, size, stride, pads) -> str:
        top, left, bottom, right = pads
        return self.op("Pooling", x, poolingType=kind, poolingWindowShape=Sizes(size[::-1]),
                       strides=Sizes(stride[::-1]), autoPadding=[False] * 2, lowerPad=Sizes((left, top)),
                       upperPad=Sizes((right, bottom)), ceilOutDim=False, includePad=False)  # fmt: skip

    def max(self, layer, x, size, stride, pads, ceil):
        return self.pool(0, x, size, stride, pads)

    def avg(self, layer, x, size, stride, pads, ceil):
        return self.pool(1, x, size, stride, pads)

    def mean(self, layer, x):
        return self.pool(1, x, self.input_shape(layer)[2:], (1, 1), [0] * 4)

    def add(self, layer, x, y):
        return self.op("Plus", x, y)

    def concat(self, layer, *inputs, axis):
        return self.op("Splice", *inputs, axis=Axis(len(layer.shape) - 1 - axis))

    def reshape(self, layer, x):
        return self.op("Reshape", x, newShape=Sizes(layer.shape[:0:-1]), beginAxis=Axis(0),
                       endAxis=Axis(len(self.input_shape(layer)) - 1))  # fmt: skip


def write(network: Network, folder: Path) -> Path:
    path = folder / "network.model"
    path.write_bytes(CNTK(network).bytes())
    return path


def imported(network: Network, folder: Path):
    from tvm.relay.frontend import from_cntk

    return from_cntk(write(network, folder))
