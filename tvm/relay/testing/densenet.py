"""DenseNet: each layer of a block reads the outputs of all previous layers."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..op.transform import concatenate
from ..substitute import free_vars
from . import layers
from .init import create_workload

# Channels of the first convolution, growth rate, layers of each block.
SPECIFICATIONS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
_BOTTLENECK = 4


def _norm_relu(data, name: str):
    return nn.relu(layers.batch_norm_infer(data, name=name))


def _layer(data, growth: int, name: str):
    value = layers.conv2d(
        _norm_relu(data, name + "_batch_norm1"), channels=_BOTTLENECK * growth, kernel_size=(1, 1), name=name + "_conv1"
    )
    value = layers.conv2d(
        _norm_relu(value, name + "_batch_norm2"),
        channels=growth,
        kernel_size=(3, 3),
        padding=(1, 1),
        name=name + "_conv2",
    )
    return concatenate((data, value), axis=1)


def densenet(num_init_features, growth_rate, block_config, data_shape, data_dtype, classes) -> Function:
    """Return the network with the given number of initial channels, growth rate and block sizes."""
    channels = num_init_features
    value = var("data", shape=data_shape, dtype=data_dtype)
    value = layers.conv2d(value, channels=channels, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3), name="conv1")
    value = nn.max_pool2d(_norm_relu(value, "batch_norm1"), pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for block, count in enumerate(block_config):
        for number in range(count):
            value = _layer(value, growth_rate, f"dense_{block}_{number}")
        channels += count * growth_rate
        if block < len(block_config) - 1:
            channels //= 2
            value = _norm_relu(value, f"transition_{block}_batch_norm")
            value = layers.conv2d(value, channels=channels, kernel_size=(1, 1), name=f"transition_{block}_conv")
            value = nn.avg_pool2d(value, pool_size=(2, 2), strides=(2, 2))
    value = nn.batch_flatten(nn.global_avg_pool2d(_norm_relu(value, "batch_norm_last")))
    value = layers.dense_add_bias(value, units=classes, name="dense_last")
    return Function(free_vars(value), value)


def get_net(densenet_size, classes, batch_size, image_shape, dtype) -> Function:
    if densenet_size not in SPECIFICATIONS:
        known = ", ".join(map(str, SPECIFICATIONS))
        raise ValueError(f"densenet: no network with {densenet_size} layers; expected one of {known}")
    first, growth, blocks = SPECIFICATIONS[densenet_size]
    return densenet(first, growth, blocks, (batch_size, *image_shape), dtype, classes)


def get_workload(densenet_size=121, classes=1000, batch_size=4, image_shape=(3, 224, 224), dtype="float32"):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(densenet_size, classes, batch_size, image_shape, dtype))
