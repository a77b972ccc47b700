"""Kernels with schedules from the auto-scheduler: their computation in plain operators, and the schedule that their
attribute stores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...auto_scheduler.compute_dag import ComputeDAG, LayoutRewriteOption
from ...auto_scheduler.layout_rewrite import StoredLayout, layouts_of
from ...auto_scheduler.state import StateObject
from ...auto_scheduler.steps import from_json, to_json
from ...error import TVMError
from ...ir.prim import Reduce
from ...ir.tensor_type import TensorType
from ...ir.visit import rewrite
from ...target import Target
from ...te.graph import post_order_ops
from ...te.schedule import Schedule
from ...te.tensor import ComputeOp, Tensor
from ..expr import Call, Constant, Function, Var
from ..infer import infer_function
from ..op.transform import reshape, transpose
from ..substitute import substitute_vars
from ..transform.function_pass import is_call
from .from_relay import is_reshape
from .te_compiler import ToTensors

# The attribute of a kernel with the steps of its schedule, in the format of tuning records.
STEPS = "auto_scheduler"
# The attribute with the positions of parameters that are stored in the layout in which the schedule reads them.
STORED = "auto_scheduler_stored"


def computation_of(function: Function, target: Target, constants: Sequence[int] = ()) -> ComputeDAG | None:
    """Return the computation of a fused function as a DAG of plain, target-independent operators.

    None if a search does not support the function: it contains statements or dynamic dimensions, or is a view.
    ``constants`` are the positions of the parameters whose layout the schedule may choose.
    """
    if is_reshape(function):
        return None
    try:
        with target:
            graph = ToTensors(function, target, plain=True)
        _let_free([graph.inputs[place] for place in constants], graph.outputs)
        dag = ComputeDAG([*graph.inputs, *graph.outputs])
        # The initial state requires that all loops have constant extents.
        dag.get_init_state()
    except TVMError:
        return None
    return dag


def _let_free(tensors: Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
    """Mark tensors as layout-free for the reductions that read them."""
    for op in post_order_ops([tensor.op for tensor in outputs]):
        free = [tensor for tensor in tensors if isinstance(op, ComputeOp) and tensor in op.input_tensors]
        if free and op.reduce_axis:
            op.attrs["layout_free_placeholders"] = free


def constants_of(call: Call) -> tuple[int, ...]:
    """Return the positions of the arguments of a call that are constants of rank 2 or more; empty if a parameter is a
    tuple."""
    if any(not isinstance(param.checked_type_ or param.type_annotation, TensorType) for param in call.op.params):
        return ()
    return tuple(
        place
        for place, argument in enumerate(call.args)
        if isinstance(argument, Constant) and len(argument.data.shape) > 1
    )


def has_reduction(dag: ComputeDAG) -> bool:
    """Return whether a computation contains a reduction."""
    return any(isinstance(body, Reduce) for op in dag.ops if isinstance(op, ComputeOp) for body in op.body)


def with_steps(function: Function, state: StateObject) -> Function:
    """Return the function as a kernel with the schedule of a state, which passes do not change."""
    steps = json.dumps(to_json(state.transform_steps))
    return function.replace(attrs={**function.attrs, "Primitive": 1, "SkipOptimization": 1, STEPS: steps})


def is_scheduled(function: Any) -> bool:
    return isinstance(function, Function) and STEPS in function.attrs


def scheduled(function: Function, target: Target) -> tuple[Schedule, list[Tensor]]:
    """Return the te schedule of a kernel with schedule steps, and its arguments."""
    places = stored_places(function)
    dag = computation_of(as_given(function), target, places)
    if dag is None:
        raise TVMError("a kernel with schedule steps must consist of compute operations with static shapes")
    option = LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED if places else LayoutRewriteOption.NO_REWRITE
    return dag.apply_steps_from_state(StateObject((), steps_of(function)), option)


def steps_of(function: Function) -> tuple[Any, ...]:
    return tuple(from_json(step) for step in json.loads(str(function.attrs[STEPS])))


# -- stored constants ------------------------------------------------------------------------------------------------


def stored_places(function: Function) -> tuple[int, ...]:
    """Return the positions of the parameters that are stored in the layout in which the schedule reads them."""
    return tuple(json.loads(str(function.attrs.get(STORED, "[]"))))


def wanted_layouts(function: Function, target: Target, constants: Sequence[int]) -> dict[int, StoredLayout]:
    """Return the layouts that the schedule of a kernel requires for some of its parameters, by position."""
    dag = computation_of(function, target, constants)
    layouts = layouts_of(dag, steps_of(function)) if dag is not None else {}
    return {place: layouts[dag.tensors[place]] for place in constants if dag and dag.tensors[place] in layouts}


def over_stored(function: Function, layouts: dict[int, StoredLayout]) -> Function:
    """Return the function with parameters in their stored layouts.

    Its body restores the original layout of each parameter, so that the function is still a complete definition. The
    schedule reads the stored layout directly.
    """
    params, restored = list(function.params), {}
    for place, layout in layouts.items():
        old = params[place]
        kind = old.checked_type_ or old.type_annotation
        params[place] = Var(old.name_hint, TensorType(layout.stored_shape, kind.dtype))
        restored[old] = reshape(transpose(params[place], layout.restoring_axes), layout.shape)
    places = json.dumps(sorted(layouts))
    return function.replace(
        params=tuple(params), body=substitute_vars(function.body, restored), attrs={**function.attrs, STORED: places}
    )


def as_given(function: Function) -> Function:
    """Return the function with its parameters in their original layouts."""
    stored = {function.params[place]: place for place in stored_places(function)}
    if not stored:
        return function
    params = list(function.params)

    def post(node: Any) -> Any:
        inner = node.args[0] if is_call(node, "reshape") else None
        if not is_call(inner, "transpose") or inner.args[0] not in stored:
            return None
        place = stored[inner.args[0]]
        if params[place] is function.params[place]:
            params[place] = Var(params[place].name_hint, node.checked_type_)
        return params[place]

    body = rewrite(function.body, post)
    return infer_function(function.replace(params=tuple(params), body=body))


__all__ = [
    "STEPS",
    "as_given",
    "computation_of",
    "constants_of",
    "has_reduction",
    "is_scheduled",
    "over_stored",
    "scheduled",
    "steps_of",
    "stored_places",
    "wanted_layouts",
    "with_steps",
]
