"""Tuning on the GPU of this machine: trials per second, failures, and the gain over the choice without tuning.

    python -m benchmarks.gpu.tuning [--target cuda] [--dtype float32] [--seconds 60] [--records tuning.json]

The tasks are layers of ResNet-50 and of BERT with 128 tokens; the outputs of all leaders are compared with the CPU.
"""

from __future__ import annotations

import argparse
import collections
import time

from ..harness import save
from .turns import wait_for_turn

T = "TENSOR"


def _conv(dtype: str, channels: int, size: int, filters: int, window: int, stride: int = 1) -> tuple:
    rest = ((stride, stride), (window // 2,) * 4, (1, 1), "float32")
    if dtype == "float32":
        data, kernel = (T, (1, channels, size, size), dtype), (T, (filters, channels, window, window), dtype)
        return ("conv2d_nchw.cuda", (data, kernel, *rest))
    data, kernel = (T, (1, size, size, channels), dtype), (T, (window, window, channels, filters), dtype)
    return ("conv2d_nhwc.gpu", (data, kernel, *rest))


def layers(dtype: str) -> list[tuple[tuple, int]]:
    """Return tasks, and how often a model computes each."""
    first = 3 if dtype == "float32" else 4
    left, right = (T, (12, 128, 64), dtype), (T, (12, 128, 64), dtype)
    return [
        (_conv(dtype, first, 224, 64, 7, 2), 1),
        (_conv(dtype, 64, 56, 64, 3), 3),
        (_conv(dtype, 128, 28, 128, 3), 4),
        (_conv(dtype, 256, 14, 256, 3), 6),
        (_conv(dtype, 512, 7, 512, 3), 3),
        (_conv(dtype, 256, 14, 1024, 1), 6),
        (_conv(dtype, 1024, 14, 256, 1), 5),
        (("dense_small_batch.gpu", ((T, (1, 2048), dtype), (T, (1000, 2048), dtype), None, "float32")), 1),
        (("dense_large_batch.gpu", ((T, (128, 768), dtype), (T, (3072, 768), dtype), None, "float32")), 12),
        (("batch_matmul.cuda", (left, right, None, "float32", False, True)), 12),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--records", default="tuning.json")
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32")
    parser.add_argument("--json", help="JSON file for the results")
    parser.add_argument("--min-repeat-ms", type=int, default=100)
    arguments = parser.parse_args()
    import tvm
    from tvm import autotvm
    from tvm.autotvm.measure.measure import MeasureErrorNo
    from tvm.autotvm.search import local_measure_option
    from tvm.autotvm.task import relay_integration  # noqa: F401  (registers the templates)
    from tvm.driver.tvmc.tuning_display import display_for
    from tvm.tuning import TuningOptions, tune

    target = tvm.target.Target(arguments.target)
    tasks = []
    for (name, args), count in layers(arguments.dtype):
        task = autotvm.task.create(name, args, target)
        task.count = count
        tasks.append(task)
    wait_for_turn()
    begin = time.monotonic()
    option = local_measure_option(target, min_repeat_ms=arguments.min_repeat_ms)
    searches = [task.start_search(measure_option=option) for task in tasks]
    options = TuningOptions(arguments.records, trials=None, seconds=arguments.seconds)
    tuned = tune(searches, options, display_for(tasks), begin=begin)
    spent = time.monotonic() - begin
    rows = list(autotvm.record.load_from_file(arguments.records))
    errors = collections.Counter(MeasureErrorNo(result.error_no).name for _, result in rows)
    devices = {str((inp.made_on or {}).get("device")) for inp, result in rows if result.error_no == 0}
    print(f"{len(rows)} records in {spent:.0f} s, {len(rows) / spent:.1f} a second, on {', '.join(sorted(devices))}")
    print("results: " + ", ".join(f"{name} {count}" for name, count in errors.most_common()))
    if arguments.json:
        found = [{"task": task.title, "trials": task.trials,
                  "untuned_us": task.baseline_cost and task.baseline_cost * 1e6,
                  "best_us": task.cost and task.cost * 1e6} for task in tuned]  # fmt: skip
        save(arguments.json, {"records": len(rows), "seconds": spent, "results": dict(errors), "tasks": found})


if __name__ == "__main__":
    main()
