"""Whole models with kernels from AutoScheduler's search alone, beside our code without tuning and onnxruntime.

    python -m benchmarks.auto_scheduler_models tune resnet18 --seconds 540 [--no-weights] [--layout NHWC]
    python -m benchmarks.auto_scheduler_models time resnet18 [--no-weights] [--layout NHWC]
    python -m benchmarks.auto_scheduler_models tune resnet18 --seconds 540 --best-of-both

``tune`` searches all tasks of a model: no template is a candidate, and with ``--no-weights`` the cost model starts
without the weights of the package. Records are stored in the folder ``--records``; the same command continues an
interrupted search. ``--best-of-both`` works like ``tvmc tune --enable-autoscheduler``: a task keeps its untuned kernel
unless the search finds a faster one. ``time`` runs the model compiled without tuning, with the best records, and in
onnxruntime, in turn, each in its own process, and writes the times as JSON. A model is an ONNX file or the name of a
model in ``benchmarks.zoo``, which is created with torch where it is missing. Set the cores with taskset and the number
of threads with TVM_NUM_THREADS.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import zoo
from .harness import commit, interleave, save

# The programs that are timed; the functions of this module that set them up have the same names.
UNTUNED, SEARCHED, PEER = "untuned", "searched", "onnxruntime"
# Environment variables for the programs of the comparison: the command's options, and the folder for their outputs.
ARGUMENTS, OUTPUTS = "AUTO_SCHEDULER_MODELS", "AUTO_SCHEDULER_MODELS_OUTPUTS"


class TimeIsUp(Exception):
    """The time of a search has passed."""


def model_file(arguments: argparse.Namespace) -> str:
    if arguments.model.endswith(".onnx"):
        return arguments.model
    case, folder = zoo.Case(arguments.model), arguments.models
    path = zoo.model_path(folder, case)
    if not os.path.exists(path):
        zoo.make(case, folder)
    return path


def inputs_of(arguments: argparse.Namespace, mod: Any) -> dict[str, np.ndarray]:
    if not arguments.model.endswith(".onnx"):
        return zoo.sample(zoo.Case(arguments.model))
    chance = np.random.default_rng(0)
    types = {param.name_hint: param.type_annotation for param in mod["main"].params}
    return {name: chance.random([int(d) for d in kind.shape]).astype(kind.dtype) for name, kind in types.items()}


def loaded(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Return the model of the file, with a dynamic batch set to 1, and its parameters."""
    from tvm.driver.tvmc import frontends
    from tvm.driver.tvmc.module_sizes import with_batch_of_one

    model = frontends.load_model(model_file(arguments))
    return with_batch_of_one(model, "timing"), model.params


def laid_out(arguments: argparse.Namespace) -> tuple[Any, Any]:
    """Return the model with the requested layout of its convolutions."""
    from tvm.driver.tvmc import transform

    mod, params = loaded(arguments)
    return (transform.convert_graph_layout(mod, [arguments.layout]) if arguments.layout else mod), params


def log_of(arguments: argparse.Namespace) -> str:
    start = "none" if arguments.no_weights else "both" if arguments.best_of_both else "weights"
    names = (Path(arguments.model).stem, arguments.layout or "plain", start)
    return os.path.join(arguments.records, f"{'_'.join(names)}.json")


def tune_best_of_both(arguments: argparse.Namespace) -> None:
    from tvm.driver.tvmc import autotuner, frontends

    os.makedirs(arguments.records, exist_ok=True)
    autotuner.tune_model(
        frontends.load_model(model_file(arguments)),
        arguments.target,
        log_of(arguments),
        enable_autoscheduler=True,
        time_budget=arguments.seconds,
        desired_layout=[arguments.layout] if arguments.layout else None,
    )


def tune(arguments: argparse.Namespace) -> None:
    if arguments.best_of_both:
        return tune_best_of_both(arguments)
    from tvm import auto_scheduler
    from tvm.auto_scheduler.task_scheduler import TaskSchedulerCallback

    deadline = time.monotonic() + arguments.seconds
    mod, params = laid_out(arguments)
    tasks, weights = auto_scheduler.extract_tasks(mod, params, arguments.target)
    log = log_of(arguments)
    os.makedirs(arguments.records, exist_ok=True)
    model = auto_scheduler.XGBModel(num_warmup_sample=4 * arguments.round, pretrained=not arguments.no_weights)
    policies = [
        auto_scheduler.SketchPolicy(
            task, model, verbose=0, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
        )
        for task in tasks
    ]

    class Deadline(TaskSchedulerCallback):
        def pre_tune(self, task_scheduler: Any, task_id: int) -> None:
            if time.monotonic() > deadline:
                raise TimeIsUp

    # In a whole model, a layer's weights are not in the caches when the layer starts.
    runner = (
        auto_scheduler.LocalRunner(number=1, repeat=10, min_repeat_ms=0, enable_cpu_cache_flush=True)
        if arguments.cold
        else auto_scheduler.LocalRunner(min_repeat_ms=50)
    )
    scheduler = auto_scheduler.TaskScheduler(tasks, weights, load_log_file=log, callbacks=[Deadline()])
    cores = len(os.sched_getaffinity(0))
    options = auto_scheduler.TuningOptions(
        num_measure_trials=1 << 20,
        num_measures_per_round=arguments.round,
        verbose=0,
        builder=auto_scheduler.LocalBuilder(n_parallel=cores),
        runner=runner,
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
    )
    try:
        scheduler.tune(options, policies)
    except TimeIsUp:
        pass
    print(f"{arguments.model}: {scheduler.ct} trials of {len(tasks)} tasks; "
          f"estimated {scheduler.cur_score * 1e3:.2f} ms", flush=True)  # fmt: skip


