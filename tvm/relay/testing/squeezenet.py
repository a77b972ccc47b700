"""SqueezeNet, versions 1.0 and 1.1."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..op.transform import concatenate
from ..substitute import free_vars
from . import layers
from .init import create_workload

# The first convolution (channels, kernel size), followed by pooling ("pool") or fire modules (squeeze, expand).
_PLANS = {
    "1.0": (
        (96, 7),
        ("pool", (16, 64), (16, 64), (32, 128), "pool", (32, 128), (48, 192), (48, 192), (64, 256), "pool", (64, 256)),
    ),
    "1.1": (
        (64, 3),
        ("pool", (16, 64), (16, 64), "pool", (32, 128), (32, 128), "pool", (48, 192), (48, 192), (64, 256), (64, 256)),
    ),
}


def _conv(data, channels: int, kernel: int, name: str, stride: int = 1, padding: int = 0):
    value = layers.conv2d(
        data,
        channels=channels,
        kernel_size=(kernel, kernel),
        strides=(stride, stride),
        padding=(padding, padding),
        name=name,
    )
    return nn.relu(nn.bias_add(value, var(name + "_bias")))


def _fire(data, squeeze: int, expand: int, name: str):
    narrow = _conv(data, squeeze, 1, name + "_squeeze")
    left = _conv(narrow, expand, 1, name + "_left")
    return concatenate((left, _conv(narrow, expand, 3, name + "_right", padding=1)), axis=1)


def get_net(batch_size, image_shape, num_classes, version, dtype) -> Function:
    if version not in _PLANS:
        raise ValueError(f"squeezenet: unknown version '{version}'; expected one of {', '.join(_PLANS)}")
    (channels, kernel), plan = _PLANS[version]
    value = _conv(var("data", shape=(batch_size, *image_shape), dtype=dtype), channels, kernel, "conv1", stride=2)
    number = 0
    for step in plan:
        if step == "pool":
            value = nn.max_pool2d(value, pool_size=(3, 3), strides=(2, 2))
        else:
            number += 1
            value = _fire(value, *step, f"fire{number}")
    value = _conv(nn.dropout(value, rate=0.5), num_classes, 1, "conv_last")
    value = nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(value)))
    return Function(free_vars(value), value)


def get_workload(batch_size=1, num_classes=1000, version="1.0", image_shape=(3, 224, 224), dtype="float32"):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
