"""Count the arithmetic operations of a template."""

from __future__ import annotations

from typing import Any

from ...te.flop import FlopCalculationError, count_operations
from ...te.graph import post_order_ops


def compute_flop(sch: Any) -> float:
    """The arithmetic operations of all computations of a schedule.

    Parameters
    ----------
    sch : Schedule
        The schedule.

    Returns
    -------
    float

    Raises
    ------
    RuntimeError
        The operations cannot be counted, or there are none.
    """
    try:
        total = count_operations(post_order_ops(list(sch.outputs)))
    except FlopCalculationError as error:
        raise RuntimeError(
            f"the operations cannot be counted ({error}); set their number with `cfg.add_flop(...)`"
        ) from None
    if total == 0:
        raise RuntimeError("the computation has no arithmetic operations; set their number with `cfg.add_flop(...)`")
    return float(total)


__all__ = ["FlopCalculationError", "compute_flop"]
