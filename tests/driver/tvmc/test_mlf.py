"""Packages in Model Library Format, and projects for microcontrollers on the command line."""

from __future__ import annotations

import io
import json
import os
import tarfile

import numpy as np
import pytest

from tvm import __version__, relay
from tvm.driver import tvmc
from tvm.driver.tvmc.main import _main
from tvm.micro.model_library_format import export_model_library_format

SHAPES = ("--input-shapes", "data:[1,3,9,7]")
AOT = ("--executor", "aot", "--executor-aot-interface-api", "c", "--executor-aot-unpacked-api", "1",
       "--runtime", "crt", "--target", "c")  # fmt: skip


@pytest.fixture(scope="module")
def mlf(model_path, tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("mlf") / "net.tar")
    assert _main(["compile", "-f", "mlf", *AOT, "-o", path, *SHAPES, model_path]) == 0
    return path


@pytest.fixture(scope="module")
def project(mlf, tmp_path_factory) -> str:
    path = str(tmp_path_factory.mktemp("project") / "p")
    assert _main(["micro", "create", path, mlf, "host"]) == 0
    assert _main(["micro", "build", path, "host", "--project-option", "warning_as_error=true"]) == 0
    assert _main(["micro", "flash", path, "host"]) == 0
    return path


def test_a_project_gives_the_outputs_of_the_graph_executor(project, package, tmp_path, capsys):
    data = np.random.default_rng(0).normal(size=(1, 3, 9, 7)).astype("float32")
    np.savez(tmp_path / "in.npz", data=data)
    found = []
    for number, options in enumerate((["--device", "micro", "--print-time", "--repeat", "3", project], [package])):
        out = tmp_path / f"{number}.npz"
        assert not _main(["run", "-i", str(tmp_path / "in.npz"), "-o", str(out), "--print-top", "2", *options])
        found.append(np.load(out)["output_0"])
    np.testing.assert_allclose(*found, rtol=1e-5)
    assert "Percentiles of 3 repeats" in capsys.readouterr().out


def test_packages(mlf, model_path, tmp_path):
    made = tvmc.TVMCPackage(mlf, project_dir=str(tmp_path))
    assert (made.type, made.executor_type, made.graph, made.project_dir) == ("mlf", "aot", None, str(tmp_path))
    assert not made.is_vm and made.lib_path is None
    model = tvmc.load(model_path, shape_dict={"data": [1, 3, 9, 7]})
    other = tvmc.compile(model, "llvm", package_path=str(tmp_path / "g.tar"), output_format="mlf", mod_name="net")
    assert (other.type, other.executor_type) == ("mlf", "graph")
    assert json.loads(other.graph)["nodes"] and len(other.params) > 400
    default = model.export_package(relay.build(model.mod, "llvm", params=model.params), output_format="mlf")
    assert default == model.default_package_path() and tvmc.TVMCPackage(default).type == "mlf"


def test_project_dir_needs_model_library_format(package):
    with pytest.raises(tvmc.TVMCException, match="Setting 'project_dir' is only allowed when importing a MLF.!"):
        tvmc.TVMCPackage(package, project_dir="p")


def test_info(mlf, capsys):
    assert _main(["info", "--kernels", mlf]) == 0
    said = capsys.readouterr().out
    assert f"made by  tvm {__version__}, executor aot" in said
    assert "data: 1x3x9x7 float32" in said and "output: 1x4 float32" in said
    assert "bytes for intermediate results, 772 for inputs and outputs" in said and "tvmgen_default_fused" in said


def test_options_are_listed(project, mlf, capsys):
    assert not _main(["run", "--device", "micro", "--list-options", project])
    listed = capsys.readouterr().out
    assert "verbose=bool  print the commands of the build; used by build" in listed
    for action in ("build", "flash"):
        assert not _main(["micro", action, "--list-options", project, "host"])
        assert capsys.readouterr().out == listed
    assert not _main(["micro", "create", "--list-options", "p", mlf, "qemu_riscv"])
    assert "board=str {rv32,rv64}  the board; used by generate_project (required)" in capsys.readouterr().out


