"""Selects the importer of a model file and imports the model."""

from __future__ import annotations

import logging
import os
from typing import Any

from ...error import TVMError, did_you_mean
from .dynamic_dims import is_open, settled, shown
from .errors import TVMCException, TVMCFileNotFoundError
from .frontend import Frontend, lazy_import, with_dynamic_dims
from .legacy_frontends import (  # noqa: F401 (public names of this module)
    LEGACY_FRONTENDS,
    Caffe2Frontend,
    CaffeFrontend,
    CntkFrontend,
    CoremlFrontend,
    DarknetFrontend,
    MxnetFrontend,
    PaddleFrontend,
)
from .model import TVMCModel
from .module_sizes import inputs_of as sizes_of_inputs

logger = logging.getLogger("TVMC")
# How to handle state that a model keeps between runs: reset it to its initial values in each run, or make it inputs.
STATES = ("first", "inputs")
# A folder that contains this file is a TensorFlow SavedModel.
SAVED_MODEL = "saved_model.pb"


class OnnxFrontend(Frontend):
    """ONNX files."""

    FORMAT, ENDINGS = "onnx", ("onnx",)

    def load(self, path, shape_dict=None, **kwargs):
        lazy_import("onnx")
        from ...relay.frontend.onnx import from_onnx
        from ...relay.frontend.onnx.reader import UnknownInput, load_file

        file = load_file(path)
        try:
            return from_onnx(file, shape=shape_dict, **kwargs)
        except UnknownInput:
            raise
        except TVMError as problem:
            shapes, notes = complete_shapes(file.model, shape_dict, problem)
            if not notes:
                raise
            made = from_onnx(file, shape=shapes, **kwargs)
        for note in notes:
            print(note)
        return made

    def companions(self, path: str) -> dict[str, bytes]:
        """Return the files that contain the weights."""
        lazy_import("onnx")
        from ...relay.frontend.onnx.external import external_files
        from ...relay.frontend.onnx.reader import load_file

        return external_files(load_file(path))


def complete_shapes(model, shape_dict, problem: Exception | None = None) -> tuple[dict, list[str]]:
    """Return shapes of all inputs of an ONNX model whose dynamic dimensions must be fixed because of ``problem``.

    A dynamic batch (the first dimension) is set to 1; an error names the other dynamic dimensions."""
    from ...relay.frontend.onnx.dynamic_dims import sizes_of

    weights = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights and v.type.HasField("tensor_type")]
    rows = {v.name: sizes_of(v, zero_is_open=True) for v in inputs}
    given = {name: shape for name, shape in (shape_dict or {}).items() if not is_open(shape)}
    why = f" ({problem})" if problem else ""
    shapes, batches = settled(rows, given, why=why)
    return {**shapes, **(shape_dict or {})}, [
        f"input '{name}' has no fixed batch; compiling for batch 1 (--input-shapes "
        f'"{name}:[{shown(shapes[name])}]" sets another){why}'
        for name in batches
    ]


class TFLiteFrontend(Frontend):
    """TFLite files."""

    FORMAT, ENDINGS = "tflite", ("tflite",)
    KEEPS_STATE = True

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        return head[4:8] == b"TFL3"

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.tflite import from_tflite

        return from_tflite(path, shape_dict, **kwargs)


class KerasFrontend(Frontend):
    """Keras models in HDF5 files and in archives (.keras)."""

    FORMAT, ENDINGS = "keras", ("h5", "keras", "hdf5")

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        from ...relay.frontend.keras.load import is_keras

        return is_keras(head, path)

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.keras import from_keras

        return from_keras(path, shape_dict, **{"layout": "NHWC", **kwargs})


class RelayFrontend(Frontend):
    """Relay programs in text form."""

    FORMAT, ENDINGS = "relay", ("relay",)

    def load(self, path, shape_dict=None, **kwargs):
        import numpy as np

        from ...ir.tensor_type import TensorType
        from ...relay.parser import parse
        from ...runtime import ndarray

        with open(path, encoding="utf-8") as f:
            text = f.read()
        if not text.lstrip().startswith("#[version"):
            raise TVMCException(f'{path} is not a Relay program: its first line must be #[version = "0.0.5"]')
        if "meta[" in text and "#[metadata]" not in text:
            raise TVMCException(f"{path} uses constants (meta[...]) but has no part #[metadata]")
        mod = parse(text)
        # Without shapes, all parameters are inputs.
        weights = [p for p in mod["main"].params if shape_dict and p.name_hint not in shape_dict]
        rng = np.random.default_rng(0)
        params = {}
        for p in weights:
            if isinstance(p.type_annotation, TensorType):
                shape = p.type_annotation.concrete_shape
                params[p.name_hint] = ndarray.array(rng.uniform(-1, 1, shape).astype(p.type_annotation.dtype))
        return mod, params


