"""Reading TensorFlow graphs, SavedModels and checkpoints: what is found in them, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from mutants import watched
from tensorflow_writer import constant, graph, placeholder, runner, table, write_checkpoint, write_saved_model

from tvm import relay
from tvm.error import OpNotImplemented, TVMError
from tvm.ir.prim import Any_
from tvm.relay.frontend import from_tensorflow
from tvm.relay.frontend.tensorflow import crc32c as checksums
from tvm.relay.frontend.tensorflow.checkpoint import Checkpoint, read_table
from tvm.relay.frontend.tensorflow.crc32c import crc32c

MUTATIONS = int(os.environ.get("TVM_FUZZ_CASES", "240"))
NODES = [placeholder("x", None, 3), constant("w", [1.0, 2.0, 3.0]), ("y", "AddV2", ["x", "w"], {})]


# -- what a model may be ----------------------------------------------------------------------------------------------


def test_a_graph_is_bytes_a_message_or_a_path(tmp_path):
    data = graph(*NODES)
    (tmp_path / "model.pb").write_bytes(data)

    class Message:
        def SerializeToString(self):
            return data

    class Live:
        def as_graph_def(self):
            return Message()

    texts = {str(from_tensorflow(g)[0]) for g in (data, Message(), Live(), tmp_path / "model.pb")}
    assert len(texts) == 1
    with pytest.raises(TypeError, match="its bytes or a path, got int"):
        from_tensorflow(3)


def test_open_sizes_stay_open_unless_a_shape_is_given():
    (x,) = from_tensorflow(graph(*NODES))[0]["main"].params
    assert isinstance(x.type_annotation.shape[0], Any_)
    (x,) = from_tensorflow(graph(*NODES), shape={"x": (5, 3)})[0]["main"].params
    assert x.type_annotation.concrete_shape == (5, 3)


@pytest.mark.parametrize(("options", "words"), [
    ({"shape": {"z": (1, 3)}}, "the model has no input 'z'; its inputs are x"),
    ({"shape": {"x": (3,)}}, "has 1 dimensions, but the model declares 2"),
    ({"shape": {"x": (-4, 3)}}, "has a negative dimension"), ({"shape": {"x": 3}}, "must be a list of integers"),
    ({"outputs": ["yy"]}, "the model has no output 'yy'"), ({"outputs": ["y:3"]}, "'y' has no output 3"),
    ({"layout": "NCWH"}, "layout must be 'NHWC' or 'NCHW'"), ({"convert_config": {"a": 1}}, "unknown key 'a'"),
])  # fmt: skip
def test_wrong_arguments_are_refused(options, words):
    with pytest.raises(TVMError, match=words):
        from_tensorflow(graph(*NODES), **options)
    with pytest.raises(TypeError, match="shape must be a dictionary"):
        from_tensorflow(graph(*NODES), shape=[1])


def test_outputs_may_be_any_nodes_and_their_numbers():
    nodes = [
        placeholder("x", 4),
        constant("axis", 0, "int32"),
        ("s", "Split", ["axis", "x"], {"num_split": 2}),
        ("y", "Neg", ["s:1"], {}),
    ]
    module = from_tensorflow(graph(*nodes), outputs=["s:1", "y"])[0]
    assert len(module["main"].body.fields) == 2


def test_a_product_is_dense_or_matmul():
    nodes = [placeholder("x", 2, 3), constant("w", np.ones((3, 4))), ("y", "MatMul", ["x", "w"], {})]
    assert "nn.dense" in str(from_tensorflow(graph(*nodes))[0])
    assert "nn.matmul" in str(from_tensorflow(graph(*nodes), convert_config={"use_dense": False})[0])


@pytest.mark.parametrize("op, weight, attrs, shape", [
    ("Conv2D", (3, 3, 2, 4), {}, "(?, ?, ?, 2)"),
    ("Conv2D", (3, 3, 2, 4), {"data_format": "NCHW"}, "(?, 2, ?, ?)"),
    ("DepthwiseConv2dNative", (3, 3, 5, 1), {"data_format": "NHWC"}, "(?, ?, ?, 5)"),
    ("Conv3D", (1, 1, 1, 3, 2), {"data_format": "NDHWC", "strides": [1] * 5}, "(?, ?, ?, ?, 3)"),
    ("MatMul", (3, 4), {}, "(?, 3)"),
    ("MatMul", (3, 4), {"transpose_b": True}, "(?, 4)"),
    ("MatMul", (3, 4), {"transpose_a": True}, "(3, ?)"),
])  # fmt: skip
def test_an_input_without_a_shape_has_the_sizes_that_weights_ask_for(op, weight, attrs, shape):
    """Weights stand behind an Identity where a graph was frozen."""
    window = {} if op == "MatMul" else {"strides": [1, 1, 1, 1], "padding": "SAME"}
    nodes = [
        ("x", "Placeholder", [], {"dtype": np.dtype("float32")}),
        constant("w", np.ones(weight)),
        ("read", "Identity", ["w"], {}),
        ("y", op, ["x", "read"], {**window, **attrs}),
    ]
    module = from_tensorflow(graph(*nodes))[0]
    assert f"%x: Tensor[{shape}, float32]" in str(module)


@pytest.mark.parametrize("op, inputs", [
    ("Relu", ["x"]), ("AddV2", ["x", "w"]), ("MatMul", ["w", "x"]), ("MatMul", ["x", "circle"]),
])  # fmt: skip
def test_an_input_whose_shape_nothing_says_is_refused(op, inputs):
    without = "x", "Placeholder", [], {"dtype": np.dtype("float32")}
    circle = [("circle", "Identity", ["back"], {}), ("back", "Identity", ["circle"], {})]
    nodes = [without, constant("w", np.ones((2, 2))), *circle, ("y", op, inputs, {})]
    with pytest.raises(TVMError, match=r"the model declares no shape for input 'x'; give it: shape="):
        from_tensorflow(graph(*nodes), outputs=["y"])


def test_channels_come_first_where_the_layout_says_so(rng):
    weight = rng.uniform(-1, 1, (3, 3, 2, 4)).astype("float32")
    nodes = [
        placeholder("x", 1, 5, 6, 2),
        constant("w", weight),
        ("y", "Conv2D", ["x", "w"], {"strides": [1, 1, 1, 1], "padding": "SAME"}),
    ]
    plain, first = (from_tensorflow(graph(*nodes), layout=v)[0] for v in ("NHWC", "NCHW"))
    assert 'data_layout="NHWC"' in str(plain) and 'data_layout="NHWC"' not in str(first)
    x = rng.uniform(-1, 1, (1, 5, 6, 2)).astype("float32")
    got, want = (relay.create_executor("graph", mod=m, target="llvm").evaluate()(x).numpy() for m in (first, plain))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def _network(layout: str, weights: list) -> bytes:
    """A convolution, one for each channel, a bias, a normalization and pooling, in a layout."""
    last = layout == "NHWC"
    window = {"strides": [1, 2, 1, 1] if last else [1, 1, 2, 1], "padding": "SAME", "data_format": layout}
    pool = {**window, "ksize": [1, 3, 2, 1] if last else [1, 1, 3, 2]}
    nodes = [placeholder("x", *((2, 9, 8, 3) if last else (2, 3, 9, 8)))]
    nodes += [constant(f"w{k}", w) for k, w in enumerate(weights)]
    plain = {**window, "strides": [1, 1, 1, 1]}
    nodes += [
        ("conv", "Conv2D", ["x", "w0"], window),
        ("each", "DepthwiseConv2dNative", ["conv", "w1"], plain),
        ("bias", "BiasAdd", ["each", "w2"], {"data_format": layout}),
        (
            "norm",
            "FusedBatchNormV3",
            ["bias", "w2", "w3", "w4", "w5"],
            {"data_format": layout, "is_training": False, "epsilon": 1e-3},
        ),
        ("greatest", "MaxPool", ["norm"], pool),
        ("y", "AvgPool", ["greatest"], pool),
    ]
    return graph(*nodes)


def test_both_layouts_of_a_file_give_the_same(rng):
    sizes = ((3, 3, 3, 4), (3, 2, 4, 2), (8,), (8,), (8,))
    weights = [rng.uniform(-1, 1, s).astype("float32") for s in sizes] + [rng.uniform(1, 2, 8).astype("float32")]
    x = rng.uniform(-1, 1, (2, 9, 8, 3)).astype("float32")
    last, first = (from_tensorflow(_network(layout, weights))[0] for layout in ("NHWC", "NCHW"))
    want = relay.create_executor("graph", mod=last, target="llvm").evaluate()(x).numpy()
    got = relay.create_executor("graph", mod=first, target="llvm").evaluate()(x.transpose(0, 3, 1, 2)).numpy()
    np.testing.assert_allclose(got.transpose(0, 2, 3, 1), want, rtol=1e-4, atol=1e-5)


def test_all_operators_without_a_converter_are_named_with_their_counts():
    nodes = [placeholder("x", 3), ("a", "Mine", ["x"], {}), ("b", "Mine", ["a"], {}), ("c", "Yours", ["b"], {})]
    with pytest.raises(OpNotImplemented) as caught:
        from_tensorflow(graph(*nodes))
    assert "Mine: 2 nodes, first 'a'" in str(caught.value) and "Yours: 1 node, first 'c'" in str(caught.value)


def test_errors_and_spans_name_the_node():
    nodes = [placeholder("x", 2, 3), constant("s", [5, -7], "int32"), ("dense/r", "Reshape", ["x", "s"], {})]
    with pytest.raises(TVMError, match="^Reshape 'dense/r': the new shape .* has a negative dimension"):
        from_tensorflow(graph(*nodes))
    assert from_tensorflow(graph(*NODES))[0]["main"].body.span.source_name.name == "y"


@pytest.mark.parametrize(("nodes", "words"), [
    ([("a", "Neg", ["b"], {}), ("b", "Neg", ["a"], {}), ("c", "Neg", ["b"], {})], "has a cycle through"),
    ([("a", "Neg", ["b"], {})], "uses 'b', which is not a node"),
    ([placeholder("x", 3), placeholder("x", 3)], "two nodes have the name 'x'"),
    ([placeholder("x", 3), ("y", "Exit", ["x"], {})], "does not belong to a loop"),
    ([placeholder("x", 3), ("y", "Merge", ["x", "x"], {})], "no Switch condition selects"),
    ([("v", "VarHandleOp", [], {}), ("y", "ReadVariableOp", ["v"], {})], "freeze the graph"),
    ([placeholder("x", 3), ("y", "AssignVariableOp", ["x", "x"], {})], "AssignVariableOp: 1 node"),
    ([placeholder("x", 3), ("y", "RandomUniform", ["x"], {})], "RandomUniform: 1 node"),
])  # fmt: skip
def test_a_graph_that_is_wrong_is_refused(nodes, words):
    with pytest.raises(TVMError, match=words):
        from_tensorflow(graph(*nodes))


def test_an_assignment_that_only_order_asks_for_is_refused():
    """A node that is reached by a control input alone would change a variable."""
    nodes = [
        placeholder("x", 3),
        ("v", "VarHandleOp", [], {"dtype": np.dtype("float32")}),
        ("a", "AssignAddVariableOp", ["v", "x"], {}),
        ("y", "Neg", ["x", "^a"], {}),
    ]
    with pytest.raises(OpNotImplemented, match="AssignAddVariableOp: 1 node"):
        from_tensorflow(graph(*nodes), outputs=["y"])


# -- SavedModels ------------------------------------------------------------------------------------------------------

HANDLE = ("v", "VarHandleOp", [], {"dtype": np.dtype("float32"), "shared_name": "weight"})
BODY = [("read", "ReadVariableOp", ["resource"], {}), ("sum", "AddV2", ["data", "read:value:0"], {})]


def saved_model(folder, key: str = "weight"):
    nodes = [
        placeholder("serving_x", None, 3),
        HANDLE,
        ("call", "StatefulPartitionedCall", ["serving_x", "v"], {"f": {"function": "infer"}}),
        ("twice", "Mul", ["call", "call"], {}),
    ]
    functions = [("infer", ["data", "resource"], {"result": "sum:z:0"}, BODY)]
    entries = {
        "serving_default": ({"data": "serving_x:0"}, {"out": "call:0"}),
        "squared": ({"data": "serving_x:0"}, {"out": "twice:0"}),
    }
    write_saved_model(folder, nodes, {key: np.array([1.0, 2.0, 3.0], "float32")}, entries, functions)
    return folder


def test_a_saved_model_has_its_variables_functions_and_entries(tmp_path):
    x = np.array([[0.5, -1.0, 2.0]], "float32")
    for outputs, wanted in ((None, x + [1, 2, 3]), ("squared", (x + [1, 2, 3]) ** 2), (["out"], x + [1, 2, 3])):
        module, params = from_tensorflow(saved_model(tmp_path), outputs=outputs, shape={"data": (1, 3)})
        assert [p.name_hint for p in module["main"].params] == ["data"] and not params
        got = relay.create_executor("graph", mod=module, target="llvm").evaluate()(x)
        np.testing.assert_array_equal(got.numpy(), wanted.astype("float32"))


def test_a_variable_that_the_checkpoint_does_not_have_is_named(tmp_path):
    with pytest.raises(TVMError, match="the checkpoint does not contain 'weight'"):
        from_tensorflow(saved_model(tmp_path, "other"))


def test_functions_that_call_themselves_are_refused(tmp_path):
    call = ("again", "PartitionedCall", ["data"], {"f": {"function": "infer"}})
    nodes = [placeholder("x", 3), ("y", "PartitionedCall", ["x"], {"f": {"function": "infer"}})]
    functions = [("infer", ["data"], {"result": "again:output:0"}, [call])]
    write_saved_model(tmp_path, nodes, {}, {"serving_default": ({"x": "x:0"}, {"y": "y:0"})}, functions)
    with pytest.raises(TVMError, match="nested more than 64 levels deep"):
        from_tensorflow(tmp_path)


def test_a_folder_without_a_saved_model_is_refused(tmp_path):
    with pytest.raises(TVMError, match="is not a SavedModel"):
        from_tensorflow(tmp_path)


# -- checkpoints ------------------------------------------------------------------------------------------------------


def test_the_checksum_of_many_parts_is_that_of_one_byte_after_the_other(rng, monkeypatch):
    assert crc32c(b"123456789") == 0xE3069283
    data = rng.integers(0, 256, 70_001).astype("uint8").tobytes()
    cuts = (4096, 4097, 16_383, 65_537, len(data))
    quick = [crc32c(data[:n]) for n in cuts]
    monkeypatch.setattr(checksums, "_FEW", 1 << 30)
    assert quick == [crc32c(data[:n]) for n in cuts]


def test_tensors_of_a_checkpoint_are_read_and_checked(tmp_path, rng):
    tensors = {f"t{k}": rng.uniform(-1, 1, (k, 3)).astype("float32") for k in range(5)}
    write_checkpoint(tmp_path, tensors)
    found = Checkpoint(str(tmp_path / "variables"))
    for key, array in tensors.items():
        np.testing.assert_array_equal(found.tensor(key), array)
    data = tmp_path / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-20] + b"\x01" * 20)
    with pytest.raises(TVMError, match="'t4' is damaged: its checksum does not match"):
        Checkpoint(str(tmp_path / "variables")).tensor("t4")
    data.write_bytes(data.read_bytes()[:-1])
    with pytest.raises(TVMError, match="'t4' extends beyond the end"):
        Checkpoint(str(tmp_path / "variables")).tensor("t4")


def test_links_are_not_followed(tmp_path):
    folder = saved_model(tmp_path / "model") / "variables"
    index = folder / "variables.index"
    index.rename(tmp_path / "elsewhere")
    index.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TVMError, match="cannot read the checkpoint's index"):
        from_tensorflow(tmp_path / "model")
    index.unlink()
    (tmp_path / "elsewhere").rename(index)
    folder.rename(tmp_path / "away")
    folder.symlink_to(tmp_path / "away")
    with pytest.raises(TVMError, match="is a link, which is not supported"):
        from_tensorflow(tmp_path / "model")


def test_an_index_that_is_cut_anywhere_is_refused():
    whole = table({b"a": b"1", b"b": b"22"})
    assert read_table(whole) == {b"a": b"1", b"b": b"22"}
    for end in range(len(whole)):
        with pytest.raises(TVMError, match="not the index of a checkpoint|damaged"):
            read_table(whole[:end])


# -- damage -----------------------------------------------------------------------------------------------------------


def _mutate(data: bytearray, rng) -> None:
    """Another byte, a part cut out, written twice or written elsewhere."""
    at, way = int(rng.integers(len(data))), int(rng.integers(5))
    if way == 0:
        data[at] = int(rng.integers(256))
    elif way == 1:
        data[at] = int(rng.choice([0, 1, 2, 127, 128, 255]))
    elif way == 2:
        data[at] = (data[at] + int(rng.choice([1, 255]))) & 255
    elif way == 3:
        other, size = int(rng.integers(len(data))), int(rng.integers(1, 9))
        data[at : at + size] = data[other : other + size]
    elif len(data) > 16:
        del data[at : at + int(rng.integers(1, 9))]


def _tried(model) -> bool:
    """Whether a model is refused; any other error than that of a refusal fails the test, and so does code that is run
    or a file that is opened outside of the model's folder."""
    try:
        with watched(model if isinstance(model, Path) else None):
            from_tensorflow(model)
    except TVMError:
        return True
    return False


