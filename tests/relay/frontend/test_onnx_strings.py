"""Strings as numbers that carry them: moved, compared, and looked up in tables."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import graph_model, onnxruntime_results

from tvm.contrib import onnx_backend
from tvm.error import TVMError
from tvm.relay.frontend import from_onnx
from tvm.relay.frontend.onnx import small_types

ML, S, I, B = "ai.onnx.ml", TensorProto.STRING, TensorProto.INT64, TensorProto.BOOL
WORDS = np.array([["grey", "été", ""], ["Grey", "grey ", "été"]], object)


def info(name, kind=S, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def test_strings_are_compared_moved_and_given_back(rng):
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"]),
        helper.make_node("Concat", ["t", "w"], ["c"], axis=1),
        helper.make_node("Equal", ["c", "k"], ["y"]),
    ]
    weights = {"w": np.array([["a"], ["grey"], ["a"]], object), "k": np.array("grey", object)}
    model = graph_model(nodes, [info("x", S, (2, 3))], [info("c"), info("y", B)], weights, opset=19)
    got, want = onnx_backend.run_model(model, [WORDS]), onnxruntime_results(model, {"x": WORDS})
    for g, w in zip(got, want):
        assert g.tolist() == w.tolist()


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"keys_strings": ["grey", "été"], "values_int64s": [3, 4], "default_int64": -7}, True),
        ({"keys_int64s": [1, 5], "values_strings": ["grey", "été"], "default_string": "none"}, False),
        ({"keys_strings": ["grey", ""], "values_strings": ["green", "full"]}, True),
    ],
)
def test_tables_of_labels_take_and_give_strings(attributes, words):
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain=ML, **attributes)
    x = WORDS if words else np.array([[1, 5, 2], [5, 5, 0]])
    out = info("y", S if "values_strings" in attributes else I)
    model = graph_model([node], [info("x", S if words else I, (2, 3))], [out])
    model.opset_import.add(domain=ML, version=2)
    assert onnx_backend.run_model(model, [x])[0].tolist() == onnxruntime_results(model, {"x": x})[0].tolist()


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (helper.make_node("Add", ["x", "x"], ["y"]), "Add node 'y': the operator does not support strings"),
        (helper.make_node("Equal", ["x", "n"], ["y"]), "Equal node 'y': strings can be compared only with strings"),
        (helper.make_node("Cast", ["n"], ["y"], to=S), "Cast node 'y': numbers cannot be cast to strings"),
        (helper.make_node("LabelEncoder", ["n"], ["y"], domain=ML, keys_strings=["a"], values_int64s=[1]),
         "LabelEncoder node 'y': the keys are strings, but the input has another type"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_with_strings_is_refused_with_the_name_of_the_node(node, words):
    model = graph_model([node], [info("x", S, (3,)), info("n", I, (3,))], [info("y")])
    model.opset_import.add(domain=ML, version=2)
    with pytest.raises(TVMError, match=words):
        from_onnx(model)


def test_strings_of_one_number_are_refused(monkeypatch):
    class Short:
        def __init__(self, data, digest_size):
            self.size = digest_size

        def digest(self) -> bytes:
            return bytes(self.size)

    node = helper.make_node("Equal", ["x", "k"], ["y"])
    model = graph_model([node], [info("x", S, (1,))], [info("y", B)], {"k": np.array(["a"], object)})
    compiled = onnx_backend.prepare(model)
    monkeypatch.setattr(small_types.hashlib, "blake2b", Short)
    with pytest.raises(TVMError, match="the strings 'a' and '.*' have the same hash"):
        compiled.run([np.array(["b"], object)])
