"""``tvmc tune``: search for the fastest kernels of a model on this machine and write them as tuning records."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ...error import TVMError, did_you_mean
from ...target import Target
from . import frontends
from .arguments import add_command, add_verbose, apply_defaults, register_parser
from .composite_target import partition
from .errors import TVMCException
from .farm import Farm, add_farm, farm_of
from .files import check_records, check_writable
from .interrupt import EXIT_CODE, Interrupts
from .model_files import ModelFiles, one_model
from .parser import detail_group
from .quantizer import check_quantization_args, generate_quantization_args, quantize_from_cli
from .shape_parser import parse_model_shapes
from .target import check_code, generate_target_args, reconstruct_target_args, target_from_cli
from .terminal import note
from .tracker import tracker_host_port_from_cli
from .transform import (
    apply_graph_transforms,
    check_transform_args,
    generate_transform_args,
    parse_graph_transform_args,
)
from .tune_checks import check_farm, check_machine, check_numbers, check_remote, check_sketch_options

if TYPE_CHECKING:
    from ...tuning import TuningOptions
    from ...tuning.model import Model
    from .model import TVMCModel
    from .sketches import TasksOfModel

logger = logging.getLogger("TVMC")

XGB_TUNERS = tuple(
    "_".join(part for part in ("xgb", loss, feature) if part)
    for loss in ("", "rank", "rank_binary")
    for feature in ("", "knob", "itervar", "curve")
)
TUNERS = ("ga", "gridsearch", "random", *XGB_TUNERS)
_HARDWARE = {
    "cache-line-bytes": "bytes of a line of the cache",
    "num-cores": "cores that compute",
    "vector-unit-bytes": "bytes of a vector",
    "max-shared-memory-per-block": "bytes that a block of threads shares",
    "max-local-memory-per-block": "bytes of the threads of a block",
    "max-threads-per-block": "threads of a block",
    "max-vthread-extent": "virtual threads of a thread",
    "warp-size": "threads of a warp",
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Interrupted(KeyboardInterrupt):
    """Ctrl-C stopped tuning; a message was already printed."""


def parse_seconds(text: str) -> float:
    """Parse a duration such as ``90``, ``90s``, ``10m`` or ``1h``; return seconds."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text)
    if found is None:
        raise TVMCException(f"--time-budget '{text}': expected a number with s, m or h, such as 90s, 10m or 1h")
    seconds = float(found.group(1)) * _SECONDS[found.group(2) or "s"]
    if not 0 < seconds < float("inf"):
        raise TVMCException(f"--time-budget '{text}': must be greater than zero")
    return seconds


