"""The classic names of operators and schedules for CUDA: those for every GPU, which ask what the device can do."""

from __future__ import annotations

from collections.abc import Callable

from ..target import Target
from ..te.schedule import Schedule
from ..te.tensor import Tensor
from . import generic
from .nn import conv2d_nchw, depthwise_conv2d_nchw
from .schedule import schedule_for
from .vision import (
    all_class_non_max_suppression,
    get_valid_counts,
    multibox_detection,
    multibox_prior,
    non_max_suppression,
    proposal,
    roi_align_nchw,
)


def _target() -> Target:
    """The current target if it is a GPU."""
    current = Target.current(allow_none=True)
    return current if current is not None and "gpu" in current.keys else Target("cuda")


def _named(name: str) -> Callable:
    def schedule(outs, layout="NCHW") -> Schedule:
        return schedule_for([outs] if isinstance(outs, Tensor) else list(outs), _target())

    schedule.__name__ = schedule.__qualname__ = name
    schedule.__doc__ = "The schedule of the current GPU for the operations that make ``outs``."
    return schedule


_SCHEDULES = [name for name in generic.__all__ if name.startswith("schedule_")]
globals().update({name: _named(name) for name in _SCHEDULES})

__all__ = [
    *_SCHEDULES, "all_class_non_max_suppression", "conv2d_nchw", "depthwise_conv2d_nchw", "get_valid_counts",
    "multibox_detection", "multibox_prior", "non_max_suppression", "proposal", "roi_align_nchw",
]  # fmt: skip
