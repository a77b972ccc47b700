"""Compile a ResNet-18 in Relay, run it, save it, load it and run it again.

python relay_quick_start.py [IMAGE_SIZE]
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings

import numpy as np

import tvm
from tvm import relay
from tvm.contrib import graph_executor, graph_runtime
from tvm.relay import testing

size = int(sys.argv[1]) if len(sys.argv) > 1 else 224
batch_size, num_classes = 1, 1000
image_shape = (3, size, size)
data_shape, out_shape = (batch_size, *image_shape), (batch_size, num_classes)

# The network, with random weights.
mod, params = testing.resnet.get_workload(
    num_layers=18, batch_size=batch_size, image_shape=image_shape, num_classes=num_classes
)
print(mod.astext(show_meta_data=False))

# relay.build fuses operators, folds constants and plans memory.
target = tvm.target.Target("llvm")
with tvm.transform.PassContext(opt_level=3):
    lib = relay.build(mod, target, params=params)

# Run.
dev = tvm.cpu()
data = np.random.default_rng(0).uniform(-1, 1, size=data_shape).astype("float32")
module = graph_executor.GraphModule(lib["default"](dev))
module.set_input("data", data)
module.run()
out = module.get_output(0, tvm.nd.empty(out_shape)).numpy()
print(out.flatten()[0:10])
print(module.benchmark(dev, number=1, repeat=3))

# One file contains the code, the graph and the weights.
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "deploy_lib.tar")
    lib.export_library(path)
    loaded = tvm.runtime.load_module(path)
    module = graph_executor.GraphModule(loaded["default"](dev))
    module.run(data=tvm.nd.array(data))
    tvm.testing.assert_allclose(module.get_output(0).numpy(), out, atol=1e-5)

# The same with the interface of older releases.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    with relay.build_config(opt_level=3):
        graph, library, weights = relay.build_module.build(mod, target, params=params)
    module = graph_runtime.create(graph, library, dev)
module.set_input("data", tvm.nd.array(data))
module.set_input(**weights)
module.run()
tvm.testing.assert_allclose(module.get_output(0).numpy(), out, atol=1e-5)
print("the loaded package and the older interface return the same output")
