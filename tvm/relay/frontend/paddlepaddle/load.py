"""Load a program and its parameters from files or from PaddlePaddle objects."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from ..common.folder import mapped
from .pir import read_program
from .program import Program, Variable
from .tensors import Stream

# The file names of programs in a model folder, and that of combined parameters of older models.
PROGRAMS = ("inference.pdmodel", "inference.json", "model.pdmodel", "model.json", "__model__")
COMBINED = "__params__"


class Loaded(NamedTuple):
    """A program, its parameters by name, and the names of inputs and outputs if the program does not contain them."""

    program: Program
    params: dict[str, np.ndarray]
    feeds: list[str] | None = None
    fetches: list[str] | None = None


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        raise TVMError(f"cannot read {os.path.basename(path)}: {problem.strerror}") from problem


def parameter_files(path: str) -> list[str]:
    """Return the names of the parameter files of a program: one file for all parameters, or one for each parameter."""
    folder, name = os.path.split(path)
    stem, suffix = os.path.splitext(name)
    if suffix in (".pdmodel", ".json"):
        return [f"{stem}.pdiparams"]
    if os.path.isfile(os.path.join(folder, COMBINED)):
        return [COMBINED]
    return [v.name for v in Program.read(read(path)).persistable()]


def program_path(path: str) -> str:
    """Return the path of the program: the path itself, or a program file in the folder."""
    if not os.path.isdir(path):
        return path
    found = [n for n in PROGRAMS if os.path.isfile(os.path.join(path, n))]
    if not found:
        raise TVMError(f"the folder contains no PaddlePaddle program; expected one of {', '.join(PROGRAMS)}")
    return os.path.join(path, found[0])


def load(model, scope=None) -> Loaded:
    """Load a model from the path of a program, a Program or a TranslatedLayer."""
    if isinstance(model, (str, os.PathLike)):
        if scope is not None:
            raise TVMError(
                "from_paddle: scope is only valid with a Program object; the parameters of a file are read "
                "from the files next to it"
            )
        return _files(program_path(os.fspath(model)))
    if callable(getattr(model, "program", None)) and callable(getattr(model, "parameters", None)):
        return _layer(model)
    if hasattr(getattr(model, "desc", None), "serialize_to_string"):
        return _program(model, scope)
    raise TypeError("from_paddle: expected the path of a program, a Program or a TranslatedLayer of PaddlePaddle, got "
                    + type(model).__name__)  # fmt: skip


# -- files ------------------------------------------------------------------------------------------------------------


def _files(path: str) -> Loaded:
    folder = os.path.dirname(path)
    if path.endswith(".json"):
        program, feeds, fetches = read_program(read(path), os.path.basename(path))
        wanted = program.persistable()
        return Loaded(program, _tensors(folder, parameter_files(path)[0], wanted) if wanted else {}, feeds, fetches)
    program = Program.read(read(path))
    wanted = program.persistable()
    names = parameter_files(path)
    if not wanted:
        return Loaded(program, {})
    if len(names) == 1 and (path.endswith(".pdmodel") or names == [COMBINED]):
        return Loaded(program, _tensors(folder, names[0], wanted))
    return Loaded(program, {v.name: _tensors(folder, v.name, [v])[v.name] for v in wanted})


def _tensors(folder: str, location: str, wanted: list[Variable]) -> dict[str, np.ndarray]:
    """Read the parameters of one file."""
    what = f"the parameter '{wanted[0].name}'" if len(wanted) == 1 else f"the value of {len(wanted)} parameters"
    stream = Stream(mapped(folder or ".", what, location), location)
    found = {v.name: _checked(v, stream.tensor(v.name)) for v in wanted}
    stream.end()
    return found


def _checked(variable: Variable, array: np.ndarray) -> np.ndarray:
    """Check that a parameter has the declared element type and shape, and return it."""
    declared = variable.shape
    fits = len(declared) == array.ndim and all(d in (-1, s) for d, s in zip(declared, array.shape))
    if str(array.dtype) != variable.dtype or not (fits or (array.size == 1 and np.prod(np.abs(declared)) == 1)):
        raise TVMError(f"the parameters do not match the program: '{variable.name}' is {variable.dtype} of shape "
                       f"{declared} in the program, but {array.dtype} of shape {array.shape} in the file")  # fmt: skip
    return array


# -- PaddlePaddle objects ---------------------------------------------------------------------------------------------


def _layer(layer: Any) -> Loaded:
    """Load a TranslatedLayer, which provides the names of its inputs and outputs."""
    program = layer.program()
    if not hasattr(getattr(program, "desc", None), "serialize_to_string"):
        raise TVMError("the layer contains a PIR program (the new intermediate representation), which is not "
                       "supported; load the model with FLAGS_enable_pir_api=0")  # fmt: skip
    tensors = [*layer.parameters(), *layer.buffers()]
    params = {t.name: np.asarray(t.numpy()) for t in tensors}
    return Loaded(
        Program.read(program.desc.serialize_to_string()),
        params,
        [spec.name for spec in layer._input_spec()],
        [spec.name for spec in layer._output_spec()],
    )


def _program(program: Any, scope: Any) -> Loaded:
    """Load a Program, whose parameters are stored in a scope."""
    loaded = Program.read(program.desc.serialize_to_string())
    if scope is None:
        import paddle

        scope = paddle.static.global_scope()
    params = {}
    for variable in loaded.persistable():
        held = scope.find_var(variable.name)
        if held is None:
            raise TVMError(f"the scope has no value for the parameter '{variable.name}'")
        params[variable.name] = np.array(held.get_tensor())
    return Loaded(loaded, params)


__all__ = ["COMBINED", "PROGRAMS", "Loaded", "load", "parameter_files", "program_path"]
