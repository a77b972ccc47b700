"""``tvmc info``: what a package holds, from its own files."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pytest

from tvm.driver import tvmc
from tvm.driver.tvmc.info import Tensor, facts_of
from tvm.driver.tvmc.main import _main
from tvm.runtime.params import load_param_dict


def test_info_names_machine_inputs_outputs_memory_and_kernels(package, capsys):
    assert _main(["info", "--kernels", package]) == 0
    shown = capsys.readouterr().out
    manifest = tvmc.TVMCPackage(package).manifest
    assert "data: 1x3x9x7 float32" in shown and "output_0: 1x4 float32" in shown
    assert manifest["machine"]["cpu"] in shown and manifest["target"] in shown and manifest["tvm_version"] in shown
    assert "for intermediate results" in shown and "tvmgen_default_fused_" in shown


def test_facts_are_those_of_the_graph(package):
    made = tvmc.TVMCPackage(package)
    facts = facts_of(made)
    assert facts.inputs == [Tensor("data", (1, 3, 9, 7), "float32")]
    assert facts.outputs == [Tensor("output_0", (1, 4), "float32")]
    weights = load_param_dict(made.params)
    assert sum(t.nbytes for t in facts.params) == sum(np.asarray(w.numpy()).nbytes for w in weights.values())
    graph = json.loads(made.graph)
    calls = [n for n in graph["nodes"] if n["op"] != "null" and n["attrs"]["func_name"] != "__nop"]
    assert facts.kernels.total() == len(calls)
    # The convolution's result is the largest; nothing else is alive with it but the pooled channels.
    assert 4 * 9 * 7 * 4 <= facts.workspace <= 2 * 4 * 9 * 7 * 4


def with_file(package: str, path, name: str, data: bytes) -> str:
    with tarfile.open(package) as old, tarfile.open(path, "w") as new:
        for member in old.getmembers():
            content = data if member.name == name else old.extractfile(member).read()
            info = tarfile.TarInfo(member.name)
            info.size = len(content)
            new.addfile(info, io.BytesIO(content))
    return str(path)


@pytest.mark.parametrize("graph", [b"{}", b"[]", b'{"nodes": 3}', b"not json", b'{"nodes": [], "arg_nodes": [7]}'])
def test_a_damaged_package_is_refused(package, tmp_path, refused, graph):
    refused(4, "is damaged", "info", with_file(package, tmp_path / "bad.tar", "mod.json", graph))


def test_what_is_no_package_is_refused(model_path, tmp_path, refused):
    refused(4, "Could not read model from archive", "info", model_path)
    refused(4, "does not exist", "info", str(tmp_path / "none.tar"))


def test_a_package_without_a_manifest_says_so(package, tmp_path, capsys):
    bare = tmp_path / "bare.tar"
    with tarfile.open(package) as old, tarfile.open(bare, "w") as new:
        for member in old.getmembers():
            if member.name != "manifest.json":
                new.addfile(member, old.extractfile(member))
    assert _main(["info", str(bare)]) == 0
    assert "the package has no manifest" in capsys.readouterr().out
