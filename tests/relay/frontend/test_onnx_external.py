"""Weights in files beside the model: what is checked is what is read, and nothing outside the model's folder is."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvm.error import TVMError
from tvm.relay.expr import Constant
from tvm.relay.frontend import from_onnx
from tvm.relay.frontend.onnx.external import Folder, entry_of
from tvm.relay.frontend.onnx.load import tensor_array

SECRET = b"\xab" * 64


def tensor(keys, dims=(4,), kind=TensorProto.FLOAT, name="w"):
    out = TensorProto(name=name, data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in keys:
        out.external_data.add(key=key, value=value)
    return out


def model_of(*weights, path):
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    nodes = [helper.make_node("Add", ["x", weights[0].name], ["y"])]
    graph = helper.make_graph(nodes, "g", [info], [out], list(weights))
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


@pytest.fixture
def folder(tmp_path):
    """A model's folder with weights in it, and a secret beside the folder."""
    (tmp_path / "secret.bin").write_bytes(SECRET)
    inner = tmp_path / "inner"
    (inner / "sub").mkdir(parents=True)
    (inner / "w.bin").write_bytes(np.arange(8, dtype="<f4").tobytes())
    (inner / "sub" / "w.bin").write_bytes(np.arange(8, 16, dtype="<f4").tobytes())
    return inner


@pytest.mark.parametrize(
    ("keys", "want"),
    [
        ([("location", "w.bin")], [0, 1, 2, 3]),
        ([("location", "./w.bin"), ("offset", "16")], [4, 5, 6, 7]),
        ([("location", "sub/w.bin"), ("offset", "8"), ("length", "16")], [10, 11, 12, 13]),
        ([("location", "sub//./w.bin"), ("prepacked_0", "7|8")], [8, 9, 10, 11]),
    ],
)
def test_a_weight_is_read_from_its_place_in_the_file(folder, keys, want):
    module, _ = from_onnx(model_of(tensor(keys), path=folder / "m.onnx"))
    (weight,) = [a for a in module["main"].body.args if isinstance(a, Constant)]
    np.testing.assert_array_equal(weight.data.numpy(), want)


def test_weights_are_views_of_the_file_and_not_copies(folder):
    here = Folder(str(folder))
    first, second = (here.array(tensor([("location", "w.bin"), ("offset", o)])) for o in ("0", "4"))
    assert not first.flags.owndata and not first.flags.writeable
    assert np.shares_memory(first[1:], second[:3])


