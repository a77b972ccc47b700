"""The deep Q-network (DQN), which computes action values from the last four frames of a game."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..substitute import free_vars
from . import layers
from .init import create_workload

# Channels, kernel size, stride.
_CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))


def get_net(batch_size, num_actions=18, image_shape=(4, 84, 84), dtype="float32", layout="NCHW") -> Function:
    value = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    for number, (channels, kernel, stride) in enumerate(_CONVOLUTIONS, 1):
        name = f"conv{number}"
        value = layers.conv2d(
            value,
            channels=channels,
            kernel_size=(kernel, kernel),
            strides=(stride, stride),
            data_layout=layout,
            kernel_layout=layers.conv_kernel_layout(layout),
            name=name,
        )
        value = nn.relu(nn.bias_add(value, var(name + "_bias"), axis=layout.index("C")))
    value = nn.relu(layers.dense_add_bias(nn.batch_flatten(value), units=512, name="dense1"))
    value = layers.dense_add_bias(value, units=num_actions, name="dense2")
    return Function(free_vars(value), value)


def get_workload(batch_size, num_actions=18, image_shape=(4, 84, 84), dtype="float32", layout="NCHW"):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype, layout))
