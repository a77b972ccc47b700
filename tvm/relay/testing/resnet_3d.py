"""3D ResNet for video, which also convolves over time."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..op.tensor import add
from ..substitute import free_vars
from . import layers
from .init import create_workload
from .resnet import EPSILON, UNITS


def _conv(data, channels: int, kernel: int, strides: tuple, name: str, layout: str):
    pad = kernel // 2
    return layers.conv3d(
        data,
        channels=channels,
        kernel_size=(kernel,) * 3,
        strides=strides,
        padding=(pad,) * 3,
        data_layout=layout,
        kernel_layout=layers.conv_kernel_layout(layout),
        name=name,
    )


def _norm_relu(data, name: str, layout: str):
    return nn.relu(layers.batch_norm_infer(data, epsilon=EPSILON, axis=layout.index("C"), name=name))


def residual_unit(
    data, num_filter, stride, dim_match, name, bottle_neck=True, data_layout="NCDHW", kernel_layout="OIDHW"
):
    """Return a residual unit: the sum of its input and two or three convolutions. ``stride`` has three elements."""
    first, one = _norm_relu(data, name + "_bn1", data_layout), (1, 1, 1)
    if bottle_neck:
        plan = ((num_filter // 4, 1, stride), (num_filter // 4, 3, one), (num_filter, 1, one))
    else:
        plan = ((num_filter, 3, stride), (num_filter, 3, one))
    value = first
    for number, (channels, kernel, by) in enumerate(plan, 1):
        if number > 1:
            value = _norm_relu(value, f"{name}_bn{number}", data_layout)
        value = _conv(value, channels, kernel, by, f"{name}_conv{number}", data_layout)
    return add(value, data if dim_match else _conv(first, num_filter, 1, stride, name + "_sc", data_layout))


def get_net(
    batch_size, num_classes, num_layers=18, image_shape=(3, 16, 112, 112), layout="NCDHW", dtype="float32", **kwargs
) -> Function:
    if num_layers not in UNITS:
        raise ValueError(
            f"resnet_3d: no network with {num_layers} layers; expected one of {', '.join(map(str, UNITS))}"
        )
    bottle_neck = num_layers >= 50
    filters = (64, 256, 512, 1024, 2048) if bottle_neck else (64, 64, 128, 256, 512)
    value = var("data", shape=(batch_size, *image_shape), dtype=dtype)
    value = layers.batch_norm_infer(value, epsilon=EPSILON, scale=False, axis=layout.index("C"), name="bn_data")
    small = image_shape[layout.replace("N", "").index("H")] <= 32
    value = _conv(value, filters[0], 3 if small else 7, (1, 1, 1) if small else (1, 2, 2), "conv0", layout)
    if not small:
        value = _norm_relu(value, "bn0", layout)
        value = nn.max_pool3d(value, pool_size=(3, 3, 3), strides=(2, 2, 2), padding=(1, 1, 1), layout=layout)
    for stage, count in enumerate(UNITS[num_layers]):
        for unit in range(count):
            by = (2, 2, 2) if unit == 0 and stage > 0 else (1, 1, 1)
            name = f"stage{stage + 1}_unit{unit + 1}"
            value = residual_unit(value, filters[stage + 1], by, unit > 0, name, bottle_neck, layout)
    value = nn.batch_flatten(nn.global_avg_pool3d(_norm_relu(value, "bn1", layout), layout=layout))
    value = nn.softmax(layers.dense_add_bias(value, units=num_classes, name="fc1"))
    return Function(free_vars(value), value)


def get_workload(
    batch_size=1,
    num_classes=1000,
    num_layers=18,
    image_shape=(3, 16, 112, 112),
    layout="NCDHW",
    dtype="float32",
    **kwargs,
):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))
