"""Archives in Model Library Format: their files, metadata and memory, and models that they cannot contain."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import subprocess
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tvm
from tests.micro.conftest import build, two_outputs
from tvm import micro, relay
from tvm.contrib import graph_executor
from tvm.ir.memory_pools import WorkspaceMemoryPools, WorkspacePoolInfo
from tvm.relay.backend import Executor, Runtime
from tvm.runtime import link
from tvm.runtime.params import load_param_dict


def export(models, folder: Path, **options) -> tuple[dict[str, bytes], dict]:
    """The files of an archive, and its metadata."""
    path = micro.export_model_library_format(models, folder / "m.tar", **options)
    assert path == (folder / "m.tar").resolve()
    with tarfile.open(path) as archive:
        assert {(m.uid, m.gid, m.uname, m.mode) for m in archive} == {(0, 0, "", 0o644)}
        files = {m.name: archive.extractfile(m).read() for m in archive}
    return files, json.loads(files["metadata.json"])


def test_an_ahead_of_time_model(factory, tmp_path):
    files, metadata = export(factory, tmp_path, timestamp=1.7e9)
    assert metadata["version"] == 7
    entry = metadata["modules"]["default"]
    assert (entry["model_name"], entry["style"], entry["executors"]) == ("default", "full-model", ["aot"])
    assert entry["export_datetime"] == "2023-11-14 22:13:20Z" and entry["target"] == ["c -keys=cpu -num-cores=1"]
    assert entry["external_dependencies"][0]["url"] == "./runtime"
    assert files["codegen/host/src/default_lib0.c"].decode() == factory.plain_model.text
    assert files["codegen/host/include/tvmgen_default.h"].decode() == factory.plain_model.header
    assert {name.split("/")[0] for name in files} == {"codegen", "metadata.json", "parameters", "runtime", "src"}
    assert "fn (" in files["src/default.relay"].decode() and load_param_dict(files["parameters/default.params"]) == {}


def test_the_memory_of_an_ahead_of_time_model(factory, tmp_path):
    (main,) = (memory := export(factory, tmp_path)[1]["modules"]["default"]["memory"])["functions"]["main"]
    assert main["workspace_size_bytes"] == factory.plain_model.interface.workspace_bytes > 0
    assert main["io_size_bytes"] == 21 + 60 + 60 + 60
    assert main["inputs"]["in:put"] == {"c_name": "in_put", "dtype": "int32", "index": 1, "shape": [3, 5], "size": 60}
    assert list(main["outputs"]) == ["output0", "output1"] and main["outputs"]["output1"]["dtype"] == "float32"
    assert main["constants_size_bytes"] >= 35
    kernels = {k["function_name"]: k for k in memory["functions"]["operator_functions"]}
    assert set(kernels) == {kernel.name for kernel in factory.kernels}
    assert all(k["workspace"][0]["device"] == 1 for k in kernels.values()) and "sids" not in memory


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_a_graph_executor_model_runs_from_its_parts(model, target, tmp_path):
    """The code, graph and weights of an archive compute the outputs of the model."""
    files, metadata = export(relay.build(model.module, target, mod_name="net"), tmp_path)
    entry = metadata["modules"]["net"]
    assert entry["executors"] == ["graph"] and "external_dependencies" not in entry
    code = {name: data for name, data in files.items() if name.startswith("codegen/host/")}
    assert {Path(name).suffix for name in code} == {".c" if target == "c" else ".o"}
    paths = []
    for name, data in code.items():
        paths.append(tmp_path / Path(name).name)
        paths[-1].write_bytes(data)
    library = tmp_path / "lib.so"
    options = ["-shared", "-fPIC", "-w", "-o", str(library), *map(str, paths), "-lm"]
    subprocess.run([*link.find_compiler(), *options], check=True)
    graph = files["executor-config/graph/net.graph"].decode()
    runner = graph_executor.create(graph, tvm.runtime.load_module(str(library)), tvm.cpu())
    runner.load_params(files["parameters/net.params"])
    runner.run(**model.inputs)
    for number, expected in enumerate(model.outputs):
        np.testing.assert_array_almost_equal(runner.get_output(number).numpy(), expected, 6)


def test_the_storage_of_a_graph(model, tmp_path):
    files, metadata = export(relay.build(model.module, "llvm"), tmp_path)
    memory = metadata["modules"]["default"]["memory"]
    graph = json.loads(files["executor-config/graph/default.graph"])
    identifiers, shapes = graph["attrs"]["storage_id"][1], graph["attrs"]["shape"][1]
    rows = {row["storage_id"]: row for row in memory["sids"]}
    assert set(rows) == set(identifiers)
    sizes = [math.prod(s) * int(np.dtype(d).itemsize) for s, d in zip(shapes, graph["attrs"]["dltype"][1])]
    for identifier, row in rows.items():
        assert row["size_bytes"] == max(s for s, i in zip(sizes, identifiers) if i == identifier)
    assert {row.get("input_binding") for row in rows.values()} - {None} == {"x", "in:put"}
    assert {row.get("output_binding") for row in rows.values()} - {None} == {"output_0", "output_1"}
    (main,) = memory["functions"]["main"]
    assert main["outputs"]["output0"] == {"size": 60, "dtype": "int32", "shape": [3, 5], "index": 0}


def test_workspace_pools_that_a_caller_passes(model, tmp_path):
    pools = WorkspaceMemoryPools([WorkspacePoolInfo("sram", [tvm.target.Target("c")])])
    executor = Executor("aot", {"interface-api": "c", "unpacked-api": True})
    made = relay.build(model.module, "c", executor=executor, runtime=Runtime("crt"), workspace_memory_pools=pools)
    (pool,) = export(made, tmp_path)[1]["modules"]["default"]["workspace_pools"]
    assert pool["name"] == pool["c_name"] == "sram" and pool["size_bytes"] == made.plain_model.interface.workspace_bytes


def test_several_models_in_one_archive(seed, tmp_path):
    models = [build(two_outputs(seed + i)[0], name=name) for i, name in enumerate("ab")]
    models.append(relay.build(two_outputs(seed)[0], "llvm", mod_name="c"))
    files, metadata = export(models, tmp_path)
    assert set(metadata["modules"]) == set("abc")
    assert {f"codegen/host/include/tvmgen_{name}.h" for name in "ab"} < set(files)
    assert {"src/c.relay", "codegen/host/lib/c_lib0.o", "executor-config/graph/c.graph"} < set(files)
    with pytest.raises(tvm.TVMError, match="models in one archive must have different names, got a, b, a"):
        micro.export_model_library_format([*models[:2], models[0]], tmp_path / "n.tar")
    with pytest.raises(tvm.TVMError, match="must contain at least one model"):
        micro.export_model_library_format([], tmp_path / "n.tar")
    assert not (tmp_path / "n.tar").exists()


def test_the_same_model_gives_the_same_bytes(model, tmp_path):
    first, second = (
        micro.export_model_library_format(build(model.module), tmp_path / name, timestamp=5) for name in "ab"
    )
    assert first.read_bytes() == second.read_bytes()


def test_machine_code(model, tmp_path):
    files, metadata = export(build(model.module, "llvm"), tmp_path)
    code = [data for name, data in files.items() if name.startswith("codegen/host/lib/")]
    assert code and all(data.startswith(b"\x7fELF") for data in code)
    assert "codegen/host/include/tvmgen_default.h" in files and metadata["modules"]["default"]["executors"] == ["aot"]


def test_models_that_an_archive_cannot_contain(factory, tmp_path):
    compiled = relay.vm.compile(tvm.IRModule.from_expr(relay.nn.relu(relay.var("x", shape=(2,)))), "llvm")
    with pytest.raises(micro.UnsupportedInModelLibraryFormatError, match="that tvm.build returned, got Executable"):
        micro.export_model_library_format(compiled, tmp_path / "m.tar")
    device = SimpleNamespace(is_dso_exportable=False, type_key="cuda")
    made = relay.build(tvm.IRModule.from_expr(relay.nn.relu(relay.var("x", shape=(2,)))), "llvm")
    made.lib = SimpleNamespace(walk_imports=lambda: [(device, -1)])
    with pytest.raises(micro.UnsupportedInModelLibraryFormatError, match="'default' has a module of type 'cuda'"):
        micro.export_model_library_format(made, tmp_path / "m.tar")
    assert list(tmp_path.iterdir()) == []


def test_dynamic_shapes(factory, tmp_path):
    types = factory.executor_codegen_metadata.input_tensor_types
    dynamic = relay.TensorType((relay.Any(), 7), "int8")
    facts = dataclasses.replace(factory.executor_codegen_metadata, input_tensor_types=[dynamic, *types[1:]])
    changed = copy.copy(factory)
    changed.executor_codegen_metadata = facts
    with pytest.raises(micro.NonStaticShapeError, match="model 'default': 'x' has the dynamic shape"):
        micro.export_model_library_format(changed, tmp_path / "m.tar")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist(factory, tmp_path):
    with pytest.raises(FileNotFoundError, match="No such file"):
        micro.export_model_library_format(factory, tmp_path / "no" / "m.tar")
