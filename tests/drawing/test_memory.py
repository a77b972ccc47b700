"""The chart of a memory plan: lifetimes are those of the planner, and values in one storage take turns."""

from __future__ import annotations

import itertools
import json
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import tvm
from tvm import relay
from tvm.drawing.memory import live_chart, memory_body, memory_chart, memory_of, size_words


def built(body, params=()):
    mod = tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(body), body))
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(mod, "llvm", params=dict(params))


def residual():
    x = relay.var("x", shape=(1, 8, 12, 12))
    y = x
    for i in range(4):
        w = relay.const(np.ones((8, 8, 3, 3), "float32") * (i + 1))
        y = relay.nn.relu(relay.nn.conv2d(y, w, padding=(1, 1), channels=8, kernel_size=(3, 3))) + y
    return y


def joined():
    x = relay.var("x", shape=(1, 4, 6, 6))
    parts = [relay.nn.max_pool2d(x, (3, 3), padding=(1, 1)), relay.nn.avg_pool2d(x, (3, 3), padding=(1, 1)), x]
    return relay.nn.batch_flatten(relay.nn.softmax(relay.concatenate(parts, 1), axis=1))


def several():
    x = relay.var("x", shape=(4, 6))
    a = relay.nn.softmax(x)
    b = relay.cumsum(a, axis=1)
    return relay.Tuple([relay.nn.softmax(b), relay.reshape(a, (24,)), relay.cumsum(b, axis=0)])


@pytest.fixture(scope="module", params=[residual, joined, several])
def lib(request):
    return built(request.param())


def test_values_in_one_storage_take_turns_or_lie_side_by_side(lib):
    memory = memory_of(lib.get_graph_json())
    for a, b in itertools.combinations(memory.values, 2):
        together = a.first <= b.last and b.first <= a.last
        overlap = a.offset < b.offset + b.nbytes and b.offset < a.offset + a.nbytes
        assert not (a.storage == b.storage and together and overlap), (a, b)
    assert max(memory.live()) <= memory.planned


def test_storages_are_those_of_the_plan(lib):
    memory, plan = memory_of(lib.get_graph_json()), lib.memory_plan
    graph = json.loads(lib.get_graph_json())
    rows = graph["node_row_ptr"]
    given = {plan.entries[rows[n]].storage for n in graph["arg_nodes"]}
    wanted = {s: size for s, size in enumerate(plan.sizes) if s not in given}
    assert memory.storages == wanted and memory.planned == sum(wanted.values())


def test_lifetimes_are_those_of_the_plan(lib):
    memory, plan = memory_of(lib.get_graph_json()), lib.memory_plan
    graph = json.loads(lib.get_graph_json())
    rows, nodes = graph["node_row_ptr"], graph["nodes"]
    running = [n for n, node in enumerate(nodes) if node["op"] != "null"]
    made = [(n, e) for n in running if nodes[n]["attrs"]["func_name"] != "__nop" for e in range(rows[n], rows[n + 1])]
    assert len(made) == len(memory.values)
    for (n, e), value in zip(made, memory.values):
        assert running[value.first] == n and value.nbytes == plan.entries[e].nbytes
        if not value.is_output:
            # What the planner puts into a larger value lives as long as all of that.
            assert running[value.last] <= plan.entries[e].last_use and plan.entries[e].first_use <= n
    assert any(value.is_output for value in memory.values)


def test_every_value_is_a_bar_and_the_sums_are_told(lib):
    memory = memory_of(lib.get_graph_json())
    body = ElementTree.fromstring(f"<div>{memory_body(memory)}</div>")
    assert len([r for r in body.iter("rect") if "bar" in r.get("class")]) == len(memory.values)
    assert size_words(memory.planned) in [cell.text for cell in body.iter("td")]
    assert memory_chart(memory) == memory_chart(memory_of(lib.get_graph_json()))


def test_a_result_written_over_an_input_begins_where_that_ends():
    def node(name, *inputs):
        return {"op": "tvm_op", "name": name, "attrs": {"func_name": name}, "inputs": [[i, 0, 0] for i in inputs]}

    nodes = [{"op": "null", "name": "x", "inputs": []}, node("f", 0), node("<g>", 1), node("h", 2)]
    graph = {
        "nodes": nodes,
        "arg_nodes": [0],
        "heads": [[3, 0, 0]],
        "node_row_ptr": [0, 1, 2, 3, 4],
        "attrs": {
            "shape": ["list_shape", [[8]] * 4],
            "dltype": ["list_str", ["float32"] * 4],
            "storage_id": ["list_int", [0, 1, 1, 2]],
        },
    }
    memory = memory_of(json.dumps(graph))
    assert [(v.name, v.first, v.last) for v in memory.values] == [("f", 0, 0), ("<g>", 1, 2), ("h", 2, 2)]
    assert memory.live() == [32, 32, 64] and memory.planned == 64 and memory.given == 32
    ElementTree.fromstring(memory_chart(memory))
    ElementTree.fromstring(live_chart(memory))


def test_a_model_without_kernels_is_said_to_be_one():
    empty = {
        "nodes": [{"op": "null", "name": "x", "inputs": []}],
        "arg_nodes": [0],
        "heads": [[0, 0, 0]],
        "node_row_ptr": [0, 1],
        "attrs": {"shape": ["list_shape", [[8]]], "dltype": ["list_str", ["float32"]], "storage_id": ["list_int", [0]]},
    }
    assert "makes no values" in memory_body(memory_of(json.dumps(empty)))
