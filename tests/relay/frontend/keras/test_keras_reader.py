"""Reading Keras models: what is found in files and configurations, and what is refused."""

from __future__ import annotations

import io
import json
import os
import zipfile

import numpy as np
import pytest
from keras_archive import cases
from mutants import watched

from tvm import relay
from tvm.error import OpNotImplemented, TVMError
from tvm.relay.frontend import from_keras
from tvm.relay.frontend.keras.hdf5 import opened

MUTATIONS = int(os.environ.get("TVM_FUZZ_CASES", "60"))
CHAIN = cases()["graph_sequential"]


def packed(config, weights: bytes = b"", compress=zipfile.ZIP_STORED) -> bytes:
    """An archive with this configuration."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compress) as archive:
        archive.writestr("metadata.json", '{"keras_version": "3.15.1"}')
        archive.writestr("config.json", config if isinstance(config, (str, bytes)) else json.dumps(config))
        archive.writestr("model.weights.h5", weights or no_weights())
    return out.getvalue()


def no_weights() -> bytes:
    """A file with a group for weights and no weights in it."""
    with zipfile.ZipFile(io.BytesIO(cases()["identity"].archive)) as archive:
        return archive.read("model.weights.h5")


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="it writes the files; it is among the requirements of the tests")


def layer(kind: str, name: str, module: str | None = "keras.layers", **config) -> dict:
    return {"module": module, "class_name": kind, "config": {"name": name, **config}, "registered_name": None}


def chain(*layers: dict) -> dict:
    first = layer("InputLayer", "x", batch_shape=[None, 4], dtype="float32")
    return {"module": "keras", "class_name": "Sequential", "config": {"name": "s", "layers": [first, *layers]}}


# -- shapes and layouts -----------------------------------------------------------------------------------------------


def test_an_open_batch_is_one_unless_a_shape_is_given():
    assert from_keras(CHAIN.h5)[0]["main"].params[0].checked_type.concrete_shape == (1, 3, 8, 7)
    assert from_keras(CHAIN.h5, layout="NHWC")[0]["main"].params[0].checked_type.concrete_shape == (1, 8, 7, 3)
    given = from_keras(CHAIN.archive, {"x": (5, 3, 8, 7)})[0]["main"]
    assert given.body.checked_type.concrete_shape == (5, 5)


@pytest.mark.parametrize(("shapes", "words"), [
    ({"y": (1, 3, 8, 7)}, "the model has no input 'y'; its inputs are x"), ({"x": (3, 8)}, "has 2 dimensions, but"),
    ({"x": (1, -3, 8, 7)}, "has a negative dimension"), ({"x": 3}, "must be a list of integers"),
])  # fmt: skip
def test_a_wrong_shape_is_refused(shapes, words):
    with pytest.raises(TVMError, match=words):
        from_keras(CHAIN.h5, shapes)


def test_arguments_that_are_none_of_those_wanted_are_refused_by_their_type():
    with pytest.raises(TypeError, match="model must be a Keras model, the path of a file or bytes, got int"):
        from_keras(3)
    with pytest.raises(TypeError, match="shape must be a dictionary"):
        from_keras(CHAIN.h5, [1])
    with pytest.raises(ValueError, match="layout must be one of NCW"):
        from_keras(CHAIN.h5, None, "NCHW4c")


def test_sizes_that_the_model_leaves_open_are_asked_for():
    model = chain(layer("ReLU", "r"))
    model["config"]["layers"][0]["config"]["batch_shape"] = [None, None, 3]
    with pytest.raises(TVMError, match=r"of the input 'x' has dynamic dimensions; .*shape=\{'x': \[1, ..., 3\]\}"):
        from_keras(packed(model))
    assert from_keras(packed(model), {"x": (2, 5, 3)})[0]["main"].body.checked_type.concrete_shape == (2, 5, 3)


def test_a_path_is_read(tmp_path):
    (tmp_path / "model").write_bytes(CHAIN.h5)
    assert from_keras(tmp_path / "model")[0]["main"].body.checked_type.concrete_shape == (1, 5)


# -- what is not supported --------------------------------------------------------------------------------------------


def test_all_layers_without_a_converter_are_named_with_their_counts():
    model = chain(layer("Fancy", "a"), layer("ReLU", "b"), layer("Fancy", "c"), layer("StringLookup", "d"))
    with pytest.raises(OpNotImplemented) as caught:
        from_keras(packed(model))
    assert "unsupported Keras layers" in str(caught.value)
    assert "Fancy: 2 layers, first 'a'" in str(caught.value)
    assert "StringLookup: 1 layer, first 'd'" in str(caught.value)


def test_operations_of_tensorflow_that_keras_2_wrote_as_layers_are_named_too():
    rows = [layer("TFOpLambda", f"l{i}", trainable=True, function=f) for i, f in enumerate(("nn.relu", "fft.fft"))]
    with pytest.raises(OpNotImplemented, match="tf.fft.fft: 1 layer, first 'l1'"):
        from_keras(packed(chain(*rows)))
    assert len(from_keras(packed(chain(rows[0])))[0]["main"].params) == 1


def test_a_lambda_layer_is_refused_by_name_and_its_code_is_not_read():
    code = {"class_name": "__lambda__", "config": {"code": "4wEAAAAAAAAA", "defaults": None, "closure": None}}
    model = chain(layer("Dense", "d", trainable=True, units=2), layer("Lambda", "mine", trainable=True, function=code))
    with pytest.raises(OpNotImplemented, match="Lambda: 1 layer, first 'mine'(.|\n)*never executed"):
        from_keras(packed(model))


def test_a_lambda_inside_another_layer_is_found():
    inner = layer("Lambda", "mine", trainable=True)
    with pytest.raises(OpNotImplemented, match="Lambda: 1 layer, first 'mine'"):
        from_keras(packed(chain(layer("TimeDistributed", "t", trainable=True, layer=inner))))


def test_a_class_of_the_users_own_is_not_taken_for_one_of_keras():
    mine = {**layer("Dense", "mine", module="my.code"), "registered_name": "Mine>Dense"}
    with pytest.raises(OpNotImplemented, match=r"Mine>Dense \(a custom class\): 1 layer, first 'mine'"):
        from_keras(packed(chain(mine)))


def test_an_activation_of_the_users_own_is_refused():
    with pytest.raises(TVMError, match="Activation 'a': the activation 'os.system' is not supported"):
        from_keras(packed(chain(layer("Activation", "a", activation="os.system"))))


def test_a_subclassed_model_is_refused_in_words():
    with pytest.raises(TVMError, match="subclassed models are Python code"):
        from_keras(packed({"module": "my.code", "class_name": "Mine", "config": {}}))


def test_errors_and_spans_name_the_layer():
    with pytest.raises(TVMError, match="^Permute 'p': dims"):
        from_keras(packed(chain(layer("Permute", "p", dims=[3, 1]))))
    with pytest.raises(TVMError, match="^Dense 'd': the model contains no weight 'kernel' for the layer 'd'"):
        from_keras(packed(chain(layer("Dense", "d", units=3))))
    body = from_keras(packed(chain(layer("ReLU", "shown"))))[0]["main"].body
    assert body.span.source_name.name == "shown"


@pytest.mark.parametrize("scale", [np.array([2, -1, 0.5, 0], "float32"), np.full(4, 1e-6, "float32")])
def test_the_scale_of_channels_of_convnext_is_a_factor_for_each(h5py, scale):
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.create_group("layers/layer_scale/vars")["0"] = scale
    scaled = layer("LayerScale", "scaled", module="keras.src.applications.convnext", projection_dim=4)
    mod, params = from_keras(packed(chain(scaled), out.getvalue()), {"x": (3, 4)})
    x = np.arange(12, dtype="float32").reshape(3, 4)
    got = relay.create_executor("graph", mod, target="llvm", params=params).evaluate()(x)
    np.testing.assert_array_equal(got.numpy(), x * scale)


def _scaled(operands: int, **settings) -> bytes:
    """The layer of InceptionResNetV2 of inputs x0, x1, ..."""
    names = [f"x{i}" for i in range(operands)]
    tensors = [
        {"class_name": "__keras_tensor__", "config": {"shape": [2, 3], "keras_history": [n, 0, 0]}} for n in names
    ]
    rows = [
        {**layer("InputLayer", n, batch_shape=[2, 3], dtype="float32"), "name": n, "inbound_nodes": []} for n in names
    ]
    made = layer("CustomScaleLayer", "out", "keras.src.applications.inception_resnet_v2", **settings)
    rows.append({**made, "name": "out", "inbound_nodes": [{"args": [tensors], "kwargs": {}}]})
    return packed(
        {
            "module": "keras",
            "class_name": "Functional",
            "config": {
                "name": "m",
                "layers": rows,
                "input_layers": [[n, 0, 0] for n in names],
                "output_layers": [["out", 0, 0]],
            },
        }
    )


def test_the_scaled_branch_of_inception_resnet_is_added_to_its_shortcut(rng):
    mod, params = from_keras(_scaled(2, scale=0.17))
    x, y = (rng.standard_normal((2, 3)).astype("float32") for _ in range(2))
    got = relay.create_executor("graph", mod, target="llvm", params=params).evaluate()(x, y)
    np.testing.assert_allclose(got.numpy(), x + y * np.float32(0.17), rtol=1e-6)


@pytest.mark.parametrize(("operands", "settings", "words"), [
    (3, {"scale": 1.0}, "^CustomScaleLayer 'out': the layer must have two operands, a shortcut and a branch, got 3"),
    (2, {"scale": "half"}, "scale must be a number, got 'half'"), (2, {}, "scale must be a number, got None"),
])  # fmt: skip
def test_a_scaled_branch_of_another_form_is_refused(operands, settings, words):
    with pytest.raises(TVMError, match=words):
        from_keras(_scaled(operands, **settings))


# -- damage and malice ------------------------------------------------------------------------------------------------


def test_links_and_data_outside_the_file_are_not_followed(h5py, tmp_path):
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["kernel"] = np.zeros((4, 2), "float32")
    (tmp_path / "secret.bin").write_bytes(bytes(64))
    model = chain(layer("Dense", "d", trainable=True, units=2, use_bias=False))

    def weights(change) -> bytes:
        out = io.BytesIO()
        with h5py.File(out, "w") as file:
            change(file.create_group("layers/dense/vars"))
        return out.getvalue()

    def external(group):
        group["0"] = h5py.ExternalLink(str(secret), "/kernel")

    def soft(group):
        group["0"] = h5py.SoftLink("/elsewhere")

    def stored(group):
        group.create_dataset("0", (4, 2), "float32", external=[(str(tmp_path / "secret.bin"), 0, 32)])

    def virtual(group):
        layout = h5py.VirtualLayout((4, 2), "float32")
        layout[:] = h5py.VirtualSource(str(secret), "kernel", (4, 2))
        group.create_virtual_dataset("0", layout)

    for change, words in ((external, "soft or external link"), (soft, "soft or external link"),
                          (stored, "is stored in another file"), (virtual, "is stored in another file")):  # fmt: skip
        with pytest.raises(TVMError, match=words):
            from_keras(packed(model, weights(change)))


def test_data_that_says_it_is_larger_than_its_file_is_not_made(h5py):
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.create_dataset("layers/dense/vars/0", (1 << 20, 1 << 20), "float32", chunks=(64, 64))
    with pytest.raises(TVMError, match="exceeds the size of the file"):
        from_keras(packed(chain(layer("Dense", "d", trainable=True, units=2)), out.getvalue()))


def test_groups_and_arrays_of_every_form_that_h5py_writes_are_read_or_refused(h5py):
    """Old and new headers, large groups, types of both orders of bytes, texts of fixed and of their own length."""
    rng = np.random.default_rng(0)
    arrays = {f"group/a{i:03}": rng.uniform(-1, 1, (i % 5, 3)).astype(t) for i, t in enumerate(
        ["float32", ">f4", "float64", "float16", "int8", ">i4", "uint16", "int64", "bool"] * 40)}  # fmt: skip
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        for name, value in arrays.items():
            file[name] = value
        file["group"].attrs["names"] = np.array([b"one", b"two two"])
        file["group"].attrs["text"] = "f\u00fcnf"
    root = opened(out.getvalue())
    for name, value in arrays.items():
        got = root.weight(name).array()
        assert got.dtype == value.dtype.newbyteorder("=")
        np.testing.assert_array_equal(got, value)
    assert root.group("group").texts("names") == ["one", "two two"]
    assert root.group("group").text("text") == "f\u00fcnf"
    assert root.group("none") is None and root.weight("group") is None and root.text("none") is None
    new = io.BytesIO()
    with h5py.File(new, "w", libver="latest") as file:
        file["inner/x"] = arrays["group/a001"]
        file["packed"] = arrays["group/a002"]
        file.create_dataset("small", data=np.zeros((4, 4)), compression="gzip")
        file.attrs["text"] = "new"
    root = opened(new.getvalue())
    np.testing.assert_array_equal(root.weight("inner/x").array(), arrays["group/a001"])
    assert root.text("text") == "new"
    with pytest.raises(TVMError, match="chunked or compressed"):
        root.weight("small").array()


def test_an_archive_that_unpacks_to_far_more_than_it_holds_is_refused():
    bomb = packed(json.dumps(chain()) + " " * (1 << 23), compress=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 1 << 20
    with pytest.raises(TVMError, match="expands to .* bytes"):
        from_keras(bomb)


@pytest.mark.parametrize(("config", "words"), [
    ("[]", "not a JSON object"), ("{", "is not valid JSON"), ("[" * 100_000, "nested too deeply|not valid JSON"),
    ({"class_name": "Sequential"}, "has no layers"), ({"class_name": "Functional", "config": {"layers": [3]}}, "layer"),
    ({"config": {}}, "has no class_name"),
])  # fmt: skip
def test_a_configuration_that_says_nothing_is_refused(config, words):
    with pytest.raises(TVMError, match=words):
        from_keras(packed(config))


def test_models_nested_without_end_are_refused():
    model = chain()
    for _ in range(200):
        model = chain(model)
    with pytest.raises(TVMError, match="nested more than"):
        from_keras(packed(model))


def test_a_layer_that_depends_on_its_own_result_is_refused():
    def ref(name):
        return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, 0]}}

    def called(name, *args):
        return {**layer("Add", name), "name": name, "inbound_nodes": [{"args": [list(args)], "kwargs": {}}]}

    first = {**layer("InputLayer", "x", batch_shape=[1, 2]), "name": "x", "inbound_nodes": []}
    rows = [first, called("a", ref("x"), ref("b")), called("b", ref("a"), ref("a"))]
    model = {"module": "keras", "class_name": "Functional",
             "config": {"layers": rows, "input_layers": [["x", 0, 0]], "output_layers": [["b", 0, 0]]}}  # fmt: skip
    with pytest.raises(TVMError, match="depends on its own output"):
        from_keras(packed(model))
    rows[1] = called("a", ref("x"), ref("nowhere"))
    with pytest.raises(TVMError, match="of 'nowhere', which does not exist"):
        from_keras(packed(model))


def test_mutated_files_are_converted_or_refused(rng):
    """Every error but TVMError fails the test, as do a work without end, code that is run and a file that is opened."""
    names = sorted(n for n in cases() if len(cases()[n].h5) < 60_000)
    refused = 0
    for number in range(MUTATIONS):
        case = cases()[names[int(rng.integers(len(names)))]]
        data = mutated(case, ("h5", "keras")[number % 2], rng)
        try:
            with watched():
                from_keras(data)
        except TVMError:
            refused += 1
    assert refused or MUTATIONS < 20


def mutated(case, ending: str, rng) -> bytes:
    """A file with changed bytes: anywhere in an HDF5 file; in an archive in one of its members or in the archive."""
    if ending == "h5":
        return changed(case.h5, rng)
    if rng.integers(4) == 0:
        return changed(case.archive, rng)
    with zipfile.ZipFile(io.BytesIO(case.archive)) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    which = ("config.json", "model.weights.h5")[int(rng.integers(2))]
    members[which] = changed(members[which], rng)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return out.getvalue()


def changed(data: bytes, rng) -> bytes:
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(out) - 8))
        way = int(rng.integers(6))
        if way == 0:
            out[at] = int(rng.integers(256))
        elif way == 1:
            out[at] ^= 1 << int(rng.integers(8))
        elif way == 2:
            out[at : at + 8] = int(rng.choice([0, 1, 255, 65535, (1 << 31) - 1, (1 << 32) - 1])).to_bytes(8, "little")
        elif way == 3:
            other = int(rng.integers(len(out) - 8))
            out[at : at + 8] = out[other : other + 8]
        elif way == 4:
            # Numbers and words of a configuration.
            out[at : at + 2] = bytes(rng.choice(list(b'0123456789-"[]{}:,ntf'), 2).tolist())
        else:
            del out[at : at + int(rng.integers(1, 9))]
    return bytes(out)
