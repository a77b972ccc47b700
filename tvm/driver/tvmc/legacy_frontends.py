"""Importers of the model files of older frameworks, each read from the file alone."""

from __future__ import annotations

import os

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


class Caffe2Frontend(Frontend):
    """Caffe2 models: two nets, of which the user names one; the other lies beside it."""

    @staticmethod
    def name() -> str:
        return "caffe2"

    @staticmethod
    def suffixes() -> list[str]:
        return []

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        """By their names: a net begins like any message of protobuf."""
        pair = _nets(path)
        return path.endswith(".pb") and pair is not None and os.path.isfile(pair[0]) and os.path.isfile(pair[1])

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.caffe2 import from_caffe2

        return from_caffe2(*self.pair(path), shape=shape_dict, **kwargs)

    def companions(self, path: str) -> dict[str, bytes]:
        """The other net."""
        other = next(p for p in self.pair(path) if os.path.basename(p) != os.path.basename(path))
        with open(other, "rb") as file:
            return {os.path.basename(other): file.read()}

    def pair(self, path: str) -> tuple[str, str]:
        found = _nets(path)
        if found is None:
            raise TVMCException(f"a Caffe2 model is two files with init and predict in their names, as init_net.pb and "
                                f"predict_net.pb; got {os.path.basename(path)}")
        for each in found:
            if not os.path.isfile(each) or os.path.islink(each):
                raise TVMCException(f"the other net of the Caffe2 model should be beside it, as the plain file "
                                    f"{os.path.basename(each)}")
        return found


def _nets(path: str) -> tuple[str, str] | None:
    """The net of the weights and the net that computes, by the name of one of them."""
    folder, name = os.path.split(path)
    for own, other in (("predict", "init"), ("init", "predict")):
        if own in name:
            pair = [os.path.join(folder, name.replace(own, word)) for word in (own, other)]
            return (pair[1], pair[0]) if own == "predict" else (pair[0], pair[1])
    return None


class CntkFrontend(Frontend):
    """CNTK models of both formats."""

    @staticmethod
    def name() -> str:
        return "cntk"

    @staticmethod
    def suffixes() -> list[str]:
        return ["dnn", "cmf"]

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        from ...relay.frontend.cntk.load import is_cntk

        return is_cntk(head)

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.cntk import from_cntk

        return from_cntk(path, shape_dict, **kwargs)


LEGACY_FRONTENDS = [
    Caffe2Frontend,
    CntkFrontend,
    PaddleFrontend,
]
