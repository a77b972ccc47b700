"""The inputs and results of measuring, and the measuring function of a builder and a runner."""

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
    """What is measured. ``made_on`` and ``tvm_version`` say where a record was made; they are None and
    "" for what is measured here, and ``made_on`` is empty where a record does not say.

    ``final`` is true of the one record of a task that won when its leaders were measured side by side: among many
    noisy measurements the lowest is rarely the fastest.

    Parameters
    ----------
    target : Target
        What the code is for.
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
            The template refuses the configuration.
        """
        assert self.target is not None
        with self.target:
            schedule, args = self.task.instantiate(self.config)
        if not self.config.valid():
            raise InstantiationError("; ".join(self.config.errors))
        return schedule, args


class MeasureResult(NamedTuple):
    """``costs`` are seconds, one for each repeat, or the error; ``all_cost`` is what building and running took.

    Parameters
    ----------
    costs : sequence of float
        Seconds, or the error.
    error_no : int
        What went wrong, a ``MeasureErrorNo``.
    all_cost : float
        Seconds that building and running took.
    timestamp : float
        When it was measured, in seconds since 1970.
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
    """The output of a builder, the input of a runner. ``code`` is the object in memory, where no file was needed.

    Parameters
    ----------
    filename : str
        The library, or None.
    arg_info : sequence of tuples
        Shape and type of each argument.
    error : Exception
        Why there is no library, or None.
    time_cost : float
        Seconds that building took.
    """

    code: Any = None
    error_no: MeasureErrorNo = MeasureErrorNo.NO_ERROR


class Builder:
    """Turns configurations into code, ``n_parallel`` at once, each within ``timeout`` seconds.

    Parameters
    ----------
    timeout : float, optional
        The most seconds for one candidate.
    n_parallel : int, optional
        How many at once; without it, as many as there are processors.
    """

    def __init__(self, timeout: float = 10, n_parallel: int | None = None):
        self.timeout = timeout
        self.n_parallel = n_parallel or usable_cores()
        self.build_kwargs: dict[str, Any] = {}
        self.task: Task | None = None

    def set_task(self, task: Task, build_kwargs: dict[str, Any] | None = None) -> None:
        """Say what is built next.

        Parameters
        ----------
        task : Task
            The task of the inputs to come.
        build_kwargs : dict, optional
            What the runner says about its device (``Runner.get_build_kwargs``).
        """
        self.task = task
        self.build_kwargs = build_kwargs or {}

    def build(self, measure_inputs: Sequence[MeasureInput]) -> list[Any]:
        """Code for each input; where there is none, its MeasureResult says why.

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
            The class does not define it.
        """
        raise not_defined(self, "build")


class Runner:
    """Measures code.

    Parameters
    ----------
    timeout : float, optional
        The most seconds for one candidate.
    n_parallel : int, optional
        How many at once; without it, as many as there are processors.
    """

    def __init__(self, timeout: float = 5, n_parallel: int | None = None):
        self.timeout = timeout
        self.n_parallel = n_parallel or usable_cores()
        self.task: Task | None = None

    def set_task(self, task: Task) -> None:
        """Say what is measured next.

        Parameters
        ----------
        task : Task
            The task of the inputs to come.
        """
        self.task = task

    def get_build_kwargs(self) -> dict[str, Any]:
        """What the builder has to know about the device.

        Returns
        -------
        dict
            Facts by name; empty where the target says all.
        """
        return {}

    def run(self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[Any]) -> list[MeasureResult]:
        """Measure what a builder made.

        Parameters
        ----------
        measure_inputs : sequence of MeasureInput
            The candidates.
        build_results : sequence of BuildResult or MeasureResult
            What the builder gave for each.

        Returns
        -------
        list of MeasureResult
            The times of each candidate, or the error.

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise not_defined(self, "run")


def measure_option(builder: Builder | str, runner: Runner | str) -> dict[str, Any]:
    """How to measure: a builder and a runner, or "local" for those of this machine.

    Parameters
    ----------
    builder : Builder | str
        What makes code of configurations.
    runner : Runner | str
        What measures code.

    Returns
    -------
    dict
        What tuners take as ``measure_option``.

    Raises
    ------
    ValueError
        A builder or a runner is named that is not known.
    """
    from .measure_methods import LocalBuilder, LocalRunner

    if isinstance(builder, str):
        if builder != "local":
            raise ValueError(f"measure_option: builder '{builder}' is not known; give 'local' or a Builder")
        builder = LocalBuilder()
    if isinstance(runner, str):
        if runner != "local":
            raise ValueError(f"measure_option: runner '{runner}' is not known; give 'local' or a Runner")
        runner = LocalRunner()
    return {"builder": builder, "runner": runner}


def create_measure_batch(task: Task, option: dict[str, Any]) -> Callable[[Sequence[MeasureInput]], list[MeasureResult]]:
    """The function that measures a list of inputs. Building comes first, then measuring with nothing beside it.

    Parameters
    ----------
    task : Task
        The task.
    option : dict[str, Any]
        What ``measure_option`` gave.

    Returns
    -------
    callable
    """
    builder, runner = option["builder"], option["runner"]
    runner.set_task(task)
    builder.set_task(task, runner.get_build_kwargs())

    def measure_batch(measure_inputs: Sequence[MeasureInput]) -> list[MeasureResult]:
        return runner.run(measure_inputs, builder.build(measure_inputs))

    # Batches several times as long as there are builders keep all of them busy.
    measure_batch.n_parallel = 8 * builder.n_parallel  # type: ignore[attr-defined]
    return measure_batch
