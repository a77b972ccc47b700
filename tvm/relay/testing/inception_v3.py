"""Inception v3."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..op.transform import concatenate
from ..substitute import free_vars
from . import layers
from .init import create_workload


def _conv(data, channels: int, kernel, name: str, stride: int = 1, padding=(0, 0)):
    value = layers.conv2d(
        data, channels=channels, kernel_size=kernel, strides=(stride, stride), padding=padding, name=name + "_conv1"
    )
    value = layers.batch_norm_infer(value, epsilon=2e-5, scale=False, name=name + "_bn")
    return nn.relu(value)


def _tower(data, name: str, *steps):
    """Return a chain of convolutions. A step is (channels, kernel) or (channels, kernel, stride)."""
    for number, (channels, kernel, *stride) in enumerate(steps):
        same = (kernel[0] // 2, kernel[1] // 2) if not stride else (0, 0)
        value = _conv(data, channels, kernel, f"{name}_{number}", *stride, padding=same)
        data = value
    return data


def _pool(data, kind: str = "avg"):
    function = {"avg": nn.avg_pool2d, "max": nn.max_pool2d}[kind]
    options = {"count_include_pad": True} if kind == "avg" else {}
    return function(data, pool_size=(3, 3), strides=(1, 1), padding=(1, 1), **options)


def _shrink(data):
    return nn.max_pool2d(data, pool_size=(3, 3), strides=(2, 2))


_1, _3, _5 = (1, 1), (3, 3), (5, 5)


def _inception_a(data, pool_channels: int, name: str):
    return concatenate(
        (
            _tower(data, name + "_1x1", (64, _1)),
            _tower(data, name + "_5x5", (48, _1), (64, _5)),
            _tower(data, name + "_3x3", (64, _1), (96, _3), (96, _3)),
            _tower(_pool(data), name + "_pool", (pool_channels, _1)),
        ),
        axis=1,
    )


def _reduction_a(data, name: str):
    return concatenate(
        (
            _tower(data, name + "_3x3", (384, _3, 2)),
            _tower(data, name + "_double", (64, _1), (96, _3), (96, _3, 2)),
            _shrink(data),
        ),
        axis=1,
    )


def _inception_b(data, narrow: int, name: str):
    wide, tall = (1, 7), (7, 1)
    return concatenate(
        (
            _tower(data, name + "_1x1", (192, _1)),
            _tower(data, name + "_7x7", (narrow, _1), (narrow, wide), (192, tall)),
            _tower(data, name + "_double", (narrow, _1), (narrow, tall), (narrow, wide), (narrow, tall), (192, wide)),
            _tower(_pool(data), name + "_pool", (192, _1)),
        ),
        axis=1,
    )


def _reduction_b(data, name: str):
    return concatenate(
        (
            _tower(data, name + "_3x3", (192, _1), (320, _3, 2)),
            _tower(data, name + "_7x7", (192, _1), (192, (1, 7)), (192, (7, 1)), (192, _3, 2)),
            _shrink(data),
        ),
        axis=1,
    )


def _inception_c(data, kind: str, name: str):
    middle = _tower(data, name + "_3x3", (384, _1))
    deep = _tower(data, name + "_double", (448, _1), (384, _3))
    return concatenate(
        (
            _tower(data, name + "_1x1", (320, _1)),
            _tower(middle, name + "_3x3_wide", (384, (1, 3))),
            _tower(middle, name + "_3x3_tall", (384, (3, 1))),
            _tower(deep, name + "_double_wide", (384, (1, 3))),
            _tower(deep, name + "_double_tall", (384, (3, 1))),
            _tower(_pool(data, kind), name + "_pool", (192, _1)),
        ),
        axis=1,
    )


def get_net(batch_size, num_classes, image_shape, dtype) -> Function:
    if min(image_shape[1:]) < 75:
        raise ValueError(f"inception_v3: images must be at least 75 x 75, got {image_shape[1]} x {image_shape[2]}")
    value = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    value = _conv(value, 32, _3, "conv", stride=2)
    value = _conv(value, 32, _3, "conv_1")
    value = _shrink(_conv(value, 64, _3, "conv_2", padding=(1, 1)))
    value = _conv(value, 80, _1, "conv_3")
    value = _shrink(_conv(value, 192, _3, "conv_4"))
    for number, channels in enumerate((32, 64, 64)):
        value = _inception_a(value, channels, f"mixed_{number}")
    value = _reduction_a(value, "mixed_3")
    for number, narrow in enumerate((128, 160, 160, 192), 4):
        value = _inception_b(value, narrow, f"mixed_{number}")
    value = _reduction_b(value, "mixed_8")
    for number, kind in enumerate(("avg", "max"), 9):
        value = _inception_c(value, kind, f"mixed_{number}")
    value = nn.batch_flatten(nn.global_avg_pool2d(value))
    value = nn.softmax(layers.dense_add_bias(value, units=num_classes, name="fc1"))
    return Function(free_vars(value), value)


def get_workload(batch_size=1, num_classes=1000, image_shape=(3, 299, 299), dtype="float32"):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
