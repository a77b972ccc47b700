"""Search a schedule for a convolution with bias and ReLU on an NVIDIA GPU.

    python examples/auto_scheduler_conv2d_cuda.py [--trials 10]

The layer is the last one of ResNet-50. Candidates are measured in worker processes, so that a fault costs only that
candidate. Without an NVIDIA GPU, the script prints that and ends.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

import tvm
from tvm import auto_scheduler, te, topi
from tvm.topi.testing import conv2d_nchw_python


@auto_scheduler.register_workload
def conv2d_layer(N, H, W, CO, CI, KH, KW, stride, padding):
    data = te.placeholder((N, CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
    bias = te.placeholder((1, CO, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    out = topi.nn.relu(conv + bias)
    return [data, kernel, bias, out]


def resume_search(task: auto_scheduler.SearchTask, log_file: str, trials: int) -> None:
    print("Resume search:")
    cost_model = auto_scheduler.XGBModel()
    cost_model.update_from_file(log_file)
    search_policy = auto_scheduler.SketchPolicy(
        task, cost_model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log_file)]
    )
    measure_ctx = auto_scheduler.LocalRPCMeasureContext(min_repeat_ms=300)
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=trials, runner=measure_ctx.runner, measure_callbacks=[auto_scheduler.RecordToFile(log_file)]
    )
    task.tune(tune_option, search_policy=search_policy)
    # The measuring processes end with their context.
    del measure_ctx


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=10)
    trials = parser.parse_args().trials
    if not tvm.cuda().exist:
        print("this machine has no NVIDIA GPU")
        return
    target = tvm.target.Target("cuda")
    N, H, W, CO, CI, KH, KW, strides, padding = 1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1)
    task = auto_scheduler.SearchTask(func=conv2d_layer, args=(N, H, W, CO, CI, KH, KW, strides, padding), target=target)
    print("Computational DAG:")
    print(task.compute_dag)

    log_file = "conv2d.json"
    if os.path.exists(log_file):
        os.remove(log_file)
    measure_ctx = auto_scheduler.LocalRPCMeasureContext(min_repeat_ms=300)
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        runner=measure_ctx.runner,
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
        verbose=2,
    )
    task.tune(tune_option)
    sch, args = task.apply_best(log_file)
    del measure_ctx
    print("Lowered TIR:")
    print(tvm.lower(sch, args, simple_mode=True))

    func = tvm.build(sch, args, target)
    data_np = np.random.uniform(size=(N, CI, H, W)).astype(np.float32)
    weight_np = np.random.uniform(size=(CO, CI, KH, KW)).astype(np.float32)
    bias_np = np.random.uniform(size=(1, CO, 1, 1)).astype(np.float32)
    out_np = np.maximum(conv2d_nchw_python(data_np, weight_np, strides, padding) + bias_np, 0.0)
    dev = tvm.cuda()
    arrays = [tvm.nd.array(x, device=dev) for x in (data_np, weight_np, bias_np)]
    out_tvm = tvm.nd.empty(out_np.shape, device=dev)
    func(*arrays, out_tvm)
    np.testing.assert_allclose(out_np, out_tvm.numpy(), rtol=1e-3)
    evaluator = func.time_evaluator(func.entry_name, dev, min_repeat_ms=500)
    print(f"Execution time of this operator: {np.median(evaluator(*arrays, out_tvm).results) * 1000:.3f} ms")

    print("Equivalent python schedule:")
    print(task.print_best(log_file, print_mode="schedule"))
    print("CUDA source code:")
    print(task.print_best(log_file, print_mode="cuda"))
    resume_search(task, log_file, max(trials // 2, 1))
    print("the convolution is correct")


if __name__ == "__main__":
    main()
