"""Tasks are known by logical shapes: the same on vectors of every width, and each is the kernel of its model."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import autotvm, relay
from tvm.contrib import graph_executor


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).uniform(-0.5, 0.5, shape).astype("float32")


def convolutions() -> tvm.IRModule:
    """Odd channels, groups that are merged, a depthwise one and a product of two activations."""
    x = relay.var("data", shape=(1, 3, 18, 18))
    y = relay.nn.relu(relay.nn.conv2d(x, relay.const(numbers(24, 3, 5, 5)), padding=(2, 2)))
    y = relay.nn.conv2d(y, relay.const(numbers(24, 1, 3, 3)), padding=(1, 1), groups=24)
    y = relay.nn.relu(relay.nn.conv2d(y, relay.const(numbers(32, 24, 1, 1))))
    y = relay.nn.relu(relay.nn.conv2d(y, relay.const(numbers(32, 4, 3, 3)), padding=(1, 1), groups=8))
    y = relay.reshape(y, (1, 32, 324))
    y = relay.nn.batch_matmul(y, y)
    return tvm.IRModule.from_expr(relay.Function([x], y))


WANTED = {
    ("conv2d_NCHWc.x86", (1, 3, 18, 18), (24, 3, 5, 5)),
    ("depthwise_conv2d_NCHWc.x86", (1, 24, 18, 18), (24, 1, 3, 3)),
    ("conv2d_NCHWc.x86", (1, 24, 18, 18), (32, 24, 1, 1)),
    ("group_conv2d_nchw.x86", (1, 32, 18, 18), (32, 4, 3, 3)),
    ("batch_matmul.x86", (1, 32, 324), (1, 32, 324)),
}


@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell", "x86-64-v2"])
def test_workloads_are_the_same_on_vectors_of_every_width(cpu):
    tasks = autotvm.task.extract_from_program(convolutions(), {}, f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}")
    assert {(t.name, t.args[0][1], t.args[1][1]) for t in tasks} == WANTED
    flops = {t.name: t.flop for t in tasks if t.name != "conv2d_NCHWc.x86"}
    assert flops == {
        "depthwise_conv2d_NCHWc.x86": 2 * 24 * 18 * 18 * 9,
        "group_conv2d_nchw.x86": 2 * 32 * 18 * 18 * 4 * 9,
        "batch_matmul.x86": 2 * 32 * 32 * 324,
    }


def test_operators_in_groups_belong_to_conv2d():
    tasks = autotvm.task.extract_from_program(convolutions(), {}, "llvm", ops=["nn.batch_matmul"])
    assert [t.name for t in tasks] == ["batch_matmul.x86"]
    tasks = autotvm.task.extract_from_program(convolutions(), {}, "llvm", ops=[relay.op.get("nn.conv2d")])
    assert len(tasks) == 4 and "group_conv2d_nchw.x86" in {t.name for t in tasks}


def arguments_of(mod: tvm.IRModule) -> np.ndarray:
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("data", np.random.default_rng(0).uniform(-1, 1, (1, 3, 18, 18)).astype("float32"))
    module.run()
    return module.get_output(0).numpy()


def test_any_configuration_takes_the_place_of_the_pick():
    mod = convolutions()
    plain = arguments_of(mod)
    tasks = autotvm.task.extract_from_program(mod, {}, "llvm")
    result = autotvm.MeasureResult((1e-6,), 0, 1.0, 1.0)
    records = [
        (autotvm.MeasureInput(t.target, t, t.config_space.get(t.config_space.get_rand_index())), result) for t in tasks
    ]
    history = autotvm.apply_history_best(records)
    with history:
        got = arguments_of(mod)
        assert [use is not None for use in history.uses.values()] == [True] * 5, [r[0].config for r in records]
    np.testing.assert_allclose(got, plain, rtol=1e-4, atol=1e-3 * float(np.abs(plain).max()))


def test_groups_that_fit_no_block_are_refused_in_words():
    args = (("TENSOR", (1, 9, 8, 8), "float32"), ("TENSOR", (9, 3, 3, 3), "float32"), (1, 1), (1, 1, 1, 1), (1, 1), 3,
            "float32")  # fmt: skip
    with pytest.raises(tvm.TVMError, match="there is no schedule to tune"):
        autotvm.task.create("group_conv2d_nchw.x86", args, "llvm")
