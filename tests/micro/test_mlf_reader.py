"""Reading archives in Model Library Format, of all versions and damaged ones."""

from __future__ import annotations

import json

import pytest

import tvm
from tvm.micro.mlf_reader import read_models


def write(folder, metadata, *files: str):
    text = metadata if isinstance(metadata, str) else json.dumps(metadata)
    (folder / "metadata.json").write_text(text)
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return folder


def test_version_7(tmp_path):
    modules = {"a": {"executors": ["aot"]}, "b": {"executors": ["graph"], "memory": {}}}
    write(tmp_path, {"version": 7, "modules": modules}, "executor-config/graph/b.graph", "parameters/b.params")
    first, second = read_models(tmp_path, "m.tar")
    assert (first.name, first.executor, first.graph, first.params) == ("a", "aot", None, None)
    assert (second.name, second.executor, second.description) == ("b", "graph", modules["b"])
    assert second.graph.name == "b.graph" and second.params.name == "b.params"


@pytest.mark.parametrize(("version", "executors", "graph"), [
    (1, {"runtimes": ["graph"]}, "runtime-config/graph/graph.json"),
    (2, {"executors": ["graph"]}, "executor-config/graph/graph.json"),
    (5, {"executors": ["graph"]}, "executor-config/graph/graph.json"),
    (6, {"executors": ["aot"]}, ""), (6, {"executors": "aot"}, ""),
])  # fmt: skip
def test_earlier_versions(tmp_path, version, executors, graph):
    write(tmp_path, {"version": version, "model_name": "net", **executors}, *([graph] if graph else []))
    (model,) = read_models(tmp_path, "m.tar")
    assert model.name == "net" and (model.executor == "graph") == bool(graph)


@pytest.mark.parametrize(("metadata", "words"), [
    ("{", "m.tar is not a complete archive in Model Library Format: "), ("3", "not a complete archive"),
    ("[" * 10**5, "not a complete archive"), ({}, "it has no 'version'"),
    ({"version": 8}, "version 8 of Model Library Format is not supported; use versions 1 to 7"),
    ({"version": 0}, "version 0"), ({"version": "7"}, "version 7"), ({"version": True}, "version True"),
    ({"version": 7}, "it has no 'modules'"), ({"version": 7, "modules": {}}, "it has no models"),
    ({"version": 7, "modules": 3}, "complete archive"), ({"version": 7, "modules": {"a": 3}}, "complete archive"),
    ({"version": 7, "modules": {"a": {}}}, "it has no 'executors'"),
    ({"version": 7, "modules": {"a": {"executors": []}}}, "not a complete archive"),
    ({"version": 7, "modules": {"a": {"executors": ["vm"]}}}, "model 'a' has the unknown executor 'vm'"),
    ({"version": 7, "modules": {"a": {"executors": ["graph"]}}}, "the file graph/a.graph is missing"),
    ({"version": 7, "modules": {"../a": {"executors": ["graph"]}}}, "'../a' is not a valid name of a model"),
    ({"version": 7, "modules": {"": {"executors": ["aot"]}}}, "'' is not a valid name of a model"),
    ({"version": 6, "model_name": ["a"], "executors": ["aot"]}, "not a complete archive"),
])  # fmt: skip
def test_damaged_metadata(tmp_path, metadata, words):
    write(tmp_path, metadata)
    with pytest.raises(tvm.TVMError, match=words.replace("(", r"\(")):
        read_models(tmp_path, "m.tar")


def test_no_metadata(tmp_path):
    with pytest.raises(tvm.TVMError, match="m.tar is not a complete archive"):
        read_models(tmp_path, "m.tar")
