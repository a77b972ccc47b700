"""Importers of the model files of older frameworks, each read from the file alone."""

from __future__ import annotations

from .errors import TVMCException
from .frontend import Frontend


def _planned(name: str, suffixes: list[str], package: str) -> type:
    class Planned(Frontend):
        @staticmethod
        def name() -> str:
            return name

        @staticmethod
        def suffixes() -> list[str]:
            return suffixes

        def load(self, path, shape_dict=None, **kwargs):
            raise TVMCException(
                f"the importer of {name} models is not available yet; export the model to ONNX and compile that"
            )

    Planned.__doc__ = f"{package} files; refused until their importer exists."
    return Planned


PaddleFrontend = _planned("paddle", ["pdmodel"], "PaddlePaddle")

LEGACY_FRONTENDS = [
    PaddleFrontend,
]
