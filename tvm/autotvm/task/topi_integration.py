"""Operators as templates: their computations and schedules are registered under the name of a task.

``register_topi_compute`` and ``register_topi_schedule`` pass a configuration as first argument to a function; its
callers do not pass it. The computation stores its workload in its operation, from where the schedule reads it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ...te.graph import post_order_ops
from ...te.tensor import ComputeOp, Operation, Tensor
from .dispatcher import configured
from .task import TASK_TABLE, TaskTemplate, args_to_workload


def _template(name: str) -> TaskTemplate:
    return TASK_TABLE.setdefault(name, TaskTemplate())


def mark(outs: Any, workload: tuple[Any, ...]) -> Any:
    """Store the workload in the operation that computes ``outs``, unless it already has one."""
    first = outs[0] if isinstance(outs, (list, tuple)) else outs
    attrs = getattr(first.op, "attrs", None)
    if isinstance(attrs, dict):
        attrs.setdefault("workload", workload)
    return outs


def register_topi_compute(task_name: str, func: Callable | None = None) -> Any:
    """Register ``f(cfg, *args)`` as the computation of a task.

    Parameters
    ----------
    task_name : str
        The name of the template.
    func : callable, optional
        The function; without it, a decorator is returned.

    Returns
    -------
    callable
        The registered function, or a decorator if no function is given.
    """

    def decorate(f: Callable) -> Callable:
        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise TypeError(f"'{task_name}': pass arguments by position, because they are part of the workload")
            workload = args_to_workload(args, task_name)
            note(task_name, args)
            return mark(configured(workload, lambda config: f(config, *args)), workload)

        _template(task_name).fcompute = wrapper
        return wrapper

    return decorate(func) if func is not None else decorate


def register_topi_schedule(task_name: str, func: Callable | None = None) -> Any:
    """Register ``f(cfg, outs)`` as the schedule of a task.

    Parameters
    ----------
    task_name : str
        The name of the template.
    func : callable, optional
        The function; without it, a decorator is returned.

    Returns
    -------
    callable
        The registered function, or a decorator if no function is given.
    """

    def decorate(f: Callable) -> Callable:
        @functools.wraps(f)
        def wrapper(outs: Any, *args: Any, **kwargs: Any) -> Any:
            return configured(get_workload(outs, task_name), lambda config: f(config, outs, *args, **kwargs))

        _template(task_name).fschedule = wrapper
        return wrapper

    return decorate(func) if func is not None else decorate


def workload_of(op: Operation) -> tuple[Any, ...] | None:
    """Return the workload that a computation stored in its operation."""
    return (getattr(op, "attrs", None) or {}).get("workload")


def get_workload(outs: Iterable[Tensor] | Tensor, task_name: str | None = None) -> tuple[Any, ...] | None:
    """The workload of this task (or of any task) among the operations that compute the outputs.

    Parameters
    ----------
    outs : Iterable[Tensor] | Tensor
        The outputs.
    task_name : str, optional
        The task; without it, any.

    Returns
    -------
    tuple[Any, ...]
    """
    tensors = [outs] if isinstance(outs, Tensor) else list(outs)
    for op in reversed(post_order_ops([t.op for t in tensors])):
        found = workload_of(op) if isinstance(op, ComputeOp) else None
        if found is not None and task_name in (None, found[0]):
            return found
    return None


class TaskExtractEnv:
    """A context that collects the tasks of the templates that are used inside it.

    Parameters
    ----------
    allow_duplicate : bool, optional
        Whether to keep a repeated task several times.
    """

    current: TaskExtractEnv | None = None

    def __init__(self, allow_duplicate: bool = False):
        self.allow_duplicate = allow_duplicate
        self.task_collection: list[tuple[str, tuple[Any, ...]]] = []
        self.counts: dict[tuple[Any, ...], int] = {}
        self.tracing = False
        self.wanted_relay_ops: set[str] | None = None

    @staticmethod
    def get(allow_duplicate: bool = False) -> TaskExtractEnv:
        """The environment of this process, which is created at the first call.

        Parameters
        ----------
        allow_duplicate : bool, optional
            Whether to keep a repeated task several times from now on.

        Returns
        -------
        TaskExtractEnv
        """
        if TaskExtractEnv.current is None:
            TaskExtractEnv.current = TaskExtractEnv()
        TaskExtractEnv.current.allow_duplicate = allow_duplicate
        return TaskExtractEnv.current

    def __enter__(self) -> TaskExtractEnv:
        self.task_collection, self.counts, self.tracing = [], {}, True
        return self

    def __exit__(self, *_: object) -> None:
        self.tracing = False

    def reset(self, wanted_relay_ops: Any = None) -> None:
        """Remove the collected tasks.

        Parameters
        ----------
        wanted_relay_ops : iterable of Op, optional
            Operators that are stored in the attribute ``wanted_relay_ops``; tasks of all operators are collected.
        """
        self.task_collection, self.counts = [], {}
        self.wanted_relay_ops = set(wanted_relay_ops) if wanted_relay_ops else None

    def add_task(self, task_name: str, args: tuple[Any, ...]) -> None:
        """Count a task, and add it to the list if it is new or duplicates are allowed.

        Parameters
        ----------
        task_name : str
            The name of the template of the task.
        args : tuple
            The arguments, in the form of a workload.
        """
        key = (task_name, *args)
        self.counts[key] = self.counts.get(key, 0) + 1
        if self.counts[key] == 1 or self.allow_duplicate:
            self.task_collection.append((task_name, args))

    def get_tasks(self) -> list[tuple[str, tuple[Any, ...]]]:
        """The collected tasks in the order of their first use.

        Returns
        -------
        list of tuple
            The name of the template and the arguments of each task.
        """
        return self.task_collection


def note(task_name: str, args: Any) -> None:
    """Report the use of a template to the active extraction, if there is one."""
    env = TaskExtractEnv.current
    if env is not None and env.tracing:
        env.add_task(task_name, args_to_workload(args))
