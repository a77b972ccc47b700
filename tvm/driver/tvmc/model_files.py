"""Groups the files of a command line into models: a network may have a separate file of weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .errors import TVMCException
from .frontends import network_and_weights


class ModelFiles(NamedTuple):
    """The file of a model, and its file of weights if the command line names one."""

    path: str
    weights: str | None = None

    @property
    def options(self) -> dict[str, str]:
        """Return the options of the importer."""
        return {} if self.weights is None else {"weights": self.weights}


def models_of(paths: Sequence[str]) -> list[ModelFiles]:
    """Group files into models, in the order of their first files. Two files form one model if they have the same folder
    and the same name without suffix, or else if they follow one another."""
    count = len(paths)
    named_alike = [(i, j) for i in range(count) for j in range(i + 1, count) if _same_name(paths[i], paths[j])]
    rows: dict[int, ModelFiles] = {}
    paired: set[int] = set()
    for first, second in [*named_alike, *((i, i + 1) for i in range(count - 1))]:
        pair = None if {first, second} & paired else network_and_weights([paths[first], paths[second]])
        if pair is not None:
            rows[first] = ModelFiles(*pair)
            paired |= {first, second}
    rows |= {i: ModelFiles(path) for i, path in enumerate(paths) if i not in paired}
    return [rows[i] for i in sorted(rows)]


def one_model(paths: Sequence[str], doing: str) -> ModelFiles:
    """Return the only model in the files; raise an error if there are several, in which ``doing`` is the verb."""
    found = models_of(paths)
    if len(found) > 1:
        raise TVMCException(
            f"{len(paths)} files are given, and {Path(found[0].path).name} and "
            f"{Path(found[1].path).name} are not a network with its weights: {doing} one model"
        )
    return found[0]


def _same_name(a: str, b: str) -> bool:
    return Path(a).parent == Path(b).parent and Path(a).stem == Path(b).stem


__all__ = ["ModelFiles", "models_of", "one_model"]
