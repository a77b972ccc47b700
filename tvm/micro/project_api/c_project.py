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
from ..mlf_reader import MlfModel, read_models
from .entry import entry_text
from .piped_program import PipedProgram
from .server import (
    ProjectAPIHandler,
    ProjectOption,
    ServerError,
    ServerInfo,
    TransportClosedError,
    TransportTimeouts,
    default_project_options,
)

MODEL, SETTINGS = "model.tar", "project.json"
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


class CProject(ProjectAPIHandler):
    """A template and the projects generated from it. Subclasses define the C compiler, its flags, and the command that
    runs the program.

    Parameters
    ----------
    folder : Path
        The folder of the template or project.
    """

    platform = ""
    boards: tuple[str, ...] = ()
    runtime_sources: tuple[str, ...] = ("serve.c",)
    has_named_pipes = False

    def __init__(self, folder: Path):
        self.folder = folder
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
        if not self.boards:
            return default_project_options()
        board = {"choices": self.boards, "required": ("generate_project",), "help": "the board"}
        return default_project_options(board=board)

    def server_info_query(self, tvm_version: str) -> ServerInfo:
        model = self.folder / MODEL
        return ServerInfo(self.platform, not model.exists(), model if model.exists() else "", self._options())

    def generate_project(
        self, model_library_format_path: Path, standalone_crt_dir: Path, project_dir: Path, options: dict[str, Any]
    ) -> None:
        if project_dir.exists():
            raise ServerError(f"the folder {project_dir} exists; generate the project in a new folder")
        try:
            self._generate(model_library_format_path, standalone_crt_dir, project_dir, options)
        except BaseException:
            shutil.rmtree(project_dir, ignore_errors=True)
            raise

    def _generate(self, archive: Path, crt: Path, project: Path, options: dict[str, Any]) -> None:
        shutil.copytree(self.folder, project, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copyfile(archive, project / MODEL)
        (project / "model").mkdir()
        untar(str(archive), str(project / "model"))
        shutil.copytree(crt, project / "crt")
        model = _only_model(project / "model", str(archive))
        (project / "src" / "model_entry.c").write_text(entry_text(model), encoding="utf-8")
        settings = {name: value for name, value in options.items() if name == "board"}
        (project / SETTINGS).write_text(json.dumps(settings) + "\n", encoding="utf-8")
        if options.get("extra_files_tar"):
            untar(options["extra_files_tar"], str(project))

    def _settings(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a method, merged with the options with which the project was generated."""
        return {**json.loads((self.folder / SETTINGS).read_text(encoding="utf-8")), **options}

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
        for source in self._sources():
            target = f"build/{source.parent.name}_{source.stem}.o"
            compile_one = ["-c", str(source), "-o", target]
            self._call([*compiler, *flags, *_FLAGS, *warnings, *macros, *compile_one], settings, source.name)
            objects.append(target)
        link = [*compiler, *flags, *objects, *self.link_flags(settings), "-lm", "-o", str(self.program)]
        self._call(link, settings, "the program")

    def _files(self, folder: str, pattern: str) -> list[Path]:
        return sorted(path.relative_to(self.folder) for path in (self.folder / folder).glob(pattern))

    def _sources(self) -> list[Path]:
        runtime = [Path("crt", "src", name) for name in self.runtime_sources]
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


def _only_model(folder: Path, archive: str) -> MlfModel:
    """Return the model of an archive; raise an error unless there is exactly one and a project can run it."""
    models = read_models(folder, archive)
    if len(models) != 1:
        raise ServerError(f"a project runs one model; {archive} has {', '.join(model.name for model in models)}")
    (model,) = models
    if model.executor != "aot" or not list((folder / "codegen/host/include").glob("tvmgen_*.h")):
        raise ServerError(
            f"a project runs models that are compiled with --executor aot --executor-aot-interface-api c "
            f"--executor-aot-unpacked-api 1 --runtime crt; model '{model.name}' in {archive} is not"
        )
    return model
