"""The importer's reading: checks before, bad models, weights, functions, control flow."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm
from tvm.contrib import onnx_backend
from tvm.ir.visit import post_order
from tvm.relay.expr import Call
from tvm.relay.frontend import from_onnx

F = TensorProto.FLOAT


def model(nodes, inputs, outputs, weights=(), opset=17, **more):
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(n, F, s) for n, s in inputs],
        [helper.make_tensor_value_info(n, F, s) for n, s in outputs],
        [numpy_helper.from_array(a, n) for n, a in weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *more.pop("sets", [])], **more)


def test_all_unsupported_operators_are_in_one_error():
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], "first"),
        helper.make_node("Frobnicate", ["a"], ["b"]),
        helper.make_node("StringNormalizer", ["b"], ["y"], "last"),
    ]
    with pytest.raises(tvm.error.OpNotImplemented) as caught:
        from_onnx(model(nodes, [("x", [2])], [("y", [2])]))
    text = str(caught.value)
    assert "Frobnicate (operator set 17): 2 nodes, first 'first'" in text
    assert "StringNormalizer (operator set 17): 1 node, first 'last'" in text


@pytest.mark.parametrize("content", [b"", b"garbage" * 9, b"\x08\x07\x12"])
def test_what_is_no_model_is_refused_in_one_line(tmp_path, content):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(tvm.error.TVMError) as caught:
        from_onnx(path)
    assert "\n" not in str(caught.value)


def test_a_truncated_model_is_refused(tmp_path):
    whole = model([helper.make_node("Relu", ["x"], ["y"])], [("x", [2])], [("y", [2])]).SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(tvm.error.TVMError, match="cut.onnx|no graph|nothing makes it"):
        from_onnx(path)


def test_shapes_that_do_not_fit_name_the_node():
    bad = model(
        [helper.make_node("Add", ["x", "w"], ["y"], "sum")],
        [("x", [2, 3])],
        [("y", [2, 3])],
        [("w", np.ones((4,), "float32"))],
    )
    with pytest.raises(tvm.error.TVMError, match="Add node 'sum'"):
        from_onnx(bad)


def test_unknown_input_names_are_refused():
    good = model([helper.make_node("Relu", ["x"], ["y"])], [("x", [2])], [("y", [2])])
    with pytest.raises(tvm.error.TVMError, match="no input 'z'; its inputs are x"):
        from_onnx(good, shape={"z": [2]})


def test_weights_outside_the_models_folder_are_refused(tmp_path):
    m = model([helper.make_node("Add", ["x", "w"], ["y"])], [("x", [2])], [("y", [2])], [("w", np.ones(2, "float32"))])
    tensor = m.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret.bin")
    (tmp_path / "secret.bin").write_bytes(b"\0" * 8)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "m.onnx").write_bytes(m.SerializeToString())
    with pytest.raises(tvm.error.TVMError, match="outside the model's folder"):
        from_onnx(inner / "m.onnx")


def test_weights_beside_the_model_are_read(tmp_path):
    m = model(
        [helper.make_node("Add", ["x", "w"], ["y"])], [("x", [2])], [("y", [2])], [("w", np.array([3, 4], "float32"))]
    )
    onnx.save(m, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    module, _ = from_onnx(tmp_path / "m.onnx")
    assert "add" in str(module)


def test_weights_are_inputs_when_not_frozen():
    m = model(
        [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Mul", ["r", "w"], ["y"])],
        [("x", [6])],
        [("y", [2, 3])],
        [("s", np.array([2, 3], "int64")), ("w", np.ones((2, 3), "float32"))],
    )
    module, params = from_onnx(m, freeze_params=False)
    assert [p.name_hint for p in module["main"].params] == ["x", "w"]
    assert set(params) == {"w"}


def run(m, *arrays):
    return [np.asarray(a) for a in onnx_backend.run_model(m, list(arrays))]


def test_functions_of_the_model_are_expanded_with_their_attributes(rng):
    body = [helper.make_node("LeakyRelu", ["a"], ["b"]), helper.make_node("Add", ["b", "a"], ["c"])]
    reference = body[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    function = helper.make_function("own", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 17)], ["slope"])
    m = model(
        [helper.make_node("Twice", ["x"], ["y"], domain="own", slope=0.5)],
        [("x", [4])],
        [("y", [4])],
        functions=[function],
        sets=[helper.make_opsetid("own", 1)],
    )
    x = rng.standard_normal(4).astype("float32")
    np.testing.assert_allclose(run(m, x)[0], np.where(x < 0, 0.5 * x, x) + x, rtol=1e-6, atol=1e-6)


def test_loops_of_known_length_are_unrolled(rng):
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "s"], ["t"]),
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Identity", ["t"], ["row"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", F, [2]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", F, [2]),
            helper.make_tensor_value_info("row", F, [2]),
        ],
    )
    m = model(
        [helper.make_node("Loop", ["n", "", "x"], ["y", "rows"], body=body)],
        [("x", [2])],
        [("y", [2]), ("rows", [3, 2])],
        [("n", np.array(3, "int64"))],
    )
    x = rng.standard_normal(2).astype("float32")
    y, rows = run(m, x)
    np.testing.assert_allclose(y, 8 * x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(rows, np.stack([2 * x, 4 * x, 8 * x]), rtol=1e-6, atol=1e-6)


def test_a_run_time_condition_chooses_between_computed_branches(rng):
    def branch(op):
        return helper.make_graph(
            [helper.make_node(op, ["x"], [op])], op, [], [helper.make_tensor_value_info(op, F, [3])]
        )

    m = model(
        [
            helper.make_node("ReduceSum", ["x"], ["t"], keepdims=0),
            helper.make_node("Less", ["t", "zero"], ["c"]),
            helper.make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Exp")),
        ],
        [("x", [3])],
        [("y", [3])],
        [("zero", np.array(0, "float32"))],
    )
    x = np.array([1, -2, 0.5], "float32")
    np.testing.assert_allclose(run(m, x)[0], -x, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(run(m, -x)[0], np.exp(-x), rtol=1e-5, atol=1e-5)


MODES = [
    {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "nearest_mode": "round_prefer_ceil"},
    {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {"mode": "linear", "antialias": 1},
    {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
    {"mode": "cubic", "antialias": 1},
]


@pytest.mark.parametrize("attrs", MODES, ids=lambda a: "-".join(str(v) for v in a.values()))
@pytest.mark.parametrize("is_larger", [False, True])
def test_resize_agrees_with_the_reference(attrs, is_larger, rng):
    """Where float32 rounds the place of the nearest pixel to a whole number, as 3 / 0.6, onnxruntime, which is
    followed, and the reference, which computes in float64, take different pixels: quotients by 0.5 are exact."""
    scale = 2.0 if is_larger else 0.5 if attrs["mode"] == "nearest" else 0.6
    from onnx.reference import ReferenceEvaluator

    sizes = [int(5 * scale), int(10 * scale)]
    scales = np.array([1, 1, scale, scale], "float32")
    m = model(
        [helper.make_node("Resize", ["x", "", "s"], ["y"], **attrs)],
        [("x", [1, 2, 5, 10])],
        [("y", [1, 2, *sizes])],
        [("s", scales)],
        opset=18,
    )
    x = rng.standard_normal((1, 2, 5, 10)).astype("float32")
    (want,) = ReferenceEvaluator(m).run(None, {"x": x})
    np.testing.assert_allclose(run(m, x)[0], want, rtol=1e-4, atol=1e-5)


def test_one_node_runs_through_the_backend():
    assert onnx_backend.supports_device("CPU") and not onnx_backend.supports_device("CUDA")
    x = np.array([[1, 2], [3, 4]], "float32")
    (y,) = onnx_backend.run_node(helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0]), [x])
    np.testing.assert_array_equal(y, x.T)


def test_kernels_name_the_nodes_they_came_from():
    """Through layouts, packed weights and fusion: the main operator's node, or its output where it has no name."""
    rng = np.random.default_rng(0)
    weights = [
        ("w", rng.standard_normal((16, 16, 3, 3), dtype="float32")),
        ("b", rng.standard_normal(16, dtype="float32")),
        ("d", rng.standard_normal((16, 8), dtype="float32")),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "bend"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "d"], ["m"]),
        helper.make_node("Tanh", ["m"], ["y"], "last"),
    ]
    mod, _ = from_onnx(model(nodes, [("x", [1, 16, 12, 12])], [("y", [1, 8])], weights))
    assert "span=first:0:0" in mod.astext()
    with tvm.transform.PassContext(opt_level=3):
        graph = json.loads(tvm.relay.build(mod, "llvm").get_graph_json())
    kernels = [n["attrs"] for n in graph["nodes"] if n["op"] != "null" and n["attrs"]["func_name"] != "__nop"]
    sources = {k["func_name"]: k.get("source") for k in kernels}
    assert all(sources.values())
    assert next(s for f, s in sources.items() if "conv2d" in f) == "first"
    assert next(s for f, s in sources.items() if "pool" in f) == "pool"
    assert next(s for f, s in sources.items() if "dense" in f) == "m"


