"""Measuring states: builders, runners, and the measurer that a search gives its candidates to."""

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

# Stands in records for the seconds of a candidate that did not run.
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
# States a process that are built before they run: with many, no process waits long for the last one of another.
_BUILT_AT_ONCE = 32


class Seconds(float):
    """A cost; scripts also ask for its ``value``."""

    __slots__ = ()

    @property
    def value(self) -> float:
        return float(self)


@dataclass(eq=False)
class MeasureInput:
    """A state of a task. The state of a record has steps alone.

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
        """What another process needs to have this input: its text, and the text of its workload.

        Returns
        -------
        list of str
            Two texts of JSON, as ``deserialize`` takes them.
        """
        steps = to_json(self.state.transform_steps)
        return [json.dumps([self.task.to_json(), steps]), serialize_workload_registry_entry(self.task.workload_key)]

    @staticmethod
    def deserialize(data: Sequence[str]) -> MeasureInput:
        """Make the input that ``serialize`` gave, and register its workload in this process.

        Parameters
        ----------
        data : list of str
            The texts of the input and of its workload.

        Returns
        -------
        MeasureInput
            An input whose state has steps alone.
        """
        values, entry = data
        deserialize_workload_registry_entry(entry)
        task, steps = json.loads(values)
        return MeasureInput(SearchTask.from_json(task), StateObject((), tuple(from_json(step) for step in steps)))


class MeasureResult:
    """What a measurement found.

    Parameters
    ----------
    costs : list of float
        The seconds of one execution, one for each repeat.
    error_no : int
        What went wrong, a ``MeasureErrorNo``; 0 for nothing.
    error_msg : str, optional
        What was said of it.
    all_cost : float
        The seconds that building and running took.
    timestamp : float
        When it was measured, in seconds since 1970.
    """

    def __init__(self, costs: Sequence[float], error_no: int, error_msg: str | None, all_cost: float, timestamp: float):
        self.costs = tuple(Seconds(cost) for cost in costs)
        self.error_no, self.error_msg = int(error_no), error_msg or ""
        self.all_cost, self.timestamp = float(all_cost), timestamp

    @property
    def mean_cost(self) -> float:
        """Seconds of one execution; MAX_FLOAT where it failed."""
        return sum(self.costs) / len(self.costs) if self.error_no == 0 and self.costs else MAX_FLOAT

    def __repr__(self) -> str:
        what = f"{self.mean_cost:g} s" if self.error_no == 0 else MeasureErrorNo(self.error_no).name
        return f"MeasureResult({what}, all_cost={self.all_cost:.2f})"


@dataclass(eq=False)
class BuildResult:
    """What a builder gives a runner.

    Parameters
    ----------
    made : Built or Failed
        The code, or why there is none.
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
        """The library, where the code is in a file."""
        return self.made.code if isinstance(self.made, Built) and isinstance(self.made.code, str) else ""

    @property
    def time_cost(self) -> float:
        return self.made.seconds


