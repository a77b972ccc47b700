"""Projects for Arduino and Zephyr: their files, the commands of their tools, and their programs with stub headers."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tvm
from tests.micro.conftest import build
from tvm import micro, relay
from tvm.micro.project_api.client import RPCError
from tvm.micro.project_api.server import IoTimeoutError
from tvm.relay.backend import Runtime

BOARD = {"arduino": "nano33ble", "zephyr": "nucleo_l4r5zi"}
OPTION = {"arduino": "arduino_cli_cmd", "zephyr": "west_cmd"}
TOOL = {"arduino": "arduino-cli", "zephyr": "west"}
PLATFORMS = pytest.mark.parametrize("platform", list(BOARD))


def make(platform: str, model, folder: Path, project_type: str = "host_driven", **options):
    template = micro.get_microtvm_template_projects(platform)
    given = {"board": BOARD[platform], "project_type": project_type, **options}
    generate = micro.generate_project_from_mlf if isinstance(model, str) else micro.generate_project
    args = (template, folder, model) if isinstance(model, str) else (template, model, folder)
    return generate(*args, given)


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Replacements of the tools in the search path, and the commands with which they are called."""
    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    folder, calls = tmp_path / "bin", tmp_path / "calls"
    folder.mkdir()
    for name in TOOL.values():
        script = folder / name
        source = Path(__file__).with_name("fake_tool.py").read_text().replace(
            "Path(__file__).resolve().parent", f"Path({str(Path(__file__).parent)!r})")  # fmt: skip
        script.write_text(f"#!{sys.executable}\n{source}")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(calls))
    return lambda: [json.loads(line) for line in calls.read_text().splitlines()]


@contextlib.contextmanager
def serial_port(program: Path):
    """Run a program with a pseudo terminal; the value is the path of the terminal's device file."""
    master, slave = os.openpty()
    process = subprocess.Popen([str(program)], stdin=master, stdout=master)
    try:
        yield os.ttyname(slave)
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)


@PLATFORMS
def test_a_project_serves_requests_on_a_serial_port(platform, archive, model, tools, tmp_path):
    with make(platform, archive, tmp_path / "p") as made:
        made.options = {"compile_definitions": "TVM_CRT_ALIGNMENT=32", "warning_as_error": True, "verbose": True}
        made.build()
        with serial_port(tmp_path / "p" / "build" / "program") as port:
            made.options = {"port": port}
            made.flash()
            for _ in range(2):
                found = micro.run_project(made, model.inputs, timeout_sec=20)
                np.testing.assert_array_equal(found.outputs["output0"], model.outputs[0])
                np.testing.assert_allclose(found.outputs["output1"], model.outputs[1], rtol=1e-5)
    words = [" ".join(call) for call in tools()]
    assert all("-DTVM_CRT_ALIGNMENT=32" in words[0] and "-Werror" in words[0] and "--verbose" in words[0] for _ in "x")
    if platform == "arduino":
        assert "--fqbn arduino:mbed_nano:nano33ble" in words[0] and f"--port {port}" in words[-1]
    else:
        assert words[1] == "west flash --build-dir build" and "--board nucleo_l4r5zi" in words[0]


@PLATFORMS
def test_a_session_with_the_board(platform, model, tools, tmp_path):
    library = relay.build(model.module, "c", runtime=Runtime("crt", {"system-lib": True}))
    with make(platform, library, tmp_path / "p") as made:
        made.build()
        with serial_port(tmp_path / "p" / "build" / "program") as port:
            made.options = {"port": port}
            with micro.Session(made.transport()) as session:
                runner = micro.create_local_graph_executor(
                    library.get_graph_json(), session.get_system_lib(), session.device)  # fmt: skip
                runner.run(**library.get_params(), **model.inputs)
                np.testing.assert_array_equal(runner.get_output(0).numpy(), model.outputs[0])


@PLATFORMS
def test_an_example_runs_the_model(platform, archive, tools, tmp_path):
    with make(platform, archive, tmp_path / "p", "example_project") as made:
        made.build()
        with pytest.raises(RPCError, match="a project of the type example_project has no transport; use host_driven"):
            made.transport().open()
    command = [str(tmp_path / "p" / "build" / "program")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, errors="replace"
    ) as run:
        assert run.stdout is not None
        lines = [run.stdout.readline() for _ in range(4)]
        run.kill()
    lines = lines[1:] if platform == "arduino" else lines[:3]
    assert lines[0].startswith("status 0, microseconds ")
    assert [line.split(":")[0] for line in lines[1:]] == ["output0", "output1"]
    assert len(lines[1].split()) == 1 + 60


