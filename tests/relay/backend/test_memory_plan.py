"""Where results lie: shared, written over, joined without a copy; and the results stay right."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.relay.backend.from_relay import written_over
from tvm.relay.backend.memory_plan import Entry, Step, plan

rng = np.random.default_rng(11)


def weights(*shape):
    return relay.const(rng.standard_normal(shape).astype("float32") * 0.2)


def build(*outputs, level=3):
    body = outputs[0] if len(outputs) == 1 else relay.Tuple(outputs)
    mod = tvm.IRModule.from_expr(relay.Function(relay.free_vars(body), body))
    with tvm.transform.PassContext(opt_level=level):
        return mod, relay.build(mod, "llvm")


def run(lib, data, count=1):
    m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    for _ in range(2):
        # Twice: what was written over is made anew.
        m.run(x=data)
    return [m.get_output(i).numpy() for i in range(count)]


def check(*outputs):
    shape = [int(d) for d in relay.free_vars(outputs[0])[0].type_annotation.shape]
    data = rng.standard_normal(shape).astype("float32")
    mod, lib = build(*outputs)
    with tvm.transform.PassContext(opt_level=0):
        expected = relay.create_executor("debug", mod).evaluate()(data)
    expected = [expected] if len(outputs) == 1 else list(expected)
    for got, want in zip(run(lib, data, len(outputs)), expected):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-4)
    return lib


def layer(x, channels=16):
    return relay.nn.conv2d(x, weights(channels, 16, 3, 3), padding=1)


def test_chains_share_two_pieces():
    steps = [Step([], [0])] + [Step([i], [i + 1]) for i in range(5)]
    made = plan(steps, [Entry(100, i in (0, 5)) for i in range(6)], {})
    assert made.planned_bytes == 200 and made.unshared_bytes == 400
    assert "50 % saved" in made.summary()


def test_an_input_that_ends_is_written_over():
    steps = [Step([], [0]), Step([0], [1]), Step([1], [2], [1]), Step([2], [3], [2]), Step([3], [4])]
    made = plan(steps, [Entry(100, i in (0, 4)) for i in range(5)], {})
    assert made.planned_bytes == 100 and made.in_place == 2


def test_what_is_read_later_or_twice_is_not_written_over():
    steps = [Step([], [0]), Step([0], [1]), Step([1], [2], [1]), Step([1, 2], [3])]
    assert plan(steps, [Entry(8, i in (0, 3)) for i in range(4)], {}).in_place == 0
    steps = [Step([], [0]), Step([0], [1]), Step([1, 1], [2], [1]), Step([2], [3])]
    assert plan(steps, [Entry(8, i in (0, 3)) for i in range(4)], {}).in_place == 0


def test_inputs_and_results_are_never_written_over():
    steps = [Step([], [0]), Step([0], [1], [0]), Step([1], [2], [1])]
    assert plan(steps, [Entry(8, True) for _ in range(3)], {}).in_place == 0


def test_parts_lie_one_after_the_other_and_live_together():
    steps = [Step([], [0]), Step([0], [1]), Step([0], [2]), Step([1, 2], [3]), Step([3], [4]), Step([4], [5])]
    entries = [Entry(n, i in (0, 5)) for i, n in enumerate((64, 64, 128, 192, 64, 64))]
    made = plan(steps, entries, {1: (3, 0), 2: (3, 64)})
    assert [entries[i].offset for i in (1, 2, 3)] == [0, 64, 0]
    assert len({entries[i].storage for i in (1, 2, 3)}) == 1 and entries[4].storage != entries[3].storage
    assert made.sizes[entries[3].storage] == 192 and made.inside == 2


def test_only_inputs_read_element_for_element_may_be_written_over():
    a, b, c = (relay.var(n, shape=s) for n, s in (("a", (4, 8)), ("b", (4, 8)), ("c", (1, 8))))
    body = relay.nn.relu(relay.add(relay.add(a, relay.reshape(b, (4, 8))), c))
    function = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([a, b, c], body)))["main"]
    assert {p.name_hint for p in written_over(function)} == {"a", "b"}
    body = relay.add(relay.nn.softmax(a), relay.add(a, b))
    function = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([a, b], body)))["main"]
    assert {p.name_hint for p in written_over(function)} == {"b"}


def test_residual_sums_are_written_over_their_input():
    x = relay.var("x", shape=(1, 16, 10, 10))
    a = relay.nn.relu(layer(x))
    for _ in range(3):
        a = relay.nn.relu(relay.add(layer(relay.nn.relu(layer(a))), a))
    lib = check(relay.nn.global_avg_pool2d(a))
    assert lib.memory_plan.in_place == 3
    assert "3 results written over an input" in lib.memory_plan.summary()


def test_a_residual_that_is_needed_again_is_kept():
    x = relay.var("x", shape=(1, 16, 10, 10))
    a = relay.nn.relu(layer(x))
    b = relay.add(layer(a), a)
    check(relay.nn.global_avg_pool2d(relay.add(layer(b), a)), relay.mean(b, (2, 3)))


def test_joins_without_a_copy():
    x = relay.var("x", shape=(1, 16, 9, 7))
    y = relay.nn.relu(layer(x, 32))
    parts = [relay.nn.conv2d(y, weights(c, 32, 1, 1)) for c in (16, 48, 32)]
    joined = relay.concatenate(parts, 1)
    lib = check(relay.nn.global_avg_pool2d(relay.nn.conv2d(joined, weights(16, 96, 1, 1))), relay.nn.max_pool2d(y, 2))
    assert lib.memory_plan.inside == 3
    assert not any("concatenate" in kernel.name for kernel in lib.kernels)


@pytest.mark.parametrize("case", ["batch", "twice", "result", "input", "odd"])
def test_joins_that_need_a_copy(case):
    x = relay.var("x", shape=(2 if case == "batch" else 1, 16, 9, 7))
    a, b = layer(x), layer(x)
    if case == "odd":
        a, b = relay.nn.batch_flatten(relay.nn.avg_pool2d(a, (9, 7))), relay.var("unused", shape=())
        a = relay.nn.dense(a, weights(3, 16))
        check(relay.nn.dense(relay.concatenate([a, relay.nn.dense(a, weights(5, 3))], 1), weights(4, 8)))
        return
    parts = {"twice": [a, a], "input": [x, a]}.get(case, [a, b])
    outs = [relay.nn.global_avg_pool2d(relay.nn.conv2d(relay.concatenate(parts, 1), weights(16, 32, 1, 1)))]
    lib = check(*outs, *([a] if case == "result" else []))
    if case in ("batch", "twice"):
        assert lib.memory_plan.inside == 0


def test_memory_lent_to_an_executor_is_seen_through_views():
    x = relay.var("x", shape=(1, 3, 8, 8))
    y = relay.nn.conv2d(x, weights(16, 3, 1, 1))
    parts = [relay.nn.relu(y), relay.nn.conv2d(y, weights(16, 16, 1, 1))]
    out = relay.reshape(relay.concatenate(parts, 1), (1, -1))
    mod, lib = build(out)
    m = graph_executor.GraphModule(lib["default"](tvm.cpu(0)))
    data, other = (tvm.nd.array(rng.standard_normal((1, 3, 8, 8)).astype("float32")) for _ in range(2))
    result = tvm.nd.array(np.zeros((1, 2048), "float32"))
    expected = [relay.create_executor("debug", mod).evaluate()(d.numpy()).numpy() for d in (data, other)]
    m.set_input_zero_copy("x", data)
    m.set_output_zero_copy(0, result)
    m.run()
    np.testing.assert_allclose(result.numpy(), expected[0], rtol=1e-4, atol=1e-4)
    m.set_input("x", other)
    m.run()
    np.testing.assert_allclose(result.numpy(), expected[1], rtol=1e-4, atol=1e-4)


def test_graphs_without_offsets_are_read():
    x = relay.var("x", shape=(4,))
    _, lib = build(relay.exp(x))
    graph = json.loads(lib.get_graph_json())
    del graph["attrs"]["storage_offset"]
    m = graph_executor.create(json.dumps(graph), lib.get_lib(), tvm.cpu(0))
    m.run(x=np.zeros(4, "float32"))
    np.testing.assert_allclose(m.get_output(0).numpy(), np.ones(4), rtol=1e-6, atol=1e-6)


ODD = [((13, 11), 16, 1), ((29, 17), 64, 3), ((7, 7), 128, 3), ((5, 3), 24, 1)]


@pytest.mark.parametrize("size, channels, window", ODD)
def test_convolutions_of_odd_sizes_store_every_element_once(size, channels, window):
    def layer(data):
        return relay.nn.conv2d(data, weights(channels, channels, window, window), padding=window // 2)

    x = relay.var("x", shape=(1, channels, *size))
    a = relay.nn.relu(relay.nn.conv2d(x, weights(channels, channels, 1, 1)))
    for _ in range(2):
        a = relay.add(layer(relay.tanh(layer(a))), a)
    lib = check_compiled(relay.nn.max_pool2d(a, (2, 2)))
    assert lib.memory_plan.in_place >= 2


@pytest.mark.slow("compiles kernels of large and odd sizes")
@pytest.mark.parametrize("rows", [1, 5, 13, 197])
def test_products_of_odd_sizes_store_every_element_once(rows):
    x = relay.var("x", shape=(1, rows, 72))
    a = relay.tanh(relay.nn.dense(x, weights(72, 72)))
    for _ in range(2):
        a = relay.add(relay.nn.dense(relay.tanh(relay.nn.dense(a, weights(100, 72))), weights(72, 100)), a)
    lib = check_compiled(relay.nn.softmax(a))
    assert lib.memory_plan.in_place >= 2


def check_compiled(output):
    """Against the same graph without passes, where no kernel is fused."""
    shape = [int(d) for d in relay.free_vars(output)[0].type_annotation.shape]
    data = rng.standard_normal(shape).astype("float32")
    lib = build(output)[1]
    got, want = run(lib, data)[0], run(build(output, level=0)[1], data)[0]
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * np.abs(want).max())
    return lib
