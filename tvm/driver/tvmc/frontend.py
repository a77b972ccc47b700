"""The interface of importers of model files."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import TVMCImportError


def lazy_import(pkg_name: str, from_pkg_name: str | None = None, hide_stderr: bool = False):
    """Import a framework on demand; raise an error with its name if it is not installed."""
    try:
        return importlib.import_module(f"{from_pkg_name}.{pkg_name}" if from_pkg_name else pkg_name)
    except ImportError as problem:
        raise TVMCImportError(pkg_name) from problem


def with_dynamic_dims(shapes: dict[str, Any] | None) -> dict[str, list[int | None]]:
    """Return shapes of inputs with None for dynamic dimensions."""
    return {name: [d if isinstance(d, int) else None for d in dims] for name, dims in (shapes or {}).items()}


class Frontend:
    """An importer: the name of its format, the file suffixes that it reads, and those of a separate file of weights."""

    FORMAT = ""
    ENDINGS: tuple[str, ...] = ()
    WEIGHTS: tuple[str, ...] = ()
    # Whether the parameters that the importer returns are the initial values of state that a model keeps between runs.
    KEEPS_STATE = False

    @classmethod
    def name(cls) -> str:
        return cls.FORMAT

    @classmethod
    def suffixes(cls) -> list[str]:
        return list(cls.ENDINGS)

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        """Whether a file that starts with these bytes has this format, regardless of its suffix."""
        return False

    @staticmethod
    def reads_folder(path: str) -> bool:
        """Whether a folder is a model of this format."""
        return False

    def load(self, path, shape_dict=None, **kwargs) -> tuple[Any, dict]:
        raise TypeError("an importer must implement load")

    def companions(self, path: str) -> dict[str, bytes]:
        """Return the additional files that a model needs, by their names in its folder."""
        return {}
