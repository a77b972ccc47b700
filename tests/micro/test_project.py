"""Templates, generated projects and their options, with the template of this machine."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.micro.conftest import build, two_outputs
from tvm import micro, relay
from tvm.micro.project_api.client import ProjectAPIServerNotFoundError, RPCError
from tvm.micro.project_api.server import ProjectOption, TransportClosedError

HOST = micro.get_microtvm_template_projects("host")


@pytest.fixture(scope="module")
def project(factory, tmp_path_factory):
    with micro.generate_project(HOST, factory, tmp_path_factory.mktemp("project") / "p") as made:
        made.options = {"warning_as_error": True}
        made.build()
        made.flash()
        yield made


def test_a_project_computes_the_outputs_of_the_graph_executor(project, model):
    found = micro.run_project(project, model.inputs)
    assert list(found.outputs) == ["output0", "output1"] and found.seconds >= 0
    np.testing.assert_array_equal(found.outputs["output0"], model.outputs[0])
    np.testing.assert_allclose(found.outputs["output1"], model.outputs[1], rtol=1e-5)


def test_a_project_serves_many_requests(project, model):
    with project.transport() as transport:
        for _ in range(3):
            transport.write((21 + 60).to_bytes(4, "little") + bytes(81), 5)
            assert transport.read(12, 5)[:4] == bytes(4)
            assert len(transport.read(120, 5)) == 120
        # A request of another size gets the error of the runtime, and the next one is served.
        transport.write((200).to_bytes(4, "little") + bytes(200), 5)
        assert int.from_bytes(transport.read(12, 5)[:4], "little", signed=True) == -1000
        transport.write((81).to_bytes(4, "little") + bytes(81), 5)
        assert transport.read(12, 5)[:4] == bytes(4)


def test_inputs_are_checked(project, model):
    given = model.inputs
    with pytest.raises(tvm.TVMError, match="the input 'in:put' is missing"):
        micro.run_project(project, {"x": given["x"]})
    with pytest.raises(tvm.TVMError, match="the model has no input 'y'"):
        micro.run_project(project, {**given, "y": given["x"]})
    with pytest.raises(tvm.TVMError, match=r"input 'x' has shape \(7, 3\) and type int8"):
        micro.run_project(project, {**given, "x": given["x"].T})
    with pytest.raises(tvm.TVMError, match="type float32, but the model expects"):
        micro.run_project(project, {**given, "x": given["x"].astype("float32")})


def test_transports_that_are_not_open(project):
    transport = project.transport()
    with pytest.raises(tvm.TVMError, match="the transport is not open"):
        transport.timeouts()
    with pytest.raises(TransportClosedError, match="the transport is not open"):
        transport.read(1, 1)
    with transport, pytest.raises(RPCError, match="the transport is already open"):
        project.transport().open()


@pytest.mark.parametrize(("options", "words"), [
    ({"verbos": True}, "the project has no option 'verbos'; did you mean 'verbose'"),
    ({"verbose": "yes"}, "option verbose of the project must be of type bool, got 'yes'"),
    ({"compile_definitions": 3}, "option compile_definitions of the project must be of type str, got 3"),
])  # fmt: skip
def test_options_are_checked(project, options, words):
    with pytest.raises(ValueError, match=words):
        project.options = options
    with pytest.raises(ValueError, match=words), micro.TemplateProject.from_directory(HOST) as template:
        template.generate_project_from_mlf("m.tar", "p", options)


def test_defaults_and_required_options():
    from tvm.micro.project import add_unspecified_options, check_options, options_of

    known = [ProjectOption("a", default=1, type="int", optional=("build",), help=""),
             ProjectOption("b", choices=("x", "y"), required=("flash",), help="")]  # fmt: skip
    assert add_unspecified_options(None, known) == {"a": 1} and add_unspecified_options({"a": 2}, known) == {"a": 2}
    assert options_of("build", {"a": 2, "b": "x"}, known) == {"a": 2}
    with pytest.raises(ValueError, match=r"flash of the project requires the option b \(x, y\)"):
        options_of("flash", {"a": 2}, known)
    with pytest.raises(ValueError, match="option b of the project must be one of x, y, got 'z'"):
        check_options({"b": "z"}, known)
    with pytest.raises(ValueError, match="option a of the project must be of type int, got True"):
        check_options({"a": True}, known)


def test_templates_and_projects_are_not_confused(project, archive, tmp_path):
    with pytest.raises(micro.TemplateProjectError, match="the folder is a template project"):
        micro.GeneratedProject.from_directory(HOST, None)
    folder = Path(project.info().model_library_format_path).parent
    with pytest.raises(micro.NotATemplateProjectError, match="the folder is a generated project"):
        micro.TemplateProject.from_directory(folder)
    with pytest.raises(ProjectAPIServerNotFoundError, match="is not a project"):
        micro.TemplateProject.from_directory(tmp_path)
    with pytest.raises(RPCError, match="exists; generate the project in a new folder"):
        micro.generate_project_from_mlf(HOST, tmp_path, archive, None)


def test_models_that_a_project_cannot_run(model, factory, seed, tmp_path):
    others = {
        "graph": relay.build(model.module, "llvm"), "packed": build(model.module, **{"interface-api": "packed"}),
    }  # fmt: skip
    for made in others.values():
        with pytest.raises(RPCError, match="a project runs models that are compiled with --executor aot"):
            micro.generate_project(HOST, made, tmp_path / "p")
    path = micro.export_model_library_format([factory, build(two_outputs(seed)[0], name="b")], tmp_path / "two.tar")
    with pytest.raises(RPCError, match="a project runs one model; .* has b, default"):
        micro.generate_project_from_mlf(HOST, tmp_path / "p", path, None)
    assert not (tmp_path / "p").exists()


def hostile(archive: str, path: Path, name: str, data: bytes) -> str:
    """A copy of an archive with another file."""
    with tarfile.open(archive) as old, tarfile.open(path, "w") as new:
        for member in old:
            if member.name != name:
                new.addfile(member, old.extractfile(member))
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        new.addfile(entry, io.BytesIO(data))
    return str(path)


def test_hostile_archives(archive, tmp_path):
    with tarfile.open(archive) as read:
        metadata = read.extractfile("metadata.json").read()
    cases = {
        "would be written outside the folder": ("../../escaped", b"x"),
        "which is not a C identifier": ("metadata.json", metadata.replace(b'"in_put"', b'"a[9]; int b"')),
        "is not a complete archive in Model Library Format": ("metadata.json", b"{"),
        "KeyError": ("metadata.json", metadata.replace(b'"index"', b'"place"')),
    }
    for words, (name, data) in cases.items():
        path = hostile(archive, tmp_path / "h.tar", name, data)
        with pytest.raises(RPCError, match=words):
            micro.generate_project_from_mlf(HOST, tmp_path / "p", path, None)
        assert not (tmp_path / "p").exists() and not (tmp_path.parent / "escaped").exists()
    (tmp_path / "no.tar").write_bytes(b"no")
    with pytest.raises(RPCError, match="is not a tar archive"):
        micro.generate_project_from_mlf(HOST, tmp_path / "p", tmp_path / "no.tar", None)


def test_builds(archive, tmp_path, capfd):
    extra = tmp_path / "extra.tar"
    with tarfile.open(extra, "w") as archive_:
        text = b"#ifndef WANTED\n#error WANTED is not defined\n#endif\ntypedef int nothing;\n"
        entry = tarfile.TarInfo("src/extra.c")
        entry.size = len(text)
        archive_.addfile(entry, io.BytesIO(text))
    with micro.generate_project_from_mlf(HOST, tmp_path / "p", archive, {"extra_files_tar": str(extra)}) as made:
        with pytest.raises(RPCError, match="the project is not built; build it first"):
            made.flash()
        with pytest.raises(RPCError, match="the project is not built"):
            made.transport().open()
        with pytest.raises(RPCError, match=r"building extra\.c failed:\n(.|\n)*WANTED is not defined"):
            made.build()
        assert "-std=c99" not in capfd.readouterr().out
        made.options = {"compile_definitions": "WANTED=1 OTHER", "verbose": True}
        made.build()
        assert "-DWANTED=1 -DOTHER" in capfd.readouterr().out


def test_a_program_that_crashes(archive, model, tmp_path):
    with micro.generate_project_from_mlf(HOST, tmp_path / "p", archive, None) as made:
        source = tmp_path / "p" / "src" / "model_entry.c"
        source.write_text(source.read_text().replace("run(void) {", "run(void) {\n  TVMPlatformAbort(7);"))
        made.build()
        with pytest.raises(TransportClosedError, match="the program ended with status 7"):
            micro.run_project(made, model.inputs)
        source.write_text(source.read_text().replace("TVMPlatformAbort(7);", "for (;;) {}"))
        made.build()
        with pytest.raises(tvm.micro.project_api.server.IoTimeoutError, match="the read exceeded its time limit"):
            micro.run_project(made, model.inputs, timeout_sec=0.2)
        source.write_text(source.read_text().replace("for (;;) {}", "if (inputs_x[0] + 1) return 5;"))
        made.build()
        with pytest.raises(tvm.TVMError, match="the model on the device returned an error: status 5"):
            micro.run_project(made, {**model.inputs, "x": np.zeros_like(model.inputs["x"])})
