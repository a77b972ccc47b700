from __future__ import annotations

import ctypes
import io
import os
import shutil
import struct
import subprocess
import tarfile

import numpy as np
import pytest

from tvm import runtime
from tvm.error import TVMError
from tvm.runtime import export, link
from tvm.runtime import module as module_api
from tvm.runtime import ndarray as nd
from tvm.runtime._lib import checksum, checksum_of_file

HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="module")
def object_code(compiler, tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("object") / "kernels.o"
    source = os.path.join(HERE, "kernels.c")
    subprocess.run([compiler, "-O2", "-fPIC", "-c", f"-I{runtime.include_path()}", "-o", path, source], check=True)
    return path.read_bytes()


def compiled(code: bytes, **options) -> runtime.Module:
    """A module as a back end makes it, of object code."""

    def save(path: str, fmt: str) -> None:
        assert fmt == "o"
        with open(path, "wb") as file:
            file.write(code)

    return module_api.from_code(None, ["add"], save=save, **options)


def check_add(module: runtime.Module) -> None:
    a, c = nd.array(np.arange(5, dtype="float32")), nd.empty((5,))
    module["add"](a, a, c)
    np.testing.assert_array_equal(c.numpy(), 2 * np.arange(5))


@pytest.mark.parametrize("suffix", ["so", "tar", "o"])
def test_exported_file_loads_and_runs(object_code, tmp_path, suffix):
    path = tmp_path / f"out.{suffix}"
    compiled(object_code).export_library(path)
    check_add(runtime.load_module(path))
    assert [entry.name for entry in tmp_path.iterdir()] == [f"out.{suffix}"]


def test_damage_anywhere_in_an_exported_library_is_refused(object_code, tmp_path):
    path = tmp_path / "out.so"
    compiled(object_code).export_library(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    for damaged in (whole[:middle], whole[:middle] + b"\xa5" * 200 + whole[middle + 200 :]):
        path.write_bytes(damaged)
        with pytest.raises(TVMError, match="cannot load library .* corrupt"):
            runtime.load_module(path)
    for at in range(0, len(whole) - 16, len(whole) // 40):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(TVMError, match="cannot load library"):
            runtime.load_module(path)


def test_damage_anywhere_in_an_archive_of_objects_is_refused(object_code, tmp_path):
    path = tmp_path / "out.tar"
    compiled(object_code).export_library(path)
    whole = path.read_bytes()
    flipped = (whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), len(whole) // 40))
    for damaged in (whole[:-1], whole[:-16], whole[:-512], whole[: len(whole) // 2], *flipped):
        path.write_bytes(damaged)
        with pytest.raises(TVMError, match="corrupt or truncated"):
            runtime.load_module(path)
    path.write_bytes(whole)
    check_add(runtime.load_module(path))


def test_archives_are_reproducible(object_code, tmp_path):
    for name in ("a.tar", "b.tar"):
        compiled(object_code).export_library(tmp_path / name)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()


def test_packed_imports_come_back_as_a_tree(object_code, tmp_path):
    def load(data: bytes) -> runtime.Module:
        text = data.decode()
        return module_api.from_functions({f"get_{text}": lambda: text}, type_key="testdevice")

    def device_module(text: str) -> runtime.Module:
        return module_api.from_code(None, [], type_key="testdevice", to_bytes=text.encode, exportable=False)

    runtime.register_func("runtime.module.loadbinary_testdevice", load, override=True)
    module, outer, inner = compiled(object_code), device_module("outer"), device_module("inner")
    outer.import_module(inner)
    module.import_module(outer)
    path = tmp_path / "packed.so"
    module.export_library(path)
    loaded = runtime.load_module(path)
    check_add(loaded)
    assert [m.type_key for m in loaded.imported_modules] == ["testdevice"]
    assert len(loaded.imported_modules[0].imported_modules) == 1
    assert loaded.get_function("get_inner", query_imports=True)() == "inner"
    runtime.remove_global_func("runtime.module.loadbinary_testdevice")
    with pytest.raises(TVMError, match="contains a 'testdevice' module, but this runtime has no loader"):
        runtime.load_module(path)


def test_loader_exception_comes_back(object_code, tmp_path):
    def fail(data):
        raise KeyError("bad device code")

    runtime.register_func("runtime.module.loadbinary_testbad", fail, override=True)
    module = compiled(object_code)
    module.import_module(module_api.from_code(None, [], type_key="testbad", to_bytes=lambda: b"x", exportable=False))
    module.export_library(tmp_path / "bad.so")
    with pytest.raises(KeyError, match="bad device code"):
        runtime.load_module(tmp_path / "bad.so")
    runtime.remove_global_func("runtime.module.loadbinary_testbad")


def test_import_that_cannot_be_packed_is_refused(object_code, tmp_path):
    module = compiled(object_code)
    module.import_module(module_api.from_functions({"f": lambda: 1}))
    with pytest.raises(TVMError, match="'python' module can neither be linked nor packed"):
        module.export_library(tmp_path / "x.so")
    assert not list(tmp_path.iterdir())


def test_loaded_library_is_not_exported_again(kernels, tmp_path):
    with pytest.raises(TVMError, match="'library' module has no code to link"):
        kernels.export_library(tmp_path / "x.so")
    with pytest.raises(TVMError, match="cannot be saved"):
        kernels.save(tmp_path / "x.o")


def test_a_module_of_several_objects_is_linked_from_all(object_code, compiler, tmp_path):
    (tmp_path / "two.c").write_text("int second_part(void) { return 2; }")
    subprocess.run([compiler, "-fPIC", "-c", "-o", tmp_path / "two.o", tmp_path / "two.c"], check=True)
    parts = (object_code, (tmp_path / "two.o").read_bytes())
    given = []

    def keep(output, files):
        given.extend(os.path.basename(f) for f in files)
        link.create_shared(output, files)

    path = tmp_path / "out.so"
    module_api.from_code(None, ["add"], objects=lambda: iter(parts)).export_library(path, fcompile=keep)
    assert given == ["lib0.o", "lib1.o"]
    check_add(runtime.load_module(path))
    assert ctypes.CDLL(str(path)).second_part() == 2


def test_a_failed_export_leaves_what_was_there(object_code, tmp_path):
    path = tmp_path / "out.so"
    path.write_bytes(b"before")

    def fails(output, files):
        with open(output, "wb") as file:
            file.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiled(object_code).export_library(path, fcompile=fails)
    assert path.read_bytes() == b"before" and [entry.name for entry in tmp_path.iterdir()] == ["out.so"]


def test_a_checksum_is_that_of_the_bytes_however_they_are_parted(rng):
    data = rng.bytes(1000)
    whole = checksum([data])
    for _ in range(200):
        cuts = [0, *sorted(rng.integers(0, 1001, rng.integers(0, 8)).tolist()), 1000]
        assert checksum([memoryview(data)[a:b] for a, b in zip(cuts, cuts[1:])]) == whole
    for place in range(1000):
        assert checksum([data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]]) != whole
    assert checksum([data, b"\0"]) != whole


def test_the_checksum_of_a_file_is_that_of_its_bytes(rng, tmp_path):
    # A file is read in blocks of a mebibyte.
    data = rng.bytes((2 << 20) + 12345)
    path = str(tmp_path / "data")
    with open(path, "wb") as file:
        file.write(data)
    for size in (0, 1, 31, 32, 33, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, len(data)):
        assert checksum_of_file(path, size) == checksum([data[:size]])
    with pytest.raises(TVMError, match=f"cannot read '.*data': the file has fewer than {len(data) + 1} bytes"):
        checksum_of_file(path, len(data) + 1)
    with pytest.raises(TVMError, match="cannot read '.*absent': No such file"):
        checksum_of_file(str(tmp_path / "absent"), 1)


def test_own_compile_function_gets_files_and_options(object_code, tmp_path):
    calls = []

    def fcompile(output, files, **kwargs):
        calls.append(([os.path.basename(name) for name in files], kwargs))
        link.create_shared(output, files)

    (tmp_path / "extra.c").write_text("int extra_symbol_of_test(void) { return 0; }\n")
    compiled(object_code).export_library(
        tmp_path / "x.so",
        fcompile=fcompile,
        addons=[str(tmp_path / "extra.c")],
        options=["-g"],
        workspace_dir=str(tmp_path),
    )
    assert calls == [(["lib0.o", "extra.c"], {"options": ["-g"]})]
    check_add(runtime.load_module(tmp_path / "x.so"))
    assert (tmp_path / "lib0.o").exists()


def test_arguments_of_an_export_by_position(object_code, tmp_path):
    calls = []

    def fpack(module, is_system_lib, c_symbol_prefix, folder):
        assert (is_system_lib, c_symbol_prefix) == (False, "")
        (tmp_path / "packed.c").write_text("int packed_symbol_of_test(void) { return 0; }\n")
        return str(tmp_path / "packed.c")

    def fcompile(output, files, **kwargs):
        calls.append([os.path.basename(name) for name in files])
        link.create_shared(output, files)

    (tmp_path / "extra.c").write_text("int extra_symbol_of_test(void) { return 0; }\n")
    folder = tmp_path / "kept"
    extra = [str(tmp_path / "extra.c")]
    compiled(object_code).export_library(tmp_path / "x.so", fcompile, fpack, extra, str(folder))
    assert calls == [["lib0.o", "packed.c", "extra.c"]] and (folder / "lib0.o").exists()


def test_missing_compiler_is_one_clear_error(object_code, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(link.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TVMError, match="linking needs a C compiler, but none of gcc, .* is on PATH"):
        compiled(object_code).export_library(tmp_path / "x.so")
    with pytest.raises(TVMError, match="the compiler 'nocc' was not found"):
        compiled(object_code).export_library(tmp_path / "x.so", cc="nocc")
    assert not list(tmp_path.iterdir())


def test_compiler_failure_shows_command_and_output(tmp_path):
    with pytest.raises(TVMError, match=r"(?s)linking .*x\.so failed with status .*command: .*absent\.o"):
        link.create_shared(str(tmp_path / "x.so"), [str(tmp_path / "absent.o")])


def test_code_for_linking_only_does_not_run(object_code):
    module = compiled(object_code)
    assert module.implements_function("add") and not module.is_runnable
    for call in (lambda: module["add"], lambda: module()):
        with pytest.raises(TVMError, match="is code for linking only"):
            call()


def test_missing_folder_is_refused(object_code, tmp_path):
    with pytest.raises(ValueError, match="the folder .* does not exist"):
        compiled(object_code).export_library(tmp_path / "absent" / "x.so")


def write_archive(path, name: str, **fields) -> None:
    with tarfile.open(path, "w") as archive:
        entry = tarfile.TarInfo(name)
        for key, value in fields.items():
            setattr(entry, key, value)
        archive.addfile(entry, io.BytesIO(b""))


@pytest.mark.parametrize(
    "name, fields", [("../evil.o", {}), ("/evil.o", {}), ("x.o", {"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"})]
)
def test_archive_that_reaches_outside_is_refused(tmp_path, name, fields):
    write_archive(tmp_path / "evil.tar", name, **fields)
    with pytest.raises(TVMError, match="is not a regular file inside the archive"):
        runtime.load_module(tmp_path / "evil.tar")


def test_corrupt_archive_is_refused(tmp_path):
    (tmp_path / "bad.tar").write_bytes(b"no archive" * 100)
    with pytest.raises(TVMError, match="corrupt or truncated"):
        runtime.load_module(tmp_path / "bad.tar")


def test_an_archive_of_objects_is_loaded_whole_or_not_at_all(object_code, tmp_path, rng):
    path = tmp_path / "m.tar"
    compiled(object_code).export_library(path)
    check_add(runtime.load_module(path))
    data = path.read_bytes()
    for at in rng.integers(0, len(data), 40):
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << int(rng.integers(8)))]) + data[at + 1 :])
        with pytest.raises(TVMError, match="corrupt or truncated"):
            runtime.load_module(path)
    for size in (len(data) - 16, len(data) - 17, len(data) // 2):
        path.write_bytes(data[:size])
        with pytest.raises(TVMError, match="corrupt or truncated"):
            runtime.load_module(path)


def test_damaged_blob_is_refused(compiler, tmp_path):
    blob = export.blob_source(struct.pack("<Q", 24) + b"\xff" * 24)
    (tmp_path / "bad.c").write_text(blob)
    link.create_shared(str(tmp_path / "bad.so"), str(tmp_path / "bad.c"))
    with pytest.raises(TVMError, match="packed in the library are corrupt"):
        runtime.load_module(tmp_path / "bad.so")


def test_c_program_calls_an_exported_function(compiler, object_code, tmp_path):
    library = tmp_path / "add.so"
    compiled(object_code).export_library(library)
    source = os.path.join(os.path.dirname(os.path.dirname(HERE)), "apps", "c_deploy", "main.c")
    program = str(tmp_path / "deploy")
    folder = os.path.dirname(runtime.find_library())
    subprocess.run(
        [
            compiler,
            "-std=c11",
            "-Wall",
            "-Werror",
            f"-I{runtime.include_path()}",
            source,
            "-o",
            program,
            f"-L{folder}",
            "-ltvm_runtime",
            f"-Wl,-rpath,{folder}",
        ],
        check=True,
    )
    done = subprocess.run([program, str(library), "add", "1000"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "add: 1000 sums are correct" in done.stdout
    refused = subprocess.run([program, str(library), "nobody", "10"], capture_output=True, text=True)
    assert refused.returncode != 0 and "no function 'nobody'" in refused.stderr
    broken = tmp_path / "broken.so"
    shutil.copy(__file__, broken)
    refused = subprocess.run([program, str(broken), "add", "10"], capture_output=True, text=True)
    assert refused.returncode != 0 and "not an ELF file" in refused.stderr
