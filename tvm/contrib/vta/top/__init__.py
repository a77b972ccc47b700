"""Operators on packed data (blocks of batch and channels) as templates for the accelerator, and their strategies."""

from . import op
from .graphpack import graph_pack
from .op import (
    add_packed,
    clip_strategy_vta,
    compute_clip_vta,
    conv2d_strategy_vta,
    dense_strategy_vta,
    multiply_packed,
    schedule_add_packed,
    schedule_alu_packed,
    schedule_multiply_packed,
)
from .vta_conv2d import conv2d_packed, schedule_conv2d_packed
from .vta_dense import dense_packed, schedule_dense_packed

__all__ = [
    "add_packed",
    "clip_strategy_vta",
    "compute_clip_vta",
    "conv2d_packed",
    "conv2d_strategy_vta",
    "dense_packed",
    "dense_strategy_vta",
    "graph_pack",
    "multiply_packed",
    "op",
    "schedule_add_packed",
    "schedule_alu_packed",
    "schedule_conv2d_packed",
    "schedule_dense_packed",
    "schedule_multiply_packed",
]