class ProgramBuilder:
    """Turns states into code, ``n_parallel`` at once."""

    n_parallel = 1

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        """Compile states for the targets of their tasks.

        Parameters
        ----------
        measure_inputs : list of MeasureInput
            The states with their tasks.
        verbose : int, optional
            Whether the measurer that asks speaks of its rounds.

        Returns
        -------
        list of BuildResult
            The code of each input, or why there is none.

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise not_defined(self, "build")


class ProgramRunner:
    """Measures code."""

    def parallel(self, task: SearchTask) -> int:
        """How many states of a task are measured at once.

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
        """Measure what a builder made.

        Parameters
        ----------
        measure_inputs : list of MeasureInput
            The states with their tasks.
        build_results : list of BuildResult
            What the builder gave for each.
        verbose : int, optional
            Whether the measurer that asks speaks of its rounds.

        Returns
        -------
        list of MeasureResult
            The times of each input, or what went wrong.

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise not_defined(self, "run")


class LocalBuilder(ProgramBuilder):
    """Builds in worker processes of this machine.

    Parameters
    ----------
    timeout : float
        The seconds that a state may take.
    n_parallel : int, optional
        How many are built at once; as many as there are cores for this process by default.
    build_func : str or Callable
        "default" for objects in memory, or a function ``(output, files, **kwargs)`` that links a library, as
        ``export_library`` takes it.
    """

    def __init__(self, timeout: float = 15, n_parallel: int | None = None, build_func: str | Callable = "default"):
        if isinstance(build_func, str) and build_func not in ("default", "tar"):
            raise ValueError(f"LocalBuilder: build_func '{build_func}' is not known; give 'default' or a function")
        self.timeout, self.n_parallel = timeout, n_parallel or usable_cores()
        self.links = not isinstance(build_func, str)
        self._library = LibraryFolder(build_func if self.links else None)  # type: ignore[arg-type]

    def build(self, measure_inputs: Sequence[MeasureInput], verbose: int = 1) -> list[BuildResult]:
        made = self.make([(instantiation_of(inp), inp.task.target) for inp in measure_inputs])
        return [BuildResult(one) for one in made]

    def make(self, candidates: Sequence[Candidate]) -> list[Built | Failed]:
        """The code of schedules, each given by the function that makes it and its target.

        Parameters
        ----------
        candidates : list of tuple
            A function that gives a schedule and its arguments, and the target, for each.

        Returns
        -------
        list of Built or Failed
            The code of each candidate, or why there is none.
        """
        return build_all(candidates, self.timeout, self._workers(), self._library, self.links)

    def _workers(self) -> Workers:
        return shared_pool(max(self.n_parallel, 2))


def instantiation_of(inp: MeasureInput) -> Callable[[], tuple[Any, list[Any]]]:
    """What makes the schedule of a state and its arguments."""
    return lambda: inp.task.compute_dag.apply_steps_from_state(inp.state, inp.task.layout_rewrite_option)


@described(_TIMING)
class LocalRunner(ProgramRunner):
    """Runs in a worker process of this machine, one state at a time with nothing beside it.

    Parameters
    ----------
    slow_factor : float
        How many times as long as the best of its task a state may take to be run further.
    """

    def __init__(
        self, timeout: float = 10, number: int = 3, repeat: int = 1, min_repeat_ms: int = 100,
        cooldown_interval: float = 0.0, enable_cpu_cache_flush: bool = False, device: int = 0, *,
        slow_factor: float = 3.0,
    ):
        if device != 0:
            raise TVMError(f"LocalRunner: states are measured on device 0; device {device} is not available yet")
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
        self, task: SearchTask, built: Built | Failed, reference: Callable[[], Any] | None = None,
        is_whole: bool = True, layouts: str = "",
    ) -> MeasureResult:
        """Measure code of a task, or a part of it where it is not ``is_whole``. ``reference`` gives a schedule and its
        arguments, with whose results without the schedule those of the code are compared.

        Parameters
        ----------
        task : SearchTask
            The task, whose inputs of the user's own the code runs on.
        built : Built or Failed
            What the builder gave.
        reference : callable, optional
            Gives the schedule and arguments to compare with; without it, results are not looked at.
        is_whole : bool, optional
            Whether the code computes all of the task, so that its time is one of the task.
        layouts : str, optional
            In which order it takes the elements of its arguments: code of one order has one reference.

        Returns
        -------
        MeasureResult
            The times, or what went wrong: no code, too long a time, wrong results.
        """
        if isinstance(built, Failed):
            return failure_of(built)
        key, start = (task.workload_key, task.target_text), time.monotonic()
        options: dict[str, Any] = {
            "number": self.number, "repeat": self.repeat, "min_repeat_ms": self.min_repeat_ms,
            "cooldown": self.cooldown_interval, "best": self._best.get(key) if is_whole else None,
            "slow_factor": self.slow_factor, "flush": self.enable_cpu_cache_flush, "outputs": reference is not None,
        }
        answer = self._run_built(task, built, options, is_whole)
        if isinstance(answer, Failed):
            return failure_of(answer)
        if reference is not None:
            code, shapes = on_arrays_of(task, built) if is_whole else (built, None)
            told = (*key, str(code.info), str(shapes), layouts)
            with self._lock:  # the workers of this machine serve one thread
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
    """Runs on devices that a tracker lends, otherwise as ``LocalRunner``. A state whose device goes is measured on
    another.

    Parameters
    ----------
    key : str
        The kind of device.
    host : str
        The address of the tracker.
    port : int
        Its port.
    priority : int
        How urgent the runs are.
    n_parallel : int
        How many devices are used at once.
    """

    def __init__(
        self, key: str, host: str, port: int, priority: int = 1, n_parallel: int = 1, timeout: float = 10,
        number: int = 3, repeat: int = 1, min_repeat_ms: int = 100, cooldown_interval: float = 0.0,
        enable_cpu_cache_flush: bool = False, device: int = 0,
    ):
        super().__init__(timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush)
        self.key, self.host, self.port, self.priority, self.n_parallel = key, host, int(port), priority, n_parallel
        self._devices = RemoteDevices(key, host, self.port, priority, timeout, device)
        self._devices.check()

    def parallel(self, task: SearchTask) -> int:
        """The number of devices that are used at once, whatever the task.

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
            self.number, self.repeat, self.min_repeat_ms, self.cooldown_interval, self.enable_cpu_cache_flush,
            options["outputs"], options["best"], options["slow_factor"],
        )
        return self._devices.measure(task.target, _with_inputs(task, built) if is_whole else built, timing)


def failure_of(failed: Failed) -> MeasureResult:
    """What the record of a candidate says that could not be built or run."""
    return MeasureResult((MAX_FLOAT,), failed.error_no, str(failed.error), failed.seconds, time.time())


def on_arrays_of(task: SearchTask, built: Built) -> tuple[Built, list[Sequence[int]] | None]:
    """Code with the arrays of its task, which all candidates run on, and the shapes in which it takes them where it has
    another order of what is in them."""
    code = replace(built, info=argument_info(task.compute_dag.tensors))
    shapes = [shape for shape, _ in built.info] if code.info != built.info else None
    return _with_inputs(task, code), shapes


