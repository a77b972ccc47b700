"""Sequences whose length is known when compiling; optionals that hold something."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import graph_model, onnxruntime_results

from tvm.contrib import onnx_backend
from tvm.error import TVMError
from tvm.relay.frontend import from_onnx

F = TensorProto.FLOAT


def info(name, shape=None):
    return helper.make_tensor_value_info(name, F, shape)


def sequence(name):
    return helper.make_tensor_sequence_value_info(name, F, None)


def joined(nodes, weights, outputs=("y",), **attributes):
    nodes = [helper.make_node("SequenceConstruct", ["a", "b", "a"], ["s0"]), *nodes]
    return graph_model(nodes, [info("a", (2, 3)), info("b", (2, 3))], [info(o) for o in outputs], weights)


@pytest.mark.parametrize(
    "attributes", [{"axis": 0}, {"axis": -1}, {"axis": 1, "new_axis": 1}, {"axis": -1, "new_axis": 1}]
)
def test_tensors_go_in_and_out_of_sequences_as_in_onnxruntime(attributes, rng):
    nodes = [
        helper.make_node("SequenceInsert", ["s0", "b", "one"], ["s1"]),
        helper.make_node("SequenceInsert", ["s1", "a"], ["s2"]),
        helper.make_node("SequenceErase", ["s2", "last"], ["s3"]),
        helper.make_node("SequenceErase", ["s3"], ["s4"]),
        helper.make_node("SequenceAt", ["s4", "one"], ["e"]),
        helper.make_node("SequenceLength", ["s4"], ["n"]),
        helper.make_node("Cast", ["n"], ["count"], to=F),
        helper.make_node("ConcatFromSequence", ["s4"], ["j"], **attributes),
        helper.make_node("Mul", ["j", "count"], ["y"]),
    ]
    model = joined(nodes, {"one": np.array(1), "last": np.array(-1)}, ("y", "e"))
    arrays = {n: rng.standard_normal((2, 3)).astype("float32") for n in "ab"}
    for got, want in zip(onnx_backend.run_model(model, list(arrays.values())), onnxruntime_results(model, arrays)):
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize(
    ("sizes", "keepdims"), [(None, 0), (None, 1), (np.array(2), 1), (np.array([1, 4]), 1), (np.array(5), 1)]
)
def test_a_tensor_is_cut_into_a_sequence(sizes, keepdims, rng):
    names = ["x"] if sizes is None else ["x", "n"]
    node = helper.make_node("SplitToSequence", names, ["s"], axis=1, keepdims=keepdims)
    model = graph_model([node], [info("x", (2, 5))], [sequence("s")], {} if sizes is None else {"n": sizes})
    x = rng.standard_normal((2, 5)).astype("float32")
    (got,), (want,) = onnx_backend.run_model(model, [x]), onnxruntime_results(model, {"x": x})
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert g.shape == w.shape
        np.testing.assert_array_equal(g, w)


def test_a_sequence_and_a_tensor_are_results_in_order(rng):
    nodes = [
        helper.make_node("SequenceEmpty", [], ["e"]),
        helper.make_node("SequenceInsert", ["e", "x"], ["t"]),
        helper.make_node("SequenceInsert", ["t", "n"], ["s"]),
        helper.make_node("Neg", ["x"], ["n"]),
    ]
    model = graph_model(nodes, [info("x", (3,))], [info("n"), sequence("s"), info("x")])
    x = rng.standard_normal(3).astype("float32")
    n, s, again = onnx_backend.run_model(model, [x])
    np.testing.assert_array_equal(n, -x)
    np.testing.assert_array_equal(again, x)
    np.testing.assert_array_equal(np.stack(s), [x, -x])


def test_a_run_time_condition_chooses_between_sequences_of_one_length(rng):
    def branch(first, second, name):
        node = helper.make_node("SequenceConstruct", [first, second], [name])
        return helper.make_graph([node], name, [], [sequence(name)])

    node = helper.make_node("If", ["c"], ["s"], then_branch=branch("a", "b", "t"), else_branch=branch("b", "a", "e"))
    sides = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), info("a", (2,)), info("b", (2,))]
    model = graph_model([node], sides, [sequence("s")])
    a, b = rng.standard_normal((2, 2)).astype("float32")
    np.testing.assert_array_equal(np.stack(onnx_backend.run_model(model, [np.array(True), a, b])[0]), [a, b])
    np.testing.assert_array_equal(np.stack(onnx_backend.run_model(model, [np.array(False), a, b])[0]), [b, a])


def test_a_graph_is_applied_to_every_tensor_of_a_sequence(rng):
    body = helper.make_graph([helper.make_node("Neg", ["e"], ["f"])], "body", [info("e")], [info("f")])
    nodes = [
        helper.make_node("SequenceMap", ["s0"], ["s1"], body=body),
        helper.make_node("ConcatFromSequence", ["s1"], ["y"], axis=0),
    ]
    arrays = [rng.standard_normal((2, 3)).astype("float32") for _ in "ab"]
    want = -np.concatenate([arrays[0], arrays[1], arrays[0]])
    np.testing.assert_array_equal(onnx_backend.run_model(joined(nodes, {}), arrays)[0], want)


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (helper.make_node("Relu", ["s0"], ["y"]), "an input is a sequence; the operator supports only tensors"),
        (helper.make_node("SequenceAt", ["s0", "n"], ["y"]), "position 3 is out of range for a sequence of 3"),
        (helper.make_node("SequenceAt", ["a", "n"], ["y"]), "the input must be a sequence"),
        (helper.make_node("ConcatFromSequence", ["s0"], ["y"], axis=4), "axis 4 is out of range"),
    ],
)
def test_what_cannot_be_done_with_a_sequence_is_refused(node, words):
    with pytest.raises(TVMError, match=words):
        from_onnx(joined([node], {"n": np.array(3)}))


def test_optionals_are_what_they_hold(rng):
    nodes = [
        helper.make_node("Optional", ["a"], ["o"]),
        helper.make_node("OptionalGetElement", ["o"], ["g"]),
        helper.make_node("OptionalHasElement", ["o"], ["h"]),
        helper.make_node("OptionalHasElement", [""], ["i"]),
        helper.make_node("Xor", ["h", "i"], ["x"]),
        helper.make_node("Where", ["x", "g", "b"], ["y"]),
    ]
    arrays = [rng.standard_normal((2, 3)).astype("float32") for _ in "ab"]
    model = graph_model(nodes, [info("a", (2, 3)), info("b", (2, 3))], [info("y")], opset=18)
    np.testing.assert_array_equal(onnx_backend.run_model(model, arrays)[0], arrays[0])
