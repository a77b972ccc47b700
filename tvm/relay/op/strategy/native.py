"""The strategies of operators as generic functions: ``relay.op.strategy.dense_strategy`` and so on.

Each is the ``FTVMStrategy`` of its operator. ``dense_strategy.register("key", f)`` registers a separate strategy for
targets with this key. ``override_native_generic_func("dense_strategy")`` replaces the default strategy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.op import OPS, Op, register_op_attr
from ....target import override_native_generic_func
from ....topi.cpu import tasks as cpu_tasks
from ....topi.gpu import tasks as gpu_tasks
from ..implementation import NativeStrategy, is_computed, short_name
from . import cpu, gpu

# Importing these modules registers the templates that records and scripts refer to.
TEMPLATES = (cpu_tasks, gpu_tasks)

_MADE: dict[str, Callable[..., Any]] = {}
# Operators whose strategies have a different short name.
_NAMES = {"all_class_non_max_suppression": "all_class_nms", "non_max_suppression": "nms",
          "conv2d_winograd_planes": "conv2d_winograd_without_weight_transform"}  # fmt: skip


def strategy_name(operator: str) -> str:
    short = short_name(operator)
    return f"{_NAMES.get(short, short)}_strategy"


def strategy_of(record: Op) -> Callable[..., Any]:
    """Return the generic function with the implementations of an operator."""
    if record.name not in _MADE:
        made = override_native_generic_func(strategy_name(record.name))(NativeStrategy(record))
        _MADE[record.name] = made
        # A user-registered strategy takes precedence.
        register_op_attr(record.name, "FTVMStrategy", made, 0)
    return _MADE[record.name]


def strategy_named(name: str) -> Callable[..., Any]:
    """Return the strategy for a name such as ``dense_strategy``; used as ``__getattr__`` of modules."""
    for operator in OPS.names() if name.endswith("_strategy") else ():
        if strategy_name(operator) == name and is_computed(OPS[operator]):
            return strategy_of(OPS[operator])
    raise AttributeError(f"relay.op.strategy has no attribute '{name}'")


for _rows in (cpu.ROWS, gpu.ROWS):
    for _operator, _row in _rows.items():
        _facts = OPS[_operator].attrs
        _facts["implementations"] = (*_facts.get("implementations", ()), _row)
        strategy_of(OPS[_operator])
