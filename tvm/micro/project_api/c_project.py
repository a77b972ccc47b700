"""Projects in C: they link the model, the C runtime and the files of a template to a program, and run it as a child
process."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...contrib.tar import untar
from .entry import entry_text, is_library, library_text
from .piped_program import PipedProgram
from .project_folder import MEMORY, MEMORY_OPTION, MODEL, SETTINGS, ProjectFolder, only_model
from .server import (
    ProjectOption,
    ServerError,
    TransportClosedError,
    TransportTimeouts,
    default_project_options,
)

_TIMEOUTS = TransportTimeouts(0, 10, 600)
_FLAGS = ("-std=c99", "-Wall", "-Wextra", "-ffreestanding", "-Icrt/include", "-Imodel/codegen/host/include")


def emulated(program: Path) -> list[str]:
    """Return the options of qemu for a program that reads and writes through semihosting.

    Parameters
    ----------
    program : Path
        The program.

    Returns
    -------
    list of str
        The options.
    """
    none = ["-display", "none", "-serial", "none", "-monitor", "none"]
    return [*none, "-semihosting-config", "enable=on,target=native", "-kernel", str(program)]


class CProject(ProjectFolder):
    """A project that a C compiler builds. Subclasses define the C compiler, its flags, and the command that runs the
    program.

    Parameters
    ----------
    folder : Path
        The folder of the template or project.
    """

    boards: tuple[str, ...] = ()
    platform_sources: tuple[str, ...] = ()
    has_named_pipes = False

    def __init__(self, folder: Path):
        super().__init__(folder)
        self._program: PipedProgram | None = None

    # Methods that a template defines ----------------------------------------------------------------------------------

    def toolchain(self, options: dict[str, Any]) -> list[str]:
        """Return the command of the C compiler, to which file names and options are appended."""
        raise NotImplementedError(f"{type(self).__name__} does not define toolchain")

    def program_flags(self, options: dict[str, Any]) -> list[str]:
        """Return the options of the C compiler for compiling and linking."""
        raise NotImplementedError(f"{type(self).__name__} does not define program_flags")

    def link_flags(self, options: dict[str, Any]) -> list[str]:
        """Return the options of the C compiler for linking only."""
        return []

    def run_command(self, program: Path, options: dict[str, Any]) -> list[str]:
        """Return the command that runs the program."""
        raise NotImplementedError(f"{type(self).__name__} does not define run_command")

    @staticmethod
    def tool(name: str, package: str) -> str:
        """Return the path of an installed tool.

        Parameters
        ----------
        name : str
            The name of the tool.
        package : str
            The Debian package that contains the tool.

        Returns
        -------
        str
            The path.

        Raises
        ------
        ServerError
            The tool is not installed.
        """
        found = shutil.which(name)
        if found is None:
            raise ServerError(f"{name} is not installed; Debian has it in the package {package}")
        return found

    # The methods of the Project API -----------------------------------------------------------------------------------

    def _options(self) -> list[ProjectOption]:
        more: dict[str, Any] = dict(MEMORY_OPTION)
        if self.boards:
            more["board"] = {"choices": self.boards, "required": ("generate_project",), "help": "the board"}
        return default_project_options(**more)

    def _generate(self, archive: Path, crt: Path, project: Path, options: dict[str, Any]) -> None:
        shutil.copytree(self.folder, project, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copyfile(archive, project / MODEL)
        (project / "model").mkdir()
        untar(str(archive), str(project / "model"))
        shutil.copytree(crt, project / "crt")
        model = only_model(project / "model", str(archive))
        text = library_text(model, options.get(MEMORY) or 0) if is_library(model) else entry_text(model)
        (project / "src" / "model_entry.c").write_text(text, encoding="utf-8")
        settings = {name: value for name, value in options.items() if name == "board"}
        settings["loop"] = "session.c" if is_library(model) else "serve.c"
        (project / SETTINGS).write_text(json.dumps(settings) + "\n", encoding="utf-8")
        if options.get("extra_files_tar"):
            untar(options["extra_files_tar"], str(project))

    @property
    def program(self) -> Path:
        """The path of the program."""
        return self.folder / "build" / "program"

    def build(self, options: dict[str, Any]) -> None:
        settings = self._settings(options)
        compiler, flags = self.toolchain(settings), self.program_flags(settings)
        warnings = ["-Werror"] if settings.get("warning_as_error") else []
        macros = [f"-D{macro}" for macro in settings.get("compile_definitions", "").split()]
        self.program.parent.mkdir(exist_ok=True)
        objects = [str(path) for path in self._files("model/codegen/host/lib", "*.o")]
        for source in self._sources(settings):
            target = f"build/{source.parent.name}_{source.stem}.o"
            compile_one = ["-c", str(source), "-o", target]
            self._call([*compiler, *flags, *_FLAGS, *warnings, *macros, *compile_one], settings, source.name)
            objects.append(target)
        link = [*compiler, *flags, *objects, *self.link_flags(settings), "-lm", "-o", str(self.program)]
        self._call(link, settings, "the program")

    def _files(self, folder: str, pattern: str) -> list[Path]:
        return sorted(path.relative_to(self.folder) for path in (self.folder / folder).glob(pattern))

    def _sources(self, settings: dict[str, Any]) -> list[Path]:
        runtime = [Path("crt", "src", name) for name in (settings["loop"], *self.platform_sources)]
        return [*runtime, *self._files("src", "*.c"), *self._files("model/codegen/host/src", "*.c")]

    def _call(self, command: Sequence[str], settings: dict[str, Any], what: str) -> None:
        if settings.get("verbose"):
            print(" ".join(command), flush=True)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise ServerError(f"building {what} failed:\n{done.stderr[-4000:].strip()}")

    def _built(self) -> Path:
        if not self.program.exists():
            raise ServerError("the project is not built; build it first")
        return self.program

    def flash(self, options: dict[str, Any]) -> None:
        """Check that the program exists. Flashing does nothing else, because an emulator or this machine reads the
        program from its file."""
        self._built()

    def open_transport(self, options: dict[str, Any]) -> TransportTimeouts:
        if self._program is not None:
            raise ServerError("the transport is already open")
        command = self.run_command(self._built(), self._settings(options))
        start = PipedProgram.by_name if self.has_named_pipes else PipedProgram.by_console
        self._program = start(command, _TIMEOUTS.session_start_timeout_sec)
        return _TIMEOUTS

    def close_transport(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.close()

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        return self._running().read(n, timeout_sec)

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        self._running().write(data, timeout_sec)

    def _running(self) -> PipedProgram:
        if self._program is None:
            raise TransportClosedError("the transport is not open")
        return self._program