@register_parser
def add_tune_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``tune``."""
    parser = add_command(subparsers, "tune", usage="tvmc tune [options] FILE...")
    parser.set_defaults(func=drive_tune)
    add = parser.add_argument
    add("--early-stopping", type=int, help="stop a task after this many trials without improvement")
    add("--min-repeat-ms", type=int, default=None, help="minimum time of one repeat (default: 0 on a CPU, else 1000)")
    frontends.add_model_format(parser)
    add("--number", type=int, default=10, help="runs per repeat (default: 10)")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", help="the file for tuning records; tuning continues from the records in it")
    where.add_argument(
        "--build-only",
        metavar="FOLDER",
        help="measure nothing: build candidates into a folder for python -m tvm.runtime.measure_files",
    )
    add_verbose(parser)
    add("--parallel", type=int, default=4, help="devices to measure on at once, with RPC (default: 4)")
    add("--repeat", type=int, default=1, help="repeats per measurement (default: 1)")
    add("--rpc-key", help="key of the device at the RPC tracker")
    add("--rpc-tracker", help="host:port of an RPC tracker")
    add_farm(parser).add_argument(
        "--farm-resource",
        metavar="NAME",
        default=None,
        help="Ray resource of the nodes that measure (default: GPU for GPUs, tvm for CPUs)",
    )
    generate_target_args(parser)
    add("--target-host", default=None, help="target of the host code")
    add("--timeout", type=int, default=10, help="time limit of a trial in seconds (default: 10)")
    add(
        "--trials",
        type=int,
        default=None,
        help="total number of measurements (default: 1000, or unlimited with --time-budget)",
    )
    add("--time-budget", type=str, default=None, metavar="TIME", help="stop after this time: 90s, 10m, 1h")
    add("--tuning-records", metavar="PATH", help="earlier records to learn from")
    add("--report", metavar="FILE.html", help="write an HTML report with the progress of every task")
    add("--no-analytic-start", action="store_true", help="do not start from the default configurations")
    generate_transform_args(parser)
    generate_quantization_args(parser)
    add("--tasks", default="all", help="all, list, or numbers, ranges and names with commas: 0,3-5,dense")
    _add_sketch_options(parser)
    add(
        "--tuner",
        default="xgb",
        choices=TUNERS,
        metavar="TUNER",
        help="search algorithm: xgb (default) or a variant such as xgb_rank_knob, ga, random, gridsearch",
    )
    add("FILE", nargs="+", help="the model, or its network and its weights")
    add(
        "--input-shapes",
        type=parse_model_shapes,
        default=None,
        metavar="INPUT_SHAPES",
        help='shapes of inputs: "input_name:[dim1,dim2,...] other:[...]"',
    )
    apply_defaults(parser, json_params)


def _add_sketch_options(parser: argparse.ArgumentParser) -> None:
    """Add --enable-autoscheduler and the options that need it."""
    parser.add_argument(
        "--enable-autoscheduler", action="store_true", help="use AutoScheduler, which needs no templates"
    )
    sketches = detail_group(parser, "for --enable-autoscheduler")
    sketches.add_argument("--include-simple-tasks", action="store_true", help="also tune tasks without a reduction")
    sketches.add_argument(
        "--log-estimated-latency",
        action="store_true",
        help="write the estimated time of the model after each round into total_latency.tsv",
    )
    for name, what in _HARDWARE.items():
        sketches.add_argument(f"--{name}", type=int, default=None, help=f"{what} (default: the target's)")


@register_parser
def add_report_parser(subparsers, _, json_params) -> None:
    """Add the subcommand ``report``."""
    parser = add_command(subparsers, "report", usage="tvmc report [options] RECORDS")
    parser.set_defaults(func=drive_report)
    parser.add_argument("-o", "--output", default="report.html", help="the page to write (default: report.html)")
    add_verbose(parser)
    parser.add_argument("RECORDS", help="the file that tvmc tune or an AutoTVM script wrote")


def drive_report(args) -> int:
    """Write the report."""
    from .report import report_of_records

    if not os.path.isfile(args.RECORDS):
        raise TVMCException(f"Input file '{args.RECORDS}' doesn't exist, is a broken symbolic link, or a directory.")
    check_writable(args.output)
    report_of_records(args.output, args.RECORDS)
    return 0


def drive_tune(args) -> int | None:
    """Run ``tvmc tune``; return the exit code if Ctrl-C stopped it."""
    try:
        _tune_as(args)
    except Interrupted:
        # A message has already been printed.
        return EXIT_CODE
    return None


def _tune_as(args) -> None:
    for path in args.FILE:
        frontends.check_model(path)
    files = one_model(args.FILE, "tune")
    if not (args.output or args.build_only or args.tasks in ("list", "help")):
        raise TVMCException("no output given; use -o FILE for records or --build-only FOLDER for candidates")
    if args.rpc_tracker and not args.rpc_key:
        raise TVMCException("need to provide an RPC tracker key (--rpc-key) for remote tuning")
    hostname, port = tracker_host_port_from_cli(args.rpc_tracker) if args.rpc_tracker else (None, 9090)
    budget = parse_seconds(args.time_budget) if args.time_budget is not None else None
    trials = args.trials if args.trials is not None else None if budget or args.build_only else 1000
    check_numbers(trials, args.number, args.repeat, args.min_repeat_ms, args.early_stopping, args.timeout)
    check_remote(args.rpc_key, hostname, args.build_only)
    farm = farm_of(args)
    check_farm(farm, hostname, args.build_only)
    check_records(args.tuning_records)
    for path in filter(None, (args.output, args.report)):
        check_writable(path)
    # Errors in the target are reported before the model is read.
    target = target_from_cli(args.target or "llvm", reconstruct_target_args(args))[0]
    check_code(target)
    if args.tasks not in ("list", "help") and not args.build_only and not hostname and not farm:
        check_machine(target)
    hardware = {name.replace("-", "_"): getattr(args, name.replace("-", "_")) for name in _HARDWARE}
    check_sketch_options(
        args.enable_autoscheduler, args.build_only, hardware, args.include_simple_tasks, args.log_estimated_latency
    )
    tune_model(
        _model_of(args, files),
        args.target or "llvm",
        tuning_records=args.output,
        prior_records=args.tuning_records,
        enable_autoscheduler=args.enable_autoscheduler,
        rpc_key=args.rpc_key,
        hostname=hostname,
        port=port,
        trials=trials,
        target_host=args.target_host,
        tuner=args.tuner,
        min_repeat_ms=args.min_repeat_ms,
        early_stopping=args.early_stopping,
        timeout=args.timeout,
        repeat=args.repeat,
        number=args.number,
        parallel=args.parallel,
        hardware_params=hardware,
        include_simple_tasks=args.include_simple_tasks,
        log_estimated_latency=args.log_estimated_latency,
        additional_target_options=reconstruct_target_args(args),
        tasks_filter=args.tasks,
        time_budget=budget,
        report=args.report,
        analytic_start=not args.no_analytic_start,
        build_only=args.build_only,
        farm=farm,
        **parse_graph_transform_args(args),
    )


def _model_of(args, files: ModelFiles) -> TVMCModel:
    """Return the model of the files, quantized if the options request it."""
    check_quantization_args(args)
    check_transform_args(args)
    model = frontends.load_model(files.path, args.model_format, args.input_shapes, **files.options)
    return quantize_from_cli(model, args) if args.quantize else model


def filter_tasks(tasks: list[Any], expr: str) -> tuple[list[Any], bool]:
    """Return the tasks that an expression selects, without duplicates, and whether it only requests a list of tasks."""
    chosen: dict[int, None] = {}
    listed = False
    for item in expr.split(","):
        item = item.strip()
        if item in ("list", "help"):
            listed = True
        elif item == "all":
            chosen.update(dict.fromkeys(range(len(tasks))))
        elif item.isdigit():
            there = f"there is no task {item}; tasks are 0 to {len(tasks) - 1}"
            assert int(item) < len(tasks), f"--tasks: Task index out of range: {there}"
            chosen[int(item)] = None
        elif re.fullmatch(r"[\d-]+", item):
            chosen.update(dict.fromkeys(_range_of_tasks(item, len(tasks))))
        else:
            named = [i for i, task in enumerate(tasks) if item and item in _name_of(task)]
            names = {_name_of(task) for task in tasks}
            hint = "" if named else did_you_mean(item, sorted(names), "; ", cutoff=0.4)
            assert named, f"--tasks: '{item}' is not a number, a range or part of a task's name{hint}"
            chosen.update(dict.fromkeys(named))
    return [tasks[i] for i in chosen], listed


def _name_of(task: Any) -> str:
    return str(getattr(task, "name", None) or getattr(task, "desc", ""))


def _range_of_tasks(item: str, count: int) -> range:
    """Return the range of a text ``A-B``, in which A or B may be omitted."""
    ends = item.split("-")
    assert len(ends) == 2, f"--tasks: Malformed range expression '{item}'; expected A-B"
    assert any(ends), f"--tasks: Missing lhs or rhs for range expression '{item}'"
    first, last = int(ends[0] or 0), int(ends[1]) if ends[1] else count - 1
    there = f"in '{item}': tasks are 0 to {count - 1}"
    assert first < count, f"--tasks: Left-hand side expression out of range {there}"
    assert last < count, f"--tasks: Right-hand side expression out of range {there}"
    assert first <= last, f"--tasks: the range '{item}' is empty"
    return range(first, last + 1)


def gen_task_list(tasks: list[Any], enable_autoscheduler: bool = False, width: int | None = 100) -> str:
    """List the tasks, one per line; descriptions are cut to ``width`` characters, or not at all if it is None."""

    def shortened(text: str) -> str:
        return text if width is None or len(text) < width else text[: width - 3] + "..."

    rows = ["Available Tasks for tuning:"]
    for number, task in enumerate(tasks):
        if enable_autoscheduler:
            text = shortened(getattr(task, "desc", "") or "Unnamed")
        else:
            try:
                size: Any = len(task.config_space)
            except AttributeError:
                size = "?"
            text = f"{shortened(str(task))} (len={size})"
        rows.append(f"  {number}. {text}")
    return "\n".join(rows)


def autotvm_get_tuning_tasks(
    mod: Any, params: Any, target: Any, target_host: Any = None, transform_args: dict[str, Any] | None = None
) -> list[Any]:
    """The tasks of a model after its graph transforms."""
    from ...autotvm.task.relay_integration import extract_from_program

    where = Target(target) if target_host is None else Target(target, target_host)
    mod = apply_graph_transforms(mod, transform_args or {})
    tasks = extract_from_program(mod, params, where)
    for number, task in enumerate(tasks):
        task.number = number
    return tasks


def autoscheduler_get_tuning_tasks(
    mod: Any,
    params: Any,
    target: Any,
    transform_args: dict[str, Any] | None = None,
    hardware_params: Any = None,
    include_simple_tasks: bool = False,
) -> tuple[list[Any], list[int]]:
    """The auto-scheduler tasks of a model after its graph transforms, and how often the model executes each."""
    from ...auto_scheduler import extract_tasks

    mod = apply_graph_transforms(mod, transform_args or {})
    return extract_tasks(
        mod, params, target=target, hardware_params=hardware_params, include_simple_tasks=include_simple_tasks
    )


def schedule_tasks(
    tasks: list[Any],
    task_weights: list[float],
    tuning_options: Any,
    prior_records: str | None = None,
    log_estimated_latency: bool = False,
) -> None:
    """Tune as Apache TVM does: with AutoScheduler's task scheduler, without using untuned kernels as a baseline."""
    from ...auto_scheduler.task_scheduler import LogEstimatedLatency, PrintTableInfo, TaskScheduler

    callbacks: list[Any] = [PrintTableInfo()]
    if log_estimated_latency:
        callbacks.append(LogEstimatedLatency("total_latency.tsv"))
    scheduler = TaskScheduler(tasks, task_weights=task_weights, load_log_file=prior_records, callbacks=callbacks)
    scheduler.tune(tuning_options)


