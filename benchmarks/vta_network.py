"""ResNet-18 in integers with random weights on the accelerator, the rest of the network on its host.

    python -m benchmarks.vta_network

The command compares the outputs with those of the CPU and prints the statistics of the cycle-level simulator.
"""

from __future__ import annotations

import numpy as np

import tvm
import vta
from tvm import relay, rpc
from tvm.contrib import graph_executor
from vta.testing import simulator
from vta.top import graph_pack

# The bits that the accumulators lose where the network narrows them to int8.
FIRST_SHIFT, SHIFT, SHORTCUT_SHIFT = 8, 9, 7


class Builder:
    """Layers with random weights."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)

    def weights(self, *shape: int) -> relay.Expr:
        return relay.const(self.rng.integers(-64, 64, shape).astype("int8"))

    def conv(self, value, inputs: int, outputs: int, kernel: int, stride: int):
        attributes = {"channels": outputs, "kernel_size": (kernel, kernel), "padding": (kernel // 2, kernel // 2)}
        weight = self.weights(outputs, inputs, kernel, kernel)
        made = relay.nn.conv2d(value, weight, strides=(stride, stride), out_dtype="int32", **attributes)
        return relay.add(made, relay.const(self.rng.integers(-4000, 4000, (outputs, 1, 1)).astype("int32")))

    def block(self, value, inputs: int, outputs: int, stride: int):
        shortcut = value if stride == 1 else narrow(self.conv(value, inputs, outputs, 1, stride), SHORTCUT_SHIFT)
        main = narrow(relay.nn.relu(self.conv(value, inputs, outputs, 3, stride)), SHIFT)
        wide = relay.left_shift(relay.cast(shortcut, "int32"), relay.const(4, "int32"))
        return narrow(relay.nn.relu(relay.add(self.conv(main, outputs, outputs, 3, 1), wide)), SHIFT)


def narrow(value, bits: int):
    value = relay.clip(relay.right_shift(value, relay.const(bits, "int32")), -127, 127)
    return relay.annotation.stop_fusion(relay.cast(value, "int8"))


def resnet18(size: int = 224, seed: int = 0) -> relay.Function:
    made = Builder(seed)
    x = relay.var("x", shape=(1, 3, size, size), dtype="int8")
    value = narrow(relay.nn.relu(made.conv(x, 3, 64, 7, 2)), FIRST_SHIFT)
    value = relay.nn.max_pool2d(value, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    channels = 64
    for outputs in (64, 128, 256, 512):
        for block in range(2):
            value = made.block(value, channels, outputs, 2 if outputs > 64 and block == 0 else 1)
            channels = outputs
    mean = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.cast(value, "int32")))
    return relay.Function([x], relay.nn.dense(relay.cast(mean, "int8"), made.weights(1000, 512), out_dtype="int32"))


def outputs(function: relay.Function, target, device, data: np.ndarray) -> np.ndarray:
    lib = relay.build(tvm.IRModule.from_expr(function), target=target)
    module = graph_executor.GraphModule(lib["default"](device))
    module.set_input("x", data)
    module.run()
    return module.get_output(0).numpy()


def main() -> None:
    function = resnet18()
    data = np.random.default_rng(1).integers(-128, 128, (1, 3, 224, 224)).astype("int8")
    with tvm.transform.PassContext(opt_level=3):
        wanted = outputs(function, "llvm", tvm.cpu(), data)
    with vta.Environment({"TARGET": "tsim"}) as env, vta.build_config(opt_level=3):
        vta.reconfig_runtime(rpc.LocalSession())
        packed = graph_pack(function, env.BATCH, env.BLOCK_OUT, env.WGT_WIDTH)
        simulator.clear_stats()
        got = outputs(packed, env.target, tvm.ext_dev(0), data)
    np.testing.assert_array_equal(got, wanted)
    for name, value in simulator.stats().items():
        print(f"{name:16} {value:>12,}")
    print(f"utilization      {simulator.utilization():>12.1%}; the outputs are those of the CPU")


if __name__ == "__main__":
    main()
