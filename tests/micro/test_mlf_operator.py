"""Modules of ``tvm.build`` as archives in Model Library Format."""

from __future__ import annotations

import json
import tarfile

import pytest

import tvm
from tvm import micro, te
from tvm.micro.mlf_reader import read_models


def add_one(target, shape=(2,)):
    a, b = te.placeholder(shape, "int8", "A"), te.placeholder((1,), "int8", "B")
    c = te.compute(shape, lambda i: a[i] + b[0], "C")
    return tvm.build(te.create_schedule(c.op), [a, b, c], tvm.target.Target(target, target), name="add")


@pytest.mark.parametrize("target, code", [("c", "codegen/host/src/lib0.c"), ("llvm", "codegen/host/lib/lib0.o")])
def test_a_module_of_functions(target, code, tmp_path):
    module = add_one(target)
    path = micro.export_model_library_format(module, tmp_path / "add.tar", timestamp=0)
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}
        archive.extractall(tmp_path / "add", filter="data")
    metadata = json.loads(files["metadata.json"])
    assert (metadata["version"], metadata["model_name"], metadata["style"]) == (7, "add", "operator")
    assert metadata["export_datetime"] == "1970-01-01 00:00:00Z" and metadata["executors"] == []
    ((built_for, functions),) = module.ir_module_by_target.items()
    assert metadata["target"] == [str(built_for).strip()]
    sizes = [(tensor["shape"], tensor["size_bytes"], tensor["dtype"]) for tensor in metadata["memory"]["add"]]
    assert sizes == [([2], 2, "int8"), ([1], 1, "int8"), ([2], 2, "int8")]
    assert files["src/tir-1.txt"].decode() == str(functions)
    assert set(files) == {"metadata.json", "src/tir-1.txt", code}
    with pytest.raises(tvm.TVMError, match="add.tar contains the functions of a module of tvm.build and no model"):
        read_models(tmp_path / "add", "add.tar")


def test_modules_that_an_archive_cannot_contain(factory, tmp_path):
    module = add_one("c")
    for both in ([module, module], [factory, module]):
        with pytest.raises(micro.UnsupportedInModelLibraryFormatError, match="Multiple operator is not supported"):
            micro.export_model_library_format(both, tmp_path / "m.tar")
    module.export_library(tmp_path / "add.so")
    loaded = tvm.runtime.load_module(tmp_path / "add.so")
    with pytest.raises(micro.UnsupportedInModelLibraryFormatError, match="got Module"):
        micro.export_model_library_format(loaded, tmp_path / "m.tar")
    with pytest.raises(AttributeError, match="only modules that tvm.build returned have lowered functions"):
        loaded.ir_module_by_target
    with pytest.raises(micro.model_library_format.NonStaticShapeError, match="function 'add': 'A' has a dynamic shape"):
        micro.export_model_library_format(add_one("c", (te.var("n"),)), tmp_path / "m.tar")
