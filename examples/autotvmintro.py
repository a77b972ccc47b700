"""Tune a model with AutoTVM from Python, compile it with the records, and compare the times.

    python examples/autotvmintro.py [MODEL.onnx] [TRIALS PER TASK]

The program extracts the tasks of the model, tunes each task, appends records to a file, and compiles the model with the
best records.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

import tvm
from tvm import autotvm, relay
from tvm.autotvm.tuner import XGBTuner
from tvm.contrib import graph_executor

MODEL = Path(__file__).resolve().parents[1] / "demo" / "mobilenet_v2.onnx"


def build_and_time(mod, params, target: str, image: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the scores of an image, and the milliseconds of a run."""
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target=target, params=params)
    device = tvm.device(target, 0)
    module = graph_executor.GraphModule(lib["default"](device))
    module.set_input("data", image)
    module.run()
    scores = module.get_output(0).numpy()
    return scores, module.benchmark(device, number=5, repeat=5).median * 1e3


def tune(tasks, trials: int, log_file: str) -> None:
    option = autotvm.measure_option(
        builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(number=10, repeat=1, cooldown_interval=0)
    )
    for i, task in enumerate(tasks):
        prefix = f"[Task {i + 1:2d}/{len(tasks):2d}] "
        tuner = XGBTuner(task, plan_size=16)
        count = min(trials, len(task.config_space))
        tuner.tune(
            n_trial=count,
            measure_option=option,
            callbacks=[autotvm.callback.progress_bar(count, prefix=prefix), autotvm.callback.log_to_file(log_file)],
        )


def main() -> None:
    path = sys.argv[1] if len(sys.argv) > 1 else str(MODEL)
    trials = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    target = "llvm"
    image = np.random.default_rng(0).uniform(-2, 2, (1, 3, 224, 224)).astype("float32")
    mod, params = relay.frontend.from_onnx(onnx.load(path), {"data": image.shape})
    plain, plain_ms = build_and_time(mod, params, target, image)

    tasks = autotvm.task.extract_from_program(mod["main"], target=target, params=params)
    tasks = sorted(tasks, key=lambda task: -task.flop * task.count)[:3]
    with tempfile.TemporaryDirectory() as folder:
        log_file = str(Path(folder) / "records.json")
        tune(tasks, trials, log_file)
        with autotvm.apply_history_best(log_file):
            tuned, tuned_ms = build_and_time(mod, params, target, image)

    print(f"untuned {plain_ms:.3f} ms, tuned {tuned_ms:.3f} ms")
    assert int(plain.argmax()) == int(tuned.argmax()), "the predictions differ"
    print("the predictions are the same:", int(tuned.argmax()))


if __name__ == "__main__":
    main()
