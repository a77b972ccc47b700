"""Tasks: a computation and a target for which a schedule is searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..driver.build_module import build
from ..target import Target
from .compute_dag import ComputeDAG, LayoutRewriteOption
from .hardware import HardwareParams
from .task_inputs import TASK_INPUT_BUFFER_TABLE, get_task_input_buffer, register_task_input_buffer
from .workload_registry import (
    deserialize_workload_registry_entry,
    is_registered,
    make_workload_key,
    register_workload_tensors,
    serialize_workload_registry_entry,
)

if TYPE_CHECKING:
    from .measure import MeasureCallback, ProgramBuilder, ProgramRunner
    from .search_policy import SearchPolicy


def kind_in(target_text: str) -> str:
    """Return the target kind of a text such as "llvm -keys=cpu"; records are used for targets of the same kind."""
    return next(iter(target_text.split()), "")


class SearchTask:
    """A computation (a registered function with arguments, a key, or a ComputeDAG with a key) for a target.

    Parameters
    ----------
    func : Callable or str, optional
        The registered function, or its name.
    args : tuple, optional
        The arguments of the function.
    compute_dag : ComputeDAG, optional
        The computation, if it should not be created from the key.
    workload_key : str, optional
        The workload key, instead of a function.
    target : Target or str
        The target of the code.
    target_host : Target or str, optional
        The host of the target.
    hardware_params : HardwareParams, optional
        The hardware parameters; those of the target by default.
    layout_rewrite_option : int, optional
        Whether constant inputs are stored in the order a schedule reads them.
    task_inputs : dict of str to NDArray, or list of str, optional
        Arrays for measurements by the names of inputs, or the names of registered arrays.
    task_inputs_overwrite : bool
        Whether to replace registered arrays with the same names.
    task_inputs_save_to_file : bool
        Whether to save the arrays in the current folder, where later runs find them.
    desc : str
        The description of the task in tables.
    """

    def __init__(
        self,
        func: Callable | str | None = None,
        args: Sequence[Any] | None = None,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: Any = None,
        target_host: Any = None,
        hardware_params: HardwareParams | None = None,
        layout_rewrite_option: int | None = None,
        task_inputs: Any = None,
        task_inputs_overwrite: bool = False,
        task_inputs_save_to_file: bool = False,
        desc: str = "",
    ):
        if func is not None:
            workload_key = make_workload_key(func, args if args is not None else ())
        elif workload_key is None:
            raise ValueError("SearchTask: pass func and args, or workload_key")
        if target is None:
            raise ValueError("SearchTask: no target is given; pass target")
        self.workload_key, self.desc = workload_key, desc
        self._dag: ComputeDAG | None = compute_dag or ComputeDAG(workload_key)
        self._target: Target | None = Target(target, target_host)
        self.target_text = str(self._target)
        self.host_text = str(self._target.host) if self._target.host is not None else ""
        self.hardware_params = hardware_params or HardwareParams(target=self._target)
        self.layout_rewrite_option = (
            LayoutRewriteOption.get_target_default(self._target)
            if layout_rewrite_option is None
            else int(layout_rewrite_option)
        )
        self.task_input_names = tuple(task_inputs or ())
        if isinstance(task_inputs, dict):
            for name, array in task_inputs.items():
                register_task_input_buffer(workload_key, name, array, task_inputs_overwrite, task_inputs_save_to_file)

    @classmethod
    def of_record(
        cls,
        workload_key: str,
        target_text: str,
        hardware_params: HardwareParams | None = None,
        host_text: str = "",
        layout_rewrite_option: int = 0,
        task_input_names: Sequence[str] = (),
    ) -> SearchTask:
        """The task of a record. Its computation and its target may be unknown in this process until they are used,
        because a log may come from another machine.

        Parameters
        ----------
        workload_key : str
            The key of the workload.
        target_text : str
            The target.
        hardware_params : HardwareParams, optional
            The hardware parameters.
        host_text : str
            The target of the host.
        layout_rewrite_option : int
            The layout rewrite option.
        task_input_names : list of str
            The names of the arrays for measurements.

        Returns
        -------
        SearchTask
            The task.
        """
        task = cls.__new__(cls)
        task.workload_key, task.desc = workload_key, ""
        task._dag = task._target = None
        task.target_text, task.host_text = target_text, host_text
        task.hardware_params = hardware_params or HardwareParams.from_json([])
        task.layout_rewrite_option, task.task_input_names = layout_rewrite_option, tuple(task_input_names)
        return task

    def to_json(self) -> list[Any]:
        """The fields of a task in records.

        Returns
        -------
        list
            JSON values.
        """
        return [
            self.workload_key,
            self.target_text,
            self.hardware_params.to_json(),
            self.host_text,
            int(self.layout_rewrite_option),
            list(self.task_input_names),
        ]

    @staticmethod
    def from_json(values: Any) -> SearchTask:
        """The task of a record; records of older versions have fewer fields.

        Parameters
        ----------
        values : list
            The output of ``to_json``.

        Returns
        -------
        SearchTask
            The task.

        Raises
        ------
        ValueError
            The values are not the fields of a task.
        """
        is_list = isinstance(values, list) and 2 <= len(values) <= 6
        if not is_list or not all(isinstance(v, str) for v in values[:2]):
            raise ValueError(f"a task must be a list that begins with a workload key and a target, got {values!r}")
        if len(values) > 2:
            values = [*values[:2], HardwareParams.from_json(values[2]), *values[3:]]
        return SearchTask.of_record(*values)

    def __getstate__(self) -> tuple[list[Any], str, str]:
        if not is_registered(self.workload_key):
            register_workload_tensors(self.workload_key, self.compute_dag.tensors)
        return self.to_json(), self.desc, serialize_workload_registry_entry(self.workload_key)

    def __setstate__(self, state: tuple[list[Any], str, str]) -> None:
        values, desc, entry = state
        deserialize_workload_registry_entry(entry)
        self.__dict__.update(SearchTask.from_json(values).__dict__, desc=desc)

    @property
    def compute_dag(self) -> ComputeDAG:
        if self._dag is None:
            self._dag = ComputeDAG(self.workload_key)
        return self._dag

    @property
    def target(self) -> Target:
        if self._target is None:
            self._target = Target(self.target_text, self.host_text or None)
        return self._target

    @property
    def target_kind(self) -> str:
        """The kind of the target, which this machine need not support."""
        return kind_in(self.target_text)

    @property
    def target_host(self) -> Target | None:
        return self.target.host

    def tune(
        self, tuning_options: TuningOptions, search_policy: SearchPolicy | None = None, adaptive_training: bool = False
    ) -> None:
        """Search with a policy, by default ``SketchPolicy``; measurements are passed to the callbacks of the options.

        Parameters
        ----------
        tuning_options : TuningOptions
            The number of trials and the measurement options.
        search_policy : SearchPolicy, optional
            The search policy.
        adaptive_training : bool
            Whether the cost model is trained again only after the number of measurements has grown by a fifth.
        """
        from .search_policy import default_policy, search

        search(search_policy or default_policy(self, adaptive_training), tuning_options)

    def apply_best(
        self, log_file: str, include_compatible: bool = False, layout_rewrite_option: int | None = None
    ) -> tuple[Any, list[Any]]:
        """The schedule of the best record of this task, and the arguments of its function.

        Parameters
        ----------
        log_file : str
            The file of records.
        include_compatible : bool
            Whether to use records of other sizes if their split lengths divide the extents.
        layout_rewrite_option : int, optional
            The layout rewrite option.

        Returns
        -------
        tuple
            The schedule, and its arguments.
        """
        option = self.layout_rewrite_option if layout_rewrite_option is None else layout_rewrite_option
        return self.compute_dag.apply_steps_from_state(self._best(log_file, include_compatible).state, option)

    def print_best(self, log_file: str, print_mode: str = "schedule") -> str:
        """The best record of this task as a te schedule in Python ("schedule"), or as the source code of the target
        kind of the task ("cuda", ...).

        Parameters
        ----------
        log_file : str
            The file of records.
        print_mode : str
            "schedule", or the target kind.

        Returns
        -------
        str
            The text.

        Raises
        ------
        ValueError
            ``print_mode`` has another value.
        """
        state = self._best(log_file).state
        if print_mode == "schedule":
            return self.compute_dag.print_python_code_from_state(state)
        if print_mode != self.target_kind:
            raise ValueError(f"print_best: print_mode must be 'schedule' or '{self.target_kind}', got '{print_mode}'")
        module = build(*self.compute_dag.apply_steps_from_state(state), self.target)
        return (module.imported_modules or [module])[0].get_source()

    def _best(self, log_file: str, include_compatible: bool = False) -> Any:
        from .measure_record import load_best_record

        found, _ = load_best_record(log_file, self.workload_key, self.target, include_compatible)
        if found is None:
            raise RuntimeError(f"'{log_file}' contains no successful measurement of {self.workload_key}")
        return found


class TuningOptions:
    """The budget and the measurement options of a search.

    Parameters
    ----------
    num_measure_trials : int
        The number of measured states; 0 uses a guess without measuring.
    early_stopping : int, optional
        The number of measurements without gain after which the search ends.
    num_measures_per_round : int
        The number of measurements between two proposals of candidates.
    verbose : int
        Whether to print the rounds.
    builder : ProgramBuilder or str
        The builder; "local" means this machine.
    runner : ProgramRunner or str
        The runner; "local" means this machine.
    measure_callbacks : list of MeasureCallback, optional
        The callbacks for measurements.
    """

    def __init__(
        self,
        num_measure_trials: int = 0,
        early_stopping: int | None = None,
        num_measures_per_round: int = 64,
        verbose: int = 1,
        builder: ProgramBuilder | str = "local",
        runner: ProgramRunner | str = "local",
        measure_callbacks: Sequence[MeasureCallback] | None = None,
    ):
        from .measure import LocalBuilder, LocalRunner, ProgramBuilder, ProgramRunner

        builder = LocalBuilder() if builder == "local" else builder
        runner = LocalRunner() if runner == "local" else runner
        if not isinstance(builder, ProgramBuilder):
            raise ValueError(f"TuningOptions: builder must be 'local' or a ProgramBuilder, got {builder!r}")
        if not isinstance(runner, ProgramRunner):
            raise ValueError(f"TuningOptions: runner must be 'local' or a ProgramRunner, got {runner!r}")
        self.num_measure_trials, self.verbose = int(num_measure_trials), verbose
        # Scripts also pass -1 for no limit.
        self.early_stopping = early_stopping if early_stopping is not None and early_stopping > 0 else None
        self.num_measures_per_round = int(num_measures_per_round)
        self.builder, self.runner = builder, runner
        self.measure_callbacks = list(measure_callbacks or ())


def create_task(
    func: Callable | str,
    args: Sequence[Any],
    target: Any,
    target_host: Any = None,
    hardware_params: HardwareParams | None = None,
) -> SearchTask:
    """A task of a registered function; the same as ``SearchTask(func=..., args=...)``.

    Parameters
    ----------
    func : Callable or str
        The registered function, or its name.
    args : tuple
        The arguments of the function.
    target : Target or str
        The target of the code.
    target_host : Target or str, optional
        The host of the target.
    hardware_params : HardwareParams, optional
        The hardware parameters.

    Returns
    -------
    SearchTask
        The task.
    """
    return SearchTask(func=func, args=args, target=target, target_host=target_host, hardware_params=hardware_params)


def auto_schedule(
    task: SearchTask, search_policy: SearchPolicy | None = None, tuning_options: TuningOptions | None = None
) -> tuple[Any, list[Any]]:
    """Search, and return the schedule of the best state with the arguments of its function.

    Parameters
    ----------
    task : SearchTask
        The task.
    search_policy : SearchPolicy, optional
        The search policy.
    tuning_options : TuningOptions, optional
        The budget and the measurement options.

    Returns
    -------
    tuple
        The schedule, and the arguments of its function.

    Raises
    ------
    ValueError
        ``task`` is not a SearchTask.
    """
    from .search_policy import default_policy, search

    if not isinstance(task, SearchTask):
        raise ValueError(f"auto_schedule: expected a SearchTask, got {type(task).__name__}")
    best = search(search_policy or default_policy(task), tuning_options or TuningOptions())
    return task.compute_dag.apply_steps_from_state(best, task.layout_rewrite_option)


__all__ = [
    "HardwareParams",
    "SearchTask",
    "TASK_INPUT_BUFFER_TABLE",
    "TuningOptions",
    "auto_schedule",
    "create_task",
    "get_task_input_buffer",
    "register_task_input_buffer",
]
