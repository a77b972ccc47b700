"""Functions of ``topi`` in the form a strategy takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....target import generic_func
from ...op.implementation import OpStrategy


def wrap_topi_compute(topi_compute: Callable[..., Any]) -> Callable[..., Any]:
    """``topi_compute(*inputs)`` as the computation of an implementation."""

    def wrapper(attrs: Any, inputs: list, out_type: Any) -> list:
        return [topi_compute(*inputs)]

    return wrapper


def wrap_topi_schedule(topi_schedule: Callable[..., Any]) -> Callable[..., Any]:
    """``topi_schedule(outs)`` as the schedule of an implementation."""

    def wrapper(attrs: Any, outs: Any, target: Any) -> Any:
        with target:
            return topi_schedule(outs)

    return wrapper


__all__ = ["OpStrategy", "generic_func", "wrap_topi_compute", "wrap_topi_schedule"]
