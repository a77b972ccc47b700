"""The contents of a bundle: the code of a compiled model, its data, its inputs and its outputs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....dtype import info
from ....error import TVMError
from ....ir.prim import IntImm
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType
from ....runtime import ndarray
from ....runtime.module import Module
from ....runtime.name_transforms import sanitize_name
from ....runtime.ndarray import elements
from ....runtime.vm import Executable
from ....tir.transform.make_packed_api import COMPUTE_SUFFIX
from ..aot.main_function import main_symbol
from ..executor_factory import AOTExecutorFactoryModule

ALIGNMENT = 64
_MAIN = "main"


class Tensor(NamedTuple):
    """An input or an output. A dimension of -1 is dynamic."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def itemsize(self) -> int:
        return info(self.dtype).bytes

    @property
    def is_dynamic(self) -> bool:
        return -1 in self.shape

    @property
    def nbytes(self) -> int:
        """The size in bytes; 0 if a dimension is dynamic."""
        size = 0 if self.is_dynamic else self.itemsize
        for dim in self.shape:
            size *= dim
        return size


class Contents(NamedTuple):
    """A compiled model. ``data`` is its read-only data in parts: the constants of a model with static shapes, or the
    executable of the virtual machine, which contains its constants.

    A model with static shapes has a main function, whose parameters are the inputs, the constants at
    ``constant_offsets`` in the data, the outputs and workspaces. Any other model has kernels."""

    name: str
    library: Module | None
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    data: Sequence[bytes | memoryview]
    weight_bytes: int
    main: str = ""
    constant_offsets: Sequence[int] = ()
    workspace_sizes: Sequence[int] = ()
    kernels: Sequence[str] = ()

    @property
    def is_static(self) -> bool:
        """Whether the model is a main function and does not need the virtual machine."""
        return bool(self.main)

    @property
    def prefix(self) -> str:
        """The prefix of the public names: ``tvm_bundle``, followed by the name of the model unless it is "default"."""
        return "tvm_bundle" if self.name == "default" else f"tvm_bundle_{sanitize_name(self.name)}"

    @property
    def data_size(self) -> int:
        return sum(map(len, self.data))


def of_factory(model: AOTExecutorFactoryModule) -> Contents:
    """Return the contents of a model that was compiled ahead of time for runtime cpp."""
    if model.plain_model is not None:
        raise TVMError("a bundle needs a model compiled for runtime cpp, not for runtime crt")
    metadata, graph = model.executor_codegen_metadata, json.loads(model.get_graph_json())
    given = [node["name"] for node in graph["nodes"] if node["op"] == "null"]
    names = list(metadata.input_names)
    inputs = [_static(name, t) for name, t in zip(names, metadata.input_tensor_types)]
    outputs = [_static(name, t) for name, t in zip(metadata.outputs, metadata.output_tensor_types)]
    data: list[bytes | memoryview] = []
    offsets, at, weight_bytes = [], 0, 0
    for name in given[len(names) :]:
        value = _bytes_of(model.params[name])
        offsets.append(at)
        padding = -len(value) % ALIGNMENT
        data += [value, b"\0" * padding]
        at += len(value) + padding
        weight_bytes += len(value)
    workspaces = [pool.allocated_size for pool in metadata.pool_inputs.values()]
    symbol = main_symbol(model.libmod_name) + COMPUTE_SUFFIX
    return Contents(
        model.libmod_name, model.get_lib(), inputs, outputs, data, weight_bytes, symbol, offsets, workspaces
    )


def _static(name: str, t: TensorType) -> Tensor:
    return Tensor(name, t.dtype, tuple(int(d) for d in t.shape))


def _bytes_of(value: Any) -> memoryview:
    array = value if isinstance(value, ndarray.NDArrayBase) else ndarray.array(value)
    return memoryview(elements(array).reshape(-1).view("uint8"))


def of_executable(model: Executable, name: str, ir_mod: Any) -> Contents:
    """Return the contents of an executable of the virtual machine. ``ir_mod`` is the typed module that it was compiled
    from."""
    function = next((f for f in model.code.functions if f.name == _MAIN), None)
    if function is None:
        raise TVMError(f"a bundle needs a model with the function {_MAIN}")
    if set(model.code.devices) != {1}:
        raise TVMError("a bundle runs on one CPU; the model is compiled for other devices")
    main = ir_mod[_MAIN]
    types = {p.name_hint: p.checked_type for p in main.params}
    inputs = [_tensor(p.name, types[p.name], "input") for p in function.params]
    found = _leaves(main.checked_type.ret_type)
    outputs = [_tensor("output" if not i else f"output{i}", t, "output") for i, t in enumerate(found)]
    arrays = [a for a in model._arrays() if a is not None]
    weight_bytes = sum(len(_bytes_of(a)) for a in arrays)
    data = model._packed_at(0)
    return Contents(name, model.lib, inputs, outputs, data, weight_bytes, kernels=list(model.code.kernels))


def _leaves(t: Any) -> list[Any]:
    """Return the types of the tensors in nested tuples, in order."""
    return [leaf for field in t.fields for leaf in _leaves(field)] if isinstance(t, TupleType) else [t]


def _tensor(name: str, t: Any, kind: str) -> Tensor:
    if not isinstance(t, TensorType):
        raise TVMError(f"a bundle supports only tensors, but {kind} '{name}' has type {t}")
    return Tensor(name, t.dtype, tuple(d.value if isinstance(d, IntImm) else -1 for d in t.shape))


def identifiers(tensors: Sequence[Tensor]) -> list[str]:
    """Return a distinct upper-case identifier for each tensor."""
    taken: list[str] = []
    for tensor in tensors:
        first = name = sanitize_name(tensor.name).upper()
        number = 0
        while name in taken:
            number += 1
            name = f"{first}_{number}"
        taken.append(name)
    return taken


__all__ = ["ALIGNMENT", "Contents", "Tensor", "identifiers", "of_executable", "of_factory"]
