"""Importers of model files of older frameworks, which do not need the frameworks."""

from __future__ import annotations

import os

from .errors import TVMCException
from .frontend import Frontend, with_dynamic_dims


class CaffeFrontend(Frontend):
    """Caffe networks in text form, each with a file of weights in the same folder."""

    FORMAT, ENDINGS, WEIGHTS = "caffe", ("prototxt",), ("caffemodel",)

    def load(self, path, shape_dict=None, weights=None, **kwargs):
        from ...relay.frontend.caffe import from_caffe
        from ...relay.frontend.common.folder import beside

        if weights is None:
            (content,) = beside(path, "caffemodel").values()
        else:
            with open(weights, "rb") as file:
                content = file.read()
        with open(path, "rb") as file:
            return from_caffe(content, file.read(), shape_dict, **kwargs)

    def companions(self, path: str) -> dict[str, bytes]:
        """Return the file of weights."""
        from ...relay.frontend.common.folder import beside

        return beside(path, "caffemodel")


class CoremlFrontend(Frontend):
    """Core ML model files and packages."""

    FORMAT, ENDINGS = "coreml", ("mlmodel", "mlpackage")

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        """Whether a file starts with a Core ML model: its version, then its description, whose first field is an input
        with a name; all but the version are preceded by lengths."""
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
        """Raise an error, because a Core ML package is a folder, which cannot be sent to another machine."""
        if os.path.isdir(path):
            raise TVMCException("a Core ML package is a folder and cannot be sent to other machines")
        return {}


class DarknetFrontend(Frontend):
    """DarkNet configurations, each with a file of weights in the same folder."""

    FORMAT, ENDINGS, WEIGHTS = "darknet", ("cfg",), ("weights",)
    KEEPS_STATE = True

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.darknet import from_darknet

        shapes = dict(shape_dict or {})
        shape = shapes.pop("data", None)
        if shapes:
            raise TVMCException(f"the network has no input '{next(iter(shapes))}'; its input is data")
        return from_darknet(path, shape=shape, **kwargs)

    def companions(self, path: str) -> dict[str, bytes]:
        """Return the file of weights."""
        from ...relay.frontend.common.folder import beside

        return beside(path, "weights")


class MxnetFrontend(Frontend):
    """MXNet symbols (``-symbol.json``), each with a file of parameters in the same folder."""

    FORMAT, ENDINGS, WEIGHTS = "mxnet", ("json",), ("params",)

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        return b"".join(head.split()).startswith(b'{"nodes":[{"op":')

    def load(self, path, shape_dict=None, weights=None, **kwargs):
        from ...relay.frontend.mxnet import from_mxnet

        return from_mxnet(path, with_dynamic_dims(shape_dict), **{"arg_params": weights, **kwargs})

    def companions(self, path: str) -> dict[str, bytes]:
        """Return the file of parameters."""
        from ...relay.frontend.mxnet.load import params_beside

        return params_beside(path)


class PaddleFrontend(Frontend):
    """PaddlePaddle programs: ``.pdmodel`` or ``.json`` with parameters in ``.pdiparams``, and the older
    ``__model__``."""

    FORMAT, ENDINGS = "paddle", ("pdmodel",)

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        """Whether a file starts with a PaddlePaddle program: its first block, with its index 0 and the parent index -1.
        A program of PaddlePaddle 3 (``.json``) names its format."""
        if head[:1] == b"{" and b'"base_code"' in head[:64] and b'"pir"' in head[:128]:
            return True
        at = 1 + next((i for i, byte in enumerate(head[1:6], 1) if byte < 128), 6)
        return head[:1] == b"\x0a" and head[at : at + 13] == b"\x08\x00\x10" + b"\xff" * 9 + b"\x01"

    @staticmethod
    def reads_folder(path: str) -> bool:
        from ...relay.frontend.paddlepaddle.load import PROGRAMS

        return any(os.path.isfile(os.path.join(path, name)) for name in PROGRAMS)

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.paddlepaddle import from_paddle

        return from_paddle(path, with_dynamic_dims(shape_dict), **kwargs)

    def companions(self, path: str) -> dict[str, bytes]:
        """Return the files of the parameters."""
        from ...relay.frontend.common.folder import mapped
        from ...relay.frontend.paddlepaddle.load import parameter_files

        if os.path.isdir(path):
            raise TVMCException("a folder cannot be sent to other machines; specify the program file in it")
        folder = os.path.dirname(path) or "."
        return {name: bytes(mapped(folder, f"the file '{name}'", name)) for name in parameter_files(path)}


class Caffe2Frontend(Frontend):
    """Caffe2 models: two nets in one folder, of which the user specifies one."""

    FORMAT, ENDINGS = "caffe2", ()

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        """Always false: only file names identify a net, which starts like any protobuf message."""
        pair = _nets(path)
        return path.endswith(".pb") and pair is not None and os.path.isfile(pair[0]) and os.path.isfile(pair[1])

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.caffe2 import from_caffe2

        return from_caffe2(*self.pair(path), shape=shape_dict, **kwargs)

    def companions(self, path: str) -> dict[str, bytes]:
        """Return the other net."""
        other = next(p for p in self.pair(path) if os.path.basename(p) != os.path.basename(path))
        with open(other, "rb") as file:
            return {os.path.basename(other): file.read()}

    def pair(self, path: str) -> tuple[str, str]:
        found = _nets(path)
        if found is None:
            raise TVMCException(
                "a Caffe2 model consists of two files with init and predict in their names, such as "
                "init_net.pb and "
                f"predict_net.pb; got {os.path.basename(path)}"
            )
        for each in found:
            if not os.path.isfile(each) or os.path.islink(each):
                raise TVMCException(
                    f"the other net of the Caffe2 model is missing: expected the regular file {os.path.basename(each)}"
                )
        return found


def _nets(path: str) -> tuple[str, str] | None:
    """Return the init net and the predict net, given the path of one of them."""
    folder, name = os.path.split(path)
    for own, other in (("predict", "init"), ("init", "predict")):
        if own in name:
            pair = [os.path.join(folder, name.replace(own, word)) for word in (own, other)]
            return (pair[1], pair[0]) if own == "predict" else (pair[0], pair[1])
    return None


class CntkFrontend(Frontend):
    """CNTK models in both file formats."""

    FORMAT, ENDINGS = "cntk", ("dnn", "cmf")

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        from ...relay.frontend.cntk.load import is_cntk

        return is_cntk(head)

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.cntk import from_cntk

        return from_cntk(path, shape_dict, **kwargs)


LEGACY_FRONTENDS = [
    Caffe2Frontend,
    CaffeFrontend,
    CntkFrontend,
    CoremlFrontend,
    DarknetFrontend,
    MxnetFrontend,
    PaddleFrontend,
]