def tune_tasks(
    tasks: list[Any],
    log_file: str,
    measure_option: dict[str, Any],
    tuner: str,
    trials: int,
    early_stopping: int | None = None,
    tuning_records: str | None = None,
) -> None:
    """Tune as Apache TVM does: one task after another, each with the given number of ``trials``."""
    from ... import autotvm
    from ...autotvm.search import make_tuner

    for number, task in enumerate(tasks):
        try:
            searcher = make_tuner(tuner, task)
        except ValueError as problem:
            raise TVMCException(str(problem)) from problem
        if tuning_records and os.path.isfile(tuning_records):
            searcher.load_history(autotvm.record.load_from_file(tuning_records))
        count = min(trials, len(task.config_space))
        bar = autotvm.callback.progress_bar(count, f"[Task {number + 1:2d}/{len(tasks):2d}] ")
        callbacks = [bar, autotvm.callback.log_to_file(log_file)]
        searcher.tune(count, measure_option, early_stopping=early_stopping or count, callbacks=callbacks)
        bar.end()


def _sized(model: TVMCModel) -> Any:
    """Return the module of a model with its dynamic batch set to 1, because tasks have fixed shapes."""
    from .module_sizes import with_batch_of_one

    return with_batch_of_one(model, "tuning")


def tune_model(
    tvmc_model: TVMCModel,
    target: Any,
    tuning_records: str | None = None,
    prior_records: str | None = None,
    enable_autoscheduler: bool = False,
    rpc_key: str | None = None,
    hostname: str | None = None,
    port: int = 9090,
    trials: int | None = 10000,
    target_host: Any = None,
    tuner: str = "xgb",
    min_repeat_ms: int | None = None,
    early_stopping: int | None = None,
    timeout: int = 10,
    repeat: int = 1,
    number: int = 10,
    parallel: int = 4,
    hardware_params: Any = None,
    include_simple_tasks: bool = False,
    log_estimated_latency: bool = False,
    additional_target_options: Any = None,
    tasks_filter: str = "all",
    desired_layout: Any = None,
    desired_layout_ops: Any = None,
    mixed_precision: bool = False,
    mixed_precision_ops: Any = None,
    mixed_precision_calculation_type: Any = None,
    mixed_precision_acc_type: Any = None,
    *,
    time_budget: float | None = None,
    report: str | None = None,
    analytic_start: bool = True,
    build_only: str | None = None,
    farm: Farm | None = None,
) -> str | None:
    """Tune a model; return the path of the records, or None if there is nothing to tune or the tasks are only listed.

    With ``build_only``, candidates are built into that folder without measuring, and the folder is returned.

    Parameters
    ----------
    tvmc_model : TVMCModel
        The model.
    target : str
        The compilation target, such as "llvm" or "cuda".
    tuning_records : str, optional
        The file of the records; by default a temporary file.
    prior_records : str, optional
        Records to start from.
    enable_autoscheduler : bool, optional
        Whether to search for schedules with the auto-scheduler instead of using templates.
    rpc_key : str, optional
        The key of the device at the tracker.
    hostname : str, optional
        The address of the RPC tracker, for remote devices.
    port : int, optional
        The port of the tracker.
    trials : int, optional
        The total number of candidates to measure.
    target_host : str, optional
        The target of the host code for a GPU.
    tuner : str, optional
        The search algorithm: "xgb", "ga", "random", "gridsearch" ...
    min_repeat_ms : int, optional
        The minimum duration of a measurement in milliseconds.
    early_stopping : int, optional
        The number of trials without improvement after which a task ends.
    timeout : int, optional
        The time limit of a candidate in seconds.
    repeat : int, optional
        The number of measurements per candidate.
    number : int, optional
        The number of runs that are averaged in one measurement.
    parallel : int, optional
        The number of candidates to build in parallel.
    hardware_params : optional
        The parameters of the hardware, for AutoScheduler.
    include_simple_tasks : bool, optional
        Whether tasks without a reduction are tuned, for AutoScheduler.
    log_estimated_latency : bool, optional
        Whether the estimated latency after each round is written, for AutoScheduler.
    additional_target_options : dict, optional
        Options of targets by kind.
    tasks_filter : str, optional
        The tasks to tune: "all", "list", or numbers.
    desired_layout : str, optional
        The layout that operators are converted to, such as "NHWC".
    desired_layout_ops : list of str, optional
        The operators whose layout is converted.
    mixed_precision : bool, optional
        Whether to compute operators in a smaller float type.
    mixed_precision_ops : list of str, optional
        The operators to compute in the smaller type.
    mixed_precision_calculation_type : str, optional
        The type of the computation.
    mixed_precision_acc_type : str, optional
        The type of accumulation.
    time_budget : float, optional
        The time limit of the whole run in seconds.
    report : str, optional
        The HTML report to write.
    analytic_start : bool, optional
        Whether to measure the configurations first that a cost estimate prefers.
    build_only : str, optional
        The folder for candidates, to be measured on a machine that has only the runtime.
    farm : Farm, optional
        The cluster that builds and measures candidates.

    Returns
    -------
    str
        The path of the records, or None.

    Raises
    ------
    TVMCException
        The target or an option is invalid.
    """
    begin = time.monotonic()
    check_remote(rpc_key, hostname, build_only)
    check_farm(farm, hostname, build_only)
    check_sketch_options(enable_autoscheduler, build_only, hardware_params, include_simple_tasks, log_estimated_latency)
    check_numbers(trials, number, repeat, min_repeat_ms, early_stopping, timeout)
    check_records(prior_records)
    where, codegens = target_from_cli(str(target), additional_target_options)
    if target_host:
        where = where.with_host(target_host)
    if tasks_filter not in ("list", "help") and not build_only and not hostname and not farm:
        check_machine(where)
    transforms = {
        "desired_layout": desired_layout,
        "desired_layout_ops": desired_layout_ops,
        "mixed_precision": mixed_precision,
        "mixed_precision_ops": mixed_precision_ops,
        "mixed_precision_calculation_type": mixed_precision_calculation_type,
        "mixed_precision_acc_type": mixed_precision_acc_type,
    }
    try:
        mod = apply_graph_transforms(_sized(tvmc_model), transforms)
        # Only the operators outside partitions are tuned.
        mod = partition(mod, tvmc_model.params, codegens)
        known = (mod, tvmc_model.params, where)
        sketches = _sketches(*known, hardware_params, include_simple_tasks) if enable_autoscheduler else None
        tasks = sketches.tasks if sketches else autotvm_get_tuning_tasks(*known)
        chosen, wants_list = _chosen(where, tasks, tasks_filter)
    except (TVMError, AssertionError) as problem:
        raise TVMCException(str(problem)) from problem
    if wants_list:
        print(gen_task_list(tasks, enable_autoscheduler, None))
        return None
    if not chosen:
        if report:
            _write_report(report, tuning_records, [])
        return None
    from ...tuning import RelayModel, TuningOptions

    remote = {"key": rpc_key, "host": hostname, "port": port, "n_parallel": parallel} if hostname else {}
    option = _measure_option(where, remote, farm, number, repeat, min_repeat_ms, timeout)
    measure = {"number": number, "repeat": repeat, "min_repeat_ms": option["runner"].min_repeat_ms}
    searches = (
        sketches.starts(chosen, tuner, {**measure, "timeout": timeout, **remote}, farm)
        if sketches
        else [partial(task.start_search, tuner, option, analytic_start) for task in chosen]
    )
    if build_only:
        return _build(searches, build_only, bool(sketches), (trials, prior_records, time_budget), measure, timeout)
    records = tuning_records or tvmc_model.default_tuning_records_path()
    options = TuningOptions(
        records, prior_records, trials, time_budget, early_stopping, analytic_start, resumes=tuning_records is not None
    )
    # Whole models are compared on this machine, unless the tasks were measured elsewhere.
    model = None if remote or farm else RelayModel(*known)
    _tune([start() for start in searches], options, begin, report, model, log_estimated_latency)
    return records


