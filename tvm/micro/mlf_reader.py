"""Read the metadata of archives in Model Library Format, versions 1 to 7."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from ..error import TVMError

_METADATA = "metadata.json"
_NEWEST = 7
# The JSON key of the executors in the versions of the format, newest first.
_EXECUTORS = ("executors", "executor", "runtimes")


class MlfModel(NamedTuple):
    """A model of an extracted archive. ``graph`` is empty for models of the executor aot."""

    name: str
    executor: str
    description: dict[str, Any]
    graph: Path | None
    params: Path | None


def read_models(folder: str | Path, shown: str) -> list[MlfModel]:
    """Return the models of an extracted archive.

    Parameters
    ----------
    folder : str or Path
        The folder of its files.
    shown : str
        The name of the archive for error messages.

    Returns
    -------
    list of MlfModel
        The models.

    Raises
    ------
    TVMError
        The metadata is missing, damaged or of an unsupported version, or a file of a model is missing.
    """
    root = Path(folder)
    try:
        metadata = json.loads((root / _METADATA).read_text(encoding="utf-8"))
        version = metadata["version"]
        if type(version) is not int or not 1 <= version <= _NEWEST:
            raise TVMError(
                f"{shown}: version {version} of Model Library Format is not supported; use versions 1 to {_NEWEST}"
            )
        if metadata.get("style") == "operator":
            raise TVMError(f"{shown} contains the functions of a module of tvm.build and no model")
        modules = metadata["modules"] if version == _NEWEST else {metadata["model_name"]: metadata}
        if not modules:
            raise ValueError("it has no models")
        return [_model(root, name, module, version) for name, module in modules.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, IndexError) as problem:
        reason = f"it has no {problem}" if isinstance(problem, KeyError) else str(problem)
        raise TVMError(f"{shown} is not a complete archive in Model Library Format: {reason}") from problem


def _model(root: Path, name: Any, description: Any, version: int) -> MlfModel:
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise ValueError(f"{name!r} is not a valid name of a model")
    executors = description[next((key for key in _EXECUTORS if key in description), _EXECUTORS[0])]
    executor = executors if isinstance(executors, str) else executors[0]
    if executor not in ("graph", "aot"):
        raise ValueError(f"model '{name}' has the unknown executor {executor!r}")
    graph = None
    if executor == "graph":
        config = root / ("runtime-config" if version == 1 else "executor-config") / "graph"
        graph = _existing(config / (f"{name}.graph" if version == _NEWEST else "graph.json"))
    params = root / "parameters" / f"{name}.params"
    return MlfModel(name, executor, description, graph, params if params.is_file() else None)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"the file {path.parent.name}/{path.name} is missing")
    return path