@pytest.mark.parametrize("kind", [TensorProto.BFLOAT16, TensorProto.INT4, TensorProto.FLOAT8E5M2, TensorProto.BOOL])
def test_other_element_types_are_read_as_the_onnx_package_reads_them(folder, kind, rng):
    raw = rng.integers(0, 2, 6, dtype="uint8").tobytes()
    (folder / "b.bin").write_bytes(raw)
    count = {TensorProto.BFLOAT16: 3, TensorProto.INT4: 12}.get(kind, 6)
    got = Folder(str(folder)).array(tensor([("location", "b.bin")], (count,), kind))
    want = numpy_helper.to_array(TensorProto(data_type=kind, dims=[count], raw_data=raw))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype("float32"), want.astype("float32"))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ([("location", "../secret.bin")], "outside the model's folder"),
        ([("location", "sub/../../secret.bin")], "outside the model's folder"),
        ([("location", "")], "has no location"),
        ([("offset", "0")], "has no location"),
        ([("location", ".")], "outside the model's folder"),
        ([("location", "w.bin\0")], "outside the model's folder"),
        ([("location", "none.bin")], "No such file"),
        ([("location", "sub")], "not a regular file"),
        ([("location", "w.bin/w.bin")], "Not a directory"),
        ([("location", "w.bin"), ("location", "../secret.bin")], "'location' occurs twice in its external data"),
        ([("location", "w.bin"), ("offset", "0"), ("offset", "4")], "'offset' occurs twice in its external data"),
        ([("location", "w.bin"), ("offset", "-4")], "must be a number of bytes"),
        ([("location", "w.bin"), ("offset", "0x4")], "must be a number of bytes"),
        ([("location", "w.bin"), ("length", "1" * 40)], "must be a number of bytes"),
        ([("location", "w.bin"), ("length", "12")], "its shape and type require 16"),
        ([("location", "w.bin"), ("offset", "20")], "which has only 32"),
        ([("location", "w.bin"), ("offset", "9" * 18)], "which has only 32"),
        ([("location", "w.bin"), ("basepath", "..")], "unknown key 'basepath'"),
        ([("location", "w.bin"), ("checksum", "0" * 40)], "SHA-1"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(folder, keys, words):
    with pytest.raises(TVMError, match=words) as caught:
        from_onnx(model_of(tensor(keys), path=folder / "m.onnx"))
    assert "weight 'w'" in str(caught.value)


def test_absolute_paths_links_and_pipes_are_refused(folder, tmp_path):
    secret = str(tmp_path / "secret.bin")
    os.symlink(secret, folder / "link.bin")
    os.symlink(str(tmp_path), folder / "up")
    os.symlink(str(folder / "sub"), folder / "side")
    os.link(secret, folder / "hard.bin")
    os.mkfifo(folder / "pipe.bin")
    for location in (secret, "link.bin", "up/secret.bin", "side/w.bin", "hard.bin", "pipe.bin"):
        with pytest.raises(TVMError, match="folder|link|regular file"):
            from_onnx(model_of(tensor([("location", location)]), path=folder / "m.onnx"))


def test_a_file_exchanged_for_a_link_after_it_was_opened_is_not_read(folder, tmp_path):
    here = Folder(str(folder))
    first = here.array(tensor([("location", "w.bin")]))
    (folder / "w.bin").unlink()
    os.symlink(str(tmp_path / "secret.bin"), folder / "w.bin")
    np.testing.assert_array_equal(here.array(tensor([("location", "w.bin")])), first)


def test_a_digest_that_is_right_is_accepted(folder):
    digest = hashlib.sha1((folder / "w.bin").read_bytes()).hexdigest()
    keys = [("location", "w.bin"), ("checksum", digest)]
    np.testing.assert_array_equal(Folder(str(folder)).array(tensor(keys)), [0, 1, 2, 3])


def test_negative_and_enormous_sizes_are_refused(folder):
    for dims in ((-1,), (-2, -2), (1 << 62, 1 << 62), (1 << 40,)):
        with pytest.raises(TVMError, match="weight 'w'"):
            Folder(str(folder)).array(tensor([("location", "w.bin")], dims))


def test_an_empty_weight_of_an_empty_file_is_empty(folder):
    (folder / "none.bin").write_bytes(b"")
    assert Folder(str(folder)).array(tensor([("location", "none.bin")], (0, 3))).shape == (0, 3)


def test_a_model_in_memory_with_weights_in_files_asks_for_the_path(folder):
    path = model_of(tensor([("location", "w.bin")]), path=folder / "m.onnx")
    with pytest.raises(TVMError, match="pass the path"):
        from_onnx(onnx.load(str(path), load_external_data=False))


def test_random_entries_give_bytes_of_the_folder_or_an_error(folder, tmp_path, rng):
    """Whatever is written into external_data, a weight is bytes of a file of the folder, or a TVMError."""
    os.symlink(str(tmp_path / "secret.bin"), folder / "link.bin")
    os.symlink(str(tmp_path), folder / "up")
    os.link(str(tmp_path / "secret.bin"), folder / "hard.bin")
    words = ["w.bin", "sub", "..", ".", "", "/", "link.bin", "up", "hard.bin", "secret.bin", "a\\b", "\0", "~"]
    numbers = ["0", "4", "16", "32", "33", "-1", "", "1e1", "٣", " 4", "0016", str(1 << 63), str(1 << 70)]
    contents = [(folder / p).read_bytes() for p in ("w.bin", "sub/w.bin")]
    read = 0
    for _ in range(2000):
        keys = [("location", "w.bin")] if rng.random() < 0.7 else []
        for _ in range(rng.integers(0, 4)):
            key = str(rng.choice(["location", "offset", "offset", "length", "length", "checksum", "basepath", ""]))
            if key in ("offset", "length"):
                value = str(rng.choice(numbers))
            else:
                value = "/".join(rng.choice(words, rng.integers(1, 4)))
            keys.append((key, value))
        dims = rng.choice([0, 1, 2, 3, 4, 8, 9, -1, 1 << 33], rng.integers(0, 3)).tolist()
        kind = int(rng.choice([1, 3, 7, 11, 16, 22]))
        try:
            got = tensor_array(tensor(keys, dims, kind), Folder(str(folder)))
        except TVMError:
            continue
        read += 1
        if kind != 22:
            entry = entry_of(tensor(keys))
            assert any(c[entry.offset :][: got.nbytes] == got.tobytes() for c in contents)
            assert SECRET[:1] not in got.tobytes()
    assert read > 10
