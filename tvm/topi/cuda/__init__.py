"""The classic names of operators and schedules for CUDA: those for every GPU, which ask what the device can do."""

from __future__ import annotations

from collections.abc import Callable

from ...te.schedule import Schedule
from ...te.tensor import Tensor
from .. import generic
from ..faces import face
from ..gpu.named import gpu_target, operators
from ..schedule import schedule_for
from ..vision import multibox_prior, roi_align_nchw


def schedules(default: str) -> dict[str, Callable]:
    """The schedules by their classic names: of the current target if it is a GPU, else of ``default``."""

    def named(name: str) -> Callable:
        def schedule(outs, layout="NCHW") -> Schedule:
            return schedule_for([outs] if isinstance(outs, Tensor) else list(outs), gpu_target(default))

        schedule.__name__ = schedule.__qualname__ = name
        schedule.__doc__ = "The schedule of the current GPU for the operations that make ``outs``."
        return schedule

    return {name: named(name) for name in generic.__all__ if name.startswith("schedule_")}


# Imported before the operators are named, of which one has the module's name.
from . import sort  # noqa: E402

_SCHEDULES, _OPERATORS = schedules("cuda"), operators("cuda")
globals().update(_SCHEDULES)
globals().update(_OPERATORS)

__getattr__ = face(__name__, _OPERATORS)

__all__ = [*_SCHEDULES, *_OPERATORS, "multibox_prior", "roi_align_nchw", "schedules"]

# They take the names above from this module.
from . import depthwise_conv2d, injective, reduction, tensor_intrin  # noqa: E402
