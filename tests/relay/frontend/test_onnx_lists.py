"""Sequences whose length, and optionals whose content, is known only when the model runs."""

from __future__ import annotations

import numpy as np
import pytest
from machine import Machine, same
from onnx import TensorProto, helper
from small_models import graph_model

from tvm.contrib import onnx_backend
from tvm.error import TVMError

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node = helper.make_node


def info(name, kind=F, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def sequence(name, shape=None):
    return helper.make_tensor_sequence_value_info(name, F, shape)


def tensors(rng, *sizes):
    return [rng.standard_normal((n, 2)).astype("float32") for n in sizes]


def test_tensors_go_in_and_out_at_places_that_the_run_says(rng):
    nodes = [
        node("SequenceInsert", ["s", "x", "p"], ["s1"]),
        node("SequenceInsert", ["s1", "x"], ["s2"]),
        node("SequenceErase", ["s2", "p"], ["s3"]),
        node("SequenceErase", ["s2"], ["s4"]),
        node("SequenceAt", ["s1", "p"], ["e"]),
        node("SequenceLength", ["s4"], ["n"]),
        node("ConcatFromSequence", ["s4"], ["j"], axis=0),
    ]
    outputs = [sequence("s3"), info("e"), info("n", I), info("j")]
    machine = Machine(graph_model(nodes, [sequence("s", [None, 2]), info("x", F, [3, 2]), info("p", I, [])], outputs))
    x = rng.standard_normal((3, 2)).astype("float32")
    for held, p in (([], 0), ([1, 2, 1], 1), ([4, 1, 2, 3, 1, 5], -6)):
        machine.check(s=tensors(rng, *held), x=x, p=np.array(p))
    for p in (4, -5):
        with pytest.raises(TVMError, match="node 's1': the position in input 'p' is out of range for the sequence"):
            machine(s=tensors(rng, 1, 2, 1), x=x, p=np.array(p))


@pytest.mark.parametrize(
    ("name", "position", "held", "words"),
    [
        ("SequenceAt", 2, 2, "SequenceAt node 'here': the sequence has no position 2"),
        ("SequenceErase", -3, 2, "SequenceErase node 'here': the sequence has no position -3"),
        ("SequenceErase", None, 0, "SequenceErase node 'here': cannot read or erase an element of an empty sequence"),
    ],
)
def test_a_position_outside_a_sequence_ends_the_run_with_the_node_and_the_position(name, position, held, words, rng):
    weights = {} if position is None else {"p": np.array(position)}
    made = info("y", F, [None, 2]) if name == "SequenceAt" else sequence("y")
    taken = node(name, ["s", *weights], ["y"], "here")
    machine = Machine(graph_model([taken], [sequence("s", [None, 2])], [made], weights))
    machine.check(s=tensors(rng, 1, 2, 3))
    with pytest.raises(TVMError, match=words):
        machine(s=tensors(rng, *range(held)))


@pytest.mark.parametrize("new_axis", [0, 1])
def test_a_loop_fills_a_sequence_that_is_joined_behind_it(new_axis, rng):
    inside = [
        node("Cast", ["i"], ["f"], to=F),
        node("Mul", ["x", "f"], ["y"]),
        node("SequenceInsert", ["s", "y"], ["s2"]),
    ]
    head = [info("i", I, []), info("c", B, []), sequence("s")]
    body = helper.make_graph(inside, "body", head, [info("c", B, []), sequence("s2")])
    nodes = [
        node("SequenceEmpty", [], ["s0"]),
        node("Loop", ["n", "", "s0"], ["all"], body=body),
        node("ConcatFromSequence", ["all"], ["y"], axis=1, new_axis=new_axis),
    ]
    machine = Machine(graph_model(nodes, [info("n", I, []), info("x", F, [2, 3])], [info("y"), sequence("all")]))
    x = rng.standard_normal((2, 3)).astype("float32")
    for n in (1, 2, 7):
        items = [x * np.float32(i) for i in range(n)]
        same(machine(n=np.array(n), x=x), [(np.stack if new_axis else np.concatenate)(items, 1), items])
    with pytest.raises(TVMError, match="no clause of a match expression matches"):
        machine(n=np.array(0), x=x)


def test_a_tensor_is_cut_into_parts_that_the_run_says(rng):
    nodes = [
        node("SplitToSequence", ["x", "one"], ["a"], axis=1),
        node("SplitToSequence", ["x", "many"], ["b"], axis=0),
        node("SplitToSequence", ["x"], ["c"], axis=0, keepdims=0),
    ]
    inputs = [info("x", F, ["N", 5]), info("one", I, []), info("many", I, ["K"])]
    machine = Machine(graph_model(nodes, inputs, [sequence(n) for n in "abc"]))
    for one, many in ((2, [1, 3]), (7, [2, 1, 1, 2])):
        x = rng.standard_normal((sum(many), 5)).astype("float32")
        machine.check(x=x, one=np.array(one), many=np.array(many))
    with pytest.raises(TVMError, match="SplitToSequence node 'a': split must be at least 1"):
        machine(x=x, one=np.array(0), many=np.array([6]))
    for many in ([2, 3], [-1, 7]):
        with pytest.raises(TVMError, match="SplitToSequence node 'b': split sizes must be at least 0 and"):
            machine(x=x, one=np.array(1), many=np.array(many))


def test_a_graph_is_applied_to_every_tensor_of_a_sequence_of_any_length(rng):
    body = helper.make_graph([node("Mul", ["a", "k"], ["b"])], "body", [info("a")], [info("b")])
    model = graph_model(
        [node("SequenceMap", ["s"], ["t"], body=body)], [sequence("s"), info("k", F, [])], [sequence("t")]
    )
    # The model does not say how many dimensions the tensors have; the backend takes the number from what it is given.
    compiled = onnx_backend.prepare(model)
    for held in ([3], [1, 4, 2], []):
        items = tensors(rng, *held)
        same(compiled.run([items, np.array(3, "float32")])[0], [3 * item for item in items])


def test_the_run_says_whether_an_optional_holds_something(rng):
    some = helper.make_graph([node("Optional", ["x"], ["a"])], "some", [], [info("a")])
    kind = helper.make_tensor_type_proto(F, [3])
    none = helper.make_graph([node("Optional", [], ["b"], type=kind)], "none", [], [info("b")])
    value = helper.make_graph([node("OptionalGetElement", ["o"], ["g"])], "value", [], [info("g")])
    other = helper.make_graph([node("Neg", ["x"], ["m"])], "other", [], [info("m")])
    nodes = [
        node("If", ["c"], ["o"], then_branch=some, else_branch=none),
        node("OptionalHasElement", ["o"], ["h"]),
        node("If", ["h"], ["y"], then_branch=value, else_branch=other),
    ]
    model = graph_model(nodes, [info("c", B, []), info("x", F, [3])], [info("y"), info("h", B), info("o")], opset=18)
    x = rng.standard_normal(3).astype("float32")
    machine = Machine(model)
    same(machine(c=np.array(True), x=x), [x, np.array(True), x])
    y, h, o = machine(c=np.array(False), x=x)
    np.testing.assert_array_equal(y, -x)
    assert not h and o is None


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (node("Relu", ["s"], ["y"]), "Relu node 'y': an input is a sequence; the operator supports only tensors"),
        (node("OptionalHasElement", ["s"], ["y"]), None),
        (node("SequenceInsert", ["s", "k"], ["y"]), r"SequenceInsert node 'y': a value is float32 of shape .* or"),
    ],
)
def test_what_cannot_be_done_with_a_list_is_refused_with_the_name_of_the_node(first, words):
    model = graph_model([first], [sequence("s", [None, 2]), info("k", F, [2])], [info("y")], opset=18)
    if words is None:
        assert Machine(model)(s=[], k=np.zeros(2, "float32"))[0]
    else:
        with pytest.raises(TVMError, match=words):
            Machine(model)
