"""Compile a model with tvmc, run it, tune it, compile it with the records, run it again, and compare.

    python examples/tune_model.py [--time-budget 1m] [--trials 1000] [--tasks all] [--records FILE] [MODEL.onnx]

By default, the model and the photo of the demo are used. With ``--records`` the records are kept, and a second run
continues from them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import sys
import tempfile

import numpy as np

from tvm.driver.tvmc import main, runner
from tvm.driver.tvmc.image import load_image
from tvm.driver.tvmc.model import TVMCPackage
from tvm.driver.tvmc.result_utils import get_top_results

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "demo")
MODEL, PHOTO, LABELS = (os.path.join(HERE, n) for n in ("mobilenet_v2.onnx", "chelsea.png", "labels.txt"))
# Both packages run in turns, so that other work on the machine affects both.
ROUNDS, REPEATS = 5, 10


def tvmc(*words: str) -> None:
    """Run a command of tvmc as a shell would."""
    print("tvmc " + shlex.join(os.path.basename(w) if os.path.isabs(w) else w for w in words), flush=True)
    code = main._main(list(words))
    if code:
        sys.exit(code)


def run(package: str, data: np.ndarray) -> tuple[np.ndarray, list[int], list[float]]:
    """Return the scores of a photo, the five best classes, and the seconds of each run."""
    result = runner.run_module(
        TVMCPackage(package), "cpu", inputs={"data": data}, benchmark=True, repeat=REPEATS, number=1
    )
    places, _ = get_top_results(result, 5)
    return result.get_output("output_0"), [int(p) for p in places], list(result.times.results)


def compare(untuned: str, tuned: str) -> None:
    """Time both packages in turns, and compare the predictions."""
    data = load_image(PHOTO, [1, 3, 224, 224], "float32")
    seconds: dict[str, list[float]] = {untuned: [], tuned: []}
    found = {}
    for _ in range(ROUNDS):
        for package in seconds:
            scores, places, times = run(package, data)
            found[package] = scores, places
            seconds[package] += times
    names = runner.read_labels(LABELS)
    for package, times in seconds.items():
        best = names[found[package][1][0]]
        print(f"{os.path.basename(package):12s} {statistics.median(times) * 1e3:8.3f} ms   {best}")
    before, after = (statistics.median(times) for times in seconds.values())
    print(f"tuned / untuned: {after / before:.3f}")
    (plain, order), (other, new_order) = found.values()
    scale = float(np.abs(plain).max())
    if order != new_order or not np.allclose(other, plain, rtol=1e-3, atol=1e-3 * scale):
        sys.exit(f"the predictions differ: {order} without records, {new_order} with them")
    print("the predictions are the same:", ", ".join(names[place] for place in order[:3]))


def run_all() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="?", default=MODEL)
    parser.add_argument("--time-budget", default="1m")
    parser.add_argument("--trials", default="1000")
    parser.add_argument("--tasks", default="all")
    parser.add_argument("--records", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        records = arguments.records or os.path.join(folder, "records.json")
        untuned, tuned = os.path.join(folder, "untuned.tar"), os.path.join(folder, "tuned.tar")
        # An empty record file fixes the dynamic batch to 1, as for tuning.
        nothing = os.path.join(folder, "no_records.json")
        open(nothing, "w").close()
        tvmc("compile", "--target", "llvm", "--tuning-records", nothing, "--output", untuned, arguments.model)
        tvmc("run", "--inputs", PHOTO, "--labels", LABELS, "--print-time", untuned)
        tvmc("tune", "--target", "llvm", "--output", records, "--time-budget", arguments.time_budget, "--trials",
             arguments.trials, "--tasks", arguments.tasks, arguments.model)  # fmt: skip
        tvmc("compile", "--target", "llvm", "--tuning-records", records, "--output", tuned, arguments.model)
        tvmc("run", "--inputs", PHOTO, "--labels", LABELS, "--print-time", tuned)
        compare(untuned, tuned)


if __name__ == "__main__":
    run_all()
