"""The classic names of operators and schedules for CUDA: those for every GPU, which ask what the device can do."""

from __future__ import annotations

from collections.abc import Callable

from ..target import Target
from ..te.schedule import Schedule
from ..te.tensor import Tensor
from . import generic
from .faces import face
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

# Modules below this one are parts to come (tvm.not_built): Python looks for them only below a package.
__path__: list[str] = []


def schedules(default: str) -> dict[str, Callable]:
    """The schedules by their classic names: of the current target if it is a GPU, else of ``default``."""

    def named(name: str) -> Callable:
        def schedule(outs, layout="NCHW") -> Schedule:
            current = Target.current(allow_none=True)
            target = current if current is not None and "gpu" in current.keys else Target(default)
            return schedule_for([outs] if isinstance(outs, Tensor) else list(outs), target)

        schedule.__name__ = schedule.__qualname__ = name
        schedule.__doc__ = "The schedule of the current GPU for the operations that make ``outs``."
        return schedule

    return {name: named(name) for name in generic.__all__ if name.startswith("schedule_")}


_SCHEDULES = schedules("cuda")
globals().update(_SCHEDULES)

__getattr__ = face(__name__)

__all__ = [
    *_SCHEDULES, "all_class_non_max_suppression", "conv2d_nchw", "depthwise_conv2d_nchw", "get_valid_counts",
    "multibox_detection", "multibox_prior", "non_max_suppression", "proposal", "roi_align_nchw", "schedules",
]  # fmt: skip