def _chosen(target: Target, tasks: list[Any], expr: str) -> tuple[list[Any], bool]:
    """Return the tasks of ``filter_tasks`` and log their number."""
    chosen, wants_list = filter_tasks(tasks, expr)
    note(f"target {str(target).strip()}")
    logger.info("%d tasks, %d of them are tuned", len(tasks), len(chosen))
    for task in chosen:
        logger.debug("task %s", task)
    return chosen, wants_list


def _measure_option(
    target: Target,
    remote: dict[str, Any],
    farm: Farm | None,
    number: int,
    repeat: int,
    min_repeat_ms: int | None,
    timeout: float,
) -> dict[str, Any]:
    """Return the builder and runner for templates: on this machine, on devices of a tracker, or on a cluster."""
    from ...autotvm import RPCRunner
    from ...autotvm.search import local_measure_option
    from ...tuning.remote import RemoteDevices

    option = local_measure_option(target, number, repeat, min_repeat_ms, timeout)
    timing = {
        "number": number,
        "repeat": repeat,
        "min_repeat_ms": option["runner"].min_repeat_ms,
        "timeout": timeout,
        "cooldown_interval": 0,
    }
    if farm:
        from ...autotvm import RayBuilder, RayRunner

        farm.check(target)
        runner = RayRunner(farm.address, farm.resource, **timing)
        return {"builder": RayBuilder(timeout, farm.address), "runner": runner}
    if not remote:
        return option
    try:
        RemoteDevices(remote["key"], remote["host"], remote["port"]).check()
    except TVMError as problem:
        raise TVMCException(str(problem)) from problem
    option["runner"] = RPCRunner(**remote, **timing)
    return option


