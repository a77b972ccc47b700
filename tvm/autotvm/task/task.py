"""Tasks: a template, its arguments, and its configuration space."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ...ir.prim import FloatImm, IntImm, IterVar, PrimExpr, StringImm
from ...target import Target
from ...te.operation import placeholder
from ...te.tensor import Tensor
from ..utils import get_const_tuple
from .dispatcher import ApplyConfig, DispatchContext, configured
from .entity import InstantiationError
from .flop import FlopCalculationError, compute_flop
from .space import ConfigSpace


def _serialized(value: Any) -> Any:
    if isinstance(value, Tensor):
        return ("TENSOR", get_const_tuple(value.shape), value.dtype)
    if isinstance(value, (list, tuple)) or type(value).__name__ == "Array":
        return tuple(_serialized(v) for v in value)
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return value.value
    if isinstance(value, IterVar):
        return str(value.var.name)
    if isinstance(value, (str, int, float, PrimExpr)) or value is None:
        return value
    if hasattr(value, "__index__"):
        return int(value)
    raise RuntimeError(
        f"a task argument must be a tensor, number, string, None or a list of these; got {type(value).__name__}"
    )


def serialize_args(args: Any) -> tuple[Any, ...]:
    """Arguments as stored in records: a tensor is its shape and type.

    Parameters
    ----------
    args : list
        The arguments of the template.

    Returns
    -------
    tuple[Any, ...]
    """
    return tuple(_serialized(a) for a in args)


def deserialize_args(args: Any) -> list[Any]:
    """The arguments of a record, with placeholders for tensors.

    Parameters
    ----------
    args : list
        The arguments of the template.

    Returns
    -------
    list[Any]
    """
    return [
        placeholder(a[1], a[2]) if isinstance(a, (list, tuple)) and len(a) > 0 and a[0] == "TENSOR" else a for a in args
    ]


def args_to_workload(args: Any, task_name: str | None = None) -> tuple[Any, ...]:
    """The workload of a task: the name of its template and its arguments.

    Parameters
    ----------
    args : list
        The arguments of the template.
    task_name : str, optional
        The name of the template.

    Returns
    -------
    tuple[Any, ...]
    """
    found = serialize_args(args)
    return (task_name, *found) if task_name is not None else found


class TaskTemplate:
    """The template of an operator: its computation and its schedule."""

    def __init__(self):
        self.fcompute: Callable | None = None
        self.fschedule: Callable | None = None
        self.fcustomized: Callable | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, list[Tensor]]:
        if self.fcustomized is not None:
            return self.fcustomized(*args, **kwargs)
        if self.fcompute is None or self.fschedule is None:
            raise RuntimeError("the template has no schedule; register one with autotvm.register_topi_schedule")
        out = self.fcompute(*args, **kwargs)
        inputs = [a for a in args if isinstance(a, Tensor)]
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        return self.fschedule(outs), inputs + outs


class MissingTask(TaskTemplate):
    """A task of a record whose template is not registered in this process."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"the template of task '{self.name}' is not registered; import the module that defines it")


TASK_TABLE: dict[str, TaskTemplate] = {}
# A user-defined template may be defined again (for example in a notebook cell); the last definition is used.


def lookup_task(name: str) -> TaskTemplate:
    return TASK_TABLE.get(name) or MissingTask(name)


def register_customized(name: str, func: Callable) -> None:
    template = TaskTemplate()
    template.fcustomized = func
    TASK_TABLE[name] = template