class PyTorchFrontend(Frontend):
    """TorchScript models and programs of torch.export."""

    FORMAT, ENDINGS = "pytorch", ("pth", "pt", "pt2", "jit", "zip")

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        if head[:2] != b"PK":
            return False
        from ...relay.frontend.pytorch.load import is_archive

        return is_archive(path)

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.pytorch import from_exported_program
        from ...relay.frontend.pytorch.load import EXPORTED, file_kind, load_file

        file_kind(path)
        lazy_import("torch")
        kind, model = load_file(path)
        if kind == EXPORTED:
            given = {name: shape for name, shape in (shape_dict or {}).items() if not is_open(shape)}
            return from_exported_program(model, shape=given, **kwargs)
        return self.script(model, shape_dict or {}, **kwargs)

    def script(self, model, given: dict, **kwargs):
        """Load a TorchScript model, whose file contains no shapes of inputs.

        If no given shape has the name of an input, the shapes are used in the order of the inputs."""
        from ...relay.frontend.pytorch import from_pytorch
        from ...relay.frontend.pytorch.dynamic_inputs import UnknownShapes, field_names, inputs_of
        from ...relay.transform.flat_params import with_flat_params

        names = [n for row in inputs_of(model) for n in field_names(row.name, row.value.type(), given) or [row.name]]
        in_order = len(given) >= len(names) and not set(names) & set(given)
        try:
            mod, params = from_pytorch(
                model, list(given.items()) if in_order else given, keep_quantized_weight=True, **kwargs
            )
        except UnknownShapes as problem:
            wanted = " ".join(f"{name}:[1,3,224,224]" for name in problem.names)
            raise TVMCException(f'{problem}; specify the shapes of its inputs: --input-shapes "{wanted}"') from problem
        # Data is passed by name; each field of a tuple has its own name.
        mod = with_flat_params(mod)
        rows = sizes_of_inputs(mod, params)
        for taken in mod["main"].params:
            name, kind = taken.name_hint, taken.type_annotation
            if name in rows and name not in given and not in_order:
                what = "the file gives no shape" if name in names else "state, which a run leaves as a result"
                sizes = f"[{shown(rows[name])}]" if rows[name] else "one"
                how = f' (--input-shapes "{name}:[...]" gives another)' if name in names and rows[name] else ""
                print(f"input '{name}': {what}; using {sizes} {kind.dtype}{how}")
        return mod, params


class TensorflowFrontend(Frontend):
    """Frozen graphs and SavedModels of TensorFlow."""

    FORMAT, ENDINGS = "pb", ("pb",)

    @staticmethod
    def recognizes(head: bytes, path: str = "") -> bool:
        """Whether a file starts with a TensorFlow graph: its first node, with lengths before the node's name and
        operator."""
        if head[:1] != b"\x0a":
            return False
        at = 1 + next((i for i, byte in enumerate(head[1:6], 1) if byte < 128), 6)
        if head[at : at + 1] != b"\x0a" or len(head) < at + 2:
            return False
        name = head[at + 2 : at + 2 + head[at + 1]]
        after = head[at + 2 + head[at + 1] :]
        return bool(name) and all(32 < byte < 127 for byte in name) and after[:1] in (b"", b"\x12")

    def load(self, path, shape_dict=None, **kwargs):
        from ...relay.frontend.tensorflow import from_tensorflow

        return from_tensorflow(path, shape=with_dynamic_dims(shape_dict), **kwargs)

    @staticmethod
    def reads_folder(path: str) -> bool:
        return os.path.isfile(os.path.join(path, SAVED_MODEL))

    def companions(self, path: str) -> dict[str, bytes]:
        """Raise an error, because a SavedModel is a folder, which cannot be sent to another machine."""
        if os.path.isdir(path) or os.path.basename(path) == SAVED_MODEL:
            raise TVMCException("a SavedModel is a folder and cannot be sent to other machines; freeze the graph")
        return {}


ALL_FRONTENDS = [
    KerasFrontend,
    OnnxFrontend,
    TensorflowFrontend,
    TFLiteFrontend,
    PyTorchFrontend,
    *LEGACY_FRONTENDS,
    RelayFrontend,
]


def get_frontend_names() -> list[str]:
    return [f.name() for f in ALL_FRONTENDS]


def add_model_format(parser: Any) -> None:
    """Add --model-format to a subcommand or a group of options, with the formats in its help."""
    names = get_frontend_names()
    parser.add_argument(
        "--model-format", choices=names, metavar="FORMAT", help=f"the format of the model file: {', '.join(names)}"
    )


def get_frontend_by_name(name: str) -> Frontend:
    for frontend in ALL_FRONTENDS:
        if frontend.name() == name:
            return frontend()
    hint = did_you_mean(name, get_frontend_names(), "; ")
    raise TVMCException(f"unrecognized frontend '{name}'; available: {', '.join(get_frontend_names())}{hint}")


def _head(path: str) -> bytes:
    """Return the first bytes of a file; empty if reading fails, which the importer reports when it opens the file."""
    try:
        with open(path, "rb") as file:
            return file.read(64)
    except OSError:
        return b""


def check_model(path: str) -> None:
    """Raise an error for a path that is neither a file nor a folder that an importer can read."""
    if not os.path.isfile(path) and not any(frontend.reads_folder(path) for frontend in ALL_FRONTENDS):
        raise TVMCFileNotFoundError(f"Input file '{path}' doesn't exist, is a broken symbolic link, or a directory.")


