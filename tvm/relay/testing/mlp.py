"""A multilayer perceptron with three layers."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..substitute import free_vars
from . import layers
from .init import create_workload


def get_net(batch_size, num_classes=10, image_shape=(1, 28, 28), dtype="float32") -> Function:
    value = nn.batch_flatten(var("data", shape=(batch_size, *image_shape), dtype=dtype))
    for number, units in enumerate((128, 64), 1):
        value = nn.relu(layers.dense_add_bias(value, units=units, name=f"fc{number}"))
    value = nn.softmax(layers.dense_add_bias(value, units=num_classes, name="fc3"))
    return Function(free_vars(value), value)


def get_workload(batch_size, num_classes=10, image_shape=(1, 28, 28), dtype="float32"):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
