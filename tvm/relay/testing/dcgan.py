"""The generator of DCGAN, which generates images from random vectors by transposed convolutions."""

from __future__ import annotations

from ..expr import Function, var
from ..op import nn
from ..op.tensor import tanh
from ..op.transform import reshape
from ..substitute import free_vars
from . import layers
from .init import create_workload


def deconv2d(data, ishape, oshape, kshape, layout, name, stride=(2, 2)):
    """Return a transposed convolution from images of shape ``ishape`` (C, H, W) to images of shape ``oshape``."""
    if layout != "NCHW":
        raise ValueError(f"dcgan: layout '{layout}' is not supported; transposed convolutions need NCHW")
    wanted = [(k - 1) // 2 for k in kshape]
    extra = [(o + 2 * p - k) % s for o, p, k, s in zip(oshape[1:], wanted, kshape, stride)]
    return layers.conv2d_transpose(
        data,
        channels=oshape[0],
        kernel_size=kshape,
        strides=stride,
        padding=tuple(wanted),
        output_padding=tuple(extra),
        data_layout=layout,
        kernel_layout="IOHW",
        name=name,
    )


def deconv2d_bn_relu(data, prefix, **kwargs):
    """Return a transposed convolution followed by batch normalization and ReLU."""
    value = deconv2d(data, name=f"{prefix}_deconv", **kwargs)
    return nn.relu(layers.batch_norm_infer(value, epsilon=1e-5, scale=False, name=f"{prefix}_batch_norm"))


def get_net(
    batch_size, random_len=100, oshape=(3, 64, 64), ngf=128, code=None, layout="NCHW", dtype="float32"
) -> Function:
    if oshape[-2:] not in ((64, 64), (32, 32)):
        raise ValueError(f"dcgan: image size {oshape[-2]} x {oshape[-1]} is not supported; expected 64 x 64 or 32 x 32")
    data = var("data", shape=(batch_size, random_len), dtype=dtype) if code is None else code
    steps = 3 if oshape[-1] == 64 else 2
    channels, size = ngf * 2**steps, 4
    value = layers.dense_without_bias(data, units=channels * size * size, name="dense1")
    value = nn.relu(reshape(value, (-1, channels, size, size)))
    for step in range(1, steps + 1):
        before, channels, size = (channels, size, size), channels // 2, size * 2
        value = deconv2d_bn_relu(
            value, f"g{step}", ishape=before, oshape=(channels, size, size), kshape=(4, 4), layout=layout
        )
    value = tanh(deconv2d(value, (channels, size, size), oshape, (4, 4), layout, "g_last_deconv"))
    return Function(free_vars(value), value)


def get_workload(batch_size, oshape=(3, 64, 64), ngf=128, random_len=100, layout="NCHW", dtype="float32"):
    """Return the model as a module with random parameters."""
    return create_workload(get_net(batch_size, random_len, tuple(oshape), ngf, layout=layout, dtype=dtype))
