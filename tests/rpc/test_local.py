"""A session on this machine."""

import numpy as np
import pytest

import tvm
from tvm import rpc, te


def test_a_library_is_sent_loaded_and_run(tmp_path):
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    path = tmp_path / "lib.tar"
    tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="add_one").export_library(str(path))
    remote = rpc.LocalSession()
    remote.upload(str(path))
    assert remote.listdir() == "lib.tar" and remote.download("lib.tar") == path.read_bytes()
    function = remote.load_module("lib.tar")
    device = remote.cpu()
    x = tvm.nd.array(np.arange(9, dtype="float32"), device)
    y = tvm.nd.array(np.zeros(9, "float32"), device)
    function(x, y)
    np.testing.assert_array_equal(y.numpy(), np.arange(1, 10, dtype="float32"))
    assert function.time_evaluator(function.entry_name, device, number=2)(x, y).mean > 0


def test_files_stay_in_the_folder_of_the_session(tmp_path):
    remote = rpc.LocalSession()
    remote.upload(b"abc", "notes.txt")
    assert remote.download("notes.txt") == b"abc"
    remote.remove("notes.txt")
    assert remote.listdir() == ""
    with pytest.raises(ValueError, match="outside the folder"):
        remote.upload(b"abc", "../notes.txt")
    with pytest.raises(ValueError, match="requires a file name"):
        remote.upload(b"abc")
