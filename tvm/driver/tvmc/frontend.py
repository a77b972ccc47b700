"""The interface of importers of model files."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import TVMCImportError


def lazy_import(pkg_name: str, from_pkg_name: str | None = None, hide_stderr: bool = False):
    """Import a framework on demand; an error names a missing one."""
    try:
        return importlib.import_module(f"{from_pkg_name}.{pkg_name}" if from_pkg_name else pkg_name)
    except ImportError as problem:
        raise TVMCImportError(pkg_name) from problem


def with_open_sizes(shapes: dict[str, Any] | None) -> dict[str, list[int | None]]:
    """Shapes of inputs, with None for dynamic dimensions."""
    return {name: [d if isinstance(d, int) else None for d in dims] for name, dims in (shapes or {}).items()}


class Frontend:
    """An importer: its format's name, the file endings that it reads, and those of a second file with the weights."""

    FORMAT = ""
    ENDINGS: tuple[str, ...] = ()
    WEIGHTS: tuple[str, ...] = ()
    # Whether the parameters that the importer returns are the first values of state that a model keeps between runs.
    KEEPS_STATE = False

    @classmethod
    def name(cls) -> str:
        return cls.FORMAT

    @classmethod
    def suffixes(cls) -> list[str]:
        return list(cls.ENDINGS)

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        """Whether a file that begins with these bytes is of this format, whatever its ending."""
        return False

    @staticmethod
    def reads_folder(path: str) -> bool:
        """Whether a folder is a model of this format."""
        return False

    def load(self, path, shape_dict=None, **kwargs) -> tuple[Any, dict]:
        raise TypeError("an importer can load")

    def companions(self, path: str) -> dict[str, bytes]:
        """The files that a model takes along, by their names in its folder."""
        return {}
