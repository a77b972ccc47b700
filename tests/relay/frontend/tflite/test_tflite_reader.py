"""Reading TFLite files: what is found in them, and what is refused."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest
from mutants import watched
from tflite_cases import CASES
from tflite_writer import NodeSpec, Spec, constant, flexbuffer_map, one_node, write_model

from tvm import relay
from tvm.error import OpNotImplemented, TVMError
from tvm.relay.frontend import from_tflite
from tvm.relay.frontend.tflite import OperatorConverter
from tvm.relay.frontend.tflite.flexbuffer import number_map
from tvm.relay.frontend.tflite.load import load
from tvm.relay.frontend.tflite.schema import OPTION_TYPES

MUTATIONS = int(os.environ.get("TVM_FUZZ_CASES", "200"))


def test_the_package_tflite_is_read_through_the_bytes_of_its_object():
    class Table:
        Bytes = CASES["add_0"].model

    class Model:
        _tab = Table()

    assert str(from_tflite(Model())[0]) == str(from_tflite(CASES["add_0"].model)[0])


def test_a_path_is_read(tmp_path):
    path = tmp_path / "model.tflite"
    path.write_bytes(CASES["add_0"].model)
    assert len(from_tflite(path)[0]["main"].params) == 2


def test_shapes_of_inputs_can_be_given():
    model = one_node("ABS", [Spec((1, 3))], [Spec((1, 3))])
    assert from_tflite(model, {"t0": (5, 3)}, {"t0": "float32"})[0]["main"].body.checked_type.concrete_shape == (5, 3)


@pytest.mark.parametrize(("shapes", "dtypes", "words"), [
    ({"x": (1, 3)}, None, "the model has no input 'x'; its inputs are t0"),
    ({"t0": (3,)}, None, "has 1 dimensions, but"),
    ({"t0": (-1, 3)}, None, "has a negative dimension"), ({"t0": 3}, None, "must be a list of integers"),
    (None, {"t0": "int8"}, "'t0' has type float32, but dtype_dict contains int8"),
])  # fmt: skip
def test_a_wrong_shape_or_type_is_refused(shapes, dtypes, words):
    with pytest.raises(TVMError, match=words.replace("(", r"\(")):
        from_tflite(one_node("ABS", [Spec((1, 3))], [Spec((1, 3))]), shapes, dtypes)


def test_what_is_no_model_is_refused_by_its_type():
    with pytest.raises(TypeError, match="bytes or a path, got int"):
        from_tflite(3)
    with pytest.raises(TypeError, match="shape_dict must be a dictionary"):
        from_tflite(CASES["add_0"].model, [1])


def test_all_operators_without_a_converter_are_named_with_their_counts():
    tensors = [Spec((1, 3)) for _ in range(5)]
    nodes = [NodeSpec("RFFT2D", [0], [1]), NodeSpec("Mine", [1], [2], custom=b""), NodeSpec("RFFT2D", [2], [3])]
    with pytest.raises(OpNotImplemented) as caught:
        from_tflite(write_model(tensors, nodes, [0], [3]))
    assert "CUSTOM Mine (version 1): 1 node, first 't2'" in str(caught.value)
    assert "RFFT2D (version 1): 2 nodes, first 't1'" in str(caught.value)


def test_errors_and_spans_name_the_operator():
    model = one_node("RESHAPE", [Spec((2, 3)), constant(np.array([5, -7], "int32"))], [Spec((6,))], {})
    with pytest.raises(TVMError, match="^RESHAPE 't2': the new shape .* has a negative dimension"):
        from_tflite(model)
    body = from_tflite(one_node("ABS", [Spec((1, 3))], [Spec((1, 3))]))[0]["main"].body
    assert body.span.source_name.name == "t1"


class Twice(OperatorConverter):
    def __init__(self, model, subgraph, exp_tab):
        super().__init__(model, subgraph, exp_tab)
        self.convert_map["Twice"] = self.convert_twice
        self.convert_map["ABS"] = self.convert_abs

    def convert_twice(self, op):
        (tensor,) = self.get_input_tensors(op)
        assert self.get_op_code_str(op) == "Twice"
        assert self.has_expr(tensor.tensor_idx)
        assert not self.is_quantized(op)
        return relay.add(self.get_expr(tensor.tensor_idx), self.get_tensor_expr(tensor))

    def convert_abs(self, op):
        return relay.negative(self.convert_op(op))


def test_a_script_converts_operators_of_its_own():
    nodes = [NodeSpec("Twice", [0], [1], custom=b""), NodeSpec("ABS", [1], [2])]
    model = write_model([Spec((3,))] * 3, nodes, [0], [2])
    mod = from_tflite(model, op_converter=Twice)[0]
    x = np.array([-1.0, 2.0, -3.0], "float32")
    got = relay.create_executor("graph", mod=mod, target="llvm").evaluate()(x)
    np.testing.assert_array_equal(got.numpy(), -np.abs(2 * x))


def test_options_of_a_detector_that_are_damaged_or_not_supported_are_refused():
    whole = flexbuffer_map({"max_detections": 10, "num_classes": 3, "use_regular_nms": 1})
    assert number_map(whole) == {"max_detections": 10, "num_classes": 3, "use_regular_nms": 1}
    inputs = [Spec((1, 4, 4)), Spec((1, 4, 4)), constant(np.ones((4, 4)), "float32")]
    outputs = [Spec((1, 10, 4)), Spec((1, 10)), Spec((1, 10)), Spec((1,))]
    changed = [whole[:i] + b"\xff" + whole[i + 1 :] for i in range(len(whole))]
    for options in (whole, whole[:-1], b"", b"\0" * 9, *changed):
        model = one_node("TFLite_Detection_PostProcess", inputs, outputs, custom=options)
        with pytest.raises(TVMError, match="TFLite_Detection_PostProcess 't3'"):
            from_tflite(model)


# -- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"TFL3", b"\0" * 8, b"\x10\0\0\0TFL3", b"\xff\xff\xff\xffTFL3" + b"\0" * 64])
def test_what_is_no_flatbuffer_is_refused(data):
    with pytest.raises(TVMError, match="the file is damaged|not a TFLite model"):
        from_tflite(data)


def test_a_file_cut_anywhere_is_refused_or_complete():
    model = CASES["conv_same_int8"].model
    for end in range(0, len(model), 7):
        with pytest.raises(TVMError, match="the file is damaged|not a TFLite model"):
            from_tflite(model[:end])


def test_parts_that_refer_to_one_place_many_times_are_refused():
    """Thousands of graphs that are one table, whose thousands of tensors are one table, would be read for hours."""
    model = write_model([Spec((1,))], [NodeSpec("ABS", [0], [0])] * 1000, [0], [0], copies=1000)
    assert len(model) < 100_000
    with pytest.raises(TVMError, match="too many references to the same data"):
        load(model)


@pytest.mark.parametrize(("tensors", "nodes", "words"), [
    ([Spec((3,))], [NodeSpec("ABS", [0], [7])], "refers to tensor 7, but there are only 1 tensors"),
    ([Spec((3,))] * 2, [NodeSpec("ABS", [1], [0])], "uses 't1', which is neither an input"),
    ([Spec((3,))] * 2, [NodeSpec("ABS", [0], [1]), NodeSpec("ABS", [0], [1])], "'t1' is the output of two operators"),
    ([Spec((3, -2))], [], "contains a negative dimension"),
    ([Spec((1 << 20, 1 << 20), "float32", np.zeros(3, "float32"))] * 2, [NodeSpec("ABS", [1], [0])], "contains 12"),
    ([Spec((3,), "int8", None, [0.1, 0.2], 0, 0)], [], "has 2 scales, which do not match its axis 0"),
    ([Spec((3,), "int8", None, float("nan"))], [], "not positive and finite"),
    ([Spec((3,), "string")], [], "has type string, which is not supported"),
])  # fmt: skip
def test_a_file_that_lies_is_refused(tensors, nodes, words):
    with pytest.raises(TVMError, match=words):
        from_tflite(write_model(tensors, nodes, [0], [0]))


def csr(segments, indices, order=(0, 1), segments_type=1):
    level = {"format": 1, "array_segments_type": segments_type, "array_segments": ("Int32Vector", {"values": segments}),
             "array_indices_type": 1, "array_indices": ("Int32Vector", {"values": indices})}  # fmt: skip
    return {"traversal_order": list(order), "dim_metadata": [{"format": 0, "dense_size": 2}, level]}


@pytest.mark.parametrize(
    ("sparsity", "words"),
    [
        (csr([0, 1, 2], [0, 3]), "an index of the sparse tensor is out of range for its shape"),
        (csr([0, 1, 2], [0]), "exceed its indices"),
        (csr([0, 1], [0, 1]), "has too few segments"),
        (csr([0, 2, 1], [0, 1]), "segments that are not valid ranges of its indices"),
        (csr([0, 2, 3], [0, 1, 2]), "refer to value 2, but there are only 2"),
        (csr([0, 1, 2], [0, 1], (0, 0)), r"has 2 levels in the invalid order \[0, 0\]"),
        (csr([0, 1, 2], [0, 1], segments_type=9), "a sparse level without array_segments"),
    ],
)
def test_a_sparse_tensor_whose_levels_do_not_fit_is_rejected(sparsity, words):
    weight = Spec((2, 3), "float32", np.ones(2, "float32"))._replace(sparsity=sparsity)
    with pytest.raises(TVMError, match=words):
        from_tflite(one_node("DENSIFY", [weight], [Spec((2, 3))], {}))


def test_options_of_another_operator_are_refused():
    model = bytearray(one_node("SOFTMAX", [Spec((1, 3))], [Spec((1, 3))], {"beta": 1.0}))
    refused = 0
    for i in (i for i in range(len(model)) if model[i] == OPTION_TYPES.index("Softmax")):
        # The type of the options, wherever it stands.
        changed = bytes(model[:i]) + b"\x0a" + bytes(model[i + 1 :])
        try:
            from_tflite(changed)
        except TVMError as problem:
            refused += "has options of type Concatenation, which must be Softmax" in str(problem)
    assert refused


def test_mutated_files_are_converted_or_refused(rng):
    """Every error but TVMError fails the test, as do a work without end, code that is run and a file that is opened."""
    models = [c.model for c in CASES.values()]
    refused = 0
    for _ in range(MUTATIONS):
        data = bytearray(models[int(rng.integers(len(models)))])
        for _ in range(int(rng.integers(1, 5))):
            _mutate(data, rng)
        try:
            with watched():
                from_tflite(bytes(data))
        except TVMError:
            refused += 1
    assert refused or MUTATIONS < 50


def _mutate(data: bytearray, rng) -> None:
    """Another byte, another number of 32 bits, a part cut out or written elsewhere."""
    at = int(rng.integers(4, len(data) - 4))
    way = int(rng.integers(5))
    if way == 0:
        data[at] = int(rng.integers(256))
    elif way == 1:
        numbers = [0, 1, 2, 127, 128, 255, 65535, 1 << 16, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
        struct.pack_into("<I", data, at & ~3, int(rng.choice(numbers)))
    elif way == 2:
        data[at] = (data[at] + int(rng.choice([1, 255]))) & 255
    elif way == 3:
        other = int(rng.integers(4, len(data) - 4))
        data[at & ~3 : (at & ~3) + 4] = data[other & ~3 : (other & ~3) + 4]
    else:
        del data[at : at + int(rng.integers(1, 9))]
        data += bytes(16)
