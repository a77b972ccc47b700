"""Sample tasks and records for tests of the tuners."""

from __future__ import annotations

import random
import time
from typing import Any

from .. import autotvm, te
from ..autotvm.measure.measure import MeasureInput, MeasureResult, Runner
from ..target import Target


class DummyRunner(Runner):
    """A runner that returns random times without measuring."""

    def __init__(self):
        super().__init__(1, 1)

    def run(self, measure_inputs, build_results) -> list[MeasureResult]:
        return [MeasureResult((random.random() + 1e-3,), 0, 0.2, time.time()) for _ in measure_inputs]

    def get_build_kwargs(self) -> dict[str, Any]:
        return {}


@autotvm.template("testing/matmul")
def matmul(n: int, l: int, m: int, dtype: str):
    """A matmul template with two split knobs."""
    a, b = te.placeholder((n, l), name="A", dtype=dtype), te.placeholder((l, m), name="B", dtype=dtype)
    k = te.reduce_axis((0, l), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    k = s[c].op.reduce_axis[0]
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(yo, xo, k, yi, xi)
    return s, [a, b, c]


@autotvm.template("testing/bad_matmul")
def bad_matmul(n: int, l: int, m: int, dtype: str):
    """Like ``matmul``, but raises an error for targets other than llvm."""
    if "bad_device" in Target.current().keys:
        raise ValueError("this template supports the target llvm only")
    return matmul(n, l, m, dtype)


def get_sample_task(n: int = 128) -> tuple[Any, Target]:
    """Return a task and its target."""
    target = Target("llvm")
    return autotvm.task.create("testing/matmul", args=(n, n, n, "float32"), target=target), target


def get_sample_records(n: int) -> list[tuple[MeasureInput, MeasureResult]]:
    """Return records of the first ``n`` configurations, each slower than the previous one."""
    task, target = get_sample_task()
    space = task.config_space
    inputs = [MeasureInput(target, task, space.get(i % len(space))) for i in range(n)]
    return [(inp, MeasureResult((i + 1,), 0, i, time.time())) for i, inp in enumerate(inputs)]
