"""Operators whose arguments are known only when the model runs, beside onnxruntime: one compiled model for all of them.

A part of the cases is tried in each run, another with each commit; ``python -m tools test symbolic`` tries all of them.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper
from run_time_cases import CASES
from small_models import graph_model, onnxruntime_results

import tvm
from tvm import relay
from tvm.contrib import onnx_backend
from tvm.error import TVMError
from tvm.ir.prim import Any_
from tvm.ir.visit import post_order
from tvm.relay.frontend import from_onnx

# How many cases are tried in a run that does not try all.
SAMPLE = 4


def chosen():
    if os.environ.get("TVM_TEST_ALL_SYMBOLIC"):
        return sorted(CASES)
    return random.Random(os.environ.get("TVM_TEST_SEED", "1")).sample(sorted(CASES), SAMPLE)


@pytest.mark.parametrize("name", chosen())
def test_run_time_arguments_do_what_onnxruntime_does_with_them(name, rng):
    case = CASES[name]
    model = case.model()
    compiled = onnx_backend.prepare(model)
    assert compiled.program.reason is not None
    names = [n for n in case.inputs if n]
    for feed in case.feeds(rng):
        given = dict(zip(names, map(np.asarray, feed)))
        for got, want in zip(compiled.run(given), onnxruntime_results(model, given), strict=True):
            said = {n: a.tolist() if a.dtype.kind == "i" else a.shape for n, a in given.items()}
            assert got.shape == want.shape and got.dtype == want.dtype, said
            np.testing.assert_allclose(got, want, 1e-4, 1e-5, err_msg=str(said))
    for feed in case.refused(rng):
        with pytest.raises(tvm.TVMError, match=case.words or None):
            compiled.run(dict(zip(names, map(np.asarray, feed))))


def info(name, shape, kind=1):
    return helper.make_tensor_value_info(name, kind, shape)


def attention():
    """What exporters make of the shapes of an attention: sizes are taken out of shapes and joined again."""
    make = helper.make_node
    nodes = [make("Shape", ["x"], ["s"])]
    for i in (0, 1):
        nodes += [make("Constant", [], [f"i{i}"], value_int=i), make("Gather", ["s", f"i{i}"], [f"n{i}"])]
        nodes += [make("Unsqueeze", [f"n{i}", "zero"], [f"v{i}"])]
    nodes += [
        make("Concat", ["v0", "v1", "heads"], ["apart"], axis=0),
        make("Reshape", ["x", "apart"], ["h"]),
        make("Transpose", ["h"], ["q"], perm=[0, 2, 1, 3]),
        make("Transpose", ["h"], ["k"], perm=[0, 2, 3, 1]),
        make("MatMul", ["q", "k"], ["qk"]),
        make("Softmax", ["qk"], ["w"], axis=-1),
        make("MatMul", ["w", "q"], ["o"]),
        make("Transpose", ["o"], ["t"], perm=[0, 2, 1, 3]),
        make("Mul", ["n1", "one"], ["n1_"]),
        make("Unsqueeze", ["n1_", "zero"], ["v1_"]),
        make("Concat", ["v0", "v1_", "whole"], ["joined"], axis=0),
        make("Reshape", ["t", "joined"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "one": np.array(1), "heads": np.array([2, 4]), "whole": np.array([8])}
    return graph_model(nodes, [info("x", ["batch", "length", 8])], [info("y", None)], weights)


def test_shapes_computed_from_shapes_stay_known_to_be_equal():
    mod, _ = from_onnx(attention())
    text = mod.astext()
    assert "dyn." not in text and "newshape=[0, 0, 2, 4]" in text and "newshape=[0, 0, 8]" in text
    main = mod["main"]
    assert [isinstance(d, Any_) for d in main.params[0].type_annotation.shape] == [True, True, False]
    named = tvm.relay.transform.NameSizes()(mod)["main"]
    assert str(named.ret_type) == "Tensor[(n0, n1, 8), float32]"


def test_an_attention_of_open_sizes_runs_at_every_size(rng):
    model = attention()
    compiled = onnx_backend.prepare(model)
    for batch, length in ((1, 1), (3, 7), (2, 16)):
        x = rng.standard_normal((batch, length, 8)).astype("float32")
        np.testing.assert_allclose(compiled.run([x])[0], onnxruntime_results(model, {"x": x})[0], 1e-4, 1e-5)


def test_models_of_known_sizes_are_run_by_the_graph_executor():
    model = graph_model([helper.make_node("Relu", ["x"], ["y"])], [info("x", [2])], [info("y", [2])])
    compiled = onnx_backend.prepare(model)
    assert compiled.program.reason is None and compiled.run([np.array([-1, 2], "float32")])[0].tolist() == [0, 2]


def test_a_mask_expanded_to_sizes_of_inputs_has_these_sizes(rng):
    """The mask of a decoder: (batch, 1, 1, length) as often as there are queries."""
    make = helper.make_node
    nodes = [make("Shape", ["x"], ["s"]), make("Gather", ["s", "zero"], ["b"]), make("Gather", ["s", "one"], ["n"])]
    nodes += [
        make("Concat", ["b", "one", "n", "n"], ["wanted"], axis=0),
        make("Unsqueeze", ["m", "axes"], ["wide"]),
        make("Expand", ["wide", "wanted"], ["mask"]),
        make("ConstantOfShape", ["wanted"], ["none"]),
        make("Where", ["mask", "none", "low"], ["y"]),
    ]
    weights = {"zero": np.array([0]), "one": np.array([1]), "axes": np.array([1, 2]), "low": np.float32(-9)}
    inputs = [info("x", ["batch", "length", 8]), info("m", ["batch", "length"], 9)]
    model = graph_model(nodes, inputs, [info("y", None)], weights)
    mod, _ = from_onnx(model)
    named = tvm.relay.vm.optimize(mod, "llvm")[0]["main"]
    assert str(named.ret_type) == "Tensor[(batch, 1, length, length), float32]"
    compiled = onnx_backend.prepare(model)
    for batch, length in ((2, 5), (1, 1), (3, 0)):
        feed = {"x": np.zeros((batch, length, 8), "float32"), "m": rng.integers(0, 2, (batch, length)).astype(bool)}
        np.testing.assert_array_equal(compiled.run(feed)[0], onnxruntime_results(model, feed)[0])


def test_a_slice_backwards_from_before_the_first_element_begins_with_it():
    bounds = {"s": np.array([-9]), "e": np.array([-9]), "a": np.array([0]), "t": np.array([-2])}
    node = helper.make_node("Slice", ["x", *bounds], ["y"])
    for size in (3, "n"):
        model = graph_model([node], [info("x", [size])], [info("y", None)], bounds)
        x = np.arange(3, dtype="float32")
        assert onnx_backend.prepare(model).run([x])[0].tolist() == onnxruntime_results(model, {"x": x})[0].tolist()


def first_places(axis: int):
    """The first places of a table, as many as the input ``x`` (batch x length) has along an axis."""
    make = helper.make_node
    nodes = [make("Shape", ["x"], ["s"]), make("Gather", ["s", "which"], ["n"]),
             make("Slice", ["table", "zero", "n", "last"], ["places"])]  # fmt: skip
    weights = {"which": np.array([axis]), "zero": np.array([0]), "last": np.array([1]),
               "table": np.arange(6, dtype="float32")[None]}  # fmt: skip
    return nodes, weights


@pytest.mark.parametrize("axis", [0, 1])
def test_a_slice_to_the_size_of_an_input_has_that_size_and_ends_with_the_data(axis):
    nodes, weights = first_places(axis)
    model = graph_model(nodes, [info("x", ["batch", "length"])], [info("places", None)], weights)
    named = tvm.relay.vm.optimize(from_onnx(model)[0], "llvm")[0]["main"]
    assert not any(isinstance(d, Any_) for d in named.ret_type.shape)
    compiled = onnx_backend.prepare(model)
    for shape in ((2, 4), (9, 1), (1, 9), (0, 3), (3, 0)):
        feed = {"x": np.zeros(shape, "float32")}
        np.testing.assert_array_equal(compiled.run(feed)[0], onnxruntime_results(model, feed)[0])


def test_what_is_added_to_places_of_an_input_keeps_its_size_and_more_places_than_there_are_are_refused(rng):
    nodes, weights = first_places(1)
    nodes.append(helper.make_node("Add", ["x", "places"], ["y"]))
    model = graph_model(nodes, [info("x", ["batch", "length"])], [info("y", None)], weights)
    named = tvm.relay.vm.optimize(from_onnx(model)[0], "llvm")[0]["main"]
    assert str(named.ret_type) == "Tensor[(batch, length), float32]"
    compiled = onnx_backend.prepare(model)
    for shape in ((2, 6), (3, 1), (1, 4)):
        feed = {"x": rng.standard_normal(shape).astype("float32")}
        np.testing.assert_allclose(compiled.run(feed)[0], onnxruntime_results(model, feed)[0])
    with pytest.raises(TVMError, match="operator add: dimensions that are equal"):
        compiled.run({"x": np.zeros((2, 7), "float32")})


def test_sums_with_rows_behind_those_of_an_input_have_one_size(rng):
    """Rows of a table behind as many as ``past`` has, one for each row of ``x``: the table may end before them, and
    then a single row broadcasts, and none empties the sum."""
    make = helper.make_node
    nodes = [make("Shape", ["past"], ["p"]), make("Shape", ["x"], ["s"]), make("Gather", ["s", "zero"], ["count"]),
             make("Add", ["p", "count"], ["end"]), make("Slice", ["table", "p", "end", "zero"], ["places"]),
             make("Add", ["x", "places"], ["first"]), make("Mul", ["first", "places"], ["second"]),
             make("Add", ["second", "first"], ["y"])]  # fmt: skip
    weights = {"zero": np.array([0]), "table": rng.standard_normal((6, 3)).astype("float32")}
    inputs = [info("x", ["count", 3]), info("past", ["past"])]
    model = graph_model(nodes, inputs, [info("y", None)], weights)
    named = tvm.relay.vm.optimize(from_onnx(model)[0], "llvm")[0]["main"]
    types = [str(call.checked_type) for call in post_order(named.body) if isinstance(call, relay.Call)]
    assert len(set(types[-3:])) == 1 and "?" not in types[-1]
    compiled = onnx_backend.prepare(model)
    for count, past in ((2, 0), (6, 0), (3, 2), (1, 5), (4, 5), (1, 6), (1, 9), (0, 3)):
        feed = {"x": rng.standard_normal((count, 3)).astype("float32"), "past": np.zeros(past, "float32")}
        np.testing.assert_allclose(compiled.run(feed)[0], onnxruntime_results(model, feed)[0], rtol=1e-6)
    for count, past in ((3, 4), (2, 6)):
        with pytest.raises(TVMError, match="operator add: dimensions that are equal"):
            compiled.run({"x": np.zeros((count, 3), "float32"), "past": np.zeros(past, "float32")})


def test_unpooled_data_is_filled_up_to_a_run_time_shape(rng):
    """Places count in the shape that the data has without a given one, as in ONNX's own test; onnxruntime counts them
    in the given one."""
    node = helper.make_node("MaxUnpool", ["x", "i", "s"], ["y"], "here", kernel_shape=[2, 2], strides=[2, 2])
    inputs = [info("x", ["n", 1, "h", "w"]), info("i", ["n", 1, "h", "w"], 7), info("s", [4], 7)]
    compiled = onnx_backend.prepare(graph_model([node], inputs, [info("y", None)]))
    for n, h, w, more in ((2, 3, 1, (1, 2)), (1, 2, 2, (0, 0))):
        x = rng.standard_normal((n, 1, h, w)).astype("float32")
        places = rng.permutation(n * 4 * h * w)[: n * h * w].reshape(x.shape)
        want = np.zeros(n * 4 * h * w, "float32")
        want[places.reshape(-1)] = x.reshape(-1)
        want = np.pad(want.reshape(n, 1, 2 * h, 2 * w), [(0, 0), (0, 0), (0, more[0]), (0, more[1])])
        np.testing.assert_array_equal(compiled.run([x, places, np.array(want.shape)])[0], want)
    with pytest.raises(tvm.TVMError, match="MaxUnpool node 'here': output_shape minus the inferred output shape"):
        compiled.run([x, places, np.array([1, 1, 3, 4])])


def test_an_instance_normalization_of_any_batch_sums_planes_as_one_of_a_known_batch_does():
    """A sum over a plane depends on its order in the sixth digit, which a chain of normalizations enlarges."""
    weights = {"s": np.ones(3, "float32"), "b": np.zeros(3, "float32")}
    node = helper.make_node("InstanceNormalization", ["x", "s", "b"], ["y"])
    for batch in (2, "n"):
        model = graph_model([node], [info("x", [batch, 3, 128, 128])], [info("y", None)], weights)
        assert from_onnx(model)[0].astext().count("newshape=[0, 0, 2048, 8]") == 2
