"""``python -m tests.cuda_emulator tests.relay.backend.vm_on_cuda``: programs of unknown sizes, with a loop and with
sizes that data decide on, by the virtual machine on a CUDA device, against the machine on the CPU."""

from __future__ import annotations

import os

import numpy as np

import tvm
from tests import cuda_emulator
from tvm import relay

TARGET = tvm.target.Target("cuda -arch=sm_80", host="llvm")


def floats(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def network():
    x = relay.var("x", shape=(relay.Any(), relay.Any()))
    hidden = relay.nn.relu(relay.nn.dense(relay.reshape(x, (-1, 8)), relay.const(floats(16, 8))))
    table = relay.nn.dense(hidden, relay.const(floats(8, 16)))
    main = relay.Function([x], relay.nn.softmax(relay.transpose(table)))
    return tvm.IRModule.from_expr(main), [[floats(4, 6)], [floats(1, 8)], [floats(40, 5)]]


def loop():
    """As many doublings as the input says."""
    mod, step = tvm.IRModule(), relay.GlobalVar("step")
    left, x = relay.var("left", shape=(), dtype="int32"), relay.var("x", shape=(relay.Any(),))
    again = step(left - relay.const(1), relay.concatenate([x, x + relay.const(1.0)], 0))
    body = relay.If(left > relay.const(0), again, x)
    mod[step] = relay.Function([left, x], body, relay.TensorType((relay.Any(),)))
    n, y = relay.var("n", shape=(), dtype="int32"), relay.var("y", shape=(relay.Any(),))
    mod["main"] = relay.Function([n, y], step(n, y))
    return mod, [[np.int32(3), floats(2)], [np.int32(0), floats(5)]]


def chosen():
    """The elements above zero: how many there are is known when they were looked at."""
    x = relay.var("x", shape=(relay.Any(),))
    places = relay.reshape(relay.argwhere(x > relay.const(0.0)), (-1,))
    main = relay.Function([x], relay.take(x, places) * relay.const(2.0))
    return tvm.IRModule.from_expr(main), [[floats(9)], [floats(70)]]


def check_replays() -> None:
    """Runs that are the same but for the content of their input are replayed as graphs, also between runs of other
    sizes; what a loop decides on between kernels is looked at again in every run."""
    device = tvm.cuda(0)
    for made, least in ((network, 1), (loop, 0)):
        mod, runs = made()
        machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, TARGET), device)
        wanted = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
        inputs = [[tvm.nd.array(a, device) for a in arrays] for arrays in runs]
        for turn in range(6):
            for arrays, given in zip(runs, inputs):
                content = arrays[-1] + np.float32(turn)
                given[-1].copyfrom(content)
                machine.set_input("main", *given)
                machine.invoke_stateful("main")
                (got,) = machine.get_outputs()
                want = wanted.run(*[tvm.nd.array(a) for a in [*arrays[:-1], content]])
                np.testing.assert_allclose(got.numpy(), want.numpy(), 1e-5, 1e-5)
        graphs, replays = machine.module["graph_capture"](), machine.module["get_num_replays"]()
        assert graphs >= least and replays >= 2 * least, (made.__name__, graphs, replays)
        # Without captures every kernel is called.
        assert machine.module["graph_capture"](False) == 0
        machine.invoke_stateful("main")
        assert machine.module["get_num_replays"]() == 0
        np.testing.assert_allclose(machine.get_outputs()[0].numpy(), want.numpy(), 1e-5, 1e-5)
    print("replays is right", flush=True)


def main() -> None:
    if os.environ.get("TVM_CUDA_EMULATED"):
        cuda_emulator.install()
    for made in (network, loop, chosen):
        mod, runs = made()
        wanted = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, "llvm"), tvm.cpu())
        device = tvm.cuda(0)
        machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(mod, TARGET), device)
        for arrays in runs:
            got = machine.run(*[tvm.nd.array(a, device) for a in arrays])
            assert got.device == device, got.device
            np.testing.assert_allclose(got.numpy(), wanted.run(*map(tvm.nd.array, arrays)).numpy(), 1e-5, 1e-5)
        print(made.__name__, "is right", flush=True)
    check_replays()


if __name__ == "__main__":
    main()
