"""Open sizes of inputs: one name is one size."""

from __future__ import annotations

import numpy as np
import pytest
from machine import Machine
from onnx import TensorProto, helper
from small_models import graph_model

import tvm
from tvm import relay
from tvm.contrib import onnx_backend
from tvm.driver.tvmc.errors import TVMCException
from tvm.driver.tvmc.frontends import complete_shapes
from tvm.error import TVMError
from tvm.relay.frontend import from_onnx


def product(first, second):
    sides = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("y", first), ("x", second))]
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
    return graph_model([helper.make_node("Mul", ["y", "x"], ["z"])], sides, [out])


def shapes_of(module):
    return {p.name_hint: [int(d) for d in p.type_annotation.shape] for p in module["main"].params}


def test_an_answer_for_one_input_holds_for_all_that_share_the_name():
    model = product([2, "n"], ["n"])
    assert shapes_of(from_onnx(model, shape={"y": [2, 4]})[0]) == {"y": [2, 4], "x": [4]}
    assert complete_shapes(model, {"y": [2, 4]}) == ({"y": [2, 4], "x": [4]}, [])


def test_two_answers_for_one_name_are_an_error():
    with pytest.raises(TVMError, match="the dynamic dimension 'n' is 4 in the shape of input 'y' but 5 in that of 'x'"):
        from_onnx(product([2, "n"], ["n"]), shape={"y": [2, 4], "x": [5]})


@pytest.mark.parametrize("word", ["?", "-1", "None", "dynamic"])
def test_words_that_exporters_write_for_any_open_size_are_no_names(word):
    module, _ = from_onnx(product([2, word], [word]), shape={"y": [2, 4], "x": [1]})
    assert shapes_of(module) == {"y": [2, 4], "x": [1]}


def test_the_hint_names_every_input_that_shares_the_size():
    with pytest.raises(TVMCException) as caught:
        complete_shapes(product([2, "n"], ["n"]), {})
    assert 'with equal numbers for equal names: --input-shapes "y:[2,n] x:[n]"' in str(caught.value)


def test_a_leading_size_is_a_batch_only_if_its_name_stands_nowhere_else():
    shapes, notes = complete_shapes(product(["N", 3], ["N", 1]), {})
    assert shapes == {"y": [1, 3], "x": [1, 1]} and len(notes) == 2
    shapes, notes = complete_shapes(product([None, 3], [3]), {})
    assert shapes == {"y": [1, 3], "x": [3]} and "compiling for batch 1" in notes[0]
    assert complete_shapes(product(["N", 3], ["N", 1]), {"x": [5, 1]}) == ({"y": [5, 3], "x": [5, 1]}, [])
    with pytest.raises(TVMCException, match=r"y:\[N,N\] x:\[N\]"):
        complete_shapes(product(["N", "N"], ["N"]), {})


def test_a_scalar_may_be_given_as_one_element():
    model = product([], [3])
    assert shapes_of(from_onnx(model, shape={"y": (1,)})[0]) == {"y": [1], "x": [3]}
    with pytest.raises(TVMError, match="has 2 dimensions, but the model declares 0"):
        from_onnx(model, shape={"y": (1, 1)})


@pytest.mark.parametrize("shape", [5, ["a"], [1.5]])
def test_a_shape_that_is_no_list_of_numbers_is_refused(shape):
    with pytest.raises(TVMError, match="shape of input 'x'"):
        from_onnx(product([3], ["n"]), shape={"x": shape})


def test_an_unknown_input_is_an_assertion_too():
    """Scripts written for TVM expect one."""
    with pytest.raises(AssertionError, match="no input 'q'"):
        from_onnx(product([3], ["n"]), shape={"q": [1]})


def test_models_of_one_size_run(rng):
    model = product([2, 3], [3])
    y, x = rng.standard_normal((2, 3)).astype("float32"), rng.standard_normal(3).astype("float32")
    np.testing.assert_allclose(onnx_backend.run_model(model, [y, x])[0], y * x)


# Operators that need one size of their input, with what stays open.
OPEN = {
    "MaxPool": (["N", 4, "H", "W"], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 0]}),
    "AveragePool": (["N", 4, "H", "W"], {"kernel_shape": [2, 3], "pads": [0, 1, 1, 1], "count_include_pad": 1}),
    "LRN": (["N", 4, "H", "W"], {"size": 3}),
    "LRN of any channels": (["N", "C", "H"], {"size": 4, "alpha": 0.5}),
    "Hardmax": (["N", 4, "H"], {"axis": 1}),
    "Trilu": (["N", 4, 5], {}),
}


