"""Tuning tasks of a model, and the speeds of configurations, for the benchmarks of tuning."""

from __future__ import annotations

from typing import Any

import numpy as np


def model_tasks(path: str, target: str) -> list[Any]:
    """Return the AutoTVM tasks of an ONNX file."""
    import onnx

    from tvm import autotvm, relay
    from tvm.driver.tvmc.frontends import complete_shapes

    model = onnx.load(path)
    mod, params = relay.frontend.from_onnx(model, shape=complete_shapes(model, None)[0])
    return autotvm.task.extract_from_program(mod, params, target)


def measured(task: Any, indexes: list[int], option: dict[str, Any]) -> np.ndarray:
    """Measure configurations and return their speeds, 0 for configurations that fail."""
    from tvm import autotvm

    run = autotvm.measure.create_measure_batch(task, option)
    speeds = []
    for at in range(0, len(indexes), run.n_parallel):
        inputs = [autotvm.MeasureInput(task.target, task, task.config_space.get(i))
                  for i in indexes[at : at + run.n_parallel]]  # fmt: skip
        speeds += [1.0 / float(np.mean(r.costs)) if r.error_no == 0 else 0.0 for r in run(inputs)]
    return np.array(speeds)


__all__ = ["measured", "model_tasks"]
