"""Support levels of operators as documented by Apache TVM.

1 is for perceptrons, 2 for convolutional networks, 3 for other math and shape operators, 4 for broadcasts and
reductions, 5 for vision, and 10 for all others.
"""

from __future__ import annotations

from ...ir.op import OPS

LEVELS: dict[int, str] = {
    1: "log sqrt rsqrt exp sigmoid add subtract multiply divide mod floor_mod floor_divide tanh concatenate expand_dims"
       " nn.softmax nn.log_softmax nn.relu nn.dropout nn.batch_norm nn.bias_add nn.dense nn.matmul",
    2: "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.max_pool1d"
       " nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d nn.global_max_pool2d"
       " nn.global_avg_pool2d nn.upsampling nn.upsampling3d nn.batch_flatten nn.pad nn.mirror_pad nn.lrn"
       " nn.l2_normalize nn.leaky_relu nn.prelu",
    3: "zeros_like ones_like reshape copy transpose squeeze floor ceil sign trunc clip round abs negative take full"
       " full_like cast reinterpret split arange meshgrid repeat tile reverse stack unravel_index sparse_to_dense"
       " reverse_sequence gather gather_nd scatter_nd",
    4: "right_shift left_shift maximum minimum power logical_and logical_or logical_not logical_xor bitwise_and"
       " bitwise_or bitwise_not bitwise_xor equal not_equal greater greater_equal less less_equal all any where argmax"
       " argmin sum max min mean variance prod strided_slice broadcast_to",
    5: "image.resize1d image.resize2d image.resize3d image.crop_and_resize image.dilation2d vision.multibox_prior"
       " vision.multibox_transform_loc vision.non_max_suppression vision.yolo_reorg",
}  # fmt: skip


def set_levels() -> None:
    """Set the support level in each operator record that has none."""
    for level, names in LEVELS.items():
        for name in names.split():
            OPS[name].attrs.setdefault("support_level", level)


__all__ = ["LEVELS", "set_levels"]
