"""What the Caffe2 importer takes, and what it refuses in words."""

from __future__ import annotations

import numpy as np
import pytest
from caffe2_cases import CASES, NETWORKS, Case, Step
from caffe2_writer import add, imported, nets, run
from mutants import MUTATIONS, damaged

from tvm.error import OpNotImplemented, TVMError
from tvm.relay.frontend import from_caffe2
from tvm.relay.frontend.caffe2.schema import FILES

X = np.arange(6, dtype="float32").reshape(2, 3)


def _case(op: str, args=None, feeds=None, weights=None, outputs=1, inputs=None) -> Case:
    feeds = {"x": X} if feeds is None else feeds
    weights = weights or {}
    return Case(feeds, weights, [Step(op, inputs or [*feeds, *weights], [f"y{i}" for i in range(outputs)], args or {})])


def test_nets_are_taken_as_paths_bytes_and_messages(tmp_path):
    init, predict = nets(CASES["FC"])
    (tmp_path / "init_net.pb").write_bytes(init)
    (tmp_path / "predict_net.pb").write_bytes(predict)
    shapes = {"x0": (3, 4)}
    files = from_caffe2(str(tmp_path / "init_net.pb"), tmp_path / "predict_net.pb", shape=shapes)
    messages = from_caffe2(*(FILES.parse("Net", data, "net") for data in (init, predict)), shape=shapes)
    assert str(files[0]) == str(messages[0]) == str(from_caffe2(init, predict, shape=shapes)[0])
    assert sorted(files[1]) == ["w0", "w1"]


def test_a_blob_that_is_written_again_means_what_was_written_last():
    case = Case({"x": X - 2}, {}, [Step("Relu", ["x"], ["x"]), Step("Exp", ["x"], ["x"]), Step("Relu", ["x"], ["y"])])
    np.testing.assert_allclose(run(*imported(case), case.feeds)[0], np.exp(np.maximum(X - 2, 0)), rtol=1e-5)


def test_the_net_of_weights_may_compute():
    init, predict = (FILES.messages["Net"]() for _ in range(2))
    add(init, "GivenTensorFill", [], ["a"], shape=[2, 3], values=[1.0, 2, 3, 4, 5, 6.5])
    add(init, "Transpose", ["a"], ["b"])
    add(init, "Scale", ["b"], ["w"], scale=2.0)
    add(predict, "Add", ["x", "w"], ["y"])
    predict.external_output.append("y")
    module, params = from_caffe2(init.SerializeToString(), predict.SerializeToString(), shape={"x": (3, 2)})
    got = run(module, params, {"x": X.reshape(3, 2)})[0]
    np.testing.assert_allclose(got, X.reshape(3, 2) + 2 * np.float32([[1, 4], [2, 5], [3, 6.5]]))


def test_an_input_that_the_weights_fill_is_one_where_nothing_else_is():
    init, predict = (FILES.messages["Net"]() for _ in range(2))
    add(init, "ConstantFill", [], ["data"], shape=[2, 3])
    add(predict, "Relu", ["data"], ["y"])
    predict.external_input.append("data")
    for shape in (None, {"data": (2, 3)}):
        module, params = from_caffe2(init.SerializeToString(), predict.SerializeToString(), shape=shape)
        assert not params and module["main"].params[0].type_annotation.concrete_shape == (2, 3)
    assert not from_caffe2(init.SerializeToString(), predict.SerializeToString(), shape={})[0]["main"].params[1:]


def test_all_operators_that_are_missing_are_in_one_list():
    case = Case(
        {"x": X},
        {},
        [
            Step("Unknown", ["x"], ["a"]),
            Step("Relu", ["a"], ["b"]),
            Step("Beam", ["b"], ["c"]),
            Step("Beam", ["c"], ["d"]),
        ],
    )
    with pytest.raises(OpNotImplemented, match=r"(?s)Beam: 2 nodes, first 'c'.*Unknown: 1 node, first 'a'"):
        imported(case)


def _changed(**args) -> Case:
    """A recurrent network with other arguments."""
    case = CASES["RecurrentNetwork"]
    first, *rest = case.steps
    return case._replace(steps=[first._replace(args={**first.args, **args}), *rest])


# Regions, moves of two classes, and the size of the image.
_REGIONS = {"r": np.ones((3, 4), "float32"), "d": np.ones((3, 8), "float32"), "i": np.ones((1, 3), "float32")}


