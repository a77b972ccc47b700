"""Projects that an external tool builds and flashes, such as ``arduino-cli`` and ``west``. Their programs serve
requests on a serial port."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...contrib.tar import untar
from ..mlf_reader import MlfModel
from .entry import entry_text, is_library, library_text
from .project_folder import MEMORY, MEMORY_OPTION, MODEL, SETTINGS, ProjectFolder, only_model
from .serial_line import SerialLine
from .server import (
    ProjectOption,
    ServerError,
    TransportClosedError,
    TransportTimeouts,
    default_project_options,
)

EXAMPLE, HOST_DRIVEN = "example_project", "host_driven"
_TIMEOUTS = TransportTimeouts(0, 10, 600)
_ALL = ("generate_project", "build", "flash", "open_transport")
_HEADERS = ("include/tvm_crt.h", "include/tvm_crt_config.h")
_LOOP_SOURCES = ("src/wire.h", "src/framing.c")


class _Line(Protocol):
    def read(self, n: int, timeout_sec: float | None) -> bytes: ...
    def write(self, data: bytes, timeout_sec: float | None) -> None: ...
    def close(self) -> None: ...


class ToolProject(ProjectFolder):
    """A project that an external tool builds. Subclasses define the options and commands of the tool.

    All C files of a project are in its folder ``src``.

    Parameters
    ----------
    folder : Path
        The folder of the template or project.
    """

    def __init__(self, folder: Path):
        super().__init__(folder)
        self._line: _Line | None = None
        self.boards: dict[str, dict[str, Any]] = json.loads((folder / "boards.json").read_text(encoding="utf-8"))

    # Methods that a template defines ----------------------------------------------------------------------------------

    def tool_options(self) -> Mapping[str, dict[str, Any]]:
        """Return the options of the tool by name."""
        raise NotImplementedError(f"{type(self).__name__} does not define tool_options")

    def write_main(self, project: Path, options: dict[str, Any]) -> None:
        """Write the main file of a project of the type ``options["project_type"]`` and the files of the tool."""
        raise NotImplementedError(f"{type(self).__name__} does not define write_main")

    def build_command(self, options: dict[str, Any]) -> list[str]:
        """Return the command that builds the project."""
        raise NotImplementedError(f"{type(self).__name__} does not define build_command")

    def flash_command(self, options: dict[str, Any]) -> list[str]:
        """Return the command that writes the program to the board."""
        raise NotImplementedError(f"{type(self).__name__} does not define flash_command")

    def environment(self, options: dict[str, Any]) -> Mapping[str, str] | None:
        """Return the environment variables of the tool; None for those of this process."""
        return None

    @staticmethod
    def compiler_options(options: Mapping[str, Any]) -> list[str]:
        """Return the options of the C compiler for the project options ``compile_definitions`` and
        ``warning_as_error``."""
        macros = [f"-D{macro}" for macro in (options.get("compile_definitions") or "").split()]
        return [*macros, *(["-Werror"] if options.get("warning_as_error") else [])]

    @staticmethod
    def tool(command: str, option: str, advice: str) -> str:
        """Return the path of the tool.

        Parameters
        ----------
        command : str
            Its name or path.
        option : str
            The project option that sets it.
        advice : str
            The way to install it.

        Returns
        -------
        str
            The path.

        Raises
        ------
        ServerError
            The tool is not installed.
        """
        found = shutil.which(command)
        if found is None:
            raise ServerError(f"{command} is not installed; {advice}, or set the project option {option} to its path")
        return found

    # The methods of the Project API -----------------------------------------------------------------------------------

    def _options(self) -> list[ProjectOption]:
        more: dict[str, dict[str, Any]] = {
            "board": {"choices": tuple(self.boards), "required": _ALL[:1], "optional": _ALL[1:], "help": "the board"},
            "project_type": {
                "choices": (EXAMPLE, HOST_DRIVEN), "required": _ALL[:1],
                "help": "a program that serves requests of a host (host_driven), or an example to extend",
            },
            **MEMORY_OPTION,
            "port": {"optional": ("flash", "open_transport"), "help": "the serial port, such as /dev/ttyACM0"},
            **self.tool_options(),
        }  # fmt: skip
        return default_project_options(**more)

    def _generate(self, archive: Path, crt: Path, project: Path, options: dict[str, Any]) -> None:
        (project / "src").mkdir(parents=True)
        for name in ("microtvm_api_server.py", "boards.json"):
            shutil.copyfile(self.folder / name, project / name)
        shutil.copyfile(archive, project / MODEL)
        with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
            untar(str(archive), folder)
            model = only_model(Path(folder), str(archive))
            self._write_sources(project / "src", Path(folder, "codegen", "host"), crt, model, options)
        kept = {name: value for name, value in options.items() if name != "extra_files_tar"}
        (project / SETTINGS).write_text(json.dumps(kept) + "\n", encoding="utf-8")
        self.write_main(project, options)
        if options.get("extra_files_tar"):
            untar(options["extra_files_tar"], str(project))

    def _write_sources(self, target: Path, code: Path, crt: Path, model: MlfModel, options: dict[str, Any]) -> None:
        """Write the C files of the model and of the C runtime."""
        if any(code.glob("lib/*.o")):
            raise ServerError(f"projects for {self.platform} need C source files; compile the model for target c")
        is_example = options["project_type"] == EXAMPLE
        if is_example and is_library(model):
            raise ServerError(
                f"project_type {EXAMPLE} runs models that are compiled with --executor aot "
                f"--executor-aot-interface-api c --executor-aot-unpacked-api 1; use project_type {HOST_DRIVEN}"
            )
        size = options.get(MEMORY) or 0
        text = library_text(model, size) if is_library(model) else entry_text(model, not is_example)
        (target / "model_entry.c").write_text(text, encoding="utf-8")
        loop = "src/session.c" if is_library(model) else "src/serve.c"
        runtime = [crt / name for name in (*_HEADERS, *(() if is_example else (*_LOOP_SOURCES, loop)))]
        for path in [*sorted(code.glob("src/*.c")), *sorted(code.glob("include/*.h")), *runtime]:
            shutil.copyfile(path, target / path.name)

    def _call(self, command: Sequence[str], settings: dict[str, Any], what: str) -> None:
        if settings.get("verbose"):
            print(" ".join(command), flush=True)
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, errors="replace", env=self.environment(settings)
        )
        if done.returncode:
            raise ServerError(f"{what} failed:\n{(done.stdout + done.stderr)[-4000:].strip()}")

    def build(self, options: dict[str, Any]) -> None:
        settings = self._settings(options)
        self._call(self.build_command(settings), settings, "building the project")
        (self.folder / "build").mkdir(exist_ok=True)

    def flash(self, options: dict[str, Any]) -> None:
        if not (self.folder / "build").exists():
            raise ServerError("the project is not built; build it first")
        settings = self._settings(options)
        self._call(self.flash_command(settings), settings, "flashing the board")

    def find_port(self, options: dict[str, Any]) -> str:
        """Return the serial port of the board."""
        if not options.get("port"):
            raise ServerError("the project option port is missing: the serial port of the board, such as /dev/ttyACM0")
        return options["port"]

    def open_transport(self, options: dict[str, Any]) -> TransportTimeouts:
        if self._line is not None:
            raise ServerError("the transport is already open")
        settings = self._settings(options)
        if settings["project_type"] != HOST_DRIVEN:
            raise ServerError(f"a project of the type {settings['project_type']} has no transport; use {HOST_DRIVEN}")
        self._line = SerialLine(self.find_port(settings), _TIMEOUTS.session_start_timeout_sec)
        return _TIMEOUTS

    def close_transport(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        return self._open_line().read(n, timeout_sec)

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        self._open_line().write(data, timeout_sec)

    def _open_line(self) -> _Line:
        if self._line is None:
            raise TransportClosedError("the transport is not open")
        return self._line
