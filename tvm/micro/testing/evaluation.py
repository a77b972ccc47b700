"""Tune models on boards, open sessions with compiled models, and evaluate classifiers."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ... import autotvm
from ...error import TVMError
from ...ir.transform import PassContext
from ...relay.backend import Executor, Runtime
from ...relay.build_module import build
from ..build import get_microtvm_template_projects
from ..model_library_format import export_model_library_format
from ..project_api.server import TransportTimeouts
from ..session import Session, compile_and_create_micro_session
from ..tune import AutoTvmModuleLoader, autotvm_build_func
from .utils import get_supported_boards

_RUNTIME = {"system-lib": True}
_CONFIG = {"tir.disable_vectorize": True}


def _options(platform: str, board: str | None, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the options of a project that serves requests of a host. Templates of external tools have several types of
    projects."""
    has_types = Path(get_microtvm_template_projects(platform), "host_driven").is_dir()
    options: dict[str, Any] = {"project_type": "host_driven"} if has_types else {}
    if board is not None and len(get_supported_boards(platform)) > 1:
        options["board"] = board
    return {**options, **(more or {})}


def tune_model(
    platform: str, board: str | None, target: Any, mod: Any, params: Mapping[str, Any], num_trials: int,
    tuner_cls: Any = None, project_options: Mapping[str, Any] | None = None,
) -> io.StringIO:  # fmt: skip
    """Tune a model with AutoTVM on a board.

    Parameters
    ----------
    platform : str
        The name of the template.
    board : str, optional
        The board.
    target : Target or str
        The target.
    mod : IRModule
        The model.
    params : dict of str to array
        The weights.
    num_trials : int
        The number of candidates for each task.
    tuner_cls : type, optional
        The tuner; by default ``GATuner``.
    project_options : dict of str to object, optional
        Further options of the projects.

    Returns
    -------
    io.StringIO
        The log, positioned at its end.

    Raises
    ------
    TVMError
        The model has no task for the target.
    """
    with PassContext(opt_level=3, config=_CONFIG):
        tasks = autotvm.task.extract_from_program(mod["main"], params, target)
    if not tasks:
        raise TVMError(f"tune_model: the model has no tuning task for target {target}")
    loader = AutoTvmModuleLoader(get_microtvm_template_projects(platform), _options(platform, board, project_options))
    builder = autotvm.LocalBuilder(
        n_parallel=1, build_kwargs={"build_option": _CONFIG}, build_func=autotvm_build_func,
        runtime=Runtime("crt", _RUNTIME),
    )  # fmt: skip
    runner = autotvm.LocalRunner(number=1, repeat=1, timeout=100, module_loader=loader)
    log = io.StringIO()
    for task in tasks:
        tuner = (tuner_cls or autotvm.tuner.GATuner)(task)
        tuner.tune(
            n_trial=num_trials, measure_option=autotvm.measure_option(builder=builder, runner=runner),
            callbacks=[autotvm.callback.log_to_file(log)], si_prefix="M",
        )  # fmt: skip
    return log


def create_aot_session(
    platform: str, board: str | None, target: Any, mod: Any, params: Mapping[str, Any],
    build_dir: str | Path | None = None, tune_logs: Any = None, timeout_override: TransportTimeouts | None = None,
    project_options: Mapping[str, Any] | None = None,
) -> Session:  # fmt: skip
    """Compile a model ahead of time, build and flash its program, and return a session with it.

    Parameters
    ----------
    platform : str
        The name of the template.
    board : str, optional
        The board.
    target : Target or str
        The target.
    mod : IRModule
        The model.
    params : dict of str to array
        The weights.
    build_dir : str or Path, optional
        The folder in which the folder ``project`` is created; by default a temporary folder that the session removes.
    tune_logs : str or file, optional
        The log of ``tune_model`` or its path.
    timeout_override : TransportTimeouts, optional
        Time limits in place of those of the transport.
    project_options : dict of str to object, optional
        Further options of the project.

    Returns
    -------
    Session
        The session, not opened.
    """
    with ExitStack() as stack:
        stack.enter_context(PassContext(opt_level=3, config=_CONFIG))
        if tune_logs is not None:
            stack.enter_context(autotvm.apply_history_best(tune_logs))
        runtime = Runtime("crt", _RUNTIME)
        lowered = build(mod, target=target, params=dict(params), runtime=runtime, executor=Executor("aot"))
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        archive = export_model_library_format(lowered, Path(folder, "model.tar")).read_bytes()
    session = compile_and_create_micro_session(
        archive, get_microtvm_template_projects(platform), _options(platform, board, project_options),
        None if build_dir is None else Path(build_dir, "project"),
    )  # fmt: skip
    session.timeout_override = timeout_override
    return session


def predict_labels_aot(
    session: Session, aot_executor: Any, input_data: Iterable[Any], runs_per_sample: int = 1
) -> Iterator[tuple[int, float]]:
    """Return the label and the run time for each sample.

    Parameters
    ----------
    session : Session
        The session.
    aot_executor : AotModule
        The executor of a model with one input and one output.
    input_data : iterable of array
        The samples.
    runs_per_sample : int, optional
        The number of runs whose time is averaged.

    Yields
    ------
    int
        The index of the largest output.
    float
        The time in seconds.
    """
    counts = (aot_executor.get_num_inputs(), aot_executor.get_num_outputs())
    if counts != (1, 1):
        raise TVMError(f"predict_labels_aot requires a model with one input and one output, got {counts}")
    if runs_per_sample < 1:
        raise TVMError(f"predict_labels_aot: runs_per_sample must be positive, got {runs_per_sample}")
    evaluate = aot_executor.module.time_evaluator("run", session.device, number=runs_per_sample)
    for sample in input_data:
        aot_executor.get_input(0).copyfrom(sample)
        seconds = evaluate().mean
        yield int(aot_executor.get_output(0).numpy().argmax()), seconds


def evaluate_model_accuracy(
    session: Session, aot_executor: Any, input_data: Iterable[Any], true_labels: Sequence[int], runs_per_sample: int = 1
) -> tuple[float, float, list[int]]:
    """Return the mean run time, the accuracy and the labels of a classifier.

    Parameters
    ----------
    session : Session
        The session.
    aot_executor : AotModule
        The executor of a model with one input and one output.
    input_data : iterable of array
        The samples.
    true_labels : sequence of int
        The correct labels.
    runs_per_sample : int, optional
        The number of runs whose time is averaged.

    Returns
    -------
    float
        The mean time in seconds.
    float
        The fraction of correct labels.
    list of int
        The labels.
    """
    rows = list(predict_labels_aot(session, aot_executor, input_data, runs_per_sample))
    labels = [label for label, _ in rows]
    if len(labels) != len(true_labels):
        raise TVMError(f"evaluate_model_accuracy: got {len(labels)} samples and {len(true_labels)} labels")
    correct = sum(found == wanted for found, wanted in zip(labels, true_labels))
    return float(np.mean([seconds for _, seconds in rows])), correct / len(labels), labels


__all__ = ["create_aot_session", "evaluate_model_accuracy", "predict_labels_aot", "tune_model"]
