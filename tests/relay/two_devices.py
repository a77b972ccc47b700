"""Models over the CPU and a second device, compared with the interpreter, which knows no devices.

``python -m tests.relay.two_devices LIBRARY SEED`` runs them on the device "abacus" of a library. Its memory is the
host's, so that it runs code for the host, which checks that every kernel gets arrays of its own device.
"""

from __future__ import annotations

import itertools
import json
import sys

import numpy as np

import tvm
from tests.quick_code import quick_code
from tests.relay import random_graphs
from tvm import relay
from tvm.contrib import graph_executor
from tvm.contrib.debugger import debug_executor
from tvm.ir.visit import rewrite

on = relay.annotation.on_device


def mark_at_random(mod: tvm.IRModule, rng: np.random.Generator, devices: tuple[str, ...]) -> tvm.IRModule:
    """The module with marks on some of its calls."""

    def mark(node):
        if isinstance(node, relay.Call) and rng.random() < 0.4:
            return on(node, devices[int(rng.integers(len(devices)))])
        return None

    return tvm.IRModule.from_expr(rewrite(mod["main"], mark))


def image_model(second: str) -> tvm.IRModule:
    """A convolution on the second device between work on the CPU, with a skip connection around it."""
    rng = np.random.default_rng(5)
    x = relay.var("x", shape=(1, 8, 9, 9))
    weight = relay.const(rng.standard_normal((8, 8, 3, 3)).astype("float32") * 0.2)
    before = on(relay.nn.relu(x), "cpu")
    conv = on(relay.nn.relu(relay.nn.conv2d(before, weight, padding=1) + relay.const(0.5)), second)
    after = on(relay.nn.global_avg_pool2d(conv + before), "cpu")
    out = on(relay.nn.softmax(relay.nn.batch_flatten(after)), second)
    return tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([out, after])))


def tuple_model(second: str) -> tvm.IRModule:
    """Fields of a tuple made on one device and read on both; a parameter and a constant as results."""
    x, y = relay.var("x", shape=(4, 6)), relay.var("y", shape=(4, 6))
    parts = relay.split(on(relay.exp(x), second), 3, 1)
    joined = on(relay.concatenate(on(parts.astuple(), second), 0), "cpu")
    kept = on(relay.tanh(on(parts[1], second)), second)
    total = relay.sum(joined) + relay.sum(kept)
    one = relay.const(np.full((2,), 3.0, "float32"))
    return tvm.IRModule.from_expr(relay.Function([x, y], relay.Tuple([joined, kept, total, y, one])))


def ping_pong_model(second: str) -> tvm.IRModule:
    """A value that changes devices at every step, beside one that waits for the end."""
    x = relay.var("x", shape=(3, 5))
    first = value = on(relay.exp(x), "cpu")
    for step in range(4):
        value = on(relay.tanh(value) + first, second if step % 2 == 0 else "cpu")
    return tvm.IRModule.from_expr(relay.Function([x], value * first))


