"""ResNet v2: batch normalization and ReLU precede each convolution."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..op.tensor import add
from ..substitute import free_vars
from . import layers
from .init import create_workload

UNITS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
    269: (3, 30, 48, 8),
}
EPSILON = 2e-5


class _Block:
    """Builds the layers of a network in one data layout."""

    def __init__(self, data_layout: str):
        self.data_layout = data_layout
        self.axis = data_layout.index("C")

    def conv(self, data, channels: int, kernel: int, stride: int, name: str):
        return layers.conv2d(
            data,
            channels=channels,
            kernel_size=(kernel, kernel),
            strides=(stride, stride),
            padding=(kernel // 2, kernel // 2),
            data_layout=self.data_layout,
            kernel_layout=layers.conv_kernel_layout(self.data_layout),
            name=name,
        )

    def norm(self, data, name: str, **options):
        return layers.batch_norm_infer(data, epsilon=EPSILON, axis=self.axis, name=name, **options)

    def norm_relu(self, data, name: str):
        return nn.relu(self.norm(data, name))


def residual_unit(
    data, num_filter, stride, dim_match, name, bottle_neck=True, data_layout="NCHW", kernel_layout="IOHW"
):
    """Return a residual unit: the sum of its input and two or three convolutions. ``stride`` is a pair."""
    block, step = _Block(data_layout), stride[0]
    first = block.norm_relu(data, name + "_bn1")
    if bottle_neck:
        plan = ((num_filter // 4, 1, step), (num_filter // 4, 3, 1), (num_filter, 1, 1))
    else:
        plan = ((num_filter, 3, step), (num_filter, 3, 1))
    value = first
    for number, (channels, kernel, by) in enumerate(plan, 1):
        if number > 1:
            value = block.norm_relu(value, f"{name}_bn{number}")
        value = block.conv(value, channels, kernel, by, f"{name}_conv{number}")
    return add(value, data if dim_match else block.conv(first, num_filter, 1, step, name + "_sc"))


def resnet(
    units, num_stages, filter_list, num_classes, data_shape, bottle_neck=True, layout="NCHW", dtype="float32"
) -> Function:
    """Return the network with ``units[i]`` units in stage i, of ``filter_list[i + 1]`` channels."""
    block = _Block(layout)
    data = var("data", shape=data_shape, dtype=dtype)
    value = block.norm(data, "bn_data", scale=False)
    small = data_shape[layout.index("H")] <= 32
    value = block.conv(value, filter_list[0], 3 if small else 7, 1 if small else 2, "conv0")
    if not small:
        value = block.norm_relu(value, "bn0")
        value = nn.max_pool2d(value, pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout=layout)
    for stage in range(num_stages):
        for unit in range(units[stage]):
            by = 2 if unit == 0 and stage > 0 else 1
            name = f"stage{stage + 1}_unit{unit + 1}"
            value = residual_unit(value, filter_list[stage + 1], (by, by), unit > 0, name, bottle_neck, layout)
    value = nn.batch_flatten(nn.global_avg_pool2d(block.norm_relu(value, "bn1"), layout=layout))
    value = nn.softmax(layers.dense_add_bias(value, units=num_classes, name="fc1"))
    return Function(free_vars(value), value)


def get_net(
    batch_size, num_classes, num_layers=50, image_shape=(3, 224, 224), layout="NCHW", dtype="float32", **kwargs
) -> Function:
    """Return the network with the given number of layers.

    Images of at most 28 rows use the three stages of the CIFAR networks.
    """
    height = image_shape[layout.replace("N", "").index("H")]
    if height <= 28:
        bottle_neck = num_layers >= 164
        step = 9 if bottle_neck else 6
        if (num_layers - 2) % step:
            raise ValueError(f"resnet: for images of this size, num_layers must be 2 plus a multiple of {step}")
        units = [(num_layers - 2) // step] * 3
        filters = [16, 64, 128, 256] if bottle_neck else [16, 16, 32, 64]
    else:
        if num_layers not in UNITS:
            raise ValueError(
                f"resnet: no network with {num_layers} layers; expected one of {', '.join(map(str, UNITS))}"
            )
        bottle_neck, units = num_layers >= 50, UNITS[num_layers]
        filters = [64, 256, 512, 1024, 2048] if bottle_neck else [64, 64, 128, 256, 512]
    return resnet(
        units, len(units), filters, num_classes, (batch_size, *image_shape), bottle_neck, layout=layout, dtype=dtype
    )


def get_workload(
    batch_size=1, num_classes=1000, num_layers=18, image_shape=(3, 224, 224), layout="NCHW", dtype="float32", **kwargs
):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype, **kwargs))
