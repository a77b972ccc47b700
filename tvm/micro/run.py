"""Run the model of a project: send inputs to the program and receive its outputs."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..contrib.tar import untar
from ..error import TVMError, did_you_mean
from ..runtime import ndarray
from .mlf_reader import MlfModel, read_models
from .project import GeneratedProject
from .transport import Transport

_WRONG_SIZE = -1000


class ProjectRun(NamedTuple):
    """The outputs of a run by name, in order, and its time on the device in seconds."""

    outputs: dict[str, np.ndarray]
    seconds: float


class TensorFacts(NamedTuple):
    """The shape and the data type of an input or output."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        """The size of the data in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.numpy_dtype.itemsize

    @property
    def numpy_dtype(self) -> np.dtype:
        """The NumPy data type."""
        return ndarray.empty((0,), self.dtype).numpy().dtype


class ProjectModel(NamedTuple):
    """The inputs and outputs of the model of a project, by name in order."""

    inputs: dict[str, TensorFacts]
    outputs: dict[str, TensorFacts]


def model_of(project: GeneratedProject) -> ProjectModel:
    """Return the inputs and outputs of the model of a project.

    Parameters
    ----------
    project : GeneratedProject
        The project.

    Returns
    -------
    ProjectModel
        The inputs and outputs.

    Raises
    ------
    TVMError
        The metadata of the project's model is damaged.
    """
    path = str(project.info().model_library_format_path)
    with tempfile.TemporaryDirectory(prefix="tvm-") as folder:
        untar(path, folder)
        models = read_models(folder, path)
    try:
        (model,) = models
        return ProjectModel(_facts(model, "inputs"), _facts(model, "outputs"))
    except (ValueError, KeyError, TypeError, IndexError) as problem:
        raise TVMError(f"the metadata in {path} does not describe the tensors of one model: {problem}") from problem


def _facts(model: MlfModel, kind: str) -> dict[str, TensorFacts]:
    tensors = model.description["memory"]["functions"]["main"][0][kind]
    rows = sorted(tensors.items(), key=lambda row: row[1]["index"])
    return {name: TensorFacts(tuple(entry["shape"]), entry["dtype"]) for name, entry in rows}


def run_project(project: GeneratedProject, inputs: Mapping[str, Any], timeout_sec: float | None = None) -> ProjectRun:
    """Run the model of a built and flashed project once.

    Parameters
    ----------
    project : GeneratedProject
        The project.
    inputs : dict of str to array
        The inputs by name.
    timeout_sec : float, optional
        The time limit in seconds; by default the time limit of the transport.

    Returns
    -------
    ProjectRun
        The outputs and the time.

    Raises
    ------
    TVMError
        An input is missing or does not fit the model, or the model returned an error.
    """
    model = model_of(project)
    data = _packed(model, inputs)
    with project.transport() as transport:
        limit = timeout_sec or transport.timeouts().session_established_timeout_sec
        transport.write(struct.pack("<I", len(data)), limit)
        if data:
            transport.write(data, limit)
        return _received(model, transport, limit)


def _packed(model: ProjectModel, inputs: Mapping[str, Any]) -> bytes:
    """Return the bytes of all inputs, concatenated in the order of the model's inputs."""
    for name in inputs:
        if name not in model.inputs:
            raise TVMError(f"the model has no input '{name}'{did_you_mean(name, model.inputs, '; ')}; its inputs are "
                           f"{', '.join(model.inputs)}")  # fmt: skip
    parts = []
    for name, facts in model.inputs.items():
        if name not in inputs:
            raise TVMError(f"the input '{name}' is missing")
        array = np.asarray(inputs[name])
        if array.shape != facts.shape or array.dtype != facts.numpy_dtype:
            raise TVMError(f"input '{name}' has shape {array.shape} and type {array.dtype}, but the model expects "
                           f"{facts.shape} and {facts.dtype}")  # fmt: skip
        parts.append(np.ascontiguousarray(array).tobytes())
    return b"".join(parts)


def _received(model: ProjectModel, transport: Transport, limit: float) -> ProjectRun:
    status, microseconds, size = struct.unpack("<iII", transport.read(12, limit))
    if status:
        reason = "it expects another number of input bytes" if status == _WRONG_SIZE else f"status {status}"
        raise TVMError(f"the model on the device returned an error: {reason}")
    expected = sum(facts.nbytes for facts in model.outputs.values())
    if size != expected:
        raise TVMError(f"the device sent {size} bytes of outputs, but the outputs of the model have {expected} bytes")
    data, at, outputs = transport.read(size, limit), 0, {}
    for name, facts in model.outputs.items():
        outputs[name] = np.frombuffer(data[at : at + facts.nbytes], facts.numpy_dtype).reshape(facts.shape)
        at += facts.nbytes
    return ProjectRun(outputs, microseconds * 1e-6)
