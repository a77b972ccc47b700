"""Tuning on the GPU of this machine: trials a second, what fails, and what is gained over the choice without tuning.

    python -m benchmarks.gpu.tuning [--target cuda] [--seconds 60] [--records tuning.json]

The tasks are layers of ResNet-50 and of a BERT of 128 words; all leaders are compared with the CPU.
"""

from __future__ import annotations

import argparse
import collections
import time

T, F = "TENSOR", "float32"


def _conv(channels: int, size: int, filters: int, window: int, stride: int = 1) -> tuple:
    pad = (window // 2,) * 4
    data, kernel = (T, (1, channels, size, size), F), (T, (filters, channels, window, window), F)
    return ("conv2d_nchw.cuda", (data, kernel, (stride, stride), pad, (1, 1), F))


# A task and how often the model computes it.
TASKS = [
    (_conv(3, 224, 64, 7, 2), 1),
    (_conv(64, 56, 64, 3), 3),
    (_conv(128, 28, 128, 3), 4),
    (_conv(256, 14, 256, 3), 6),
    (_conv(512, 7, 512, 3), 3),
    (_conv(256, 14, 1024, 1), 6),
    (_conv(1024, 14, 256, 1), 5),
    (("dense_small_batch.gpu", ((T, (1, 2048), F), (T, (1000, 2048), F), None, F)), 1),
    (("dense_large_batch.gpu", ((T, (128, 768), F), (T, (3072, 768), F), None, F)), 12),
    (("batch_matmul.cuda", ((T, (12, 128, 64), F), (T, (12, 128, 64), F), None, F, False, True)), 12),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--records", default="tuning.json")
    parser.add_argument("--min-repeat-ms", type=int, default=100)
    arguments = parser.parse_args()
    import tvm
    from tvm import autotvm
    from tvm.autotvm.measure.measure import MeasureErrorNo
    from tvm.autotvm.task import relay_integration  # noqa: F401  (registers the templates)
    from tvm.driver.tvmc.tuning import MANY_TRIALS, Settings, tune_all

    target = tvm.target.Target(arguments.target)
    tasks = []
    for (name, args), count in TASKS:
        task = autotvm.task.create(name, args, target)
        task.count = count
        tasks.append(task)
    begin = time.monotonic()
    tune_all(tasks, Settings(
        arguments.records, None, MANY_TRIALS, arguments.seconds, None, "xgb", 10, 1, arguments.min_repeat_ms, 10.0,
        True, begin))
    spent = time.monotonic() - begin
    rows = list(autotvm.record.load_from_file(arguments.records))
    errors = collections.Counter(MeasureErrorNo(result.error_no).name for _, result in rows)
    devices = {str((inp.made_on or {}).get("device")) for inp, result in rows if result.error_no == 0}
    print(f"{len(rows)} records in {spent:.0f} s, {len(rows) / spent:.1f} a second, on {', '.join(sorted(devices))}")
    print("results: " + ", ".join(f"{name} {count}" for name, count in errors.most_common()))


if __name__ == "__main__":
    main()
