"""Write compiled models as archives in Model Library Format: code, weights, and a description of both in JSON.

=================================  ==================================================================================
``metadata.json``                  version, and for each model its memory, target and executor
``codegen/host/src``, ``lib``      generated C files and object files
``codegen/host/include``           the header of the C interface (executor aot with interface-api c)
``executor-config/graph``          the graph of the graph executor
``parameters``                     the weights that are not in the code
``src``                            the models as Relay text
``runtime``                        the C runtime for microcontrollers (runtime crt)
=================================  ==================================================================================
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .. import __version__
from ..error import TVMError
from ..not_built import name_of as _name_of
from ..relay.backend.executor_factory import AOTExecutorFactoryModule, ExecutorFactoryModule, GraphExecutorFactoryModule
from ..runtime.export import write_code
from ..runtime.params import save_param_dict_to_file
from .build import get_standalone_crt_dir
from .mlf_memory import NonStaticShapeError, memory_of, workspace_pools_of

METADATA_FILE = "metadata.json"
MAIN_FUNC_NAME_STR = "__tvm_main__"
STANDALONE_CRT_URL = "./runtime"
VERSION = 7
_HOST = "codegen/host"

ExportableModule = AOTExecutorFactoryModule | GraphExecutorFactoryModule


def __getattr__(name: str) -> Any:
    return _name_of(__name__, name)


class UnsupportedInModelLibraryFormatError(TVMError):
    """A model cannot be written in Model Library Format."""


def export_model_library_format(
    mods: ExportableModule | Sequence[ExportableModule], file_name: str | os.PathLike, *,
    timestamp: float | None = None,
) -> Path:  # fmt: skip
    """Write compiled models as an archive in Model Library Format.

    The same models with the same ``timestamp`` give the same archive.

    Parameters
    ----------
    mods : ExecutorFactoryModule or list of ExecutorFactoryModule
        The models, as ``relay.build`` returns them. Their names (``mod_name``) must be unique.
    file_name : str or Path
        The archive.
    timestamp : float, optional
        The time of the export, in seconds since 1970; the current time by default.

    Returns
    -------
    Path
        The absolute path of the archive.

    Raises
    ------
    UnsupportedInModelLibraryFormatError
        A model is for the virtual machine or for a GPU.
    NonStaticShapeError
        A model has dynamic shapes.
    TVMError
        There are no models, or two have the same name.
    """
    models: list[Any] = list(mods) if isinstance(mods, (list, tuple)) else [mods]
    for model in models:
        _check(model)
    names = [model.libmod_name for model in models]
    if not names:
        raise TVMError("a Model Library Format archive must contain at least one model")
    if len(set(names)) != len(names):
        raise TVMError(
            f"models in one archive must have different names, got {', '.join(names)}; set mod_name of relay.build"
        )
    when = datetime.now(timezone.utc) if timestamp is None else datetime.fromtimestamp(timestamp, timezone.utc)
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        root = Path(folder)
        described = {model.libmod_name: _write_model(model, root, when) for model in models}
        if any("external_dependencies" in entry for entry in described.values()):
            shutil.copytree(get_standalone_crt_dir(), root / STANDALONE_CRT_URL)
        metadata = {"version": VERSION, "modules": described}
        (root / METADATA_FILE).write_text(json.dumps(metadata, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        _write_archive(root, Path(file_name), int(when.timestamp()))
    return Path(file_name).resolve()


def _check(model: Any) -> None:
    """Raise an error for a model that the format cannot contain."""
    if not isinstance(model, ExecutorFactoryModule):
        raise UnsupportedInModelLibraryFormatError(
            f"Model Library Format supports models that relay.build compiled for the executor graph or aot, got "
            f"{type(model).__name__}; export models for the virtual machine with -f so"
        )
    for module, _ in model.get_lib().walk_imports():
        if not module.is_dso_exportable:
            raise UnsupportedInModelLibraryFormatError(
                f"Model Library Format supports only code for CPUs; model '{model.libmod_name}' has a module of type "
                f"'{module.type_key}'"
            )


def _write_model(model: ExportableModule, root: Path, when: datetime) -> dict[str, Any]:
    """Write the files of a model and return its metadata."""
    name, executor = model.libmod_name, model.executor.name
    description: dict[str, Any] = {
        "model_name": name,
        "export_datetime": when.strftime("%Y-%m-%d %H:%M:%SZ"),
        "memory": memory_of(model, MAIN_FUNC_NAME_STR),
        "target": [str(target).strip() for target in _targets(model)],
        "executors": [executor],
        "style": "full-model",
    }
    _write_code(model, root / _HOST)
    relay = root / "src" / f"{name}.relay"
    relay.parent.mkdir(parents=True, exist_ok=True)
    relay.write_text(model.ir_mod.astext(show_meta_data=False), encoding="utf-8")
    if executor == "graph":
        graph = root / "executor-config" / "graph" / f"{name}.graph"
        graph.parent.mkdir(parents=True, exist_ok=True)
        graph.write_text(model.get_graph_json(), encoding="utf-8")
    parameters = root / "parameters"
    parameters.mkdir(exist_ok=True)
    save_param_dict_to_file(model.get_params(), str(parameters / f"{name}.params"))
    if isinstance(model, AOTExecutorFactoryModule) and model.plain_model is not None:
        description["workspace_pools"] = workspace_pools_of(model.plain_model.interface)
    if model.runtime is not None and model.runtime.name == "crt":
        description["system_lib"] = bool(model.runtime.options.get("system-lib"))
        description["external_dependencies"] = [{
            "short_name": "tvm_standalone_crt",
            "url": STANDALONE_CRT_URL,
            "url_type": "mlf_path",
            "version_spec": __version__,
        }]  # fmt: skip
    return description


def _targets(model: ExportableModule) -> Sequence[Any]:
    return model.target if isinstance(model.target, tuple) else (model.target,)


def _write_code(model: ExportableModule, host: Path) -> None:
    """Write the C files, object files and header of a model."""
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        for path in map(Path, write_code(model.get_lib(), folder)):
            place = host / ("lib" if path.suffix == ".o" else "src")
            place.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place / f"{model.libmod_name}_{path.name}")
    plain = getattr(model, "plain_model", None)
    if plain is not None and plain.header:
        (host / "include").mkdir(parents=True, exist_ok=True)
        (host / "include" / f"{plain.interface.prefix}.h").write_text(plain.header, encoding="utf-8")


def _write_archive(root: Path, path: Path, mtime: int) -> None:
    """Write the files of a folder into an archive, sorted by name and without file owners, so that it is
    reproducible."""
    part = path.with_name(path.name + ".part")
    try:
        with tarfile.open(part, "w", format=tarfile.PAX_FORMAT) as archive:
            for file in sorted(p for p in root.rglob("*") if p.is_file()):
                entry = tarfile.TarInfo(file.relative_to(root).as_posix())
                entry.size, entry.mtime, entry.mode = file.stat().st_size, mtime, 0o644
                with open(file, "rb") as data:
                    archive.addfile(entry, data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


__all__ = [
    "MAIN_FUNC_NAME_STR", "METADATA_FILE", "STANDALONE_CRT_URL", "ExportableModule", "NonStaticShapeError",
    "UnsupportedInModelLibraryFormatError", "export_model_library_format",
]  # fmt: skip
