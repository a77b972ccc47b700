"""What is refused, and in which words; damaged files end in an error or are read."""

from __future__ import annotations

import os

import networks
import numpy as np
import pytest
from coreml_writer import NetworkWriter, ProgramWriter, Ref, feature, message, run
from mutants import MUTATIONS, damaged

from tvm import relay
from tvm.error import OpNotImplemented, TVMError
from tvm.relay.frontend import from_coreml


def _small() -> NetworkWriter:
    writer = NetworkWriter(False)
    writer.input("x", (3, 4, 5))
    return writer


def test_all_layers_that_are_not_supported_are_listed_at_once():
    writer = _small()
    for kind in ("custom", "randomNormalLike", "custom"):
        writer.layer(kind, "x")
    with pytest.raises(OpNotImplemented, match="(?s)custom: 2 nodes, first 'custom_1'.*randomNormalLike: 1 node"):
        from_coreml(writer.bytes())


def test_all_operations_that_are_not_supported_are_listed_at_once():
    writer = ProgramWriter()
    x = writer.input("x", (2,))
    writer.output(writer.op("sin", x=writer.op("random_normal", shape=[2])))
    writer.op("read_state", input=x)
    with pytest.raises(OpNotImplemented, match="(?s)random_normal: 1 node.*read_state: 1 node"):
        from_coreml(writer.bytes())


def test_models_of_other_kinds_are_refused_by_name():
    whole = message(
        "Model",
        pipeline={
            "models": [_small().model, message("Model", glmClassifier={}), message("Model", treeEnsembleRegressor={})]
        },
    )
    with pytest.raises(OpNotImplemented, match="glmClassifier, treeEnsembleRegressor are not supported"):
        from_coreml(whole.SerializeToString())


def test_a_live_model_gives_its_specification():
    class Live:
        def get_spec(self):
            return writer.model

    writer = _small()
    writer.output(writer.layer("activation", "x", ReLU={}), (3, 4, 5))
    x = np.linspace(-1, 1, 60, dtype="float32").reshape(1, 3, 4, 5)
    for model in (Live(), writer.model, writer.bytes()):
        np.testing.assert_array_equal(run(model, {"x": x})[0], np.maximum(x, 0))


def test_the_batch_is_as_the_shape_says():
    writer = _small()
    writer.output(writer.layer("flatten", "x"), (60,))
    module, params = from_coreml(writer.bytes(), {"x": (2, 3, 4, 5)})
    assert not params
    assert relay.transform.InferType()(module)["main"].checked_type.ret_type.concrete_shape == (2, 60)


@pytest.mark.parametrize(("shape", "words"), [
    ({"y": (1, 2)}, "no input 'y'"), ({"x": (1, 0, 4, 5)}, "0 is not a valid dimension"), ({"x": 3}, "expected a list"),
    ({"x": (3, 3, 3, 3, 3)}, "a sequence of 3|a sequence of length 3|not produced|channels|elements|shape"),
])  # fmt: skip
def test_shapes_that_do_not_fit_are_refused(shape, words):
    writer = _small()
    writer.output(writer.layer("scale", "x", shapeScale=[3, 4, 5], scale=np.ones(60)), (3, 4, 5))
    with pytest.raises((TVMError, AssertionError, TypeError), match=words):
        from_coreml(writer.bytes(), shape)


@pytest.mark.parametrize(("kind", "params", "words"), [
    ("convolution", {"outputChannels": 2, "kernelChannels": 3, "valid": {}, "weights": np.ones(7)}, "has 7 elements"),
    ("convolution", {"outputChannels": 1 << 40, "kernelChannels": 3, "valid": {}}, "the maximum at"),
    ("pooling", {"type": 7, "kernelSize": [2, 2], "valid": {}}, "the pooling type 7 is not supported"),
    ("pooling", {"kernelSize": [0, 2], "valid": {}}, "kernel sizes"),
    ("innerProduct", {"inputChannels": 7, "outputChannels": 2}, "inputChannels is 7"),
    ("reshape", {"targetShape": [7, 7, 7]}, "has a different number of elements"),
    ("permute", {"axis": [0, 0, 1, 2]}, "the permutation"), ("crop", {"cropAmounts": {"borderAmounts": [
        {"startEdgeSize": 9}, {"startEdgeSize": 0}]}}, "cannot crop"),
    ("split", {"nOutputs": 2}, "into 2 equal parts"), ("upsample", {"scalingFactor": [1 << 60, 1]}, "factors"),
    ("activation", {}, "no supported type"), ("softmaxND", {"axis": 9}, "axis 9 is out of range"),
    ("fillStatic", {"targetShape": [1 << 40, 1 << 40]}, "the maximum at"),
    ("tile", {"reps": [1 << 50, 1, 1, 1]}, "the maximum at"),
])  # fmt: skip
def test_layers_that_do_not_fit_are_refused_in_words(kind, params, words):
    writer = _small()
    writer.output(writer.layer(kind, "x", **params))
    with pytest.raises(TVMError, match=f"{kind}.*{words}"):
        from_coreml(writer.bytes())


