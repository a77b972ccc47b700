"""The virtual machine over several devices: marks within regions, the copies counted."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.relay import random_graphs, two_devices
from tvm import relay
from tvm.runtime.vm import VirtualMachine
from tvm.testing import requires_opencl

on = relay.annotation.on_device
BOTH = {"cpu": "llvm", "opencl": "opencl"}


def flat(value) -> list[np.ndarray]:
    return [value.numpy()] if hasattr(value, "numpy") else [part for field in value for part in flat(field)]


def check(mod: tvm.IRModule, values, machine: VirtualMachine) -> int:
    """Run twice beside the interpreter; how often one run copied."""
    want = flat(relay.create_executor("debug", mod).evaluate()(*values))
    before = machine.module["get_num_copies"]()
    for _ in range(2):
        assert not random_graphs.close(flat(machine.run(*values)), want)
    return (machine.module["get_num_copies"]() - before) // 2


# How often a run copies: the values that change devices, and the results that were computed on the second one.
@pytest.mark.parametrize("name, copies", [("image", 3 + 1), ("tuple", 4 + 2), ("ping pong", 4)])
@requires_opencl
def test_models_run_on_the_cpu_and_opencl(name, copies, rng):
    mod = relay.transform.InferType()(two_devices.MODELS[name][0]("opencl"))
    values = [rng.standard_normal([int(d) for d in p.checked_type.shape]).astype("float32") for p in mod["main"].params]
    machine = VirtualMachine(relay.vm.compile(mod, BOTH), [tvm.cpu(), tvm.opencl()])
    assert check(mod, values, machine) == copies


@pytest.mark.parametrize("case", range(4))
@requires_opencl
def test_random_graphs_run_on_the_cpu_and_opencl(case, seed):
    number = seed * 1000 + 700 + case
    mod, values = random_graphs.graph(number)
    marked = two_devices.mark_at_random(mod, np.random.default_rng(number), ("cpu", "opencl"))
    machine = VirtualMachine(relay.vm.compile(marked, BOTH), [tvm.cpu(), tvm.opencl()])
    check(relay.transform.InferType()(marked), values, machine)


@requires_opencl
def test_a_loop_changes_devices_at_every_step_at_any_size(rng, tmp_path):
    any_rows = relay.TensorType((relay.Any(), 4))
    step, k, y = relay.GlobalVar("step"), relay.var("k", shape=(), dtype="int32"), relay.Var("y", any_rows)
    new = on(relay.nn.relu(on(relay.tanh(y), "cpu") * relay.const(2.0)), "opencl")
    body = relay.If(k > relay.const(0), step(k - relay.const(1), new), y)
    mod = tvm.IRModule({step: relay.Function([k, y], body, any_rows)})
    n, x = relay.var("n", shape=(), dtype="int32"), relay.Var("x", any_rows)
    mod["main"] = relay.Function([n, x], step(n, x))
    exe = relay.vm.compile(mod, ["llvm", "opencl"])
    exe.mod.export_library(tmp_path / "lib.so")
    machine = VirtualMachine(tvm.runtime.load_module(str(tmp_path / "lib.so")), [tvm.opencl(), tvm.cpu()])
    for rows, steps in ((3, 2), (0, 1), (5, 4)):
        values = [np.int32(steps), rng.standard_normal((rows, 4)).astype("float32")]
        assert check(mod, values, machine) == 2 * steps


def test_marks_of_the_only_device_change_nothing_and_others_want_a_target(rng):
    x = relay.var("x", shape=(3,))
    plain = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], relay.exp(x) + x)), "llvm")
    mod = tvm.IRModule.from_expr(relay.Function([x], on(relay.exp(x), "cpu") + x))
    assert relay.vm.compile(mod, "llvm").bytecode == plain.bytecode
    mod = tvm.IRModule.from_expr(relay.Function([x], on(relay.exp(x), "cuda") + x))
    with pytest.raises(tvm.TVMError, match=r"on_device annotation of the model requires cuda, but there is no target"):
        relay.vm.compile(mod, "llvm")
