"""The folder of a template or of a generated project: its description, its generation, and its stored options."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from ..mlf_reader import MlfModel, read_models
from .entry import is_library
from .server import ProjectAPIHandler, ProjectOption, ServerError, ServerInfo

MODEL, SETTINGS = "model.tar", "project.json"
MEMORY = "workspace_size_bytes"
_HELP = "the size of the memory for arguments of functions, for models that are compiled with system-lib"
MEMORY_OPTION: dict[str, dict[str, Any]] = {MEMORY: {"type": "int", "optional": ("generate_project",), "help": _HELP}}


class ProjectFolder(ProjectAPIHandler):
    """A template and the projects generated from it.

    Parameters
    ----------
    folder : Path
        The folder of the template or project.
    """

    platform = ""

    def __init__(self, folder: Path):
        self.folder = folder

    def _options(self) -> list[ProjectOption]:
        raise NotImplementedError(f"{type(self).__name__} does not define _options")

    def _generate(self, archive: Path, crt: Path, project: Path, options: dict[str, Any]) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not define _generate")

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

    def _settings(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a method, merged with the options with which the project was generated."""
        return {**json.loads((self.folder / SETTINGS).read_text(encoding="utf-8")), **options}


def only_model(folder: Path, archive: str) -> MlfModel:
    """Return the model of an archive; raise an error unless there is exactly one and a project can run it."""
    models = read_models(folder, archive)
    if len(models) != 1:
        raise ServerError(f"a project runs one model; {archive} has {', '.join(model.name for model in models)}")
    (model,) = models
    has_header = model.executor == "aot" and list((folder / "codegen/host/include").glob("tvmgen_*.h"))
    if not has_header and not is_library(model):
        raise ServerError(
            f"a project runs models that are compiled with --executor aot --executor-aot-interface-api c "
            f"--executor-aot-unpacked-api 1 --runtime crt, or with --runtime crt --runtime-crt-system-lib 1; "
            f"model '{model.name}' in {archive} is not"
        )
    return model