@pytest.mark.parametrize(("case", "words"), [
    (_case("XavierFill", {"shape": [2]}, {}), "random numbers are not supported"),
    (_case("SpatialBN", {}, {"x": np.zeros((1, 2, 3, 3), "float32")}, {k: np.ones(2, "float32") for k in "abcd"}),
     "batch statistics are not supported; use the inference net, which has is_test=1"),
    (_case("Relu", inputs=["z"]), "no input 'x'; its inputs are z"),
    (_case("PRelu", {"order": "CHWN"}, weights={"w": np.ones(3, "float32")}), "order b'CHWN' is not supported"),
    (_case("Conv", {"kernel": 3}, weights={"w": np.ones((1, 3, 3, 3), "float32")}), "2 dimensions"),
    (_case("MaxPool", {"kernel": 0}, {"x": np.zeros((1, 2, 5, 5), "float32")}), "kernel"),
    (_case("MaxPool", {"kernel": 3, "stride": 0}, {"x": np.zeros((1, 2, 5, 5), "float32")}), "must be positive"),
    (_case("MaxPool", {"kernel": 3, "legacy_pad": 9}, {"x": np.zeros((1, 2, 5, 5), "float32")}), "legacy_pad 9"),
    (_case("Conv", {"kernel": 3, "group": 2}, {"x": np.zeros((1, 3, 5, 5), "float32")},
           {"w": np.ones((2, 1, 3, 3), "float32")}), "do not match 3 input channels"),
    (_case("Slice", {"starts": [2], "ends": [1]}), "a slice from 2 to 1"),
    (_case("Split", {"axis": 1, "split": [1, 1]}, outputs=2), "do not add up to 3"),
    (_case("Transpose", {"axes": [0, 0]}), "are not a permutation of 2 dimensions"),
    (_case("Reshape", {"shape": [-1, -1]}), "is not supported"),
    (_case("Softmax", {"axis": 5}), "axis 5 is out of range"),
    (_case("LRN", {"size": 2}, {"x": np.zeros((1, 2, 3, 3), "float32")}), "must be odd and positive"),
    (_case("TopK", {"k": 9}, outputs=2), "9 is out of range for an axis of 3 elements"),
    (_case("Tile", {"tiles": 1 << 40}), "the maximum at compile time is"),
    (_case("ConstantFill", {"shape": [1 << 20, 1 << 20]}, {}), "the maximum at compile time is"),
    (_case("GivenTensorFill", {"shape": [3], "values": [1.0]}, {}), "needs 3 elements, but the file has 1"),
    (_case("Cast", {"to": 4}), "element type 4"),
    (_case("Clip", {"min": 2.0, "max": 1.0}), "is greater than max"),
    (_case("ResizeNearest", {"width_scale": -1.0}, {"x": np.zeros((1, 2, 3, 3), "float32")}), "cannot be resized"),
    (_case("ChannelShuffle", {"group": 4}, {"x": np.zeros((1, 6, 3, 3), "float32")}), "into 4 groups"),
    (_case("PadImage", {"mode": "wrap"}, {"x": np.zeros((1, 2, 3, 3), "float32")}), "padding mode b'wrap'"),
    (_case("Relu", outputs=2), "the operator has 2 outputs"),
    (_case("Sum", feeds={}), "at least 1 input"),
    (_case("Int8Dequantize"), "'x' has no scale"),
    (_case("Int8Quantize", {"Y_scale": 0.0}), "Y_scale 0.0 and"),
    (_case("Int8Quantize", {"Y_scale": 1.0, "Y_zero_point": 256}), "Y_zero_point 256 are not a valid"),
    (_case("Int8GivenTensorFill", {"shape": [3], "values": b"12"}, {}), "does not match the size of its data"),
    (_case("GenerateProposals"), "expected 4 inputs"),
    (_case("LSTMUnit"), "expected 5 inputs"),
    (_case("RecurrentNetwork", {"step_net": "op { }"}), "step_net must be a net"),
    (_changed(link_offset=[0, 1, 0, 1, 9]), "steps 9 to 10 of 'x' do not exist"),
    (_changed(link_offset=[0, 7, 0, 1, 0]), "step 7 of 'h' is written, but only"),
    (_changed(link_offset=[0]), "belong together"),
    (_changed(alias_offset=[1, -1, -9]), "alias_offset -9 is out of range"),
    (_changed(alias_dst=[b"a", b"h_last", b"c_last"]), "no link or alias produces the output 'h_all'"),
    (_changed(initial_recurrent_state_ids=[2, 17]), "is out of range for 6 inputs"),
    (_changed(step_net=[Step("Mine", ["x_t"], ["h_t"], {})]), "Mine: 1 node"),
    (_case("BBoxTransform", {"rotated": 1}, _REGIONS), "rotated boxes"),
    (_case("BBoxTransform", {"weights": [1.0]}, _REGIONS), "are not supported; expected 4 positive numbers"),
    (_case("BBoxTransform", {}, {**_REGIONS, "i": np.ones((2, 3), "float32")}), "do not match"),
])  # fmt: skip
def test_what_cannot_be_done_is_said(case, words):
    with pytest.raises(TVMError, match=words):
        imported(case)


def test_wrong_arguments_are_named():
    init, predict = nets(CASES["FC"])
    with pytest.raises(TypeError, match="init_net must be a NetDef, its bytes or a path, got"):
        from_caffe2(3, predict)
    with pytest.raises(TypeError, match="from_caffe2: shape must be a dictionary by input name, got"):
        from_caffe2(init, predict, shape=[1])
    with pytest.raises(TVMError, match="the model does not specify the shape of input 'x0'"):
        from_caffe2(init, predict)
    with pytest.raises(TVMError, match="no input 'x1'; its inputs are x0"):
        from_caffe2(init, predict, shape={"x0": (3, 4), "x1": (2,)})
    with pytest.raises(TVMError, match="has a negative dimension"):
        from_caffe2(init, predict, shape={"x0": (-3, 4)})
    with pytest.raises(TVMError, match="cannot read"):
        from_caffe2("no/such/file.pb", predict)
    with pytest.raises(TVMError, match="no operators"):
        from_caffe2(b"", predict)


def test_mutated_nets_are_converted_or_refused(rng):
    files = [nets(c) for c in CASES.values()] + [nets(NETWORKS["shufflenet"]())]
    shapes = [{k: v.shape for k, v in c.feeds.items()} for c in [*CASES.values(), NETWORKS["shufflenet"]()]]
    refused = 0
    for _ in range(MUTATIONS):
        at = int(rng.integers(len(files)))
        pair = list(files[at])
        hit = int(rng.integers(3) > 0)
        pair[hit] = damaged(pair[hit], rng)
        try:
            from_caffe2(*pair, shape=shapes[at])
        except TVMError:
            refused += 1
    assert refused or MUTATIONS < 50
