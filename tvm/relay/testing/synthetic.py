"""A very small model for tests, with one layer of each common type."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..op.tensor import add
from ..substitute import free_vars
from . import layers
from .init import create_workload


def get_net(input_shape=(1, 3, 24, 12), dtype="float32", wtype=None) -> Function:
    wtype = wtype or dtype
    channels = input_shape[1]

    def conv(data, kernel: int, groups: int, name: str):
        weight = var(name + "_weight", shape=(channels, channels // groups, kernel, kernel), dtype=wtype)
        return nn.conv2d(
            data,
            weight,
            channels=channels,
            kernel_size=(kernel, kernel),
            padding=(kernel // 2,) * 2,
            groups=groups,
            out_dtype=dtype,
        )

    data = var("data", shape=input_shape, dtype=dtype)
    value = nn.bias_add(conv(data, 3, 1, "conv1"), var("conv1_bias", shape=(channels,), dtype=dtype))
    value = add(nn.relu(value), conv(data, 3, channels, "conv2"))
    value = nn.max_pool2d(value, pool_size=(2, 2), strides=(2, 2))
    value = layers.dense_add_bias(nn.batch_flatten(value), units=10, name="fc1")
    return Function(free_vars(value), value)


def get_workload(input_shape=(1, 3, 24, 12), dtype="float32", wtype=None):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(input_shape, dtype, wtype))
