"""Packages of ``tvmc compile`` in the C runtime, which programs in C, C++ and Rust load."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.runtime.bindings import cases
from tvm import runtime
from tvm.contrib import graph_executor
from tvm.runtime import _lib


def load(path: Path) -> runtime.Module:
    """What ``TVMModLoadFromFile`` gives; ``tvm.runtime.load_module`` links archives of objects."""
    return runtime.Module(_lib.module_load(str(path), "tar"))


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> cases.Case:
    return cases.compile_model("graph.tar", tmp_path_factory.mktemp("package"), np.random.default_rng(5))


def entries(package: Path) -> dict[str, bytes]:
    with tarfile.open(package) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def write(path: Path, files: dict[str, bytes], format: int = tarfile.USTAR_FORMAT) -> Path:
    with tarfile.open(path, "w", format=format) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def fails(path: Path, message: str) -> None:
    with pytest.raises(tvm.TVMError, match=message):
        load(path)


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_package_is_a_factory_with_its_weights(package: cases.Case, tmp_path: Path, format: int):
    # A long name, for which archives other than ustar have additional headers.
    files = {"n" * (90 if format == tarfile.USTAR_FORMAT else 150): b"text", **entries(package.model)}
    factory = load(write(tmp_path / "model.tar", files, format))
    assert factory.type_key == "GraphExecutorFactory"
    assert [factory["has_param"](name) for name in ("x", "y", "nobody")] == [False] * 3
    runner = graph_executor.GraphModule(factory["default"](tvm.cpu()))
    shapes = {"x": (3, 5), "y": (3, 7)}
    runner.run(**{n: np.frombuffer((package.data / f"{n}.bin").read_bytes(), "float32").reshape(s)
                  for n, s in shapes.items()})  # fmt: skip
    assert runner.get_output(0).numpy().tobytes() == (package.data / "output_0.bin").read_bytes()


def test_parameters_are_told_from_inputs(package: cases.Case):
    params = tvm.relay.load_param_dict(entries(package.model)["mod.params"])
    factory = load(package.model)
    assert params and all(factory["has_param"](name) for name in params)
    with pytest.raises(tvm.TVMError, match="has_param: expected the name of an input"):
        factory["has_param"](3)


def test_damaged_packages_are_rejected(package: cases.Case, tmp_path: Path):
    whole, files = package.model.read_bytes(), entries(package.model)
    path = tmp_path / "model.tar"
    for size in (0, 100, 512, 1024, len(whole) // 2):
        path.write_bytes(whole[:size])
        fails(path, "neither mod.so nor lib.so" if size < 512 else "truncated")
    path.write_bytes(whole[:20] + b"x" + whole[21:])
    fails(path, "the checksum of a header does not match")
    for name in ("mod.json", "mod.params"):
        fails(write(path, {key: data for key, data in files.items() if key != name}), f"it has no {name}")
    fails(write(path, {**files, "mod.params": files["mod.params"][:-1]}), "parameter")
    fails(write(path, {**files, "mod.so": files["mod.so"][:-16]}), "it has no checksum")
    fails(write(path, {"lib0.o": files["mod.so"]}), "An archive of objects needs a linker")
    fails(tmp_path / "nothing.tar", "No such file")


def test_a_library_with_a_damaged_mark_of_its_checksum_is_rejected(package: cases.Case, tmp_path: Path):
    library = bytearray(entries(package.model)["mod.so"])
    assert library[-16:-8] == b"TVMSEAL2"
    for changed in (1, 4, 5):
        copy = bytearray(library)
        copy[-16 : -16 + changed] = bytes(255 - byte for byte in copy[-16 : -16 + changed])
        path = tmp_path / f"library{changed}.so"
        path.write_bytes(copy)
        if changed <= 4:
            with pytest.raises(tvm.TVMError, match="its checksum does not match"):
                runtime.load_module(path)
        else:
            assert runtime.load_module(path).type_key == "library", "a library that another tool linked has no mark"