def _mutated(data: bytes, rng) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        _mutate(out, rng)
    return bytes(out)


def test_mutated_graphs_are_converted_or_refused(rng):
    graphs = [c.graph for c in runner().cases().values()]
    refused = sum(_tried(_mutated(graphs[int(rng.integers(len(graphs)))], rng)) for _ in range(MUTATIONS // 2))
    assert refused or MUTATIONS < 50


def test_mutated_saved_models_are_converted_or_refused(rng, tmp_path):
    file = saved_model(tmp_path) / "saved_model.pb"
    data = file.read_bytes()
    refused = 0
    for _ in range(MUTATIONS // 4):
        file.write_bytes(_mutated(data, rng))
        refused += _tried(tmp_path)
    assert refused or MUTATIONS < 50


def test_mutated_checkpoints_are_read_or_refused(rng, tmp_path):
    """As they are, where checksums find the damage, and with new checksums, where it goes further."""
    index = saved_model(tmp_path) / "variables" / "variables.index"
    whole = index.read_bytes()
    entries = read_table(whole)
    refused = 0
    for number in range(MUTATIONS // 4):
        if number % 2:
            index.write_bytes(_mutated(whole, rng))
        else:
            key = sorted(entries)[int(rng.integers(len(entries)))]
            index.write_bytes(table({**entries, key: _mutated(entries[key], rng) if entries[key] else b"\x08"}))
        refused += _tried(tmp_path)
    assert refused or MUTATIONS < 50
