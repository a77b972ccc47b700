"""Apache TVM's names of operators and schedules for CUDA. They are the generic GPU implementations, which adapt to the
device's features."""

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
    """Return the schedules by their Apache TVM names: for the current target if it is a GPU, else for ``default``."""

    def named(name: str) -> Callable:
        def schedule(outs, layout="NCHW") -> Schedule:
            return schedule_for([outs] if isinstance(outs, Tensor) else list(outs), gpu_target(default))

        schedule.__name__ = schedule.__qualname__ = name
        schedule.__doc__ = "The schedule of the current GPU for the operations that compute ``outs``."
        return schedule

    return {name: named(name) for name in generic.__all__ if name.startswith("schedule_")}


# Imported before the operators are defined, because one of them has the name of the module.
from . import sort  # noqa: E402

_SCHEDULES, _OPERATORS = schedules("cuda"), operators("cuda")
globals().update(_SCHEDULES)
globals().update(_OPERATORS)

__getattr__ = face(__name__, _OPERATORS)

__all__ = [*_SCHEDULES, *_OPERATORS, "multibox_prior", "roi_align_nchw", "schedules"]

# These modules import the names above from this module.
from . import depthwise_conv2d, injective, reduction, tensor_intrin  # noqa: E402