def network(second: str, image: tuple[int, int, int], layers: int) -> tuple[tvm.IRModule, dict]:
    """A residual network whose convolutions change devices at every third one, with its weights."""
    mod, params = relay.testing.resnet.get_workload(num_layers=layers, image_shape=image, num_classes=10)
    count = itertools.count()

    def mark(node):
        if isinstance(node, relay.Call) and getattr(node.op, "name", "") == "nn.conv2d":
            return on(node, (second, "cpu")[next(count) // 3 % 2])
        return None

    return tvm.IRModule.from_expr(rewrite(mod["main"], mark)), params


def check_devices(graph: dict) -> int:
    """Kernels read values of their own device, copies those of another; how many copies there are."""
    devices, rows, copies = graph["attrs"]["device_index"][1], graph["node_row_ptr"], 0
    for number, node in enumerate(graph["nodes"]):
        if node["op"] != "tvm_op":
            continue
        is_copy = node["attrs"]["func_name"] == "__copy"
        copies += is_copy
        for source, output, _ in node["inputs"]:
            same = devices[rows[source] + output] == devices[rows[number]]
            assert same != is_copy, (node["name"], source)
    return copies


def check_network(second: tvm.runtime.Device, target, folder, image=(3, 224, 224), layers=18) -> None:
    """The results of a network over two devices, as it is and exported, are those of the CPU alone."""
    kind = str(second).partition("(")[0]
    mod, params = network(kind, image, layers)
    x = np.random.default_rng(3).standard_normal((1, *image)).astype("float32")
    plain = relay.testing.resnet.get_workload(num_layers=layers, image_shape=image, num_classes=10)[0]
    alone = graph_executor.GraphModule(relay.build(plain, "llvm", params=params)["default"](tvm.cpu()))
    alone.run(data=x)
    lib = relay.build(mod, target={"cpu": "llvm", kind: target}, params=params)
    graph = json.loads(lib.get_graph_json())
    copies = check_devices(graph)
    assert copies >= layers // 3 and set(graph["attrs"]["device_index"][1]) == {1, second.device_type}
    path = str(folder / "network.so")
    lib.export_library(path)
    for made in (lib, tvm.runtime.load_module(path)):
        run = graph_executor.GraphModule(made["default"](second, tvm.cpu()))
        for times in (1, 2, 3):
            run.run(data=x)
            assert run.get_num_copies() == times * copies
        np.testing.assert_allclose(run.get_output(0).numpy(), alone.get_output(0).numpy(), rtol=1e-4, atol=1e-5)


# The model, and how often a run copies.
MODELS = {"image": (image_model, 3), "tuple": (tuple_model, 4), "ping pong": (ping_pong_model, 4)}


def check(mod: tvm.IRModule, values, second: tvm.runtime.Device, target, level: int = 3) -> graph_executor.GraphModule:
    """Build for both devices, run twice, compare; the copies that ran are those of the graph."""
    want = random_graphs.interpret(mod, values)
    with tvm.transform.PassContext(opt_level=level):
        lib = relay.build(mod, target={"cpu": "llvm", str(second).partition("(")[0]: target})
    graph = json.loads(lib.get_graph_json())
    copies = check_devices(graph)
    kinds = set(graph["attrs"]["device_index"][1])
    devices = [tvm.cpu(), second] if len(kinds) > 1 else [tvm.device(kinds.pop())] if kinds else [tvm.cpu()]
    run = graph_executor.GraphModule(lib["default"](*devices))
    for times in (1, 2):
        run.run(**{p.name_hint: v for p, v in zip(mod["main"].params, values)})
        assert run.get_num_copies() == times * copies
        problem = random_graphs.close([run.get_output(i).numpy() for i in range(run.get_num_outputs())], want)
        assert not problem, f"{problem}\n{mod}"
    return run


def check_model(name: str, second: tvm.runtime.Device, target) -> None:
    make, copies = MODELS[name]
    mod = relay.transform.InferType()(make(str(second).partition("(")[0]))
    rng = np.random.default_rng(9)
    values = [rng.standard_normal([int(d) for d in p.checked_type.shape]).astype("float32") for p in mod["main"].params]
    for level in (0, 3):
        run = check(mod, values, second, target, level)
        assert run.get_num_copies() == 2 * copies, (name, level, run.get_num_copies())


def check_random(number: int, second: tvm.runtime.Device, target) -> None:
    mod, values = random_graphs.graph(number)
    rng = np.random.default_rng(number)
    marked = mark_at_random(mod, rng, ("cpu", str(second).partition("(")[0]))
    check(relay.transform.InferType()(marked), values, second, target, (0, 3)[number % 2])


def check_debugger(second: tvm.runtime.Device, target) -> None:
    """Each node is reported under the device it runs on, and single nodes can be read."""
    mod = image_model(str(second).partition("(")[0])
    lib = relay.build(mod, target=[tvm.target.Target("llvm"), target])
    made = debug_executor.create(lib.get_graph_json(), lib.get_lib(), [tvm.cpu(), second])
    made.set_input("x", np.ones((1, 8, 9, 9), "float32"))
    made.set_input(**lib.get_params())
    devices = {call["Device"] for call in made.profile(rounds=1).calls}
    assert devices == {"cpu0", f"{second}".replace("(", "").replace(")", "")}, devices


def main(path: str, seed: int) -> None:
    tvm.runtime.load_device_library(path)
    second = tvm.device("abacus", 1)
    target = tvm.target.Target({"kind": "llvm", "target_device_type": second.device_type})
    for name in MODELS:
        check_model(name, second, target)
    for case in range(24):
        check_random(seed * 1000 + case, second, target)
    check_debugger(second, target)


if __name__ == "__main__":
    with quick_code("tests/relay/two_devices.py"):
        main(sys.argv[1], int(sys.argv[2]))
