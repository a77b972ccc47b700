"""VGG networks: stages of convolutions, followed by three dense layers."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..substitute import free_vars
from . import layers
from .init import create_workload

DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
FILTERS = (64, 128, 256, 512, 512)


def get_feature(internal_layer, layers_, filters, batch_norm=False):
    """Return the convolution stages, each followed by max pooling."""
    value = internal_layer
    for stage, count in enumerate(layers_, 1):
        for number in range(1, count + 1):
            name = f"conv{stage}_{number}"
            value = layers.conv2d(value, kernel_size=(3, 3), padding=(1, 1), channels=filters[stage - 1], name=name)
            value = nn.bias_add(value, var(name + "_bias"))
            if batch_norm:
                value = layers.batch_norm_infer(value, name=f"bn{stage}_{number}")
            value = nn.relu(value)
        value = nn.max_pool2d(value, pool_size=(2, 2), strides=(2, 2))
    return value


def get_classifier(input_data, num_classes):
    """Return the three dense layers."""
    value = nn.batch_flatten(input_data)
    for number in (6, 7):
        value = nn.dropout(nn.relu(layers.dense_add_bias(value, units=4096, name=f"fc{number}")), rate=0.5)
    return layers.dense_add_bias(value, units=num_classes, name="fc8")


def get_net(batch_size, image_shape, num_classes, dtype="float32", num_layers=11, batch_norm=False) -> Function:
    if num_layers not in DEPTHS:
        raise ValueError(f"vgg: no network with {num_layers} layers; expected one of {', '.join(map(str, DEPTHS))}")
    data = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    value = get_feature(data, DEPTHS[num_layers], FILTERS, batch_norm)
    value = nn.softmax(get_classifier(value, num_classes))
    return Function(free_vars(value), value)


def get_workload(
    batch_size, num_classes=1000, image_shape=(3, 224, 224), dtype="float32", num_layers=11, batch_norm=False
):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, dtype, num_layers, batch_norm))
