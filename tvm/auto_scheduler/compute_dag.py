"""The computation for which a task searches schedules."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..error import TVMError
from ..ir.prim import IntImm, Reduce
from ..ir.serialize import load_json, save_json
from ..target import Target
from ..te.flop import FlopCalculationError, count_operations
from ..te.infer import infer_bound
from ..te.schedule import Schedule
from ..te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from .access import AccessAnalyzer
from .iterator import Iterator
from .layout_rewrite import layouts_of, needed_layouts, rewritten
from .loop_state import State
from .python_code import python_code
from .replay import Replay, steps_that_make_ops
from .state import Stage, StateObject
from .steps import TransformStep, replayed
from .utils import get_const_tuple
from .workload_registry import workload_key_to_tensors

# Maximum number of cached operation lists: the states of a population share the steps that create caches.
_MOST_REMEMBERED = 1024


class LayoutRewriteOption:
    """Options for storing constant inputs in the order in which a schedule reads them."""

    NO_REWRITE = 0
    INSERT_TRANSFORM_STAGE = 1
    REWRITE_FOR_PRE_TRANSFORMED = 2

    @staticmethod
    def get_target_default(target: Any, in_relay_integration: bool = False) -> int:
        """The default for a target. On CPUs, constants are stored in the order of the loops: a model stores them this
        way, and a single computation converts them. GPUs read constants through shared memory, where the order matters
        less.

        Parameters
        ----------
        target : Target or str
            The target of the code.
        in_relay_integration : bool, optional
            Whether the computation belongs to a model, whose constants can be stored in any order.

        Returns
        -------
        int
            One of the options of this class.
        """
        if not Target(target).features.is_cpu:
            return LayoutRewriteOption.NO_REWRITE
        return (
            LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
            if in_relay_integration
            else LayoutRewriteOption.INSERT_TRANSFORM_STAGE
        )


class ComputeDAG:
    """The operations of a computation, from inputs to outputs.

    Parameters
    ----------
    compute_or_sche : list of Tensor, str or Schedule
        The inputs and outputs, a workload key, or a te schedule.
    """

    def __init__(self, compute_or_sche: Sequence[Tensor] | str | Schedule):
        if isinstance(compute_or_sche, str):
            tensors = workload_key_to_tensors(compute_or_sche)
        elif isinstance(compute_or_sche, Schedule):
            tensors = _tensors_of(compute_or_sche)
        elif isinstance(compute_or_sche, (list, tuple)) or hasattr(compute_or_sche, "__iter__"):
            tensors = list(compute_or_sche)
        else:
            tensors = [compute_or_sche]
        wrong = [t for t in tensors if not isinstance(t, Tensor)]
        if wrong or not tensors:
            got = type(wrong[0]).__name__ if wrong else "an empty list"
            raise ValueError(f"ComputeDAG: expected tensors, a workload key or a te schedule, got {got}")
        self.tensors: list[Tensor] = tensors
        self.ops: list[Operation] = topological_order(tensors)
        for op in self.ops:
            _check(op)
        asked = {t.op for t in tensors if isinstance(t.op, ComputeOp)}
        self.access_analyzer = AccessAnalyzer(self.ops, asked)
        self.output_ops = [op for op in self.ops if self.access_analyzer.is_output(op)]
        self._ops_after: OrderedDict[tuple[TransformStep, ...], tuple[Operation, ...]] = OrderedDict()
        self._analyzers: OrderedDict[tuple[Operation, ...], AccessAnalyzer] = OrderedDict()

    def __getstate__(self) -> str:
        return save_json(self.tensors)

    def __setstate__(self, text: str) -> None:
        self.__init__(list(load_json(text)))

    # -- properties ------------------------------------------------------------------------------------------------

    @cached_property
    def flop_ct(self) -> float:
        """The operations of one execution; -1 if they are unknown."""
        said = [op.attrs["FLOP"] for op in self.ops if op.attrs and "FLOP" in op.attrs]
        try:
            counted = count_operations(op for op in self.ops if not (op.attrs and "FLOP" in op.attrs))
        except FlopCalculationError:
            return -1.0
        return float(counted) + sum(float(getattr(number, "value", number)) for number in said)

    @property
    def hash_key(self) -> str:
        """A hash that is equal for equal computations, independent of the names of free variables."""
        return hashlib.md5(str(self).encode(), usedforsecurity=False).hexdigest()

    def workload_key(self) -> str:
        """The key of the computation: its hash and the shapes of its tensors.

        Returns
        -------
        str
            The key.
        """
        return json.dumps([self.hash_key, *(get_const_tuple(t.shape) for t in self.tensors)])

    def __str__(self) -> str:
        return "".join(line for op in self.ops for line in _op_text(op))

    # -- states ----------------------------------------------------------------------------------------------------

    @cached_property
    def init_state(self) -> State:
        return self.get_init_state()

    @cached_property
    def _initial(self) -> StateObject:
        return StateObject(tuple(Stage.of(op, op in self.output_ops) for op in self.ops))

    def get_init_state(self) -> State:
        """The initial state with plain loops.

        Returns
        -------
        State
            The state.
        """
        return State(self._initial, self)

    def state_of(self, steps: Sequence[TransformStep]) -> StateObject:
        """The state that results from steps.

        Parameters
        ----------
        steps : list of TransformStep
            The steps.

        Returns
        -------
        StateObject
            The state.
        """
        return replayed(self._initial, steps, self)

    def replay_ops(self, steps: tuple[TransformStep, ...]) -> tuple[Operation, ...]:
        """The operations of the stages after steps, whose split lengths may be open.

        Parameters
        ----------
        steps : tuple of TransformStep
            The steps.

        Returns
        -------
        tuple of Operation
            The operations.
        """
        key = steps_that_make_ops(steps)
        return _remembered(self._ops_after, key, lambda: Replay(self).run(key).ops)

    def analyzer_of(self, state: StateObject) -> AccessAnalyzer:
        """The access analysis of the operations of a state.

        Parameters
        ----------
        state : StateObject
            The state.

        Returns
        -------
        AccessAnalyzer
            The analyzer.
        """
        if not any(step.changes_ops for step in state.transform_steps):
            return self.access_analyzer
        ops = tuple(stage.op for stage in state.stages)
        outputs = {stage.op for stage in state.stages if stage.is_output}
        return _remembered(self._analyzers, ops, lambda: AccessAnalyzer(ops, outputs))

    def apply_steps_from_state(
        self, state: State | StateObject, layout_rewrite: int = LayoutRewriteOption.NO_REWRITE
    ) -> tuple[Schedule, list[Tensor]]:
        """The te schedule of a state, and the tensors that are the arguments of its function. ``layout_rewrite`` is a
        LayoutRewriteOption; with REWRITE_FOR_PRE_TRANSFORMED some arguments have other shapes than those of the DAG.

        Parameters
        ----------
        state : State
            The state.
        layout_rewrite : int
            The LayoutRewriteOption.

        Returns
        -------
        tuple
            The schedule, and the tensors.
        """
        layouts = layouts_of(self, state.transform_steps) if layout_rewrite else {}
        given = layouts if layout_rewrite == LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED else {}
        replay = Replay(self).run(state.transform_steps)
        layouts = {**needed_layouts(replay.stages), **layouts}
        if not layouts:
            return replay.schedule, list(self.tensors)
        made = rewritten(self, layouts, [tensor for tensor in layouts if tensor not in given])
        schedule = Replay(made).run(state.transform_steps).schedule
        for op in made.transforms:
            schedule[op].parallel(op.axis[0])
        return schedule, made.tensors

    def layouts_key(self, state: State | StateObject, layout_rewrite: int) -> str:
        """A description of the order in which the function of a state reads the elements of its arguments. Two orders
        may have the same shape.

        Parameters
        ----------
        state : State
            The state.
        layout_rewrite : int
            A value of LayoutRewriteOption.

        Returns
        -------
        layouts : str
            The orders; empty if they are those of the computation.
        """
        if layout_rewrite != LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED:
            return ""
        layouts = layouts_of(self, state.transform_steps)
        parts = {self.tensors.index(tensor): [tuple(part) for part in layouts[tensor].parts] for tensor in layouts}
        return str(parts) if parts else ""

    @cached_property
    def layout_free_placeholders(self) -> list[Tensor]:
        """The inputs for which an operation allows any layout."""
        found = [t for op in self.ops if op.attrs for t in op.attrs.get("layout_free_placeholders", ())]
        return list(dict.fromkeys(found))

    def rewrite_layout_from_state(self, state: State | StateObject) -> ComputeDAG:
        """The computation with inputs stored in the order in which a state reads them; the steps of the state can be
        applied to it.

        Parameters
        ----------
        state : State
            The state.

        Returns
        -------
        ComputeDAG
            The computation.
        """
        return ComputeDAG(rewritten(self, layouts_of(self, state.transform_steps)).tensors)

    def print_python_code_from_state(self, state: State | StateObject) -> str:
        """A te schedule ``s`` as Python code, which runs if each operation is bound to the name of its tensor.

        Parameters
        ----------
        state : State
            The state.

        Returns
        -------
        str
            The program.
        """
        schedule, _ = self.apply_steps_from_state(state)
        return python_code(schedule)

    def infer_bound_from_state(self, state: State | StateObject) -> State:
        """The state with the extent of every loop.

        Parameters
        ----------
        state : State
            The state.

        Returns
        -------
        State
            The state.
        """
        replay = Replay(self).run(state.transform_steps)
        normal = replay.schedule.normalize()
        ranges = infer_bound(normal)
        full = self.state_of(state.transform_steps)
        for place, (stage, axes) in enumerate(zip(full.stages, replay.axes)):
            iters = tuple(_bounded(it, ranges.get(axis)) for it, axis in zip(stage.iters, axes))
            full = full.with_iters(place, iters)
        made = state.copy() if isinstance(state, State) else State(full, self)
        made.state_object = full
        made._number_stages()
        return made


def _remembered(table: OrderedDict, key: Any, make: Any) -> Any:
    found = table.get(key)
    if found is None:
        found = table[key] = make()
        if len(table) > _MOST_REMEMBERED:
            table.popitem(last=False)
    return found


def _bounded(it: Iterator, bounds: Any) -> Iterator:
    if bounds is None or not isinstance(bounds.extent, IntImm):
        return it
    low = bounds.min.value if isinstance(bounds.min, IntImm) else 0
    return replace(it, min=low, extent=bounds.extent.value)


def _tensors_of(schedule: Schedule) -> list[Tensor]:
    """Return the inputs and outputs of a schedule, in topological order; caches in the schedule are separate
    operations."""
    return [
        t
        for stage in schedule.stages
        if isinstance(stage.op, PlaceholderOp) or stage.is_output
        for t in stage.op.outputs
    ]


def _check(op: Operation) -> None:
    """Report an error for operations that the search does not support."""
    if isinstance(op, PlaceholderOp):
        return
    if not isinstance(op, ComputeOp):
        raise TVMError(
            f"ComputeDAG: {op.name} is a {type(op).__name__}; the auto-scheduler only supports compute operations"
        )
    names = [axis.var.name for axis in (*op.axis, *op.reduce_axis)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TVMError(f"ComputeDAG: two axes of {op.name} are named {twice[0]}; use different names")


def topological_order(tensors: Sequence[Tensor]) -> list[Operation]:
    """The operations in topological order.

    Records refer to stages by their positions in this order. Operations are numbered by a depth-first traversal from
    the last tensor, visiting the last input of each operation first. Among operations whose inputs are all available,
    the one with the highest number comes first.

    Parameters
    ----------
    tensors : list of Tensor
        The inputs and outputs.

    Returns
    -------
    list of Operation
        The operations.
    """
    numbers: dict[Operation, int] = {}
    readers: dict[Operation, list[Operation]] = {}
    waiting: dict[Operation, int] = {}
    todo = [tensor.op for tensor in tensors]
    while todo:
        op = todo.pop()
        if op in numbers:
            continue
        numbers[op] = len(numbers)
        inputs = op.input_tensors
        waiting[op] = len(inputs)
        for tensor in inputs:
            readers.setdefault(tensor.op, []).append(op)
            todo.append(tensor.op)
    by_number = list(numbers)
    ready = [-numbers[op] for op, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        op = by_number[-heapq.heappop(ready)]
        order.append(op)
        for reader in readers.get(op, ()):
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heapq.heappush(ready, -numbers[reader])
    return order


def _op_text(op: Operation) -> list[str]:
    if isinstance(op, PlaceholderOp):
        kind = "" if op.dtype == "float32" else f" {op.dtype}"
        return [f"{op.name} = PLACEHOLDER [{', '.join(map(str, op.shape))}]{kind}\n"]
    assert isinstance(op, ComputeOp)
    axes = ", ".join(f"{axis.var.name}:{axis.dom.extent}" for axis in op.axis)
    lines = []
    for number, body in enumerate(op.body):
        name = op.name if len(op.body) == 1 else f"{op.name}.v{number}"
        if isinstance(body, Reduce):
            over = ", ".join(f"{axis.var.name}:{axis.dom.extent}" for axis in body.axis)
            source = ", ".join(map(str, body.source))
            condition = "" if getattr(body.condition, "value", None) else f" where {body.condition}"
            lines.append(f"{name}({axes}) = {body.combiner}[{body.value_index}] over ({over}) of {source}{condition}\n")
        else:
            lines.append(f"{name}({axes}) = {body}\n")
    return lines


__all__ = ["ComputeDAG", "LayoutRewriteOption", "topological_order"]
