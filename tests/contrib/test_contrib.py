"""Helpers that published scripts import: compilers, folders, archives, downloads, outside libraries."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import tarfile

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.contrib import cblas, cc, clang, download, nvcc, pickle_memoize, tar, utils
from tvm.error import TVMError


def test_shared_library_executable_and_archive_from_a_c_source(tmp_path):
    source = tmp_path / "f.c"
    source.write_text(
        "#include <stdio.h>\nint twice(int x) { return 2 * x; }\n#ifdef MAIN\n"
        'int main(void) { printf("%d\\n", twice(21)); return 0; }\n#endif\n'
    )
    cc.create_shared(str(tmp_path / "f.so"), [str(source)])
    assert (tmp_path / "f.so").read_bytes()[:4] == b"\x7fELF"
    cc.create_executable(str(tmp_path / "f"), str(source), options=["-DMAIN"])
    assert subprocess.check_output([str(tmp_path / "f")], text=True) == "42\n"
    subprocess.check_call([cc.get_cc(), "-c", str(source), "-o", str(tmp_path / "f.o")])
    cc.create_staticlib(str(tmp_path / "f.a"), [str(tmp_path / "f.o")])
    assert (tmp_path / "f.a").read_bytes().startswith(b"!<arch>")


def test_a_missing_compiler_is_one_clear_error(tmp_path):
    with pytest.raises(TVMError, match="the compiler 'no-such-cc' was not found"):
        cc.create_shared(str(tmp_path / "x.so"), [], cc="no-such-cc")


def test_cross_compiler_exports_a_library(tmp_path):
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] + 1, name="b")
    f = tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="inc")
    link = cc.cross_compiler("gcc", options=["-O1"])
    assert link.output_format == "so" and "linux" in link.get_target_triple()
    f.export_library(str(tmp_path / "inc.so"), fcompile=link)
    g = tvm.runtime.load_module(str(tmp_path / "inc.so"))
    out = tvm.nd.array(np.zeros(4, "float32"))
    g["inc"](tvm.nd.array(np.arange(4, dtype="float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.arange(4) + 1)


def test_temporary_folders_go_when_they_are_done():
    folder = utils.tempdir()
    path = folder.relpath("x.txt")
    with open(path, "w") as f:
        f.write("x")
    assert folder.listdir() == ["x.txt"]
    kept = utils.tempdir(keep_for_debug=True)
    folder.remove()
    kept.remove()
    assert not os.path.exists(path) and os.path.exists(kept.path)
    os.rmdir(kept.path)
    with open(utils.tempdir().relpath("y.txt"), "w") as f:
        assert os.path.isdir(os.path.dirname(f.name))


def test_all_temporary_folders_can_be_removed_at_once(tmp_path):
    code = (
        f"import sys; from tvm.contrib.utils import TempDirectory as T; made = T({str(tmp_path / 'a')!r});"
        f" left = T({str(tmp_path / 'b')!r}); kept = T({str(tmp_path / 'c')!r}, keep_for_debug=True);"
        " assert T.TEMPDIRS == {made.path, left.path}; made.remove(); assert T.TEMPDIRS == {left.path};"
        f" again = T({str(tmp_path / 'a')!r}); del made;"
        " import os; assert os.path.isdir(again.path); T.remove_tempdirs();"
        " assert not T.TEMPDIRS and not os.path.exists(again.path) and not os.path.exists(left.path);"
        f" last = T({str(tmp_path / 'd')!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert os.listdir(tmp_path) == ["c"]


def test_tar_round_trip_and_refusals(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    tar.tar(str(tmp_path / "x.tar"), [str(tmp_path / "a.txt")])
    os.makedirs(tmp_path / "out")
    tar.untar(str(tmp_path / "x.tar"), str(tmp_path / "out"))
    assert (tmp_path / "out" / "a.txt").read_text() == "hello"
    for name, kind in (("../evil", tarfile.REGTYPE), ("/evil", tarfile.REGTYPE), ("link", tarfile.SYMTYPE)):
        with tarfile.open(tmp_path / "bad.tar", "w") as archive:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            entry.linkname = "/etc/passwd"
            archive.addfile(entry, io.BytesIO(b""))
        with pytest.raises(TVMError, match="outside the folder|neither a file nor a folder"):
            tar.untar(str(tmp_path / "bad.tar"), str(tmp_path / "out"))
    (tmp_path / "no.tar").write_text("this is no archive")
    with pytest.raises(TVMError, match="is not a tar archive"):
        tar.untar(str(tmp_path / "no.tar"), str(tmp_path / "out"))


def test_cblas_product_inside_a_program():
    a, b = te.placeholder((5, 7), name="A"), te.placeholder((6, 7), name="B")
    c = cblas.matmul(a, b, transb=True)
    d = te.compute((5, 6), lambda i, j: c[i, j] + 1, name="D")
    f = tvm.build(te.create_schedule(d.op), [a, b, d], "llvm")
    x, y = np.random.default_rng(0).random((5, 7), "float32"), np.random.default_rng(1).random((6, 7), "float32")
    out = tvm.nd.array(np.zeros((5, 6), "float32"))
    f(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), x @ y.T + 1, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("iterative", [False, True])
def test_cblas_products_are_made_by_one_call_or_one_by_one(iterative, monkeypatch):
    a, b = te.placeholder((3, 7, 5), name="A"), te.placeholder((3, 7, 6), name="B")
    c = cblas.batch_matmul(a, b, transa=True, iterative=iterative)
    wanted = "batch_matmul_iterative" if iterative else "batch_matmul"
    assert f'"tvm.contrib.cblas.{wanted}"' in str(c.op.body)
    f = tvm.build(te.create_schedule(c.op), [a, b, c], "llvm")
    rng = np.random.default_rng(0)
    x, y = rng.random((3, 7, 5), "float32"), rng.random((3, 7, 6), "float32")
    out = tvm.nd.array(np.zeros((3, 5, 6), "float32"))
    f(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), x.transpose(0, 2, 1) @ y, rtol=1e-5, atol=1e-5)


def test_a_missing_c_compiler_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    for name in ("CLANG", "CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # nor is the package ziglang installed
    with pytest.raises(TVMError, match="clang was not found; install it"):
        clang.find_clang()
    with pytest.raises(TVMError, match="needs a C compiler|ziglang"):
        clang.create_llvm("int f() { return 1; }")


C_STEP = 'extern "C" int step(float *x, int n) { for (int i = 0; i < n; ++i) x[i] += 1.5f; return 0; }\n'
C_CLEAR = 'extern "C" int clear(float *x, int n) { for (int i = 0; i < n; ++i) x[i] = 0; return 0; }\n'


@pytest.mark.parametrize("only_cc", [False, True])
def test_c_functions_are_called_from_generated_code(monkeypatch, tmp_path, only_cc):
    if only_cc:
        monkeypatch.setattr(clang, "find_clang", lambda required=True: [])
    a = te.placeholder((8,), name="A")

    def body(ins, outs):
        calls = [tvm.tir.call_extern("int32", f, outs[0].access_ptr("rw"), 8) for f in ("clear", "step", "step")]
        return tvm.tir.stmt_seq(*[tvm.tir.Evaluate(c) for c in calls])

    b = te.extern((8,), [a], body, name="B")
    c = te.compute((8,), lambda i: b[i] + a[i], name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], factor=4)
    # Both texts have ``step``: the second import leaves it out.
    s[c].pragma(outer, "import_llvm", clang.create_llvm(C_STEP, output=str(tmp_path / "step.ll")))
    s[c].pragma(inner, "import_llvm", clang.create_llvm(C_STEP + C_CLEAR))
    assert (tmp_path / "step.ll").stat().st_size > 0
    f = tvm.build(s, [a, c], "llvm")
    f.export_library(str(tmp_path / "f.so"))
    x = np.arange(8, dtype="float32")
    for g in (f, tvm.runtime.load_module(str(tmp_path / "f.so"))):
        out = tvm.nd.array(np.zeros(8, "float32"))
        g(tvm.nd.array(x), out)
        np.testing.assert_array_equal(out.numpy(), x + 3)


def test_download_keeps_what_is_there_and_leaves_nothing_half_done(tmp_path):
    source = tmp_path / "source.bin"
    source.write_bytes(b"12345")
    target = tmp_path / "deep" / "copy.bin"
    download.download(source.as_uri(), target)
    assert target.read_bytes() == b"12345"
    source.write_bytes(b"67890")
    download.download(source.as_uri(), target)
    assert target.read_bytes() == b"12345"
    download.download(source.as_uri(), target, overwrite=True)
    assert target.read_bytes() == b"67890"
    with pytest.raises(TVMError, match="could not download"):
        download.download((tmp_path / "none").as_uri(), tmp_path / "x.bin", retries=1)
    assert not list(tmp_path.glob("x.bin*"))


def test_memoized_results_live_as_long_as_the_process(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(pickle_memoize, "_RESULTS", {})
    calls = []

    @pickle_memoize.memoize("test")
    def make(n):
        calls.append(n)
        return [n, "text"]

    assert make(3) is make(3) and calls == [3] and not list(tmp_path.iterdir())


def test_memoized_arrays_that_are_saved_are_there_for_a_later_process(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calls = []

    @pickle_memoize.memoize("test", save_at_exit=True)
    def make(n):
        calls.append(n)
        return np.arange(n), np.ones(n)

    for _ in range(2):
        monkeypatch.setattr(pickle_memoize, "_RESULTS", {})
        np.testing.assert_array_equal(make(3)[0], [0, 1, 2])
    assert calls == [3]


def test_a_memoized_result_that_cannot_be_saved_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(pickle_memoize, "_RESULTS", {})
    make = pickle_memoize.memoize("test", save_at_exit=True)(lambda: {"a": 1})
    with pytest.warns(UserWarning, match="returned dict, which is cached in this process only"):
        assert make() == {"a": 1}
    assert not list(tmp_path.iterdir())


def test_memoized_functions_tell_large_arrays_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(pickle_memoize, "_RESULTS", {})
    total = pickle_memoize.memoize("test")(lambda x: x.sum())
    x, y = np.zeros(5000), np.zeros(5000)
    y[2500] = 1
    assert (total(x), total(y)) == (0, 1)


def test_memoized_functions_know_the_variables_around_them(monkeypatch):
    monkeypatch.setattr(pickle_memoize, "_RESULTS", {})

    def verify(n):
        @pickle_memoize.memoize("closure")
        def make():
            return np.zeros(n)

        return make()

    assert [verify(n).shape for n in (1, 4, 1)] == [(1,), (4,), (1,)]


def test_compute_versions():
    assert nvcc.have_fp16("5.3") and not nvcc.have_fp16("5.0") and nvcc.have_int8("6.1")
    assert nvcc.have_tensorcore("7.0") and not nvcc.have_tensorcore("6.1")
    assert nvcc.have_tensorcore(target=tvm.target.Target("cuda -arch=sm_90"))
    with pytest.raises(TVMError, match="must have the form 8.0"):
        nvcc.parse_compute_version("eight")
