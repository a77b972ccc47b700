"""Whole models by the auto-scheduler's search alone, beside our code without tuning and onnxruntime.

    python -m benchmarks.auto_scheduler_models tune resnet18 --seconds 540 [--no-weights] [--layout NHWC]
    python -m benchmarks.auto_scheduler_models time resnet18 [--no-weights] [--layout NHWC]
    python -m benchmarks.auto_scheduler_models tune resnet18 --seconds 540 --best-of-both

``tune`` searches all tasks of a model from nothing: no template is a candidate, and with ``--no-weights`` the cost
model starts without the weights that come with the package. Records are kept in the folder ``--records``, and the same
command goes on where it stopped. With ``--best-of-both`` it is ``tvmc tune --enable-autoscheduler``, where a task keeps
the kernels it has without tuning unless a faster one is found. ``time`` runs the model compiled without tuning, with
the best records, and in onnxruntime, in turn, and writes the figures as JSON. Models are those of ``benchmarks.zoo``,
made where they are missing, which takes torch, or ONNX files. Cores are those the process may use (taskset), threads
TVM_NUM_THREADS.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import zoo
from .harness import commit, save


class TimeIsUp(Exception):
    """The budget of a search is spent."""


def model_file(arguments: argparse.Namespace) -> str:
    if arguments.model.endswith(".onnx"):
        return arguments.model
    case, folder = zoo.Case(arguments.model), arguments.models
    path = zoo.model_path(folder, case)
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        zoo.make(case, folder)
    return path


def inputs_of(arguments: argparse.Namespace, mod: Any) -> dict[str, np.ndarray]:
    if not arguments.model.endswith(".onnx"):
        return zoo.sample(zoo.Case(arguments.model))
    chance = np.random.default_rng(0)
    types = {param.name_hint: param.type_annotation for param in mod["main"].params}
    return {name: chance.random([int(d) for d in kind.shape]).astype(kind.dtype) for name, kind in types.items()}


def loaded(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """The model, with the layout of its convolutions that is asked for."""
    from tvm.driver.tvmc import frontends, transform

    model = frontends.load_model(model_file(arguments))
    mod = transform.convert_graph_layout(model.mod, [arguments.layout]) if arguments.layout else model.mod
    return mod, model.params


def log_of(arguments: argparse.Namespace) -> str:
    start = "none" if arguments.no_weights else "both" if arguments.best_of_both else "weights"
    names = (Path(arguments.model).stem, arguments.layout or "plain", start)
    return os.path.join(arguments.records, f"{'_'.join(names)}.json")


def tune_best_of_both(arguments: argparse.Namespace) -> None:
    from tvm.driver.tvmc import autotuner, frontends

    os.makedirs(arguments.records, exist_ok=True)
    autotuner.tune_model(
        frontends.load_model(model_file(arguments)), arguments.target, log_of(arguments), enable_autoscheduler=True,
        time_budget=arguments.seconds, desired_layout=[arguments.layout] if arguments.layout else None)


def tune(arguments: argparse.Namespace) -> None:
    if arguments.best_of_both:
        return tune_best_of_both(arguments)
    from tvm import auto_scheduler
    from tvm.auto_scheduler.task_scheduler import TaskSchedulerCallback

    deadline = time.monotonic() + arguments.seconds
    mod, params = loaded(arguments)
    tasks, weights = auto_scheduler.extract_tasks(mod, params, arguments.target)
    log = log_of(arguments)
    os.makedirs(arguments.records, exist_ok=True)
    model = auto_scheduler.XGBModel(num_warmup_sample=4 * arguments.round, pretrained=not arguments.no_weights)
    policies = [auto_scheduler.SketchPolicy(
        task, model, verbose=0, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]) for task in tasks]

    class Deadline(TaskSchedulerCallback):
        def pre_tune(self, task_scheduler: Any, task_id: int) -> None:
            if time.monotonic() > deadline:
                raise TimeIsUp

    scheduler = auto_scheduler.TaskScheduler(tasks, weights, load_log_file=log, callbacks=[Deadline()])
    cores = len(os.sched_getaffinity(0))
    options = auto_scheduler.TuningOptions(
        num_measure_trials=1 << 20, num_measures_per_round=arguments.round, verbose=0,
        builder=auto_scheduler.LocalBuilder(n_parallel=cores), runner=auto_scheduler.LocalRunner(min_repeat_ms=50),
        measure_callbacks=[auto_scheduler.RecordToFile(log)])
    try:
        scheduler.tune(options, policies)
    except TimeIsUp:
        pass
    print(f"{arguments.model}: {scheduler.ct} trials of {len(tasks)} tasks; "
          f"estimated {scheduler.cur_score * 1e3:.2f} ms", flush=True)  # fmt: skip


def programs(arguments: argparse.Namespace) -> dict[str, Any]:
    """What is run in turn: functions without arguments, each with its first output."""
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor
    from tvm.driver.tvmc import frontends
    from tvm.tuning.apply_records import records_of_file

    plain = frontends.load_model(model_file(arguments))
    inputs = inputs_of(arguments, plain.mod)
    found: dict[str, Any] = {}

    def add(name: str, library: Any) -> None:
        module = graph_executor.GraphModule(library["default"](tvm.cpu()))
        for key, value in inputs.items():
            module.set_input(key, value)
        module.run()
        found[name] = (module.run, module.get_output(0).numpy())

    with tvm.transform.PassContext(opt_level=3):
        add("untuned", relay.build(plain.mod, arguments.target, params=plain.params))
    mod, params = loaded(arguments)
    applied = records_of_file(log_of(arguments))
    with applied.context, tvm.transform.PassContext(opt_level=3, config=applied.config):
        add("searched", relay.build(mod, arguments.target, params=params))
    try:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("TVM_NUM_THREADS", 2))
        session = onnxruntime.InferenceSession(
            model_file(arguments), options, providers=["CPUExecutionProvider"])
        found["onnxruntime"] = (lambda: session.run(None, inputs), session.run(None, inputs)[0])
    except ImportError as error:
        print(f"left out: onnxruntime ({error})")
    return found


def compare(arguments: argparse.Namespace) -> None:
    found = programs(arguments)
    wanted = found["untuned"][1]
    errors = {name: float(np.linalg.norm(out - wanted) / np.linalg.norm(wanted)) for name, (_, out) in found.items()}
    seconds: dict[str, list[float]] = {name: [] for name in found}
    deadline = time.monotonic() + arguments.seconds
    while time.monotonic() < deadline and len(seconds["untuned"]) < arguments.rounds:
        for name, (run, _) in found.items():
            run()
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    row = {name: {"p20_ms": float(np.quantile(some, 0.2)) * 1e3, "error": errors[name]}
           for name, some in seconds.items()}
    row["searched"]["of_untuned"] = row["searched"]["p20_ms"] / row["untuned"]["p20_ms"]
    print(arguments.model, json.dumps(row), flush=True)
    facts = {"model": arguments.model, "commit": commit(), "layout": arguments.layout or "as it is",
             "weights": not arguments.no_weights, "best of both": arguments.best_of_both,
             "rounds": len(seconds["untuned"]), "rows": row}  # fmt: skip
    save(str(Path(log_of(arguments)).with_suffix(".times.json")), facts)
    wrong = {name: error for name, error in errors.items() if not error <= 1e-3}
    if wrong:
        raise SystemExit(f"outputs differ: {wrong}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = {"tune": tune, "time": compare}
    parser.add_argument("command", choices=commands)
    parser.add_argument("model")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--seconds", type=float, default=60, help="no round is begun later")
    parser.add_argument("--round", type=int, default=24, help="trials of a task at once")
    parser.add_argument("--rounds", type=int, default=100, help="time: runs of each program at most")
    parser.add_argument("--no-weights", action="store_true")
    parser.add_argument("--best-of-both", action="store_true", help="kernels without tuning are candidates too")
    parser.add_argument("--layout", default="", help="of convolutions: NHWC")
    parser.add_argument("--records", default="build/auto_scheduler_models")
    parser.add_argument("--models", default="build/models")
    arguments = parser.parse_args()
    commands[arguments.command](arguments)


if __name__ == "__main__":
    main()