def guess_frontend(path: str) -> Frontend:
    """Select the importer by the first bytes of the file or by its suffix.

    A folder is recognized by its files; an unrecognized folder is treated as a SavedModel."""
    if os.path.isdir(path):
        return next((f for f in ALL_FRONTENDS if f.reads_folder(path)), TensorflowFrontend)()
    head = _head(path)
    for frontend in ALL_FRONTENDS:
        if frontend.recognizes(head, path):
            return frontend()
    suffix = _suffix(path)
    for frontend in ALL_FRONTENDS:
        if suffix in frontend.suffixes():
            return frontend()
        if suffix in frontend.WEIGHTS:
            name = os.path.basename(path)
            raise TVMCException(
                f"{name} contains only the weights of a {frontend.name()} model; specify its network "
                "(a "
                f".{frontend.ENDINGS[0]} file), followed by the weights if their names differ"
            )
    raise TVMCException("failed to infer the model format. Please specify --model-format")


def _suffix(path: str) -> str:
    return os.path.splitext(path)[1].lower().lstrip(".")


def network_and_weights(paths: list[str]) -> tuple[str, str] | None:
    """Return the network file and the weights file of one model, or None if the files are not such a pair."""
    for path, weights in (paths, paths[::-1]) if len(paths) == 2 else ():
        frontend = next((f for f in ALL_FRONTENDS if _suffix(weights) in f.WEIGHTS), None)
        if frontend is not None and (_suffix(path) in frontend.ENDINGS or frontend.recognizes(_head(path), path)):
            return path, weights
    return None


def with_states(path: str, frontend: Frontend, mod: Any, params: dict, states: str) -> dict:
    """Return the parameters of a model that keeps state between runs: the initial values, or none if states are inputs.

    Print which of the two is used."""
    name, listed = os.path.basename(path), ", ".join(f"'{n}'" for n in params)
    if states not in STATES:
        raise TVMCException(f"states must be one of {', '.join(STATES)}, got {states!r}")
    if not frontend.KEEPS_STATE or not params:
        raise TVMCException(f"{name} keeps no state between runs; remove --states")
    if states == "first":
        print(
            f"{name} keeps state between runs ({listed}): every run of the package starts with the initial values; "
            "--states inputs makes the state inputs and outputs of the package"
        )
        return params
    result = mod["main"].checked_type.ret_type
    own = len(getattr(result, "fields", [result])) - len(params)
    pairs = ", ".join(f"output_{own + i} -> '{n}'" for i, n in enumerate(params))
    first = "zeros" if not any(p.numpy().any() for p in params.values()) else "not zeros"
    print(
        f"{name} keeps state between runs: each run returns the state that the next run takes ({pairs}); "
        f"the initial values are {first}"
    )
    return {}


# Exceptions that an importer may raise for a damaged file.
_DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def load_model(path: str, model_format: str | None = None, shape_dict: dict | None = None, **kwargs: Any) -> TVMCModel:
    """A model file as a TVMCModel.

    Parameters
    ----------
    path : str
        The file, or the folder of a SavedModel or of a Core ML package.
    model_format : str, optional
        The format; by default determined by the suffix of the file.
    shape_dict : dict, optional
        Shapes of inputs by name, for inputs with dynamic dimensions.
    **kwargs
        Options of the importer. ``weights`` is the file of weights of a Caffe, DarkNet or MXNet model, by default the
        file with the network's name in the same folder. ``states="inputs"`` makes the state that a TFLite or DarkNet
        model keeps between runs inputs and outputs; by default each run starts with the initial values.

    Returns
    -------
    TVMCModel

    Raises
    ------
    TVMCFileNotFoundError
        The file does not exist.
    TVMCException
        The file is not a valid model of that format.
    """
    from ...relay.frontend.common.importer import MissingShape
    from ...relay.transform import InferType

    check_model(path)
    frontend = get_frontend_by_name(model_format) if model_format is not None else guess_frontend(path)
    if "weights" in kwargs:
        if not frontend.WEIGHTS:
            raise TVMCException(f"a {frontend.name()} model has no separate file of weights; got {kwargs['weights']}")
        check_model(kwargs["weights"])
    states = kwargs.pop("states", "first")
    try:
        mod, params = frontend.load(path, shape_dict, **kwargs)
        mod = InferType()(mod)
        if states != "first" or frontend.KEEPS_STATE and params:
            params = with_states(path, frontend, mod, params, states)
    except TVMCException:
        raise
    except MissingShape as problem:
        sizes = problem.sizes.replace(" ", "")
        raise TVMCException(f'{problem.problem}; specify it: --input-shapes "{problem.name}:[{sizes}]"') from problem
    except TVMError as problem:
        raise TVMCException(str(problem)) from problem
    except (UnicodeDecodeError, OSError) as problem:
        raise TVMCException(f"cannot read {path}: {problem}") from problem
    except _DAMAGE as problem:
        raise TVMCException(f"{path} is damaged or is not a {frontend.name()} model: {problem}") from problem
    return TVMCModel(mod, params)
