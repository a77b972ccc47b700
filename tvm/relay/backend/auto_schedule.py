"""Kernels under schedules that a search has found: the computation of a fused function in plain operators, and its
schedule from the steps that its attribute holds."""

from __future__ import annotations

import json
from typing import Any

from ...auto_scheduler.compute_dag import ComputeDAG
from ...auto_scheduler.state import StateObject
from ...auto_scheduler.steps import from_json, to_json
from ...error import TVMError
from ...ir.prim import Reduce
from ...target import Target
from ...te.schedule import Schedule
from ...te.tensor import ComputeOp, Tensor
from ..expr import Function
from .from_relay import is_reshape
from .te_compiler import ToTensors

# The attribute of a kernel that holds the steps of its schedule, as records have them.
STEPS = "auto_scheduler"


def computation_of(function: Function, target: Target) -> ComputeDAG | None:
    """What a fused function computes, in plain operators whatever the target; None where a search cannot take it
    (statements, sizes that are not known), and of views, which are no kernels."""
    if is_reshape(function):
        return None
    try:
        with target:
            graph = ToTensors(function, target, plain=True)
        dag = ComputeDAG([*graph.inputs, *graph.outputs])
        # The loops of all operations must have constant lengths.
        dag.get_init_state()
    except TVMError:
        return None
    return dag


def has_reduction(dag: ComputeDAG) -> bool:
    """Whether there is more to a computation than elements made from elements."""
    return any(isinstance(body, Reduce) for op in dag.ops if isinstance(op, ComputeOp) for body in op.body)


def with_steps(function: Function, state: StateObject) -> Function:
    """The function as a kernel of its own, which no pass changes, under the schedule of a state."""
    steps = json.dumps(to_json(state.transform_steps))
    return function.replace(attrs={**function.attrs, "Primitive": 1, "SkipOptimization": 1, STEPS: steps})


def is_scheduled(function: Any) -> bool:
    return isinstance(function, Function) and STEPS in function.attrs


def scheduled(function: Function, target: Target) -> tuple[Schedule, list[Tensor]]:
    """The te schedule of a kernel that has steps, and its arguments."""
    dag = computation_of(function, target)
    if dag is None:
        raise TVMError("a kernel with steps of a schedule is made of computes of known sizes")
    return dag.apply_steps_from_state(StateObject((), steps_of(function)))


def steps_of(function: Function) -> tuple[Any, ...]:
    return tuple(from_json(step) for step in json.loads(str(function.attrs[STEPS])))


__all__ = ["STEPS", "computation_of", "has_reduction", "is_scheduled", "scheduled", "steps_of", "with_steps"]
