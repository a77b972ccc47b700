"""Schedules under Apache TVM's names. Each returns the schedule of the current target (a CPU if none is set) for the
operations that compute ``outs``, regardless of the operator in its name."""

from __future__ import annotations

from collections.abc import Callable

from ...not_built import name_of
from ...target import Target
from ...te.schedule import Schedule
from ...te.tensor import Tensor
from ..schedule import schedule_for


def _schedule(outs) -> Schedule:
    tensors = [outs] if isinstance(outs, Tensor) else list(outs)
    return schedule_for(tensors, Target.current(allow_none=True) or Target("llvm"))


def _named(name: str) -> Callable:
    def schedule(outs):
        return _schedule(outs)

    schedule.__name__ = schedule.__qualname__ = name
    schedule.__doc__ = "The schedule of the current target for the operations that compute ``outs``."
    return schedule


_FAMILIES = (
    "adaptive_pool", "adv_index", "argsort", "argwhere", "batch_matmul", "batch_norm", "bitserial_conv2d_nchw",
    "broadcast", "concatenate", "conv1d_ncw", "conv1d_nwc", "conv1d_transpose_ncw", "conv2d_NCHWc",
    "conv2d_NCHWc_int8", "conv2d_hwcn", "conv2d_nchw", "conv2d_nhwc",
    "conv2d_transpose_nchw", "conv3d_ncdhw", "conv3d_ndhwc", "conv3d_transpose_ncdhw",
    "correlation_nchw", "deformable_conv2d_nchw", "deformable_conv2d_nhwc", "dense", "depthwise_conv2d_NCHWc",
    "depthwise_conv2d_nchw", "depthwise_conv2d_nhwc", "dilation2d_nchw", "dilation2d_nhwc", "einsum", "elemwise",
    "extern", "fast_softmax", "get_valid_counts", "group_conv1d_ncw", "group_conv1d_nwc", "group_conv2d_nchw",
    "group_conv2d_nhwc", "injective",
    "l2_normalize", "lrn", "matmul", "multibox_detection", "multibox_prior", "multibox_transform_loc", "nms",
    "pool_grad", "proposal", "reduce", "reorg", "roi_align", "roi_pool", "scatter", "softmax", "sort", "topk",
    "unique",
    # Algorithms of operators with separate schedule names.
    "conv2d_nchw_spatial_pack", "conv2d_nchw_winograd", "conv2d_nhwc_spatial_pack", "dense_large_batch",
    "dense_nopack", "dense_pack", "dense_small_batch", "depthwise_conv2d_nchw_spatial_pack",
    "dft", "group_conv2d_transpose_nchw", "invert_permutation", "scan", "scatter_elements", "scatter_nd",
    "searchsorted",
)  # fmt: skip
for _family in _FAMILIES:
    globals()[f"schedule_{_family}"] = _named(f"schedule_{_family}")


def schedule_pool(outs, layout="NCHW"):
    """The schedule of the current target; the layout is inferred from the operations."""
    return _schedule(outs)


def default_schedule(outs, auto_inline=False):
    """The schedule of the current target. For unscheduled loops use ``te.create_schedule``."""
    return _schedule(outs)


def __getattr__(name: str):
    return name_of(__name__, name)


__all__ = ["default_schedule", "schedule_pool", *(f"schedule_{family}" for family in _FAMILIES)]

# This module imports the names above from this one.
from . import nn  # noqa: E402