def round_of(run: Callable[[], object], output: Callable[[], np.ndarray], name: str) -> Callable[[], float]:
    """Return a function that runs one round: two runs, of which it returns the seconds of the second. The first
    output is stored for the comparison."""
    run()
    np.save(os.path.join(os.environ[OUTPUTS], f"{name}.npy"), output())

    def round() -> float:
        run()
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return round


def compiled(name: str) -> Callable[[], float]:
    """Return a round of our code for the model of this process: without tuning, or with the best records."""
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor
    from tvm.tuning.apply_records import records_of_file

    arguments = argparse.Namespace(**json.loads(os.environ[ARGUMENTS]))
    mod, params = (laid_out if name == SEARCHED else loaded)(arguments)
    applied = records_of_file(log_of(arguments) if name == SEARCHED else None)
    with applied.context, tvm.transform.PassContext(opt_level=3, config=applied.config):
        library = relay.build(mod, arguments.target, params=params)
    module = graph_executor.GraphModule(library["default"](tvm.cpu()))
    for key, value in inputs_of(arguments, mod).items():
        module.set_input(key, value)
    return round_of(module.run, lambda: module.get_output(0).numpy(), name)


def untuned() -> Callable[[], float]:
    return compiled(UNTUNED)


def searched() -> Callable[[], float]:
    return compiled(SEARCHED)


def onnxruntime() -> Callable[[], float]:
    import onnxruntime as runtime

    arguments = argparse.Namespace(**json.loads(os.environ[ARGUMENTS]))
    options = runtime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("TVM_NUM_THREADS", 2))
    session = runtime.InferenceSession(model_file(arguments), options, providers=["CPUExecutionProvider"])
    inputs = inputs_of(arguments, loaded(arguments)[0])
    return round_of(lambda: session.run(None, inputs), lambda: session.run(None, inputs)[0], PEER)


def compare(arguments: argparse.Namespace) -> None:
    # A program is stopped while another runs: threads of onnxruntime spin while they wait, which would occupy the
    # cores.
    with tempfile.TemporaryDirectory() as folder:
        given = {name: value for name, value in vars(arguments).items() if name != "command"}
        environment = {ARGUMENTS: json.dumps(given), OUTPUTS: folder}
        names = (UNTUNED, SEARCHED, *([PEER] if importlib.util.find_spec(PEER) else ()))
        peers = {name: (f"benchmarks.auto_scheduler_models:{name}", environment) for name in names}
        results = interleave(peers, arguments.rounds, seconds=arguments.seconds)
        outputs = {name: np.load(os.path.join(folder, f"{name}.npy")) for name in names}
    wanted = outputs[UNTUNED]
    errors = {name: float(np.linalg.norm(out - wanted) / np.linalg.norm(wanted)) for name, out in outputs.items()}
    row: dict[str, dict[str, float]] = {
        name: {"p20_ms": result.p20 * 1e3, "error": errors[name]} for name, result in results.items()
    }
    row[SEARCHED]["of_untuned"] = row[SEARCHED]["p20_ms"] / row[UNTUNED]["p20_ms"]
    print(arguments.model, json.dumps(row), flush=True)
    facts = {"model": arguments.model, "commit": commit(), "layout": arguments.layout or "as it is",
             "weights": not arguments.no_weights, "best of both": arguments.best_of_both,
             "rounds": len(results[UNTUNED].seconds), "rows": row}  # fmt: skip
    save(str(Path(log_of(arguments)).with_suffix(".times.json")), facts)
    wrong = {name: error for name, error in errors.items() if not error <= 1e-3}
    if wrong:
        raise SystemExit(f"outputs differ from the untuned model (relative error): {wrong}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = {"tune": tune, "time": compare}
    parser.add_argument("command", choices=commands)
    parser.add_argument("model")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--seconds", type=float, default=60, help="start no new round after this number of seconds")
    parser.add_argument("--round", type=int, default=24, help="trials of a task in one round")
    parser.add_argument("--rounds", type=int, default=100, help="time: maximum number of runs of each program")
    parser.add_argument("--no-weights", action="store_true")
    parser.add_argument("--cold", action="store_true", help="tune: measure with weights outside the caches")
    parser.add_argument("--best-of-both", action="store_true", help="also consider untuned kernels")
    parser.add_argument("--layout", default="", help="layout of convolutions: NHWC")
    parser.add_argument("--records", default="build/auto_scheduler_models")
    parser.add_argument("--models", default="build/models")
    arguments = parser.parse_args()
    commands[arguments.command](arguments)


if __name__ == "__main__":
    main()
