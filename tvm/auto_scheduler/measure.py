"""Measuring states: builders, runners, and the measurer that a search uses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..docstring import described
from ..error import TVMError, not_defined
from ..runtime.host_cpu import usable_cores
from ..runtime.measure.files import difference
from ..tuning.candidate import argument_info
from ..tuning.errors import MeasureErrorNo
from ..tuning.measure import Built, Candidate, Failed, LibraryFolder, build_all, run_built
from ..tuning.reference import reference_outputs
from ..tuning.remote import RemoteDevices, Timing
from ..tuning.search import TuningError
from ..tuning.workers import Workers, shared_pool
from .loop_state import State
from .search_task import SearchTask
from .state import StateObject
from .steps import from_json, to_json
from .task_inputs import register_task_input_check_func, with_inputs
from .workload_registry import deserialize_workload_registry_entry, serialize_workload_registry_entry

if TYPE_CHECKING:
    from .search_policy import SearchPolicy

# The seconds that records contain for a candidate that failed.
MAX_FLOAT = 1e10
# The options of all runners.
_TIMING = {
    "timeout": ("float", "The seconds that a state may run."),
    "number": ("int", "How many runs a repeat is the mean of, after one to warm up."),
    "repeat": ("int", "How many repeats there are."),
    "min_repeat_ms": ("int", "The milliseconds a repeat takes at least."),
    "cooldown_interval": ("float", "The seconds between two states."),
    "enable_cpu_cache_flush": ("bool", "Whether each repeat begins with cold caches."),
    "device": ("int", "The number of the device."),
}
# The number of states per process that are built before they run; with many of them, no process is idle for long while
# another builds its last one.
_BUILT_AT_ONCE = 32


class Seconds(float):
    """A cost in seconds; scripts also read its ``value``."""

    __slots__ = ()

    @property
    def value(self) -> float:
        return float(self)


@dataclass(eq=False)
class MeasureInput:
    """A state of a task. The state of a record contains only its steps.

    Parameters
    ----------
    task : SearchTask
        The task.
    state : State or StateObject
        The state.
    """

    task: SearchTask
    state: StateObject

    def __post_init__(self) -> None:
        if isinstance(self.state, State):
            self.state = self.state.state_object

    def serialize(self) -> list[str]:
        """Convert the input for another process: its JSON text and that of its workload.

        Returns
        -------
        list of str
            Two JSON texts, the input of ``deserialize``.
        """
        steps = to_json(self.state.transform_steps)
        return [json.dumps([self.task.to_json(), steps]), serialize_workload_registry_entry(self.task.workload_key)]

    @staticmethod
    def deserialize(data: Sequence[str]) -> MeasureInput:
        """Convert the output of ``serialize`` to an input, and register its workload in this process.

        Parameters
        ----------
        data : list of str
            The JSON texts of the input and of its workload.

        Returns
        -------
        MeasureInput
            The input; its state contains only its steps.
        """
        values, entry = data
        deserialize_workload_registry_entry(entry)
        task, steps = json.loads(values)
        return MeasureInput(SearchTask.from_json(task), StateObject((), tuple(from_json(step) for step in steps)))


class MeasureResult:
    """The result of a measurement.

    Parameters
    ----------
    costs : list of float
        The seconds of one execution, one value per repeat.
    error_no : int
        The error code, a ``MeasureErrorNo``; 0 for success.
    error_msg : str, optional
        The error message.
    all_cost : float
        The seconds of building and running.
    timestamp : float
        The time of the measurement, in seconds since 1970.
    """

    def __init__(self, costs: Sequence[float], error_no: int, error_msg: str | None, all_cost: float, timestamp: float):
        self.costs = tuple(Seconds(cost) for cost in costs)
        self.error_no, self.error_msg = int(error_no), error_msg or ""
        self.all_cost, self.timestamp = float(all_cost), timestamp

    @property
    def mean_cost(self) -> float:
        """The seconds of one execution; MAX_FLOAT for a failed measurement."""
        return sum(self.costs) / len(self.costs) if self.error_no == 0 and self.costs else MAX_FLOAT

    def __repr__(self) -> str:
        what = f"{self.mean_cost:g} s" if self.error_no == 0 else MeasureErrorNo(self.error_no).name
        return f"MeasureResult({what}, all_cost={self.all_cost:.2f})"


@dataclass(eq=False)
class BuildResult:
    """The output of a builder, the input of a runner.

    Parameters
    ----------
    made : Built or Failed
        The code, or the reason of failure.
    """

    made: Built | Failed

    @property
    def error_no(self) -> int:
        return int(self.made.error_no) if isinstance(self.made, Failed) else 0

    @property
    def error_msg(self) -> str:
        return str(self.made.error) if isinstance(self.made, Failed) else ""

    @property
    def filename(self) -> str:
        """The path of the library, if the code is in a file."""
        return self.made.code if isinstance(self.made, Built) and isinstance(self.made.code, str) else ""

    @property
    def time_cost(self) -> float:
        return self.made.seconds


class ProgramBuilder:
    """A builder compiles states, ``n_parallel`` at once."""

    n_parallel = 1

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """Compile states for the targets of their tasks.

        Parameters
        ----------
        measure_inputs : list of MeasureInput
            The states with their tasks.
        verbose : int, optional
            Whether the measurer prints its rounds.

        Returns
        -------
        list of BuildResult
            The code of each input, or the reason of failure.

        Raises
        ------
        NotImplementedError
            The class does not implement it.
        """
        raise not_defined(self, "build")


class ProgramRunner:
    """A runner measures code."""

    def parallel(self, task: SearchTask) -> int:
        """The number of states of a task that are measured at once.

        Parameters
        ----------
        task : SearchTask
            The task.

        Returns
        -------
        int
        """
        return 1

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        """Measure the output of a builder.

        Parameters
        ----------
        measure_inputs : list of MeasureInput
            The states with their tasks.
        build_results : list of BuildResult
            The output of the builder for each input.
        verbose : int, optional
            Whether the measurer prints its rounds.

        Returns
        -------
        list of MeasureResult
            The times or the error of each input.

        Raises
        ------
        NotImplementedError
            The class does not implement it.
        """
        raise not_defined(self, "run")


class LocalBuilder(ProgramBuilder):
    """A builder that uses worker processes of this machine.

    Parameters
    ----------
    timeout : float
        The time limit of a state in seconds.
    n_parallel : int, optional
        The number of parallel builds; the number of cores that are available to this process by default.
    build_func : str or Callable
        "default" for objects in memory, or a function ``(output, files, **kwargs)`` that links a library, as in
        ``export_library``.
    """

    def __init__(self, timeout: float = 15, n_parallel: int | None = None, build_func: str | Callable = "default"):
        if isinstance(build_func, str) and build_func not in ("default", "tar"):
            raise ValueError(f"LocalBuilder: unknown build_func '{build_func}'; use 'default' or a function")
        self.timeout, self.n_parallel = timeout, n_parallel or usable_cores()
        self.links = not isinstance(build_func, str)
        self._library = LibraryFolder(build_func if self.links else None)  # type: ignore[arg-type]

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        made = self.make([(instantiation_of(inp), inp.task.target) for inp in measure_inputs])
        return [BuildResult(one) for one in made]

    def make(self, candidates: Sequence[Candidate]) -> list[Built | Failed]:
        """Compile schedules, each given by a function that creates it and a target.

        Parameters
        ----------
        candidates : list of tuple
            For each candidate, a function that returns a schedule and its arguments, and the target.

        Returns
        -------
        list of Built or Failed
            The code of each candidate, or the reason of failure.
        """
        return build_all(candidates, self.timeout, self._workers(), self._library, self.links)

    def _workers(self) -> Workers:
        return shared_pool(max(self.n_parallel, 2))


def instantiation_of(inp: MeasureInput) -> Callable[[], tuple[Any, list[Any]]]:
    """Return a function that creates the schedule of a state and its arguments."""
    return lambda: inp.task.compute_dag.apply_steps_from_state(inp.state, inp.task.layout_rewrite_option)


@described(_TIMING)
class LocalRunner(ProgramRunner):
    """A runner that measures in a worker process of this machine, one state at a time and without parallel builds.

    Parameters
    ----------
    slow_factor : float
        A state that takes longer than the best of its task by this factor is not measured further.
    """

    def __init__(
        self,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
        *,
        slow_factor: float = 3.0,
    ):
        if device != 0:
            raise TVMError(f"LocalRunner: only device 0 is supported, got device {device}")
        self.timeout, self.number, self.repeat, self.min_repeat_ms = timeout, number, repeat, min_repeat_ms
        self.cooldown_interval, self.enable_cpu_cache_flush = cooldown_interval, enable_cpu_cache_flush
        self.slow_factor = slow_factor
        self._best: dict[tuple[str, str], float] = {}
        self._references: dict[tuple[str, ...], bytes] = {}
        self._lock = threading.Lock()

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        return [self.measure(inp.task, built.made) for inp, built in zip(measure_inputs, build_results)]

    def measure(
        self,
        task: SearchTask,
        built: Built | Failed,
        reference: Callable[[], Any] | None = None,
        is_whole: bool = True,
        layouts: str = "",
    ) -> MeasureResult:
        """Measure the code of a task, or of a part of it if not ``is_whole``. If ``reference`` is given, the outputs
        are compared with those of its unscheduled computation.

        Parameters
        ----------
        task : SearchTask
            The task. If it has user-defined inputs, the code runs on them.
        built : Built or Failed
            The output of the builder.
        reference : callable, optional
            The function that returns the schedule and arguments to compare with; by default, outputs are not checked.
        is_whole : bool, optional
            Whether the code computes the whole task, so that its time is a time of the task.
        layouts : str, optional
            The order in which the code reads the elements of its arguments; code with the same order shares a
            reference.

        Returns
        -------
        MeasureResult
            The times, or the error: a failed build, a timeout, or incorrect outputs.
        """
        if isinstance(built, Failed):
            return failure_of(built)
        key, start = (task.workload_key, task.target_text), time.monotonic()
        options: dict[str, Any] = {
            "number": self.number,
            "repeat": self.repeat,
            "min_repeat_ms": self.min_repeat_ms,
            "cooldown": self.cooldown_interval,
            "best": self._best.get(key) if is_whole else None,
            "slow_factor": self.slow_factor,
            "flush": self.enable_cpu_cache_flush,
            "outputs": reference is not None,
        }
        answer = self._run_built(task, built, options, is_whole)
        if isinstance(answer, Failed):
            return failure_of(answer)
        if reference is not None:
            code, shapes = on_arrays_of(task, built) if is_whole else (built, None)
            told = (*key, str(code.info), str(shapes), layouts)
            with self._lock:  # The workers support one thread at a time
                if told not in self._references:
                    self._references[told] = reference_outputs(shared_pool(2), *reference(), code.info, shapes)
            wrong = difference(built.info, answer[1], self._references[told])
            if wrong:
                return failure_of(Failed.since(start, MeasureErrorNo.WRONG_ANSWER, wrong))
        costs = answer[0]["costs"]
        if is_whole:
            self._best[key] = min(self._best.get(key, MAX_FLOAT), sum(costs) / len(costs))
        return MeasureResult(costs, 0, "", built.seconds + time.monotonic() - start, time.time())

    def _run_built(self, task: SearchTask, built: Built, options: dict[str, Any], is_whole: bool) -> Any:
        code, options["shapes"] = on_arrays_of(task, built) if is_whole else (built, None)
        return run_built(self._workers(task), task.target, code, self.timeout, options)

    def _workers(self, task: SearchTask) -> Workers:
        return shared_pool(2)


@described(_TIMING)
class RPCRunner(LocalRunner):
    """A runner like ``LocalRunner`` that measures on devices of an RPC tracker. If a device is lost, its state is
    measured on another one.

    Parameters
    ----------
    key : str
        The key of the devices.
    host : str
        The address of the tracker.
    port : int
        The port of the tracker.
    priority : int
        The priority of the requests.
    n_parallel : int
        The number of devices that are used at once.
    """

    def __init__(
        self,
        key: str,
        host: str,
        port: int,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 100,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ):
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)
        self.key, self.host, self.port, self.priority, self.n_parallel = key, host, int(port), priority, n_parallel
        self._devices = RemoteDevices(key, host, self.port, priority, timeout, device)
        self._devices.check()

    def parallel(self, task: SearchTask) -> int:
        """The number of devices that are used at once; it does not depend on the task.

        Parameters
        ----------
        task : SearchTask
            The task.

        Returns
        -------
        int
        """
        return self.n_parallel

    def run(
        self, measure_inputs: Sequence[MeasureInput], build_results: Sequence[BuildResult], verbose: int = 1
    ) -> list[MeasureResult]:
        tasks, built = [one.task for one in measure_inputs], [one.made for one in build_results]
        return self._devices.map(self.measure, tasks, built, n_parallel=self.n_parallel)

    def _run_built(self, task: SearchTask, built: Built, options: dict[str, Any], is_whole: bool) -> Any:
        timing = Timing(
            self.number,
            self.repeat,
            self.min_repeat_ms,
            self.cooldown_interval,
            self.enable_cpu_cache_flush,
            options["outputs"],
            options["best"],
            options["slow_factor"],
        )
        return self._devices.measure(task.target, _with_inputs(task, built) if is_whole else built, timing)


def failure_of(failed: Failed) -> MeasureResult:
    """Return the measurement result of a candidate that could not be built or run."""
    return MeasureResult((MAX_FLOAT,), failed.error_no, str(failed.error), failed.seconds, time.time())


def on_arrays_of(task: SearchTask, built: Built) -> tuple[Built, list[Sequence[int]] | None]:
    """Return code with the arrays of its task, on which all candidates run, and with the argument shapes of the code if
    it reads their elements in another order."""
    code = replace(built, info=argument_info(task.compute_dag.tensors))
    shapes = [shape for shape, _ in built.info] if code.info != built.info else None
    return _with_inputs(task, code), shapes


def _with_inputs(task: SearchTask, built: Built) -> Built:
    """Return code with the user-defined arrays on which it runs."""
    if not task.task_input_names:
        return built
    info = with_inputs(built.info, task.compute_dag.tensors, task.workload_key, task.task_input_names)
    return replace(built, info=info)


@described(_TIMING)
class LocalRPCMeasureContext:
    """A context that measures in a separate process of this machine; pass its ``runner`` to the tuning options.

    Parameters
    ----------
    priority : int
        The priority of the runs, which must be 1 because they are sequential.
    n_parallel : int
        The number of parallel runs, which must be 1.
    """

    def __init__(
        self,
        priority: int = 1,
        n_parallel: int = 1,
        timeout: float = 10,
        number: int = 3,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False,
        device: int = 0,
    ):
        if priority != 1:
            raise TVMError(
                f"LocalRPCMeasureContext: priority must be 1, got {priority}: runs on this machine are "
                "sequential; use RPCRunner for a tracker with priorities"
            )
        if n_parallel != 1:
            raise TVMError(
                "LocalRPCMeasureContext: n_parallel must be 1, because parallel runs would disturb the measurements"
            )
        self.runner = LocalRunner(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device
        )


class MeasureCallback:
    """Receives the results of measurements."""

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Process measurements.

        Parameters
        ----------
        policy : SearchPolicy, optional
            The policy that proposed it.
        inputs : list of MeasureInput
            The states with their tasks.
        results : list of MeasureResult
            The result of each measurement.

        Raises
        ------
        NotImplementedError
            The class does not implement it.
        """
        raise not_defined(self, "callback")


