"""The tasks of a model: what its kernels compute in plain operators, and how often each is computed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..ir.module import IRModule
from ..ir.structural import structural_key
from ..ir.transform import PassContext, run_pipeline
from ..relay.backend.auto_schedule import computation_of, has_reduction
from ..relay.backend.compile_program import models_by_target
from ..relay.backend.from_relay import post_order_calls
from ..relay.build_module import all_targets, bind_params_by_name
from ..relay.expr import Call, Constant
from ..relay.infer import infer_module
from ..relay.pipeline import simplify
from ..relay.transform.auto_schedule import fuse_plain, is_kernel_call, name_of
from ..target import Target
from .compute_dag import ComputeDAG
from .hardware import HardwareParams
from .search_task import SearchTask
from .workload_registry import register_workload_tensors


@dataclass
class ModelTask:
    """A computation of a model: calls of equal kernels, the first of which stands for all."""

    dag: ComputeDAG
    target: Target
    # A call of its kernel; weights are constants among its arguments.
    call: Call
    names: dict[str, None] = field(default_factory=dict)
    weight: int = 0

    @property
    def desc(self) -> str:
        return ",".join(self.names)

    def constants(self) -> list[int]:
        """The places of the arguments that do not change when the model runs."""
        return [place for place, argument in enumerate(self.call.args) if isinstance(argument, Constant)]


def plain_calls(mod: IRModule, target: Target) -> list[Call]:
    """The calls of the kernels that a graph has as plain operators, operands first."""
    ctx = PassContext.current()
    with target:
        simple = run_pipeline(infer_module(mod), simplify(target), ctx)
        fused = infer_module(fuse_plain(simple, target, ctx))
    return [node for node in post_order_calls(fused["main"].body) if is_kernel_call(node)]


def model_tasks(
    mod: Any, params: Any, targets: Iterable[Target], include_simple_tasks: bool = False
) -> list[ModelTask]:
    """The computations of a model for the targets of its devices; those without a reduction only where
    ``include_simple_tasks``."""
    mod = mod.clone() if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    found: dict[tuple[str, str], ModelTask] = {}
    for part, target in models_by_target(mod, list(targets)):
        known: dict[str, ComputeDAG | None] = {}
        for call in plain_calls(part, target):
            key = structural_key(call.op)
            if key not in known:
                known[key] = computation_of(call.op, target)
            dag = known[key]
            if dag is None or not (include_simple_tasks or has_reduction(dag)):
                continue
            task = found.setdefault((dag.workload_key(), str(target)), ModelTask(dag, target, call))
            task.names[name_of(call.op)] = None
            task.weight += 1
    return list(found.values())


def extract_tasks(
    mod: Any, params: Any, target: Any, target_host: Any = None, hardware_params: HardwareParams | None = None,
    include_simple_tasks: bool = False, dump_workload_to_dag_log: str | None = None, opt_level: int = 3,
    other_targets: Iterable[Any] | None = None,
) -> tuple[list[SearchTask], list[int]]:
    """The tasks of a model, and how often each is computed when the model runs once.

    Tasks without a reduction are taken only where ``include_simple_tasks``. ``dump_workload_to_dag_log`` is a file for
    the text of each computation by its key. ``other_targets`` are those of further devices that the model is marked
    to run on.
    """
    targets, _ = all_targets([target, *(other_targets or ())], target_host)
    current = PassContext.current()
    with PassContext(opt_level, current.required_pass, current.disabled_pass, current.instruments, current.config):
        found = model_tasks(mod, params, targets, include_simple_tasks)
    tasks = [search_task(task, hardware_params) for task in found]
    if dump_workload_to_dag_log is not None:
        with open(dump_workload_to_dag_log, "w", encoding="utf-8") as file:
            json.dump({task.workload_key: str(task.compute_dag) for task in tasks}, file)
    return tasks, [task.weight for task in found]


def search_task(task: ModelTask, hardware_params: HardwareParams | None = None) -> SearchTask:
    """The computation of a model as a task of a search; its key is registered."""
    key = task.dag.workload_key()
    register_workload_tensors(key, task.dag.tensors)
    return SearchTask(
        compute_dag=task.dag, workload_key=key, target=task.target, hardware_params=hardware_params, desc=task.desc)


def is_auto_scheduler_enabled() -> bool:
    """Whether models are compiled with the auto-scheduler's schedules in the pass context in force."""
    return bool(PassContext.current().get_config("relay.backend.use_auto_scheduler"))


__all__ = ["ModelTask", "extract_tasks", "is_auto_scheduler_enabled", "model_tasks", "plain_calls", "search_task"]
