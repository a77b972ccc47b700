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


class CaffeFrontend(Frontend):
    """Caffe's networks: the text, with the file of weights beside it."""

    @staticmethod
    def name() -> str:
        return "caffe"

    @staticmethod
    def suffixes() -> list[str]:
        return ["prototxt"]

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.caffe import from_caffe
        from ...relay.frontend.common.folder import beside

        (weights,) = beside(path, "caffemodel").values()
        with open(path, "rb") as file:
            return from_caffe(weights, file.read(), shape_dict, **kwargs)

    def companions(self, path: str) -> dict[str, bytes]:
        """The file of weights."""
        from ...relay.frontend.common.folder import beside

        return beside(path, "caffemodel")


class CoremlFrontend(Frontend):
    """Core ML's model files and packages."""

    @staticmethod
    def name() -> str:
        return "coreml"

    @staticmethod
    def suffixes() -> list[str]:
        return ["mlmodel", "mlpackage"]

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        """A model begins with its version and its description, and that with its first input, which begins with a name;
        lengths are before all but the first."""
        if head[:1] != b"\x08" or not 0 < (head[1:2] or b"\0")[0] < 64 or head[2:3] != b"\x12":
            return False
        at = 3
        for _ in range(2):
            at += 1 + next((i for i, byte in enumerate(head[at : at + 5]) if byte < 128), 5)
            if head[at : at + 1] != b"\x0a":
                return False
            at += 1
        return True

    @staticmethod
    def reads_folder(path: str) -> bool:
        from ...relay.frontend.coreml.load import is_package

        return is_package(path)

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.coreml import from_coreml

        return from_coreml(path, shape_dict, **kwargs)

    def companions(self, path: str) -> dict[str, bytes]:
        """A folder would be needed whole."""
        if os.path.isdir(path):
            raise TVMCException("a package of Core ML is a folder, which is not sent to other machines")
        return {}


class DarknetFrontend(Frontend):
    """DarkNet's configurations, each with the file of weights beside it."""

    @staticmethod
    def name() -> str:
        return "darknet"

    @staticmethod
    def suffixes() -> list[str]:
        return ["cfg"]

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.darknet import from_darknet

        shapes = dict(shape_dict or {})
        shape = shapes.pop("data", None)
        if shapes:
            raise TVMCException(f"the network has no input '{next(iter(shapes))}'; its input is data")
        return from_darknet(path, shape=shape, **kwargs)

    def companions(self, path: str) -> dict[str, bytes]:
        """The file of weights."""
        from ...relay.frontend.common.folder import beside

        return beside(path, "weights")


class MxnetFrontend(Frontend):
    """Symbols of MXNet (``-symbol.json``), each with the file of parameters beside it."""

    @staticmethod
    def name() -> str:
        return "mxnet"

    @staticmethod
    def suffixes() -> list[str]:
        return ["json"]

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        return b"".join(head.split()).startswith(b'{"nodes":[{"op":')

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.mxnet import from_mxnet

        shapes = {name: [d if isinstance(d, int) else None for d in dims] for name, dims in (shape_dict or {}).items()}
        return from_mxnet(path, shapes, **kwargs)

    def companions(self, path: str) -> dict[str, bytes]:
        """The file of parameters."""
        from ...relay.frontend.mxnet.load import params_beside

        return params_beside(path)


PaddleFrontend = _planned("paddle", ["pdmodel"], "PaddlePaddle")

LEGACY_FRONTENDS = [
    CaffeFrontend,
    CoremlFrontend,
    DarknetFrontend,
    MxnetFrontend,
    PaddleFrontend,
]