class PythonBasedMeasureCallback(MeasureCallback):
    """A base class for user-defined callbacks: ``callback`` is called directly after each measurement."""


class ProgramMeasurer:
    """Builds and runs states, calls callbacks, and stores the best state of each task.

    Parameters
    ----------
    builder : ProgramBuilder
        The builder.
    runner : ProgramRunner
        The runner.
    callbacks : list of MeasureCallback
        The callbacks for measurements.
    verbose : int
        Whether to print the rounds.
    max_continuous_error : int
        The number of consecutive failures after which measuring stops.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        runner: ProgramRunner,
        callbacks: Sequence[MeasureCallback] = (),
        verbose: int = 1,
        max_continuous_error: int = 150,
    ):
        self.builder, self.runner, self.callbacks, self.verbose = builder, runner, list(callbacks), verbose
        self.max_continuous_error = max_continuous_error
        self.reset()

    def reset(self) -> None:
        """Reset the counts and the best state of each task."""
        # The number of measurements, of failed measurements, and of failures since the last success.
        self.ct = self.error_ct = self.continuous_error_ct = 0
        self.best_cost: dict[str, float] = {}
        self.best_state: dict[str, StateObject] = {}
        # The number of measurements before the best one.
        self.best_ct: dict[str, int] = {}

    def measure(
        self, task: SearchTask, policy: SearchPolicy | None, inputs: Sequence[MeasureInput]
    ) -> list[MeasureResult]:
        """Measure states; callbacks are called directly after each measurement.

        Parameters
        ----------
        task : SearchTask
            The task of the states.
        policy : SearchPolicy, optional
            The policy that proposed the states; it is passed to the callbacks.
        inputs : list of MeasureInput
            The states.

        Returns
        -------
        list of MeasureResult
            The result of each measurement.

        Raises
        ------
        TuningError
            ``max_continuous_error`` consecutive states failed.
        """
        results: list[MeasureResult] = []
        size = _BUILT_AT_ONCE * self.builder.n_parallel
        for first in range(0, len(inputs), size):
            batch = inputs[first : first + size]
            for inp, built in zip(batch, self.builder.build(batch, self.verbose)):
                (result,) = self.runner.run([inp], [built], self.verbose)
                results.append(result)
                self._take(task, inp, result)
                for callback in self.callbacks:
                    callback.callback(policy, [inp], [result])
                if self.continuous_error_ct >= self.max_continuous_error:
                    raise TuningError(
                        f"{self.continuous_error_ct} consecutive candidates of {task.workload_key} failed; the last "
                        f"error: {result.error_msg}"
                    )
        return results

    def _take(self, task: SearchTask, inp: MeasureInput, result: MeasureResult) -> None:
        self.ct += 1
        if result.error_no != 0:
            self.error_ct += 1
            self.continuous_error_ct += 1
            return
        self.continuous_error_ct = 0
        key = task.workload_key
        if result.mean_cost < self.best_cost.get(key, MAX_FLOAT):
            self.best_cost[key], self.best_state[key], self.best_ct[key] = result.mean_cost, inp.state, self.ct


def recover_measure_input(inp: MeasureInput, rebuild_state: bool = False) -> MeasureInput:
    """The input of a record with its computation; with ``rebuild_state`` also with the loops of its state.

    Parameters
    ----------
    inp : MeasureInput
        The input of a record.
    rebuild_state : bool
        Whether to compute the loops of its state.

    Returns
    -------
    MeasureInput
        The input.
    """
    task = inp.task
    made = SearchTask(
        workload_key=task.workload_key,
        target=task.target,
        hardware_params=task.hardware_params,
        layout_rewrite_option=task.layout_rewrite_option,
        task_inputs=list(task.task_input_names),
    )
    state = made.compute_dag.infer_bound_from_state(inp.state).state_object if rebuild_state else inp.state
    return MeasureInput(made, state)


__all__ = [
    "BuildResult",
    "LocalBuilder",
    "LocalRPCMeasureContext",
    "LocalRunner",
    "MAX_FLOAT",
    "MeasureCallback",
    "MeasureErrorNo",
    "MeasureInput",
    "MeasureResult",
    "ProgramBuilder",
    "ProgramMeasurer",
    "ProgramRunner",
    "PythonBasedMeasureCallback",
    "RPCRunner",
    "recover_measure_input",
    "register_task_input_check_func",
]
