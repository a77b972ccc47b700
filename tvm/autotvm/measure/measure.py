"""Inputs and results of measurements, and the function that measures with a builder and a runner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...error import not_defined
from ...runtime.host_cpu import usable_cores
from ...tuning.errors import MeasureErrorNo
from ..task.entity import InstantiationError

if TYPE_CHECKING:
    from ...target import Target
    from ..task.space import ConfigEntity
    from ..task.task import Task


class _Input(NamedTuple):
    target: Target | None
    task: Task
    config: ConfigEntity


class MeasureInput(_Input):
    """The input of a measurement. ``made_on`` and ``tvm_version`` describe the origin of a record. They are None and ""
    for a measurement of this run; ``made_on`` is empty for a record without this information.

    ``final`` is true for the record of a task that won the interleaved measurement of the leaders: among many noisy
    measurements, the lowest time is often not the fastest candidate.

    Parameters
    ----------
    target : Target
        The target of the code.
    task : Task
        The task.
    config : ConfigEntity
        The configuration.
    """

    made_on: dict[str, Any] | None = None
    tvm_version: str = ""
    final: bool = False

    def instantiate(self) -> tuple[Any, list[Any]]:
        """The schedule and arguments of the candidate.

        Returns
        -------
        tuple
            The schedule, and the list of its arguments.

        Raises
        ------
        InstantiationError
            The template rejects the configuration.
        """
        assert self.target is not None
        with self.target:
            schedule, args = self.task.instantiate(self.config)
        if not self.config.valid():
            raise InstantiationError("; ".join(self.config.errors))
        return schedule, args


class MeasureResult(NamedTuple):
    """The result of a measurement. ``costs`` contains the seconds of each repeat, or the error; ``all_cost`` is the
    time of building and running.

    Parameters
    ----------
    costs : sequence of float
        The seconds of each repeat, or the error.
    error_no : int
        The error code, a ``MeasureErrorNo``.
    all_cost : float
        The seconds of building and running.
    timestamp : float
        The time of the measurement, in seconds since 1970.
    """

    costs: Sequence[Any]
    error_no: int
    all_cost: float
    timestamp: float


class _Built(NamedTuple):
    filename: str | None
    arg_info: Sequence[tuple[Sequence[int], str]] | None
    error: Exception | None
    time_cost: float


class BuildResult(_Built):
    """The output of a builder and input of a runner. ``code`` is the object in memory if no file was needed.

    Parameters
    ----------
    filename : str
        The path of the library, or None.
    arg_info : sequence of tuples
        The shape and type of each argument.
    error : Exception
        The error that prevented the build, or None.
    time_cost : float
        The seconds of building.
    """

    code: Any = None
    error_no: MeasureErrorNo = MeasureErrorNo.NO_ERROR


class Builder:
    """A builder compiles configurations, ``n_parallel`` at once, each within ``timeout`` seconds.

    Parameters
    ----------
    timeout : float, optional
        The time limit of a candidate in seconds.
    n_parallel : int, optional
        The number of parallel builds; the number of CPUs by default.
    """

    def __init__(self, timeout: float = 10, n_parallel: int | None = None):
        self.timeout = timeout
        self.n_parallel = n_parallel or usable_cores()
        self.build_kwargs: dict[str, Any] = {}
        self.task: Task | None = None

    def set_task(self, task: Task, build_kwargs: dict[str, Any] | None = None) -> None:
        """Set the task of the following builds.

        Parameters
        ----------
        task : Task
            The task of the following inputs.
        build_kwargs : dict, optional
            The properties of the device, as returned by ``Runner.get_build_kwargs``.
        """
        self.task = task
        self.build_kwargs = build_kwargs or {}

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """Compile each input. For an input that fails, a MeasureResult contains the error.

        Parameters
        ----------
        measure_inputs : sequence of MeasureInput
            The candidates.

        Returns
        -------
        list of BuildResult or MeasureResult

        Raises
        ------
        NotImplementedError
            The class does not implement it.
        """
        raise not_defined(self, "build")


class Runner:
    """A runner measures compiled configurations.

    Parameters
    ----------
    timeout : float, optional
        The time limit of a candidate in seconds.
    n_parallel : int, optional
        The number of parallel measurements; the number of CPUs by default.
    """

    def __init__(self, timeout: float = 5, n_parallel: int | None = None):
        self.timeout = timeout
        self.n_parallel = n_parallel or usable_cores()
        self.task: Task | None = None

    def set_task(self, task: Task) -> None:
        """Set the task of the following measurements.

        Parameters
        ----------
        task : Task
            The task of the following inputs.
        """
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """The properties of the device that the builder needs.

        Returns
        -------
        dict
            The properties by name; empty if the target contains all of them.
        """
        return {}

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """Measure the output of a builder.

        Parameters
        ----------
        measure_inputs : sequence of MeasureInput
            The candidates.
        build_results : sequence of BuildResult or MeasureResult
            The output of the builder for each candidate.

        Returns
        -------
        list of MeasureResult
            The times or the error of each candidate.

        Raises
        ------
        NotImplementedError
            The class does not implement it.
        """
        raise not_defined(self, "run")


def measure_option(builder: Builder | str, runner: Runner | str) -> dict[str, Any]:
    """The measurement options: a builder and a runner, or "local" for those of this machine.

    Parameters
    ----------
    builder : Builder | str
        The builder that compiles configurations.
    runner : Runner | str
        The runner that measures code.

    Returns
    -------
    dict
        The value for the parameter ``measure_option`` of tuners.

    Raises
    ------
    ValueError
        The name of a builder or runner is unknown.
    """
    from .measure_methods import LocalBuilder, LocalRunner

    if isinstance(builder, str):
        if builder != "local":
            raise ValueError(f"measure_option: unknown builder '{builder}'; use 'local' or a Builder")
        builder = LocalBuilder()
    if isinstance(runner, str):
        if runner != "local":
            raise ValueError(f"measure_option: unknown runner '{runner}'; use 'local' or a Runner")
        runner = LocalRunner()
    return {"builder": builder, "runner": runner}


def create_measure_batch(task: Task, option: dict[str, Any]) -> Callable[[Sequence[MeasureInput]], list[MeasureResult]]:
    """The function that measures a list of inputs: it builds all of them and then measures them one by one.

    Parameters
    ----------
    task : Task
        The task.
    option : dict[str, Any]
        The output of ``measure_option``.

    Returns
    -------
    callable
    """
    builder, runner = option["builder"], option["runner"]
    runner.set_task(task)
    builder.set_task(task, runner.get_build_kwargs())

    def measure_batch(measure_inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        return runner.run(measure_inputs, builder.build(measure_inputs))

    # Batches that are several times larger than the number of builders keep all builders busy.
    measure_batch.n_parallel = 8 * builder.n_parallel  # type: ignore[attr-defined]
    return measure_batch
