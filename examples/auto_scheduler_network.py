"""Tune a network with AutoScheduler: extract its tasks, tune them together, compile with the records.

    python examples/auto_scheduler_network.py [--network resnet-50] [--layout NHWC] [--image 224] [--trials 200]

Each task is a kernel of the network; its weight is the number of calls. The task scheduler gives each round to the task
with the largest expected gain. The search converges with about 800 trials for each task.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np

import tvm
import tvm.relay.testing
from tvm import auto_scheduler, relay
from tvm.contrib import graph_executor


def get_network(name, batch_size, layout="NHWC", dtype="float32", image=224):
    """Return the module of a network, its weights, and the shapes of its input and output."""
    if layout not in ("NHWC", "NCHW"):
        raise ValueError(f"the layout is NHWC or NCHW, got {layout}")
    image_shape = (image, image, 3) if layout == "NHWC" else (3, image, image)
    input_shape, output_shape = (batch_size, *image_shape), (batch_size, 1000)
    if name.startswith("resnet-"):
        mod, params = relay.testing.resnet.get_workload(
            num_layers=int(name.split("-")[1]),
            batch_size=batch_size,
            layout=layout,
            dtype=dtype,
            image_shape=image_shape,
        )
    elif name == "mobilenet":
        mod, params = relay.testing.mobilenet.get_workload(
            batch_size=batch_size, layout=layout, dtype=dtype, image_shape=image_shape
        )
    elif name == "squeezenet_v1.1":
        mod, params = relay.testing.squeezenet.get_workload(
            version="1.1", batch_size=batch_size, dtype=dtype, image_shape=image_shape
        )
    elif name == "mlp":
        mod, params = relay.testing.mlp.get_workload(
            batch_size=batch_size, dtype=dtype, image_shape=image_shape, num_classes=1000
        )
    else:
        raise ValueError(f"unknown network '{name}'")
    return mod, params, input_shape, output_shape


def run(lib, dev, data) -> tuple[np.ndarray, graph_executor.GraphModule]:
    module = graph_executor.GraphModule(lib["default"](dev))
    module.set_input("data", data)
    module.run()
    return module.get_output(0).numpy(), module


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--network", default="resnet-50")
    parser.add_argument("--layout", default="NHWC")
    parser.add_argument("--image", type=int, default=224)
    parser.add_argument("--trials", type=int, default=200)
    arguments = parser.parse_args()
    network, batch_size, layout, dtype = arguments.network, 1, arguments.layout, "float32"
    target = tvm.target.Target("llvm")
    log_file = f"{network}-{layout}-B{batch_size}-{target.kind.name}.json"

    print("Get model...")
    mod, params, input_shape, output_shape = get_network(
        network, batch_size, layout, dtype=dtype, image=arguments.image
    )
    print("Extract tasks...")
    tasks, task_weights = auto_scheduler.extract_tasks(mod["main"], params, target)
    for idx, task in enumerate(tasks):
        print(f"========== Task {idx}  (workload key: {task.workload_key}) ==========")
        print(task.compute_dag)

    print("Begin tuning...")
    tuner = auto_scheduler.TaskScheduler(tasks, task_weights)
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=arguments.trials,
        runner=auto_scheduler.LocalRunner(repeat=10, enable_cpu_cache_flush=True),
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    )
    tuner.tune(tune_option)

    print("Compile...")
    with auto_scheduler.ApplyHistoryBest(log_file):
        with tvm.transform.PassContext(opt_level=3, config={"relay.backend.use_auto_scheduler": True}):
            lib = relay.build(mod, target=target, params=params)
    dev = tvm.device(str(target), 0)
    data_tvm = tvm.nd.array(np.random.uniform(size=input_shape).astype(dtype))
    found, module = run(lib, dev, data_tvm)
    assert found.shape == output_shape
    expected, _ = run(relay.build(mod, target=target, params=params), dev, data_tvm)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    print("Evaluate inference time cost...")
    print(module.benchmark(dev, repeat=3, min_repeat_ms=500))
    print(f"{network} with the tuned schedules returns the same output as the untuned network")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
        os.chdir(os.path.dirname(folder))
