"""Write compiled models as archives in Model Library Format: code, weights, and a description of both in JSON.

=================================  ==================================================================================
``metadata.json``                  version, and for each model its memory, target and executor
``codegen/host/src``, ``lib``      generated C files and object files
``codegen/host/include``           the header of the C interface (executor aot with interface-api c)
``executor-config/graph``          the graph of the graph executor
``parameters``                     the weights that are not in the code
``src``                            the models as Relay text, or the functions of ``tvm.build`` as TIR text
``runtime``                        the C runtime for microcontrollers (runtime crt)
=================================  ==================================================================================
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from .. import __version__
from ..error import TVMError
from ..relay.backend.aot.c_interface import Interface, Pool, SizedTensor, header
from ..relay.backend.executor_factory import AOTExecutorFactoryModule, GraphExecutorFactoryModule
from ..runtime.export import write_code
from ..runtime.module import Module
from ..runtime.name_transforms import sanitize_name
from ..runtime.params import save_param_dict_to_file
from .build import get_standalone_crt_dir
from .mlf_memory import NonStaticShapeError, memory_of, memory_of_functions, workspace_pools_of

METADATA_FILE = "metadata.json"
MAIN_FUNC_NAME_STR = "__tvm_main__"
STANDALONE_CRT_URL = "./runtime"
VERSION = 7
_HOST = "codegen/host"

_Model = AOTExecutorFactoryModule | GraphExecutorFactoryModule
ExportableModule = _Model | Module


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
    mods : ExecutorFactoryModule, list of ExecutorFactoryModule or Module
        The models, as ``relay.build`` returns them. Their names (``mod_name``) must be unique. Or one module that
        ``tvm.build`` returned; its metadata has the style "operator" and is not nested in ``modules``.
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
        A model is for the virtual machine or for a GPU, or a module of ``tvm.build`` is not alone.
    NonStaticShapeError
        A model has dynamic shapes.
    TVMError
        There are no models, or two have the same name.
    """
    models: list[Any] = list(mods) if isinstance(mods, (list, tuple)) else [mods]
    _check_all(models)
    when = datetime.now(timezone.utc) if timestamp is None else datetime.fromtimestamp(timestamp, timezone.utc)
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        root = Path(folder)
        metadata = {"version": VERSION, **_write_models(models, root, when)}
        (root / METADATA_FILE).write_text(json.dumps(metadata, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        _write_archive(root, Path(file_name), int(when.timestamp()))
    return Path(file_name).resolve()


def _check_all(models: Sequence[Any]) -> None:
    """Raise an error for models that one archive cannot contain."""
    for model in models:
        _check(model)
    if not models:
        raise TVMError("a Model Library Format archive must contain at least one model")
    if len(models) > 1 and any(isinstance(model, Module) for model in models):
        raise UnsupportedInModelLibraryFormatError(
            "Multiple operator is not supported: an archive has models of relay.build, or one module of tvm.build"
        )
    names = [_name_of_model(model) for model in models]
    if len(set(names)) != len(names):
        raise TVMError(
            f"models in one archive must have different names, got {', '.join(names)}; set mod_name of relay.build"
        )


def _check(model: Any) -> None:
    """Raise an error for a model that the format cannot contain."""
    is_model = isinstance(model, (AOTExecutorFactoryModule, GraphExecutorFactoryModule))
    if not is_model and not (isinstance(model, Module) and model._info.programs):
        raise UnsupportedInModelLibraryFormatError(
            "Model Library Format supports models that relay.build compiled for the executor graph or aot, and "
            f"modules that tvm.build returned, got {type(model).__name__}; export models for the virtual machine with "
            "-f so"
        )
    for module, _ in _library(model).walk_imports():
        if not module.is_dso_exportable:
            raise UnsupportedInModelLibraryFormatError(
                f"Model Library Format supports only code for CPUs; model '{_name_of_model(model)}' has a module of "
                f"type '{module.type_key}'"
            )


def _name_of_model(model: ExportableModule) -> str:
    return model._info.name if isinstance(model, Module) else model.libmod_name


def _library(model: ExportableModule) -> Module:
    return model if isinstance(model, Module) else model.get_lib()


def _write_models(models: Sequence[Any], root: Path, when: datetime) -> dict[str, Any]:
    """Write the files of all models and return the metadata."""
    if isinstance(models[0], Module):
        return _write_operator(models[0], root, when)
    described = {model.libmod_name: _write_model(model, root, when) for model in models}
    if any("external_dependencies" in entry for entry in described.values()):
        shutil.copytree(get_standalone_crt_dir(), root / STANDALONE_CRT_URL)
    return {"modules": described}


def _description(model: ExportableModule, targets: Sequence[Any], when: datetime) -> dict[str, Any]:
    """Return the metadata that all kinds of models have."""
    return {
        "model_name": _name_of_model(model),
        "tvm_version": __version__,
        "export_datetime": when.strftime("%Y-%m-%d %H:%M:%SZ"),
        "target": [str(target).strip() for target in targets],
    }


def _write_operator(module: Module, root: Path, when: datetime) -> dict[str, Any]:
    """Write the files of a module that ``tvm.build`` returned, and return its metadata."""
    programs = module.ir_module_by_target
    memory = memory_of_functions(programs)
    _write_code(module, root / _HOST, "")
    (root / "src").mkdir()
    for target, functions in programs.items():
        path = root / "src" / f"tir-{int(target.get_target_device_type())}.txt"
        path.write_text(str(functions), encoding="utf-8")
    return {**_description(module, list(programs), when), "memory": memory, "executors": [], "style": "operator"}


def _write_model(model: _Model, root: Path, when: datetime) -> dict[str, Any]:
    """Write the files of a model and return its metadata."""
    name, executor = model.libmod_name, model.executor.name
    description: dict[str, Any] = {
        **_description(model, _targets(model), when),
        "memory": memory_of(model, MAIN_FUNC_NAME_STR),
        "executors": [executor],
        "style": "full-model",
    }
    _write_code(model, root / _HOST, f"{name}_")
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


def _targets(model: _Model) -> Sequence[Any]:
    return model.target if isinstance(model.target, tuple) else (model.target,)


def _write_code(model: ExportableModule, host: Path, prefix: str) -> None:
    """Write the C files, object files and header of a model. The names of code files begin with ``prefix``."""
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        for path in map(Path, write_code(_library(model), folder)):
            place = host / ("lib" if path.suffix == ".o" else "src")
            place.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place / f"{prefix}{path.name}")
    plain = getattr(model, "plain_model", None)
    if plain is not None and plain.header:
        (host / "include").mkdir(parents=True, exist_ok=True)
        (host / "include" / f"{plain.interface.prefix}.h").write_text(plain.header, encoding="utf-8")


def generate_c_interface_header(
    module_name: str, inputs: Sequence[str], outputs: Sequence[str], pools: Any, io_pool_allocations: Mapping[str, Any],
    devices: Sequence[str], workspace_size: int, include_path: str | os.PathLike, input_sizes: Mapping[str, int],
    output_sizes: Mapping[str, int],
) -> str:  # fmt: skip
    """Write the header of the C interface of a model.

    Parameters
    ----------
    module_name : str
        The name of the model.
    inputs : list of str
        The names of the inputs.
    outputs : list of str
        The names of the outputs.
    pools : list of AllocatedPoolInfo or dict of Var to AllocatedPoolInfo
        The memory pools that the caller passes, and the constant pools.
    io_pool_allocations : dict of str to PoolAllocation
        The pools and offsets of inputs and outputs that are stored in pools, by name; empty if the caller passes their
        addresses.
    devices : list of str
        The names of the devices whose driver states the caller passes.
    workspace_size : int
        The size of the memory of intermediate results in bytes.
    include_path : str or Path
        The folder of the header.
    input_sizes : dict of str to int
        The sizes of the inputs in bytes, by name.
    output_sizes : dict of str to int
        The sizes of the outputs in bytes, by name.

    Returns
    -------
    str
        The path of the header, ``tvmgen_NAME.h``.

    Raises
    ------
    TVMError
        The size of an input or output is missing, or two names are equal in C.
    """
    tensors = []
    for kind, names, sizes in (("input", inputs, input_sizes), ("output", outputs, output_sizes)):
        missing = [name for name in names if name not in sizes]
        if missing:
            raise TVMError(f"generate_c_interface_header: the size of {kind} '{missing[0]}' is missing")
        tensors.append([SizedTensor(name, sanitize_name(name), int(sizes[name])) for name in names])
        if len({t.c_name for t in tensors[-1]}) != len(names):
            raise TVMError(f"generate_c_interface_header: two {kind}s have the same name in C: {', '.join(names)}")
    found = [Pool(info.pool.pool_name, info.allocated_size, 1, getattr(info.pool, "constant_info_array", None))
             for info in (pools.values() if isinstance(pools, Mapping) else pools)]  # fmt: skip
    places = {sanitize_name(name): place for name, place in io_pool_allocations.items()}
    interface = Interface(module_name, tensors[0], tensors[1], found, True, (), places, devices)
    path = Path(include_path) / f"{interface.prefix}.h"
    path.write_text(header(interface, workspace_size), encoding="utf-8")
    return str(path)


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
    "UnsupportedInModelLibraryFormatError", "export_model_library_format", "generate_c_interface_header",
]  # fmt: skip
