"""MobileNet v1, which splits convolutions into depthwise and pointwise ones."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..substitute import free_vars
from . import layers
from .init import create_workload

# Channels and stride of the separable blocks. The block of 512 channels is repeated five times in between.
_HEAD = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2))
_TAIL = ((1024, 2), (1024, 1))


def conv_block(data, name, channels, kernel_size=(3, 3), strides=(1, 1), padding=(1, 1), epsilon=1e-5, layout="NCHW"):
    """Return a convolution with batch normalization and ReLU."""
    value = layers.conv2d(
        data,
        channels=channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=padding,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=name + "_conv",
    )
    return nn.relu(layers.batch_norm_infer(value, epsilon=epsilon, axis=layout.index("C"), name=name + "_bn"))


def separable_conv_block(
    data,
    name,
    depthwise_channels,
    pointwise_channels,
    kernel_size=(3, 3),
    downsample=False,
    padding=(1, 1),
    epsilon=1e-5,
    layout="NCHW",
    dtype="float32",
):
    """Return a depthwise convolution followed by a pointwise convolution."""
    strides, axis, rows = (2, 2) if downsample else (1, 1), layout.index("C"), kernel_size
    shape = (depthwise_channels, 1, *rows) if layout == "NCHW" else (*rows, depthwise_channels, 1)
    weight = var(name + "_weight", shape=shape, dtype=dtype)
    value = layers.conv2d(
        data,
        weight=weight,
        channels=depthwise_channels,
        groups=depthwise_channels,
        kernel_size=kernel_size,
        strides=strides,
        padding=padding,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout, True),
        name=name + "_depthwise_conv1",
    )
    value = nn.relu(layers.batch_norm_infer(value, epsilon=epsilon, axis=axis, name=name + "_bn1"))
    value = layers.conv2d(
        value,
        channels=pointwise_channels,
        kernel_size=(1, 1),
        strides=(1, 1),
        padding=(0, 0),
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=name + "_conv2",
    )
    return nn.relu(layers.batch_norm_infer(value, epsilon=epsilon, axis=axis, name=name + "_bn2"))


def mobile_net(
    num_classes=1000, data_shape=(1, 3, 224, 224), dtype="float32", alpha=1.0, is_shallow=False, layout="NCHW"
) -> Function:
    """Return the network. ``alpha`` scales the number of channels; ``is_shallow`` omits the five middle blocks."""
    blocks = _HEAD + (() if is_shallow else ((512, 1),) * 5) + _TAIL
    channels = int(32 * alpha)
    value = var("data", shape=data_shape, dtype=dtype)
    value = conv_block(value, "conv_block_1", channels, strides=(2, 2), layout=layout)
    for number, (wide, stride) in enumerate(blocks, 1):
        value = separable_conv_block(
            value,
            f"separable_conv_block_{number}",
            channels,
            int(wide * alpha),
            downsample=stride == 2,
            layout=layout,
            dtype=dtype,
        )
        channels = int(wide * alpha)
    value = nn.batch_flatten(nn.global_avg_pool2d(value, layout=layout))
    value = nn.softmax(nn.bias_add(nn.dense(value, var("fc_weight"), units=num_classes), var("fc_bias")))
    return Function(free_vars(value), value)


def get_workload(batch_size=1, num_classes=1000, image_shape=(3, 224, 224), dtype="float32", layout="NCHW"):
    """Return the model as a module with random parameters."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype, layout=layout))