def test_names_inside_a_function_begin_with_the_call():
    body = helper.make_function(
        "own", "Twice", ["a"], ["c"],
        [helper.make_node("Add", ["a", "a"], ["b"], "sum"), helper.make_node("Exp", ["b"], ["c"], "grow")],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    call = helper.make_node("Twice", ["x"], ["t"], "call", domain="own")
    nodes = [call, helper.make_node("Neg", ["t"], ["y"], "end")]
    whole = model(nodes, [("x", [3])], [("y", [3])], functions=[body], sets=[helper.make_opsetid("own", 1)])
    mod, _ = from_onnx(whole)
    found = {n.op.name: n.span.source_name.name for n in post_order(mod["main"].body) if isinstance(n, Call)}
    assert found == {"add": "call/sum", "exp": "call/grow", "negative": "end"}
    assert tvm.relay.negative(tvm.relay.var("x", shape=(3,))).span is None


def product_model():
    weights = [("w", np.ones((2, 3, 4), "float32"))]
    return model([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", [2, 5, 3])], [("y", [2, 5, 4])], weights)


@pytest.mark.parametrize("turned", [False, True])
def test_products_of_stacks_turn_the_right_side_if_asked_to(turned):
    module, _ = from_onnx(product_model(), convert_config={"use_nt_batch_matmul": turned})
    calls = {n.op.name: n for n in post_order(module["main"].body) if isinstance(n, Call)}
    assert calls["nn.batch_matmul"].attrs.transpose_b == turned


def test_an_option_that_does_not_exist_is_refused():
    with pytest.raises(tvm.error.TVMError, match="unknown key 'use_nt' .* the valid key is use_nt_batch_matmul"):
        from_onnx(product_model(), convert_config={"use_nt": True})


@pytest.mark.parametrize("name", ["folder", "named.onnx"])
def test_the_model_with_named_nodes_is_written_to_a_folder_or_a_file(tmp_path, name):
    m = product_model()
    onnx.save(m, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    from_onnx(tmp_path / "m.onnx", export_node_renamed_model_path=tmp_path / name)
    path = tmp_path / name
    (written,) = [path] if path.is_file() else list(path.iterdir())
    again = onnx.load(str(written), load_external_data=False)
    assert again.graph.node[0].name == "MatMul_0" and m.graph.node[0].name == ""
    np.testing.assert_array_equal(numpy_helper.to_array(again.graph.initializer[0]), np.ones((2, 3, 4)))
