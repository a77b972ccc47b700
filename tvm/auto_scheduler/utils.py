"""Small helpers with public names."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ..ir.prim import IntImm


def get_func_name(func: Callable) -> str:
    """The name a function is registered by."""
    return getattr(func, "func_name", None) or getattr(func, "__qualname__", None) or func.__name__


def get_const_int(value: Any) -> int:
    """An integer that may be an expression."""
    if isinstance(value, int):
        return value
    if not isinstance(value, IntImm):
        raise ValueError(f"a constant integer is wanted, got {value}")
    return value.value


def get_const_tuple(in_tuple: Any) -> tuple[Any, ...]:
    """Dimensions as integers; those that are known only when the program runs stay expressions."""
    return tuple(get_const_int(v) if isinstance(v, (int, IntImm)) else v for v in in_tuple)


def decode_workload_key(workload_key: str) -> tuple[str, tuple[Any, ...] | None]:
    """The name (or hash) of a key, and its arguments in one flat tuple; None where the key is no JSON list."""

    def flat(values: Any) -> list[Any]:
        return [x for v in values for x in (flat(v) if isinstance(v, (list, tuple)) else [v])]

    try:
        values = json.loads(workload_key)
    except ValueError:
        return workload_key, None
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        return workload_key, None
    return values[0], tuple(flat(values[1:]))


def calc_workload_dis_factor(
    target_workload_pair: tuple[Any, Any], workload_pair: tuple[Any, Any]
) -> float:
    """How many times as large a workload is as another of the same computation, infinite where a schedule of one does
    not fit the other: each size must be a multiple."""
    target_key, target_args = target_workload_pair
    key, args = workload_pair
    target_args, args = target_args or (), args or ()
    if key != target_key or len(target_args) != len(args):
        return math.inf
    factor = 1.0
    for wanted, has in zip(target_args, args):
        if wanted == has and isinstance(wanted, bool) == isinstance(has, bool):
            continue
        if not all(isinstance(size, int) and not isinstance(size, bool) for size in (wanted, has)):
            return math.inf
        # A padding or a stride of zero is no size.
        if wanted == 0 or has == 0 or wanted % has:
            return math.inf
        factor *= wanted / has
    return factor


__all__ = ["calc_workload_dis_factor", "decode_workload_key", "get_const_int", "get_const_tuple", "get_func_name"]
