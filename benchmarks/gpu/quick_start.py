"""The quick start of Relay on a GPU as in the guides, and the same network on the CPU for comparison.

python -m benchmarks.gpu.quick_start [--target cuda] [--size 224] [--layers 18]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from typing import Any

import numpy as np


def on_the_gpu(mod: Any, params: dict, data: np.ndarray, out_shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs of the network after building it, and after saving and loading it."""
    import tvm
    from tvm import relay
    from tvm.contrib import graph_runtime

    target = tvm.target.cuda()
    with relay.build_config(opt_level=3):
        graph, lib, params = relay.build_module.build(mod, target, params=params)
    ctx = tvm.gpu()
    module = graph_runtime.create(graph, lib, ctx)
    module.set_input("data", data)
    module.set_input(**params)
    module.run()
    out = module.get_output(0, tvm.nd.empty(out_shape)).asnumpy()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "deploy_lib.tar")
        lib.export_library(path)
        weights = bytearray(relay.save_param_dict(params))
        module = graph_runtime.create(graph, tvm.runtime.load_module(path), ctx)
        module.load_params(weights)
        module.run(data=tvm.nd.array(data))
        return out, module.get_output(0).asnumpy()


def on_the_cpu(mod: Any, params: dict, data: np.ndarray) -> np.ndarray:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    with tvm.transform.PassContext(opt_level=3):
        library = relay.build(mod, "llvm", params=params)
    module = graph_executor.GraphModule(library["default"](tvm.cpu(0)))
    module.set_input("data", data)
    module.run()
    return module.get_output(0).numpy()


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda", choices=["cuda", "opencl"])
    parser.add_argument("--size", type=int, default=224, help="height and width of the image")
    parser.add_argument("--layers", type=int, default=18, help="layers of the ResNet")
    arguments = parser.parse_args(argv)
    import tvm
    from tvm import relay

    if arguments.target == "opencl":
        # The names of the guides, `target.cuda` and `tvm.gpu`, mean this GPU.
        tvm.target.cuda = lambda *_: tvm.target.Target("opencl")
        tvm.gpu = tvm.cl
    shape = (3, arguments.size, arguments.size)
    layers = arguments.layers
    mod, params = relay.testing.resnet.get_workload(1, 1000, num_layers=layers, image_shape=shape)
    data = np.random.default_rng(0).uniform(-1, 1, (1, *shape)).astype("float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        found = on_the_gpu(mod, dict(params), data, (1, 1000))
    wanted = on_the_cpu(mod, params, data)
    for name, out in zip(("built", "saved and loaded"), found):
        error = float(np.linalg.norm(out - wanted) / np.linalg.norm(wanted))
        print(f"{name}: {out.flatten()[:4]}, {error:.1e} from the CPU")
        if not error < 1e-4:
            raise SystemExit(f"{name}: the outputs of the GPU and the CPU differ (relative error {error:.2g})")


if __name__ == "__main__":
    main()