def _with_inputs(task: SearchTask, built: Built) -> Built:
    """Code with the arrays of the user's own that it runs on."""
    if not task.task_input_names:
        return built
    info = with_inputs(built.info, task.compute_dag.tensors, task.workload_key, task.task_input_names)
    return replace(built, info=info)


@described(_TIMING)
class LocalRPCMeasureContext:
    """Measures in a process of its own on this machine: ``runner`` is for the options of a search.

    Parameters
    ----------
    priority : int
        How urgent the runs are, which is 1: they follow each other.
    n_parallel : int
        How many run at once, which is 1.
    """

    def __init__(
        self, priority: int = 1, n_parallel: int = 1, timeout: float = 10, number: int = 3, repeat: int = 1,
        min_repeat_ms: int = 0, cooldown_interval: float = 0.0, enable_cpu_cache_flush: bool = False, device: int = 0,
    ):
        if priority != 1:
            raise TVMError(f"LocalRPCMeasureContext: priority={priority} has no effect on runs of this machine, which "
                           "follow each other; a tracker honours the priority of RPCRunner")
        if n_parallel != 1:
            raise TVMError("LocalRPCMeasureContext: what runs beside a measurement spoils it; n_parallel is 1")
        self.runner = LocalRunner(
            timeout, number, repeat, min_repeat_ms, cooldown_interval, enable_cpu_cache_flush, device)


class MeasureCallback:
    """Hears of measurements."""

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Something was measured.

        Parameters
        ----------
        policy : SearchPolicy, optional
            The policy that proposed it.
        inputs : list of MeasureInput
            The states with their tasks.
        results : list of MeasureResult
            What was found of each.

        Raises
        ------
        NotImplementedError
            The class does not define it.
        """
        raise not_defined(self, "callback")


class PythonBasedMeasureCallback(MeasureCallback):
    """To be derived from: ``callback`` is called as soon as something was measured."""


class ProgramMeasurer:
    """Builds and runs states, tells callbacks, and keeps the best state of each task.

    Parameters
    ----------
    builder : ProgramBuilder
        What compiles.
    runner : ProgramRunner
        What measures.
    callbacks : list of MeasureCallback
        What hears of measurements.
    verbose : int
        Whether rounds are told of.
    max_continuous_error : int
        After how many failures one after the other measuring ends.
    """

    def __init__(
        self, builder: ProgramBuilder, runner: ProgramRunner, callbacks: Sequence[MeasureCallback] = (),
        verbose: int = 1, max_continuous_error: int = 150,
    ):
        self.builder, self.runner, self.callbacks, self.verbose = builder, runner, list(callbacks), verbose
        self.max_continuous_error = max_continuous_error
        self.reset()

    def reset(self) -> None:
        """Forget the measurements so far: the counts, and the best state of each task."""
        # Measurements so far, those that failed, and the failures since the last success.
        self.ct = self.error_ct = self.continuous_error_ct = 0
        self.best_cost: dict[str, float] = {}
        self.best_state: dict[str, StateObject] = {}
        # After how many measurements the best was found.
        self.best_ct: dict[str, int] = {}

    def measure(
        self, task: SearchTask, policy: SearchPolicy | None, inputs: Sequence[MeasureInput]
    ) -> list[MeasureResult]:
        """Measure states; callbacks hear of each as soon as it is measured.

        Parameters
        ----------
        task : SearchTask
            The task, which the best state is kept for.
        policy : SearchPolicy, optional
            The policy that proposed the states, which callbacks are told.
        inputs : list of MeasureInput
            The states.

        Returns
        -------
        list of MeasureResult
            What was found of each.

        Raises
        ------
        TuningError
            ``max_continuous_error`` states failed one after the other.
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
                    raise TuningError(f"{self.continuous_error_ct} candidates of {task.workload_key} failed one after "
                                      f"the other, the last with: {result.error_msg}")
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
    """The input of a record with its computation; ``rebuild_state`` with the loops of its state too.

    Parameters
    ----------
    inp : MeasureInput
        The input of a record.
    rebuild_state : bool
        Whether its state has its loops.

    Returns
    -------
    MeasureInput
        The input.
    """
    task = inp.task
    made = SearchTask(
        workload_key=task.workload_key, target=task.target, hardware_params=task.hardware_params,
        layout_rewrite_option=task.layout_rewrite_option, task_inputs=list(task.task_input_names))
    state = made.compute_dag.infer_bound_from_state(inp.state).state_object if rebuild_state else inp.state
    return MeasureInput(made, state)


__all__ = [
    "BuildResult", "LocalBuilder", "LocalRPCMeasureContext", "LocalRunner", "MAX_FLOAT", "MeasureCallback",
    "MeasureErrorNo", "MeasureInput", "MeasureResult", "ProgramBuilder", "ProgramMeasurer", "ProgramRunner",
    "PythonBasedMeasureCallback", "RPCRunner", "recover_measure_input", "register_task_input_check_func",
]