@pytest.mark.parametrize("name", OPEN)
def test_sizes_that_an_operator_does_not_need_stay_open(name, rng):
    dims, attributes = OPEN[name]
    info = helper.make_tensor_value_info
    node = helper.make_node(name.partition(" ")[0], ["x"], ["y"], **attributes)
    model = graph_model([node], [info("x", TensorProto.FLOAT, dims)], [info("y", TensorProto.FLOAT, None)])
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(from_onnx(model)[0], "llvm"), tvm.cpu())
    for sizes in ({"N": 2, "C": 3, "H": 5, "W": 7}, {"N": 1, "C": 7, "H": 3, "W": 4}):
        x = rng.standard_normal([sizes.get(d, d) for d in dims]).astype("float32")
        want = relay.create_executor("debug", from_onnx(model, shape={"x": x.shape})[0]).evaluate()(x)
        np.testing.assert_allclose(machine.run(x).numpy(), want.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["ReduceSum", "ReduceMax", "ReduceProd", "ReduceLogSumExp"])
def test_an_axis_without_elements_is_reduced_beside_open_ones(name):
    info = helper.make_tensor_value_info
    node = helper.make_node(name, ["x", "axes"], ["y"], keepdims=0)
    x, y = info("x", TensorProto.FLOAT, [0, "N"]), info("y", TensorProto.FLOAT, None)
    model = graph_model([node], [x], [y], {"axes": np.array([0])}, opset=18)
    machine = Machine(model)
    for size in (3, 0):
        machine.check(x=np.zeros((0, size), "float32"))
    late = graph_model([node], [x, info("axes", TensorProto.INT64, [1])], [y], opset=18)
    found = Machine(late)(x=np.zeros((0, 3), "float32"), axes=np.array([0]))
    np.testing.assert_array_equal(found[0], machine(x=np.zeros((0, 3), "float32"))[0])


@pytest.mark.slow("compiles kernels with dynamic shapes for many sizes")
@pytest.mark.parametrize(("dims", "attributes"), [
    (["N", "C", 6, 5], {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    (["N", 3, "H", "W"], {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1, "storage_order": 1}),
    (["N", "C", 6, 5], {"kernel_shape": [2, 2], "dilations": [2, 1], "pads": [1, 1, 1, 1]}),
    (["N", 3, "H", "W"], {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_UPPER"}),
])  # fmt: skip
def test_places_of_maxima_need_no_known_size(dims, attributes, rng):
    info = helper.make_tensor_value_info
    node = helper.make_node("MaxPool", ["x"], ["y", "i"], **attributes)
    outputs = [info("y", TensorProto.FLOAT, None), info("i", TensorProto.INT64, None)]
    machine = Machine(graph_model([node], [info("x", TensorProto.FLOAT, dims)], outputs))
    for sizes in ({"N": 2, "C": 4, "H": 7, "W": 6}, {"N": 1, "C": 1, "H": 3, "W": 3}, {"N": 0, "C": 1, "H": 5, "W": 4}):
        # Few different values, so that the first of equal ones is asked for.
        machine.check(x=rng.integers(-3, 3, [sizes.get(d, d) for d in dims]).astype("float32"))


def test_a_slice_of_a_known_axis_meets_the_whole_with_one_element_too(rng):
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Shape", ["n"], ["end"]),
        helper.make_node("Slice", ["x", "begin", "end", "begin"], ["part"]),
        helper.make_node("Min", ["x", "part"], ["y"]),
    ]
    sides = [info("x", TensorProto.FLOAT, [3, "M"]), info("n", TensorProto.FLOAT, ["N"])]
    machine = Machine(graph_model(nodes, sides, [info("y", TensorProto.FLOAT, None)], {"begin": np.array([0])}))
    for size in (1, 3, 5):
        machine.check(x=rng.standard_normal((3, 4)).astype("float32"), n=np.zeros(size, "float32"))
    with pytest.raises(TVMError, match="a dimension equal to 3 or 1"):
        machine(x=np.zeros((3, 4), "float32"), n=np.zeros(2, "float32"))


def test_an_axis_that_may_be_empty_has_a_hardmax(rng):
    info = helper.make_tensor_value_info
    node, sides = helper.make_node("Hardmax", ["x"], ["y"], axis=1), [info("x", TensorProto.FLOAT, ["N", "M"])]
    machine = Machine(graph_model([node], sides, [info("y", TensorProto.FLOAT, None)]))
    for shape in ((3, 5), (2, 0), (0, 3), (2, 1)):
        machine.check(x=rng.integers(0, 3, shape).astype("float32"))


@pytest.mark.parametrize(("name", "known"), [("Softmax", 6), ("Softmax", 17), ("LogSoftmax", 2), ("LogSoftmax", 16)])
def test_an_axis_that_is_no_longer_than_a_vector_lies_in_one(name, known, rng):
    """Its length is that of another axis, but at most so many."""
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Shape", ["x"], ["end"], start=1, end=2),
        helper.make_node("Slice", ["x", "begin", "end", "axis"], ["part"]),
        helper.make_node(name, ["part"], ["y"], axis=0),
    ]
    weights = {"begin": np.array([0]), "axis": np.array([2])}
    sides = [info("x", TensorProto.FLOAT, ["L", "B", known])]
    machine = Machine(graph_model(nodes, sides, [info("y", TensorProto.FLOAT, None)], weights))
    for size in (1, 3, 19):
        machine.check(x=rng.standard_normal((4, size, known)).astype("float32"))
