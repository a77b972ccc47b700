"""The tasks of a model: the computations of its kernels in plain operators, and how often each is executed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..ir.module import IRModule
from ..ir.structural import structural_key
from ..ir.transform import PassContext, run_pipeline
from ..ir.visit import post_order
from ..relay.backend.auto_schedule import computation_of, constants_of, has_reduction
from ..relay.backend.compile_program import models_by_target
from ..relay.backend.from_relay import post_order_calls
from ..relay.backend.te_compiler import ToTensors
from ..relay.build_module import all_targets, bind_params_by_name, optimize
from ..relay.expr import Call, Constant, Function
from ..relay.infer import infer_module
from ..relay.pipeline import fusion, simplify
from ..relay.substitute import substitute_vars
from ..relay.symbolic import is_symbolic
from ..relay.transform.auto_schedule import fuse_plain, is_kernel_call, name_of
from ..relay.transform.function_pass import is_call, only_changes_layout
from ..relay.transform.fuse_ops import is_reshape
from ..relay.transform.searched_form import searched_form
from ..target import Target
from ..te.graph import post_order_ops
from ..te.schedule import Schedule
from ..te.tensor import PlaceholderOp, Tensor
from .compute_dag import ComputeDAG, LayoutRewriteOption
from .dispatcher import DispatchContext
from .hardware import HardwareParams
from .search_task import SearchTask
from .workload_registry import register_workload_tensors


@dataclass
class ModelTask:
    """A computation of a model; one call represents all calls of equal kernels."""

    dag: ComputeDAG
    target: Target
    # A call of the kernel in the graph; weights are constants among its arguments.
    call: Call
    names: dict[str, None] = field(default_factory=dict)
    weight: int = 0

    @property
    def desc(self) -> str:
        return ",".join(self.names)


def plain_calls(mod: IRModule, target: Target) -> list[Call]:
    """Return the calls of the kernels of a graph in plain operators, operands first."""
    ctx = PassContext.current()
    with target:
        simple = run_pipeline(infer_module(mod), simplify(target), ctx)
        fused = infer_module(fuse_plain(simple, target, ctx))
    return [node for node in post_order_calls(fused["main"].body) if is_kernel_call(node)]


def model_tasks(
    mod: Any, params: Any, targets: Iterable[Target], include_simple_tasks: bool = False, opt_level: int = 3
) -> list[ModelTask]:
    """Return the computations of a model for the targets of its devices; computations without a reduction are included
    only with ``include_simple_tasks``."""
    current = PassContext.current()
    with PassContext(opt_level, current.required_pass, current.disabled_pass, current.instruments, current.config):
        return _model_tasks(mod, params, targets, include_simple_tasks)


def _model_tasks(mod: Any, params: Any, targets: Iterable[Target], include_simple_tasks: bool) -> list[ModelTask]:
    mod = mod.clone() if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    found: dict[tuple[str, str], ModelTask] = {}
    for part, target in models_by_target(mod, list(targets)):
        known: dict[Any, ComputeDAG | None] = {}
        for call in plain_calls(part, target):
            searched = searched_form(call, target)
            key = structural_key(searched.op), constants_of(searched)
            if key not in known:
                # A search measures one shape, so computations with dynamic shapes are not tasks.
                known[key] = None if is_symbolic(searched.op) else computation_of(searched.op, target, key[1])
            dag = known[key]
            if dag is None or not (include_simple_tasks or has_reduction(dag)):
                continue
            task = found.setdefault((dag.workload_key(), str(target)), ModelTask(dag, target, call))
            task.names[name_of(searched.op)] = None
            task.weight += 1
    return list(found.values())


def extract_tasks(
    mod: Any,
    params: Any,
    target: Any,
    target_host: Any = None,
    hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False,
    dump_workload_to_dag_log: str | None = None,
    opt_level: int = 3,
    other_targets: Iterable[Any] | None = None,
) -> tuple[list[SearchTask], list[int]]:
    """The tasks of a model, and the number of executions of each in one run of the model.

    Parameters
    ----------
    mod : IRModule or Function
        The model.
    params : dict
        Its parameters by name.
    target : Target or str
        The target.
    target_host : Target or str, optional
        The target of the host.
    hardware_params : HardwareParams, optional
        The hardware parameters; those of the target by default.
    include_simple_tasks : bool
        Whether to include computations without a reduction.
    dump_workload_to_dag_log : str, optional
        A file to which the text of each computation is written, by its key.
    opt_level : int
        The optimization level of the passes that run before.
    other_targets : list of Target, optional
        The targets of further devices on which parts of the model run.

    Returns
    -------
    tuple
        The tasks, and the weight of each.
    """
    targets, _ = all_targets([target, *(other_targets or ())], target_host)
    found = model_tasks(mod, params, targets, include_simple_tasks, opt_level)
    tasks = [search_task(task, hardware_params) for task in found]
    if dump_workload_to_dag_log is not None:
        with open(dump_workload_to_dag_log, "w", encoding="utf-8") as file:
            json.dump({task.workload_key: str(task.compute_dag) for task in tasks}, file)
    return tasks, [task.weight for task in found]


def search_task(task: ModelTask, hardware_params: HardwareParams | None = None) -> SearchTask:
    """Return the computation of a model as a task, and register its key."""
    key = task.dag.workload_key()
    register_workload_tensors(key, task.dag.tensors)
    option = LayoutRewriteOption.get_target_default(task.target, in_relay_integration=True)
    return SearchTask(
        compute_dag=task.dag,
        workload_key=key,
        target=task.target,
        hardware_params=hardware_params,
        layout_rewrite_option=option if task.dag.layout_free_placeholders else LayoutRewriteOption.NO_REWRITE,
        desc=task.desc,
    )


def untuned_kernels(task: ModelTask) -> list[Callable[[], tuple[Any, list[Any]]]]:
    """Return the kernels that compute a task without tuning, each as a function that creates its schedule and
    arguments. They use the templates and layouts of the target. Kernels that only change layouts are omitted, because
    in an untuned model all kernels use the same layouts."""
    target, params = task.target, task.call.op.params
    known = {p: a for p, a in zip(params, task.call.args) if isinstance(a, Constant)}
    body = substitute_vars(task.call.op.body, known)
    alone = IRModule.from_expr(Function([p for p in params if p not in known], body))
    with PassContext(opt_level=3), target:
        mod = infer_module(run_pipeline(optimize(alone, target)[0], fusion(target), PassContext.current()))
    functions = [node.op for node in post_order_calls(mod["main"].body) if is_kernel_call(node)]
    return [partial(_scheduled, function, target) for function in functions if not _only_moves(function)]


def _scheduled(function: Function, target: Target) -> tuple[Any, list[Any]]:
    with PassContext(opt_level=3), target:
        graph = ToTensors(function, target)
        return graph.schedule(graph.outputs), [*graph.inputs, *graph.outputs]


def _only_moves(function: Function) -> bool:
    calls = [node for node in post_order(function.body) if isinstance(node, Call)]
    return all(only_changes_layout(call) or is_reshape(call) or is_call(call, "layout_transform") for call in calls)


def auto_schedule_topi(func_name: str, outs: Any) -> Schedule | None:
    """The schedule of the current dispatch context for tensors and the current target.

    Parameters
    ----------
    func_name : str
        The name of the function, for messages.
    outs : Tensor or list of Tensor
        The outputs.

    Returns
    -------
    Schedule, optional
        The schedule; None if the context has none.
    """
    outputs = [outs] if isinstance(outs, Tensor) else list(outs)
    inputs = [op.output(0) for op in post_order_ops([t.op for t in outputs]) if isinstance(op, PlaceholderOp)]
    dag = ComputeDAG([*inputs, *outputs])
    target = Target.current(allow_none=False)
    state = DispatchContext.current.query(target, dag.workload_key(), has_reduction(dag), dag, func_name)
    return None if state is None else dag.apply_steps_from_state(state)[0]


def is_auto_scheduler_enabled() -> bool:
    """Whether the current pass context enables schedules of the auto-scheduler.

    Returns
    -------
    bool
        True if they are enabled.
    """
    return bool(PassContext.current().get_config("relay.backend.use_auto_scheduler"))


__all__ = ["auto_schedule_topi", "extract_tasks", "is_auto_scheduler_enabled"]
