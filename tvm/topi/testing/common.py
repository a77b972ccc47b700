"""Selection of the schedule of a test for a target."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ... import te
from ...driver.build_module import build
from ...runtime import ndarray
from ...target import Target
from .. import nn
from ..schedule import schedule_for


def dispatch(target, dispatch_map):
    """The entry for the first key of the target that the map contains, else the entry for "generic"."""
    for key in Target(target).keys:
        if key in dispatch_map:
            return dispatch_map[key]
    return dispatch_map["generic"]


def _schedule(target) -> Callable:
    own = Target(target)

    def schedule(outs):
        return schedule_for([outs] if isinstance(outs, te.Tensor) else list(outs), own)

    return schedule


def get_injective_schedule(target) -> Callable:
    return _schedule(target)


def get_elemwise_schedule(target) -> Callable:
    return _schedule(target)


def get_broadcast_schedule(target) -> Callable:
    return _schedule(target)


def get_reduce_schedule(target) -> Callable:
    return _schedule(target)


def get_conv2d_nchw_implement(target) -> tuple[Callable, Callable]:
    """The pair (compute, schedule)."""
    return nn.conv2d_nchw, _schedule(target)


def compare_numpy_tvm(inputs, output, target, device, compute, schedule) -> None:
    """Build ``compute``, run it on the inputs and compare the result with ``output``."""
    arguments = [te.placeholder(array.shape, str(array.dtype)) for array in inputs]
    with Target(target):
        made = compute(*arguments)
        function = build(schedule([made]), [*arguments, made], target)
    result = ndarray.array(np.zeros(output.shape, output.dtype), device)
    function(*[ndarray.array(array, device) for array in inputs], result)
    np.testing.assert_allclose(result.numpy(), output, rtol=1e-4, atol=1e-6)