def _sketches(mod: Any, params: Any, target: Target, hardware: Any, include_simple_tasks: bool) -> TasksOfModel:
    """Return the auto-scheduler tasks of a model; the auto-scheduler is imported on demand."""
    from .sketches import TasksOfModel, hardware_of

    given = hardware_of(target, hardware) if isinstance(hardware, dict) else hardware
    return TasksOfModel(mod, params, target, given, include_simple_tasks)


def _write_report(path: str, records: str | None, tasks: list[Any]) -> None:
    from .report import write_report

    write_report(path, records, tasks)


def _subject(search: Any) -> Any:
    """Return the object that a report describes: a template task, or an auto-scheduler search."""
    return search.task if hasattr(search.task, "config_space") else search


def _build(
    searches: list[Any],
    folder: str,
    is_searched: bool,
    limits: tuple[int | None, str | None, float | None],
    measure: dict[str, Any],
    timeout: float,
) -> str:
    """Build candidates into a folder and return the folder. An interrupt keeps finished candidates. ``limits`` are
    further arguments of ``build_candidates``."""
    from .candidates import build_candidates, sketch_writer, template_writer

    try:
        write = (sketch_writer if is_searched else template_writer)(folder, measure, timeout)
        build_candidates(searches, write, folder, *limits)
        return folder
    except TVMError as problem:
        raise TVMCException(str(problem)) from problem
    except KeyboardInterrupt:
        sys.stderr.write(f"stopped; {folder} has the finished candidates, and the same command continues\n")
        raise Interrupted from None


def _tune(
    searches: list[Any],
    options: TuningOptions,
    begin: float,
    report: str | None,
    model: Model | None,
    log_estimated_latency: bool = False,
) -> None:
    """Tune, and write the report of all measurements, even after an error or an interrupt."""
    from ...tuning import tune
    from .tuning_display import display_for

    tasks = [search.task for search in searches]
    with Interrupts() as interrupts:
        try:
            with contextlib.closing(display_for(tasks)) as display:
                heard = _with_latency(display) if log_estimated_latency else display
                tune(searches, options, heard, model, guard=interrupts.held, begin=begin)
        except TVMError as problem:
            raise TVMCException(str(problem)) from problem
        except KeyboardInterrupt:
            sys.stdout.flush()
            sys.stderr.write(
                f"stopped; {options.records} contains the records so far; run the same command to continue\n"
            )
            raise Interrupted from None
        finally:
            if report:
                _write_report(report, options.records, [_subject(search) for search in searches])


def _with_latency(display: Any) -> Any:
    """Wrap the display so that the estimated latency of the model is written to a file after each round."""
    from .sketches import LATENCY_FILE, LatencyLog

    check_writable(LATENCY_FILE)
    return LatencyLog(display)