class Task:
    """A tunable computation. ``task.create`` sets ``config_space``, ``target`` and ``flop``.

    Parameters
    ----------
    name : str
        The name of the template.
    args : list
        The arguments of the template.
    """

    def __init__(self, name: str, args: Any):
        self.name = name
        self.args = tuple(args)
        self.kwargs: dict[str, Any] = {}
        self.func = lookup_task(name)
        self._config_space: ConfigSpace | None = None
        self.flop: float | None = None
        # The number of executions in one run of the model.
        self.count = 1
        # The index among the tasks of the model from which it was extracted.
        self.number: int | None = None
        self.target: Target | None = None
        self.target_host: Target | None = None

    @property
    def config_space(self) -> ConfigSpace:
        if self._config_space is None:
            raise AttributeError(
                f"task '{self.name}' has no configuration space; create the task with autotvm.task.create"
            )
        return self._config_space

    @config_space.setter
    def config_space(self, space: ConfigSpace) -> None:
        self._config_space = space

    @property
    def workload(self) -> tuple[Any, ...]:
        return (self.name, *serialize_args(self.args))

    def instantiate(self, config: ConfigSpace) -> tuple[Any, list[Tensor]]:
        """The schedule and arguments for a configuration.

        Parameters
        ----------
        config : ConfigSpace or ConfigEntity
            The configuration, or a space that the template fills with its knobs.

        Returns
        -------
        tuple
            The schedule, and the list of its arguments.

        Raises
        ------
        RuntimeError
            The template is not registered.
        """
        config.flop = 0
        with ApplyConfig(config, self.name):
            schedule, arguments = self.func(*deserialize_args(self.args), **self.kwargs)
        if not self.flop:
            self.flop = config.flop or compute_flop(schedule)
        return schedule, arguments

    def start_search(self, tuner: Any = "xgb", measure_option: Any = None, baseline_first: bool = True) -> Any:
        """The search of this task for ``tvm.tuning.tune``, with a tuner (or its name) and measurement options.

        Parameters
        ----------
        tuner : str or Tuner, optional
            The tuner, or its name: "xgb", "ga", "random", "gridsearch".
        measure_option : dict, optional
            The builder and runner, as returned by ``autotvm.measure_option``; those of this machine by default.
        baseline_first : bool, optional
            Whether a tuner that is given by its name begins with the default configuration.

        Returns
        -------
        TemplateSearch
            The search of this task.

        Raises
        ------
        ValueError
            The name of the tuner is unknown.
        """
        from ..search import TemplateSearch

        return TemplateSearch(self, tuner, measure_option, baseline_first)

    def __repr__(self) -> str:
        return f"Task(func_name={self.name}, args={list(self.args)}, kwargs={self.kwargs}, workload={self.workload})"


def template(task_name: str, func: Callable | None = None) -> Any:
    """Register a function that returns (schedule, arguments) as a template.

    A call of the function uses the configuration that the dispatch context has for its arguments.

    Parameters
    ----------
    task_name : str
        The name of the template.
    func : callable, optional
        The function; without it, a decorator is returned.

    Returns
    -------
    callable
        The template, or a decorator if no function is given.

    Examples
    --------
    >>> @autotvm.template("docs/double")
    ... def double(n):
    ...     A = te.placeholder((n,), name="A")
    ...     B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    ...     s = te.create_schedule(B.op)
    ...     cfg = autotvm.get_config()
    ...     cfg.define_split("tile", B.op.axis[0], num_outputs=2)
    ...     cfg["tile"].apply(s, B, B.op.axis[0])
    ...     return s, [A, B]
    >>> len(autotvm.task.create("docs/double", args=(16,), target="llvm").config_space)
    5
    """

    def decorate(f: Callable) -> Callable:
        @functools.wraps(f)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise TypeError(
                    f"template '{task_name}': pass arguments by position, because they are part of the workload"
                )

            def use(config: Any) -> Any:
                with ApplyConfig(config):
                    return f(*args)

            return configured(args_to_workload(args, task_name), use)

        register_customized(task_name, f)
        return wrapper

    return decorate(func) if func is not None else decorate


def create(task_name: str, args: Any, target: Any, target_host: Any = None) -> Task:
    """A task; the template runs once to define its knobs.

    Parameters
    ----------
    task_name : str
        The name of the template.
    args : list
        The arguments of the template.
    target : str or Target
        The target of the code.
    target_host : str or Target, optional
        The target of the host code.

    Returns
    -------
    Task
    """
    made = Task(task_name, serialize_args(args))
    made.target = Target(target) if target_host is None else Target(target, target_host)
    made.target_host = made.target.host
    space = ConfigSpace()
    with ApplyConfig(space, task_name), made.target:
        schedule, _ = made.func(*deserialize_args(made.args))
    space.code_hash = getattr(schedule, "code_hash", None)
    made.config_space = space
    made.flop = space.flop or compute_flop(schedule)
    return made


def get_config() -> Any:
    """The configuration of the template that is currently running.

    Returns
    -------
    ConfigEntity
        The configuration of the current workload.

    Examples
    --------
    >>> autotvm.get_config().is_fallback
    True
    """
    return DispatchContext.current.query(Target.current(allow_none=True), None)


__all__ = [
    "FlopCalculationError",
    "InstantiationError",
    "MissingTask",
    "TASK_TABLE",
    "Task",
    "TaskTemplate",
    "args_to_workload",
    "compute_flop",
    "create",
    "deserialize_args",
    "get_config",
    "lookup_task",
    "register_customized",
    "serialize_args",
    "template",
]
