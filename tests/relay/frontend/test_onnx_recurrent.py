"""Recurrent networks over sequences and batches of unknown sizes: operators, and steps written as loops."""

from __future__ import annotations

import numpy as np
import pytest
from machine import Machine
from onnx import TensorProto, helper
from small_models import graph_model

F = TensorProto.FLOAT
node = helper.make_node


def info(name, kind=F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.mark.parametrize(("kind", "direction", "lengths"), [("LSTM", "forward", True), ("GRU", "reverse", False)])
def test_a_recurrent_network_takes_sequences_and_batches_of_any_size(kind, direction, lengths, rng):
    gates, both, hidden = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 1 + (direction == "bidirectional"), 3
    weights = {
        "w": rng.standard_normal((both, gates * hidden, 2)).astype("float32"),
        "r": rng.standard_normal((both, gates * hidden, hidden)).astype("float32"),
        "b": rng.standard_normal((both, 2 * gates * hidden)).astype("float32"),
    }
    outputs = ["y", "h", *(["c"] if kind == "LSTM" else [])]
    inputs = ["x", "w", "r", "b", *(["n"] if lengths else [])]
    net = node(kind, inputs, outputs, hidden_size=hidden, direction=direction)
    values = [info("x", F, ["T", "N", 2]), *([info("n", TensorProto.INT32, ["N"])] if lengths else [])]
    machine = Machine(graph_model([net], values, [info(o) for o in outputs], weights))
    for steps, batch in ((1, 1), (5, 3)):
        feed = {"x": rng.standard_normal((steps, batch, 2)).astype("float32")}
        if lengths:
            feed["n"] = rng.integers(1, steps + 1, batch).astype("int32")
        machine.check(**feed, rtol=1e-4, atol=1e-5)
    # Of no steps there are no outputs, and the state is still as large as the batch.
    lengths = {"n": np.zeros(3, "int32")} if lengths else {}
    found = machine(x=np.zeros((0, 3, 2), "float32"), **lengths)
    assert [f.shape for f in found] == [(0, both, 3, hidden), *[(both, 3, hidden)] * (len(outputs) - 1)]


def lstm_step() -> list:
    """A step of an LSTM in single operators."""
    return [
        node("MatMul", ["xt", "w"], ["xw"]),
        node("MatMul", ["h", "r"], ["hr"]),
        node("Add", ["xw", "hr"], ["gates"]),
        node("Split", ["gates"], ["gi", "go", "gf", "gc"], axis=1),
        *(node("Sigmoid", [g], [g + "s"]) for g in ("gi", "go", "gf")),
        node("Tanh", ["gc"], ["gct"]),
        node("Mul", ["gfs", "s"], ["kept"]),
        node("Mul", ["gis", "gct"], ["added"]),
        node("Add", ["kept", "added"], ["s2"]),
        node("Tanh", ["s2"], ["s2t"]),
        node("Mul", ["gos", "s2t"], ["h2"]),
        node("Identity", ["h2"], ["row"]),
    ]


def loop_of(head, outputs) -> list:
    """The step as the body of a Loop over the first axis of x."""
    counted = [info("i", TensorProto.INT64, []), info("c", TensorProto.BOOL, [])]
    steps = [node("Gather", ["x", "i"], ["xt"], axis=0), *lstm_step()]
    body = helper.make_graph(steps, "body", [*counted, *head[:2]], [info("c", TensorProto.BOOL, []), *outputs])
    return [
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "first"], ["n"]),
        node("Loop", ["n", "", "h0", "h0"], ["h", "s", "y"], body=body),
    ]


def scan_of(head, outputs) -> list:
    body = helper.make_graph(lstm_step(), "body", head, outputs)
    return [node("Scan", ["h0", "h0", "x"], ["h", "s", "y"], body=body, num_scan_inputs=1)]


@pytest.mark.parametrize("written", [loop_of, scan_of])
def test_an_lstm_written_in_single_steps_is_compiled_once_for_any_length(written, rng):
    hidden, features = 4, 3
    head = [info("h", F, [2, hidden]), info("s", F, [2, hidden]), info("xt", F, [2, features])]
    weights = {
        "w": rng.standard_normal((features, 4 * hidden)).astype("float32"),
        "r": rng.standard_normal((hidden, 4 * hidden)).astype("float32"),
        "h0": np.zeros((2, hidden), "float32"),
        "first": np.array(0),
    }
    nodes = written(head, [info("h2"), info("s2"), info("row")])
    machine = Machine(graph_model(nodes, [info("x", F, ["T", 2, features])], [info("y"), info("s")], weights))
    for steps in (1, 2, 19):
        got = machine.check(x=rng.standard_normal((steps, 2, features)).astype("float32"), rtol=1e-4, atol=1e-5)
        assert got[0].shape == (steps, 2, hidden)
