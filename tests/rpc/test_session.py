"""Sessions with servers of either kind: arrays, functions, modules, files, callbacks."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import rpc
from tvm.error import RPCError


@pytest.fixture
def python_remote(python_server):
    with rpc.connect(python_server.host, python_server.port) as session:
        yield session


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "bool", "float16"])
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (2, 3, 5)])
def test_arrays_come_back_as_they_went(remote, shape, dtype):
    data = (np.random.default_rng(0).standard_normal(shape) * 50).astype(dtype)
    array = tvm.nd.array(data, remote.cpu())
    np.testing.assert_array_equal(array.numpy(), data)
    np.testing.assert_array_equal(array.copyto(tvm.cpu()).numpy(), data)
    np.testing.assert_array_equal(array.copyto(remote.cpu()).numpy(), data)
    assert array.dtype == dtype and array.shape == shape and array.device == remote.cpu()


def test_arrays_of_more_than_a_piece_come_back_as_they_went(remote):
    data = np.arange((33 << 20) // 8, dtype="int64")
    array = tvm.nd.array(data, remote.cpu())
    np.testing.assert_array_equal(array.numpy(), data)


def test_views_and_copies_between_sessions_lie_where_they_should(server, remote):
    data = np.arange(24, dtype="float32")
    array = tvm.nd.array(data, remote.cpu())
    view = array._create_view((2, 5), "float32", 16)
    np.testing.assert_array_equal(view.numpy(), data[4:14].reshape(2, 5))
    view.copyfrom(np.zeros((2, 5), "float32"))
    data[4:14] = 0
    np.testing.assert_array_equal(array.numpy(), data)


def test_devices_say_what_they_are(remote):
    device = remote.cpu(0)
    assert str(device).startswith("remote[") and str(device).endswith("]:cpu(0)")
    assert device.exist and not remote.vulkan().exist
    device.sync()
    with pytest.raises(RPCError, match="no driver for the device"):
        tvm.nd.empty((3,), "float32", remote.metal())


def test_a_library_is_sent_loaded_run_and_timed(remote, library):
    remote.upload(library)
    module = remote.load_module("add_one.so")
    x = tvm.nd.array(np.arange(9, dtype="float32"), remote.cpu())
    y = tvm.nd.array(np.zeros(9, "float32"), remote.cpu())
    module(x, y)
    np.testing.assert_array_equal(y.numpy(), np.arange(1, 10, dtype="float32"))
    module["add_one"](y, x)
    np.testing.assert_array_equal(x.numpy(), np.arange(2, 11, dtype="float32"))
    flush = "cache_flush_cpu_non_first_arg"
    timer = module.time_evaluator("add_one", remote.cpu(), number=3, repeat=4, f_preproc=flush)
    assert len(timer(x, y).results) == 4 and min(timer(x, y).results) > 0
    assert module.implements_function("add_one") and not module.implements_function("nothing")
    with pytest.raises(AttributeError, match="no function 'nothing'"):
        module.get_function("nothing")


def test_kernels_check_their_arguments_there(remote, library):
    remote.upload(library)
    module = remote.load_module("add_one.so")
    x = tvm.nd.array(np.arange(9, dtype="float32"), remote.cpu())
    wrong = tvm.nd.array(np.arange(9, dtype="int32"), remote.cpu())
    with pytest.raises(RPCError, match="float32"):
        module(x, wrong)
    module(x, x)


def test_files_stay_in_the_folder_and_come_back_as_they_went(remote, tmp_path):
    data = np.random.default_rng(1).bytes((17 << 20) + 3)
    remote.upload(data, "large.bin")
    remote.upload(b"", "empty")
    (tmp_path / "a.txt").write_bytes(b"abc")
    remote.upload(tmp_path / "a.txt")
    remote.upload(str(tmp_path / "a.txt"), "sub/b.txt")
    assert remote.listdir() == "a.txt,empty,large.bin,sub" and remote.listdir("sub") == "b.txt"
    assert remote.download("large.bin") == data and remote.download("empty") == b""
    assert remote.download("sub/b.txt") == b"abc"
    remote.upload(b"x", "a.txt")
    assert remote.download("a.txt") == b"x"
    for name in ("large.bin", "empty", "a.txt", "sub/b.txt"):
        remote.remove(name)
    assert remote.listdir("sub") == ""


@pytest.mark.parametrize("value", [0, -(2**63), 1.5, float("inf"), "", "text\N{SNOWMAN}", b"\0bytes", b"", None, True])
def test_values_come_back_as_they_went(python_remote, value):
    assert python_remote.get_function("test.rpc.echo")(value) == value


def test_functions_go_both_ways(python_remote):
    assert python_remote.get_function("test.rpc.add")(2, 40) == 42
    assert python_remote.get_function("test.rpc.twice")(lambda x: x * 3, 5) == 45
    assert python_remote.get_function("test.rpc.adder")(3)(4) == 7
    add = python_remote.get_function("test.rpc.add")
    # A function of the server's that the client passes comes back to its owner without a detour.
    assert python_remote.get_function("test.rpc.twice")(python_remote.get_function("test.rpc.adder")(1), 5) == 7
    assert python_remote.get_function("test.rpc.twice")(lambda x: add(x, 1), 5) == 7


def test_a_callback_reads_and_writes_arrays_of_the_session(python_remote):
    array = tvm.nd.array(np.arange(5, dtype="float32"), python_remote.cpu())
    seen = []

    def look(argument):
        seen.append(argument.numpy())
        argument.copyfrom(np.ones(5, "float32"))
        return argument

    back = python_remote.get_function("test.rpc.shown")(look, array)
    np.testing.assert_array_equal(seen[0], np.arange(5, dtype="float32"))
    np.testing.assert_array_equal(array.numpy(), np.ones(5, "float32"))
    np.testing.assert_array_equal(back.numpy(), np.ones(5, "float32"))


def test_errors_keep_their_class_both_ways(python_remote):
    with pytest.raises(ValueError, match="so it is"):
        python_remote.get_function("test.rpc.wrong")("so it is")

    def fail(x):
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        python_remote.get_function("test.rpc.twice")(fail, 1)
    assert python_remote.get_function("test.rpc.add")(1, 1) == 2


def test_calls_nested_too_deep_are_refused(python_remote):
    twice = python_remote.get_function("test.rpc.twice")

    def again(x):
        return twice(again, x)

    with pytest.raises(RPCError, match="maximum depth of 32"):
        again(1)


def test_archives_are_linked_by_a_python_server_and_refused_by_one_in_c(server, remote, library, tmp_path):
    n = tvm.te.var("n")
    a = tvm.te.placeholder((n,), name="a")
    b = tvm.te.compute((n,), lambda i: a[i] * 2.0, name="b")
    path = str(tmp_path / "lib.tar")
    tvm.build(tvm.te.create_schedule(b.op), [a, b], "llvm", name="double").export_library(path)
    remote.upload(path)
    if server.kind == "c":
        with pytest.raises(RPCError, match=r"no linker; upload a shared library \(\.so\)"):
            remote.load_module("lib.tar")
        return
    module = remote.load_module("lib.tar")
    x = tvm.nd.array(np.arange(4, dtype="float32"), remote.cpu())
    module(x, x)
    np.testing.assert_array_equal(x.numpy(), np.arange(4, dtype="float32") * 2)
    assert remote.download_linked_module("lib.tar")[:4] == b"\x7fELF"


def test_what_is_dropped_is_freed_there(remote):
    """Handles are places in a table: where things were not freed, the numbers would grow."""
    first = tvm.nd.empty((1000,), "float32", remote.cpu()).handle.contents.data
    for _ in range(300):
        last = tvm.nd.empty((1000,), "float32", remote.cpu())
    assert (last.handle.contents.data & 0xFFFFFFFF) <= (first & 0xFFFFFFFF) + 4


def test_a_session_lives_as_long_as_what_is_left_of_it(server):
    array = tvm.nd.array(np.arange(3.0), rpc.connect(server.host, server.port).cpu())
    np.testing.assert_array_equal(array.numpy(), np.arange(3.0))
    del array  # the next session would wait for ever for the device
    rpc.connect(server.host, server.port).close()


def test_a_forked_child_is_refused(remote):
    import os

    array = tvm.nd.array(np.arange(3.0), remote.cpu())
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            array.numpy()
        except RPCError as problem:
            os.write(write, str(problem).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    assert b"after the fork" in os.read(read, 1000)
    os.close(read)
    np.testing.assert_array_equal(array.numpy(), np.arange(3.0))


def test_local_and_popen_sessions_have_the_face_of_a_session(library):
    from tests.rpc.conftest import PROGRAM

    for session in (rpc.LocalSession(), rpc.PopenSession(PROGRAM)):
        assert isinstance(session, rpc.RPCSession)
        session.upload(library)
        module = session.load_module("add_one.so")
        x = tvm.nd.array(np.arange(4, dtype="float32"), session.cpu())
        module["add_one"](x, x)
        np.testing.assert_array_equal(x.numpy(), np.arange(1, 5, dtype="float32"))
        session.close()
    with pytest.raises(RPCError, match="cannot start"):
        rpc.PopenSession("/nowhere/server")