@PLATFORMS
def test_a_missing_tool(platform, archive, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with make(platform, archive, tmp_path / "p") as made:
        with pytest.raises(
            RPCError, match=f"{TOOL[platform]} is not installed; .*set the project option {OPTION[platform]}"
        ):
            made.build()
        with pytest.raises(RPCError, match="the project is not built; build it first"):
            made.flash()
        made.options = {OPTION[platform]: str(tmp_path / "other")}
        with pytest.raises(RPCError, match="other is not installed"):
            made.build()


@PLATFORMS
def test_a_failed_build(platform, archive, tools, tmp_path):
    extra = tmp_path / "extra.tar"
    (tmp_path / "wrong.c").write_text("#error this file is wrong\n")
    with tarfile.open(extra, "w") as written:
        written.add(tmp_path / "wrong.c", "src/wrong.c")
    with make(platform, archive, tmp_path / "p", extra_files_tar=str(extra)) as made:
        with pytest.raises(RPCError, match="(?s)building the project failed:.*this file is wrong"):
            made.build()


@PLATFORMS
def test_ports(platform, archive, tools, tmp_path, monkeypatch):
    monkeypatch.setenv("BOARDS", "[]")
    with make(platform, archive, tmp_path / "p") as made:
        made.build()
        reason = (
            "no connected board of the type nano33ble"
            if platform == "arduino"
            else "the project option port is missing"
        )
        with pytest.raises(RPCError, match=reason):
            made.transport().open()
        made.options = {"port": str(tmp_path / "none")}
        with pytest.raises(RPCError, match="cannot open the serial port .*none: No such file"):
            made.transport().open()
        (tmp_path / "file").write_text("")
        made.options = {"port": str(tmp_path / "file")}
        with pytest.raises(RPCError, match="file is not a serial port"):
            made.transport().open()


@pytest.mark.parametrize("form", ["old", "new"])
def test_connected_arduino_boards(form, archive, tools, tmp_path, monkeypatch):
    fqbn = "arduino:mbed_nano:nano33ble"
    ports = (("/dev/none0", "1", "other:x:y"), ("/dev/none1", "2", fqbn), ("/dev/none2", "3", fqbn))
    rows = [
        {"port": {"address": port, "properties": {"serialNumber": number}}, "matching_boards": [{"fqbn": kind}]}
        for port, number, kind in ports
    ]
    old = [{"address": port, "boards": [{"FQBN": kind}]} for port, _, kind in ports[:2]]
    monkeypatch.setenv("BOARDS", json.dumps(old if form == "old" else {"detected_ports": rows}))
    with make("arduino", archive, tmp_path / "p") as made:
        made.build()
        if form == "new":
            with pytest.raises(RPCError, match="2 connected boards: /dev/none1, /dev/none2 of the type nano33ble; set"):
                made.flash()
            made.options = {"serial_number": "2"}
        made.flash()
    assert tools()[-1][-3:-1] == ["--port", "/dev/none1"]


def test_a_program_that_is_not_ready(archive, tools, tmp_path, monkeypatch):
    from tvm.micro.project_api import serial_line

    master, slave = os.openpty()
    with pytest.raises(IoTimeoutError, match="is not ready after 0.3 s; is it flashed"):
        serial_line.SerialLine(os.ttyname(slave), 0.3)
    os.close(master)
    os.close(slave)


def test_damaged_frames_are_dropped():
    from tvm.micro.project_api import serial_line

    line = serial_line.SerialLine.__new__(serial_line.SerialLine)
    line._file, other = os.pipe()
    line._data, line.text = bytearray(), bytearray()
    good, bad = serial_line.framed(bytes(range(256)) * 3), bytearray(serial_line.framed(b"lost"))
    bad[5] ^= 1
    os.write(other, b"text\xa5" + bytes(bad) + b"\xa5" + serial_line.READY + good)
    assert line.read(700, 1) == (bytes(range(256)) * 3)[:700] and line.read(68, 1) == bytes(range(188, 256))
    assert line.text.startswith(b"text\xa5")
    with pytest.raises(IoTimeoutError, match="the read exceeded its time limit"):
        line.read(1, 0.05)
    for end in (line._file, other):
        os.close(end)


def test_files_of_zephyr_projects(archive, tmp_path):
    with make("zephyr", archive, tmp_path / "p", config_main_stack_size=4096):
        lines = (tmp_path / "p" / "prj.conf").read_text().splitlines()
    assert {"CONFIG_FPU=y", "CONFIG_MAIN_STACK_SIZE=4096", "CONFIG_UART_CONSOLE=n"} <= set(lines)
    with make("zephyr", archive, tmp_path / "q", "example_project"):
        assert "CONFIG_UART_CONSOLE=n" not in (tmp_path / "q" / "prj.conf").read_text()
    names = {path.name for path in (tmp_path / "q" / "src").iterdir()}
    assert "main.c" in names and not {"serve.c", "framing.c"} & names


@PLATFORMS
def test_models_that_do_not_fit_the_project(platform, model, archive, tmp_path):
    library = relay.build(model.module, "c", runtime=Runtime("crt", {"system-lib": True}))
    with pytest.raises(RPCError, match="project_type example_project runs models that are compiled with"):
        make(platform, library, tmp_path / "p", "example_project")
    with pytest.raises(RPCError, match=f"projects for {platform} need C source files; compile the model for target c"):
        make(platform, build(model.module, "llvm"), tmp_path / "p")
    with pytest.raises(ValueError, match="option board of the project must be one of"):
        make(platform, archive, tmp_path / "p", board="moon")
    with pytest.raises(ValueError, match="requires the option project_type"):
        micro.generate_project_from_mlf(micro.get_microtvm_template_projects(platform), tmp_path / "p", archive,
                                        {"board": BOARD[platform]})  # fmt: skip
    assert not (tmp_path / "p").exists()


@PLATFORMS
def test_boards_have_targets(platform):
    table = json.loads(Path(micro.get_microtvm_template_projects(platform), "boards.json").read_text())
    for entry in table.values():
        assert tvm.target.target.micro(entry["model"]).kind.name == "c"