@pytest.mark.parametrize(("kind", "inputs", "words"), [
    ("transpose", {"perm": [0, 0]}, "is not a permutation of 2"),
    ("conv", {"weight": np.ones((2, 2, 3), "float32")}, "does not match"),
    ("reshape", {"shape": [7]}, "cannot be reshaped"), ("gelu", {"mode": "none"}, "the mode 'none'"),
    ("softmax", {"axis": 3}, "axis 3 is out of range"), ("clip", {"alpha": 0.0}, "the input 'beta' is missing"),
    ("relu", {"shade": 1}, "the input 'shade' is not supported"), ("topk", {"k": 9}, "k 9 is out of range"),
    ("concat", {"values": "text", "axis": 0}, "must be a list of tensors|missing|not supported"),
    ("clip", {"alpha": Ref("x"), "beta": 0.0}, "must be constant at compile time"),
    ("exp", {"x": Ref("q")}, "not produced by any"),
])  # fmt: skip
def test_operations_that_do_not_fit_are_refused_in_words(kind, inputs, words):
    writer = ProgramWriter()
    x = writer.input("x", (2, 3))
    writer.output(writer.op(kind, **{"x": x, **inputs}))
    with pytest.raises(TVMError, match=words):
        from_coreml(writer.bytes())


def _package(tmp_path):
    return networks.MobileNet(np.random.default_rng(3), 8).program().package(tmp_path / "net.mlpackage")


def test_weights_outside_of_the_package_are_refused(tmp_path):
    package = _package(tmp_path)
    model = package / "Data" / "com.apple.CoreML" / "model.mlmodel"
    whole = model.read_bytes()
    for name in (b"@model_path/../../../../w", b"/model_path/weights/w", b"@model_path/weights/none."):
        old = b"@model_path/weights/weight.bin"
        model.write_bytes(whole.replace(old, name + b"x" * (len(old) - len(name))))
        with pytest.raises(TVMError, match="outside the model's folder|not in the model's folder|a regular file"):
            from_coreml(package)
    with pytest.raises(TVMError, match="pass the path of the package"):
        from_coreml(whole)


def test_a_link_in_the_package_is_not_followed(tmp_path):
    package = _package(tmp_path)
    weights = package / "Data" / "com.apple.CoreML" / "weights" / "weight.bin"
    weights.rename(tmp_path / "elsewhere.bin")
    weights.symlink_to(tmp_path / "elsewhere.bin")
    with pytest.raises(TVMError, match="and not a link"):
        from_coreml(package)


@pytest.mark.parametrize("text", [
    "", "{}", "[1]", '{"rootModelIdentifier": "A", "itemInfoEntries": {"A": {"path": "../x"}}}',
])  # fmt: skip
def test_a_manifest_that_says_nothing_is_refused(tmp_path, text):
    package = _package(tmp_path)
    (package / "Manifest.json").write_text(text)
    with pytest.raises(TVMError, match="does not contain the path|outside the model's folder"):
        from_coreml(package)


def test_optional_inputs_have_their_default_values_as_parameters():
    writer = NetworkWriter()
    writer.input("x", (2,))
    writer.model.description.input.append(
        message(
            "FeatureDescription",
            name="s",
            type={"multiArrayType": {"shape": [2], "dataType": 65568, "floatDefaultValue": 1.5}, "isOptional": True},
        )
    )
    writer.output(writer.layer("addBroadcastable", ["x", "s"]), (2,))
    x = np.array([1.0, 2], "float32")
    np.testing.assert_array_equal(run(writer.bytes(), {"x": x})[0], x + 1.5)
    np.testing.assert_array_equal(run(writer.bytes(), {"x": x, "s": x})[0], x + x)


def test_results_that_are_whole_numbers_are_given_as_such():
    writer = NetworkWriter()
    writer.input("x", (2, 3), dtype="int32")
    writer.model.description.output.append(feature(writer.layer("argMax", "x", axis=1, removeDim=True), (2,), "int32"))
    (got,) = run(writer.bytes(), {"x": np.array([[1, 5, 2], [9, 0, 3]], "int32")})
    assert got.dtype == "int32" and got.tolist() == [1, 0]


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="an MLModel, its specification, bytes or a path"):
        from_coreml(3)
    for data in (b"", b"nonsense", b"\xff" * 40):
        with pytest.raises(TVMError, match="is damaged|not a Core ML model"):
            from_coreml(data)
    with pytest.raises(TVMError, match="cannot read"):
        from_coreml("there_is_no_such_file.mlmodel")


def test_mutated_models_end_in_an_error_or_are_read(tmp_path):
    rng = np.random.default_rng(int(os.environ.get("TVM_TEST_SEED") or 0))
    made = np.random.default_rng(5)
    package = _package(tmp_path)
    inner = package / "Data" / "com.apple.CoreML"
    files = [inner / "model.mlmodel", inner / "weights" / "weight.bin", package / "Manifest.json"]
    plain = [
        networks.MobileNet(made, 8).network(),
        networks.text_classifier(made)[0],
        networks.transformer(made)[0],
        networks.pipeline(made)[0],
        networks.unet(made)[0],
    ]
    for number in range(MUTATIONS):
        model, target = plain[int(rng.integers(len(plain)))], None
        if number % 4 == 0:
            target = files[int(rng.integers(len(files)))]
            whole = target.read_bytes()
            target.write_bytes(damaged(whole, rng))
        try:
            from_coreml(damaged(model, rng) if target is None else package)
        except TVMError:
            pass
        finally:
            if target is not None:
                target.write_bytes(whole)
