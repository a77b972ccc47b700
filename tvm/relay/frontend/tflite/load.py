"""Reading of a TFLite file to records; all references between records are checked."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from ..common.incremental import MOST_ADDRESSED
from . import sparse
from .flatbuffer import Flatbuffer
from .schema import OPERATORS, OPTION_TYPES, OPTIONS, TABLES, TENSOR_TYPES, options_of
from .sparse import Sparsity

IDENTIFIER = b"TFL3"
# Maximum number of axes of a NumPy array.
_MOST_AXES = 32
_TABLES = {**TABLES, **{f"{name}Options": fields for name, fields in OPTIONS.items()}}
# Element types with a NumPy type; 4-bit values are unpacked to bytes.
_PLAIN = "float32 float16 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 bool"
_NUMPY = {**{name: name for name in _PLAIN.split()}, "int4": "int8"}


class Quantization(NamedTuple):
    """real = (integer - zero_point) * scale, with scalar parameters, or one per index of the axis."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int

    @property
    def is_single(self) -> bool:
        return self.scale.size == 1


class Tensor(NamedTuple):
    """A tensor of a graph. ``type`` is the element type by its name in the format.

    ``trouble`` is the reason why the value cannot be read.
    """

    index: int
    name: str
    shape: tuple[int, ...]
    type: str
    data: memoryview | None
    quantization: Quantization | None
    is_variable: bool
    trouble: str
    sparsity: Sparsity | None = None

    @property
    def tensor_idx(self) -> int:
        """Return the index of the tensor, by its name in Apache TVM's converters."""
        return self.index

    @property
    def dtype(self) -> str:
        found = _NUMPY.get(self.type)
        if found is None:
            raise TVMError(f"tensor '{self.name}' has type {self.type}, which is not supported")
        return found

    def array(self) -> np.ndarray:
        """Return the value of a constant tensor."""
        if self.trouble or self.data is None:
            raise TVMError(f"tensor '{self.name}' {self.trouble or 'has no value'}")
        if self.sparsity is not None:
            dense = self._replace(shape=(self._stored(),), sparsity=None).array()
            return self.sparsity.dense(dense, self.shape)
        count, dtype = math.prod(self.shape), np.dtype(self.dtype)
        wanted = (count + 1) // 2 if self.type == "int4" else count * dtype.itemsize
        if len(self.data) != wanted:
            raise TVMError(
                f"tensor '{self.name}' of shape {self.shape} and type {self.type} requires {wanted} bytes, "
                f"but the file contains {len(self.data)}"
            )
        if self.type == "int4":
            pairs = np.frombuffer(self.data, "int8")
            halves = np.stack([(pairs << 4).astype("int8") >> 4, pairs >> 4], axis=1)
            return halves.reshape(-1)[:count].reshape(self.shape)
        raw = np.frombuffer(self.data, "uint8" if self.dtype == "bool" else dtype.newbyteorder("<"))
        return (raw != 0 if self.dtype == "bool" else raw.astype(dtype)).reshape(self.shape)

    def _stored(self) -> int:
        """Return the number of values that a sparse constant stores."""
        assert self.data is not None
        return len(self.data) * 2 if self.type == "int4" else len(self.data) // np.dtype(self.dtype).itemsize


class Node(NamedTuple):
    """An operator of a graph; ``inputs`` and ``outputs`` are tensor indices, -1 for omitted tensors.

    ``intermediates`` are internal tensors of the operator, for which the file contains only the scale.
    """

    index: int
    operator: str
    inputs: list[int]
    outputs: list[int]
    options: SimpleNamespace
    custom_options: memoryview | None
    version: int
    intermediates: list[int]


class Graph(NamedTuple):
    """A graph of the file. The first one is the model, the others are called by its control flow."""

    index: int
    name: str
    tensors: list[Tensor]
    inputs: list[int]
    outputs: list[int]
    nodes: list[Node]


def load(data) -> list[Graph]:
    """Return the graphs of a TFLite file, given as bytes; the first one is the model."""
    if len(data) < 8 or bytes(data[4:8]) != IDENTIFIER:
        raise TVMError("not a TFLite model of schema version 3: bytes 4 to 8 must be 'TFL3'")
    buffer = Flatbuffer(data, _TABLES)
    model = buffer.root("Model")
    if model.version != 3:
        raise TVMError(f"the TFLite model has schema version {model.version}; it must be 3")
    if not model.subgraphs:
        raise TVMError("the TFLite model has no graph")
    codes = [(_operator_name(code), code.version) for code in model.operator_codes or []]
    arrays = [_content(b, buffer.data) for b in model.buffers or []]
    return [_graph(g, i, codes, arrays, buffer) for i, g in enumerate(model.subgraphs)]


def _operator_name(code) -> str:
    # The first field is too small for newer operators, which use the second; older files have only the first.
    number = max(code.deprecated_builtin_code, code.builtin_code)
    if not 0 <= number < len(OPERATORS):
        return f"operator code {number}"
    return f"CUSTOM {code.custom_code or ''}".strip() if OPERATORS[number] == "CUSTOM" else OPERATORS[number]


