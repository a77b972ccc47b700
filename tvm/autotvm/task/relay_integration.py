"""The tasks of a model: the tunable workloads of its kernels, and how often each is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...ir.module import IRModule
from ...ir.structural import structural_key
from ...ir.transform import PassContext, run_pipeline
from ...ir.type import Type
from ...relay.backend.compile_program import models_by_target
from ...relay.backend.from_relay import post_order_calls
from ...relay.backend.te_compiler import ToTensors, get_valid_implementations
from ...relay.build_module import all_targets, bind_params_by_name, optimize
from ...relay.expr import Call, Function
from ...relay.infer import infer_module
from ...relay.pipeline import fusion
from ...target import Target
from ...te.graph import post_order_ops
from ...te.tensor import Operation, Tensor
from ..utils import logger
from .task import Task, create
from .topi_integration import workload_of

# The Relay operators, by the prefix of the names of their tasks.
_OPERATORS = (
    ("conv2d_transpose", "nn.conv2d_transpose"),
    ("conv1d_transpose", "nn.conv1d_transpose"),
    ("conv3d_transpose", "nn.conv3d_transpose"),
    ("depthwise_conv2d", "nn.conv2d"),
    ("conv2d", "nn.conv2d"),
    ("group_conv2d", "nn.conv2d"),
    ("winograd", "nn.conv2d"),
    ("conv1d", "nn.conv1d"),
    ("conv3d", "nn.conv3d"),
    ("dense", "nn.dense"),
    ("batch_matmul", "nn.batch_matmul"),
    ("matmul", "nn.dense"),
)


def operator_of(task_name: str) -> str | None:
    """Return the Relay operator of a task."""
    return next((op for start, op in _OPERATORS if task_name.startswith(start)), None)


def calls_of(mod: IRModule, params: Any, target: Target) -> list[Function]:
    """Return the fused functions of a model in the order of their calls, one entry per call."""
    current = PassContext.current()
    level = max(current.opt_level, 3)
    with PassContext(level, current.required_pass, current.disabled_pass, current.instruments, current.config), target:
        mod, _ = optimize(mod, target, params)
        fused = infer_module(run_pipeline(mod, fusion(target), PassContext.current()))
    calls = post_order_calls(fused["main"].body)
    return [node.op for node in calls if isinstance(node, Call) and isinstance(node.op, Function)]


def kernels_of(mod: IRModule, params: Any, target: Target) -> list[tuple[Function, int]]:
    """Return the fused functions of a model and the number of calls of each."""
    found: dict[str, tuple[Function, int]] = {}
    for function in calls_of(mod, params, target):
        key = structural_key(function)
        found[key] = (function, found[key][1] + 1 if key in found else 1)
    return list(found.values())


class Tunable(ToTensors):
    """Collects the tunable workloads of a fused function: those of all implementations of its operators, not only of
    the implementation that is used without tuning."""

    def __init__(self, function: Function, target: Target):
        self.workloads: dict[Operation, tuple[Any, ...]] = {}
        super().__init__(function, target)

    def computed(self, node: Call, inputs: list[Tensor], out_type: Type) -> list[Tensor]:
        before = set(post_order_ops([t.op for t in inputs]))
        for offer in get_valid_implementations(node.op, node.attrs, inputs, out_type, self.target):
            with self.target:
                made = offer.compute(node.attrs, inputs, out_type)
            outs = made if isinstance(made, (list, tuple)) else [made]
            found = {op: workload_of(op) for op in post_order_ops([t.op for t in outs]) if op not in before}
            self.workloads |= {op: workload for op, workload in found.items() if workload is not None}
        return super().computed(node, inputs, out_type)


def workloads_in(function: Function, target: Target) -> list[tuple[Any, ...]]:
    """Return the tasks of a fused function."""
    return list(Tunable(function, target).workloads.values())


def workloads_of(mod: IRModule, params: Any, target: Target) -> dict[tuple[Any, ...], int]:
    """Return the tasks of a model, and the number of executions of each in one run of the model."""
    counts: dict[tuple[Any, ...], int] = {}
    for function, times in kernels_of(mod, params, target):
        for workload in workloads_in(function, target):
            counts[workload] = counts.get(workload, 0) + times
    return counts


def extract_from_program(
    mod: Any, params: Any, target: Any, target_host: Any = None, ops: Iterable[Any] | None = None
) -> list[Task]:
    """The tasks of a model; ``ops`` selects operators (or their names), all by default.

    ``target`` is one target or several, as for ``relay.build``; a task has the target of the device on which the model
    computes it. ``task.count`` is the number of executions in one run of the model.
    """
    return extract_from_multiple_program([mod], [params], target, target_host, ops)


def extract_from_multiple_program(
    mods: Sequence[Any],
    params: Sequence[Any],
    target: Any,
    target_host: Any = None,
    ops: Iterable[Any] | None = None,
) -> list[Task]:
    """The tasks of several models, each task once."""
    targets, _ = all_targets(target, target_host)
    wanted = None if ops is None else {getattr(op, "name", op) for op in ops}
    if wanted is not None and "nn.matmul" in wanted:
        # The compiler converts some matmuls to dense layers.
        wanted.add("nn.dense")
    counts: dict[tuple[tuple[Any, ...], Target], int] = {}
    for mod, own in zip(mods, params):
        for part, where in models_by_target(_with_params(mod, own), targets):
            for workload, times in workloads_of(part, None, where).items():
                counts[workload, where] = counts.get((workload, where), 0) + times
    tasks = []
    for (workload, where), times in counts.items():
        if wanted is not None and operator_of(workload[0]) not in wanted:
            continue
        task = create(workload[0], workload[1:], where)
        task.count = times
        tasks.append(task)
    if not tasks:
        logger.warning(
            "nothing to tune in this model: none of its operators has a template for target %s",
            ", ".join(str(t).strip() for t in targets),
        )
    return tasks


def _with_params(mod: Any, params: Any) -> IRModule:
    mod = mod.clone() if isinstance(mod, IRModule) else IRModule.from_expr(mod)
    if params:
        mod["main"] = bind_params_by_name(mod["main"], params)
    return mod