def test_a_template_folder(mlf, tmp_path):
    from tvm.micro import get_microtvm_template_projects

    folder = get_microtvm_template_projects("host")
    assert not _main(["micro", "create", "p", mlf, "template", "--template-dir", folder])
    assert not _main(["micro", "create", "--force", "p", mlf, "host"])
    assert not _main(["micro", "build", "--force", "p", "template", "--template-dir", folder])


def test_rejected_commands(project, mlf, package, tmp_path, refused):
    run, create, build = ("run", "--device", "micro"), ("micro", "create"), ("micro", "build")
    refused(4, "is in Model Library Format, which projects for microcontrollers use", "run", mlf)
    refused(4, "--list-options and --project-option require --device micro", "run", "--list-options", package)
    refused(4, "is not a project folder; create one with tvmc micro create", *run, package)
    refused(4, "is not a project: it has no launch_microtvm", *run, str(tmp_path))
    refused(4, "--profile is not supported with --device micro", *run, "--profile", project)
    refused(4, "--number is not supported with --device micro", *run, "--print-time", "--number", "2", project)
    refused(4, "the project has no option 'x'", *run, project, "--project-option", "x=1")
    refused(4, "must have the form NAME=VALUE, got 'x'", *build, project, "host", "--project-option", "x")
    refused(
        4,
        "--project-option verbose: expected a value of type bool, got 'perhaps'",
        *build,
        project,
        "host",
        "--project-option",
        "verbose=perhaps",
    )
    refused(4, "is a project for host, not for qemu_riscv", *build, project, "qemu_riscv")
    refused(4, "the platform 'template' requires --template-dir", *build, project, "template")
    refused(4, "requires the platform 'template', got 'host'", *build, project, "host", "--template-dir", "x")
    refused(4, "exists; use --force to replace the project in it", *create, project, mlf, "host")
    os.makedirs(tmp_path / "mine" / "work")
    refused(
        4,
        "--force does not replace the folder",
        *create,
        "--force",
        str(tmp_path / "mine"),
        mlf,
        "host",
    )
    refused(4, "none.tar does not exist", *create, "p", "none.tar", "host")
    refused(4, "requires the option board", *create, "p", mlf, "qemu_cortex_m")
    refused(4, "is not a complete archive in Model Library Format", *create, "p", package, "host")
    refused(2, "invalid choice: 'moon'", *create, "p", mlf, "moon")
    refused(2, "required: ACTION", "micro")


def test_rejected_models(model_path, refused):
    refused(
        4,
        "got Executable; export models for the virtual machine with -f so",
        "compile",
        "-f",
        "mlf",
        "--target",
        "llvm",
        model_path,
    )


def with_file(path: str, target: str, name: str, data: bytes) -> str:
    """A copy of an archive with another file."""
    with tarfile.open(path) as old, tarfile.open(target, "w") as new:
        for member in old:
            if member.name != name:
                new.addfile(member, old.extractfile(member))
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        new.addfile(entry, io.BytesIO(data))
    return target


def test_damaged_packages(mlf, model_path, tmp_path, refused):
    target = str(tmp_path / "d.tar")
    for data in (b"{", b"3", b'{"version": 99}', b"\xff"):
        refused(4, "Model Library Format", "info", with_file(mlf, target, "metadata.json", data))
    refused(4, "outside the folder", "info", with_file(mlf, target, "../escaped", b""))
    empty = {"version": 7, "modules": {"a": {"executors": ["aot"]}}}
    path = with_file(mlf, target, "metadata.json", json.dumps(empty).encode())
    refused(4, "are damaged: 'memory'", "info", path)
    model = tvmc.load(model_path, shape_dict={"data": [1, 3, 9, 7]})
    several = [relay.build(model.mod, "llvm", params=model.params, mod_name=name) for name in "ab"]
    export_model_library_format(several, target)
    refused(4, "has the models a, b; tvmc supports only archives with one model", "info", target)