def _content(buffer, data: memoryview) -> memoryview | None:
    """Return the bytes of a buffer; in files larger than 2 GB they are stored after the flatbuffer."""
    if buffer.offset > 1:
        if buffer.offset + buffer.size > len(data):
            raise TVMError("the file is truncated: a weight extends beyond its end")
        return data[buffer.offset : buffer.offset + buffer.size]
    return buffer.data if buffer.data is not None and len(buffer.data) else None


def _graph(graph, number: int, codes: list, arrays: list, buffer: Flatbuffer) -> Graph:
    name = graph.name or (f"graph {number}" if number else "main")
    tensors = [_tensor(t, i, arrays, buffer) for i, t in enumerate(graph.tensors or [])]
    nodes = [_node(o, i, codes, len(tensors), buffer) for i, o in enumerate(graph.operators or [])]
    inputs, outputs = list(graph.inputs or []), list(graph.outputs or [])
    _check_indices([*inputs, *outputs], 0, len(tensors), f"the graph '{name}'")
    return Graph(number, name, tensors, inputs, outputs, nodes)


def _check_indices(indices: list[int], least: int, count: int, what: str) -> None:
    for i in indices:
        if not least <= i < count:
            raise TVMError(f"{what} refers to tensor {i}, but there are only {count} tensors")


def _tensor(tensor, index: int, arrays: list, buffer: Flatbuffer) -> Tensor:
    name = tensor.name or f"tensor_{index}"
    if not 0 <= tensor.type < len(TENSOR_TYPES):
        raise TVMError(f"tensor '{name}' has the unknown element type code {tensor.type}")
    if not 0 <= tensor.buffer < max(len(arrays), 1):
        raise TVMError(f"tensor '{name}' refers to buffer {tensor.buffer}, but there are only {len(arrays)} buffers")
    shape = tuple(tensor.shape or ())
    if any(d < 0 for d in shape):
        raise TVMError(f"tensor '{name}' has the shape {shape}, which contains a negative dimension")
    if len(shape) > _MOST_AXES or math.prod(max(d, 1) for d in shape) > MOST_ADDRESSED:
        raise TVMError(f"tensor '{name}' has too many axes ({len(shape)}) or elements")
    trouble = "is stored in another file, which is not supported" if tensor.external_buffer else ""
    sparsity = None if tensor.sparsity is None else sparse.read(tensor.sparsity, shape, buffer, name)
    data = arrays[tensor.buffer] if arrays else None
    found = _quantization(tensor.quantization, shape, name)
    return Tensor(index, name, shape, TENSOR_TYPES[tensor.type], data, found, tensor.is_variable, trouble, sparsity)


def _quantization(found, shape: tuple[int, ...], name: str) -> Quantization | None:
    if found is None or not found.scale:
        if found is not None and found.details_type:
            raise TVMError(f"tensor '{name}' has block-wise quantization, which is not supported")
        return None
    scale = np.array(found.scale, "float32")
    zero = np.array(found.zero_point or [0] * scale.size, "int64")
    axis = found.quantized_dimension
    if not np.isfinite(scale).all() or (scale < 0).any():
        raise TVMError(f"tensor '{name}' has a quantization scale that is not positive and finite")
    if zero.size not in (1, scale.size) or abs(zero).max() > 1 << 31:
        raise TVMError(f"tensor '{name}' has {scale.size} scales that do not match the zero points {zero[:4].tolist()}")
    if scale.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scale.size):
        raise TVMError(f"tensor '{name}' of shape {shape} has {scale.size} scales, which do not match its axis {axis}")
    if not scale.any():
        return None
    return Quantization(scale, np.broadcast_to(zero, scale.shape).astype("int32"), axis)


def _node(operator, index: int, codes: list, tensors: int, buffer: Flatbuffer) -> Node:
    if not 0 <= operator.opcode_index < len(codes):
        raise TVMError(
            f"operator {index} has the opcode index {operator.opcode_index}, but there are only {len(codes)} opcodes"
        )
    name, version = codes[operator.opcode_index]
    inputs, outputs = list(operator.inputs or []), list(operator.outputs or [])
    what = f"{name} (operator {index})"
    _check_indices(inputs, -1, tensors, what)
    _check_indices(outputs, -1, tensors, what)
    between = list(operator.intermediates or [])
    _check_indices(between, -1, tensors, what)
    custom = operator.custom_options
    if operator.large_custom_options_offset > 1:
        end = operator.large_custom_options_offset + operator.large_custom_options_size
        if end > len(buffer.data):
            raise TVMError(f"{what}: its options extend beyond the end of the file")
        custom = buffer.data[operator.large_custom_options_offset : end]
    return Node(index, name, inputs, outputs, _options(operator, name, what, buffer), custom, version, between)


def _options(operator, name: str, what: str, buffer: Flatbuffer) -> Any:
    wanted = options_of(name)
    if wanted not in OPTIONS:
        return SimpleNamespace()
    number = operator.builtin_options_type
    if number == 0 or operator.builtin_options is None:
        return buffer.default(f"{wanted}Options")
    given = OPTION_TYPES[number] if number < len(OPTION_TYPES) else f"number {number}"
    if given != wanted:
        raise TVMError(f"{what} has options of type {given}, which must be {wanted}")
    return buffer.table(operator.builtin_options, f"{wanted}Options")


__all__ = ["IDENTIFIER", "Graph", "Node", "Quantization", "Tensor", "load"]
