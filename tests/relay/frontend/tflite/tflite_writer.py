"""Writes TFLite files for tests: flatbuffers of the tables that tvm/relay/frontend/tflite/schema.py describes."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from tvm.relay.frontend.tflite.schema import OPERATORS, OPTION_TYPES, OPTIONS, TABLES, TENSOR_TYPES, options_of

_SCALARS = {"bool": "?", "i8": "b", "u8": "B", "i32": "i", "u32": "I", "u16": "H", "i64": "q", "u64": "Q", "f32": "f"}
_TABLES = {**TABLES, **{f"{name}Options": fields for name, fields in OPTIONS.items()}}


class _Writer:
    """Tables are written before what they refer to, whose offsets are filled in afterwards."""

    def __init__(self):
        self.out = bytearray(b"\0\0\0\0TFL3")

    def align(self, size: int) -> None:
        self.out += bytes(-len(self.out) % size)

    def refer(self, place: int, target: int) -> None:
        struct.pack_into("<I", self.out, place, target - place)

    def table(self, name: str, values: dict) -> int:
        fields = [f.partition(":")[::2] for f in _TABLES[name].split()] if name in _TABLES else []
        given = [(slot, key, kind.partition("=")[0]) for slot, (key, kind) in enumerate(fields)
                 if values.get(key) is not None]  # fmt: skip
        rows = len(self.out) + len(self.out) % 2
        self.align(2)
        count = max((slot for slot, _, _ in given), default=-1) + 1
        self.out += bytes(4 + 2 * count)
        self.align(8)
        start = len(self.out)
        self.out += struct.pack("<i", start - rows)
        later = []
        for slot, key, kind in given:
            form = _SCALARS.get(kind, "I")
            self.align(struct.calcsize(form))
            place = len(self.out)
            struct.pack_into("<H", self.out, rows + 4 + 2 * slot, place - start)
            self.out += struct.pack("<" + form, values[key] if kind in _SCALARS else 0)
            if kind not in _SCALARS:
                later.append((place, kind, values[key]))
        struct.pack_into("<HH", self.out, rows, 4 + 2 * count, len(self.out) - start)
        for place, kind, value in later:
            self.refer(place, self.part(kind, value))
        return start

    def part(self, kind: str, value: Any) -> int:
        if kind == "str":
            raw = value.encode()
            return self.vector(struct.pack("<I", len(raw)) + raw + b"\0", 4)
        if kind == "[bytes]":
            self.out += bytes((12 - len(self.out)) % 16)
            return self.vector(struct.pack("<I", len(value)) + bytes(value), 4)
        if kind == "at":
            return self.table(*value)
        if not kind.startswith("["):
            return self.table(kind, value)
        inner = kind[1:-1]
        if inner in _SCALARS:
            form = _SCALARS[inner]
            # Elements are aligned, and the count stands before them.
            self.out += bytes((-4 - len(self.out)) % struct.calcsize(form)) if struct.calcsize(form) > 4 else b""
            return self.vector(struct.pack(f"<I{len(value)}{form}" if len(value) else "<I", len(value), *value), 4)
        start = self.vector(struct.pack("<I", len(value)) + bytes(4 * len(value)), 4)
        written: dict[int, int] = {}
        for i, item in enumerate(value):
            # What is one object here is one table in the file.
            if id(item) not in written:
                written[id(item)] = self.table(inner, item)
            self.refer(start + 4 + 4 * i, written[id(item)])
        return start

    def vector(self, raw: bytes, size: int) -> int:
        self.align(size)
        start = len(self.out)
        self.out += raw
        return start


def flexbuffer_map(values: dict[str, float]) -> bytes:
    """A flexbuffer of a map of whole and real numbers, all parts of four bytes."""
    out, names = bytearray(), sorted(values)
    texts = []
    for name in names:
        texts.append(len(out))
        out += name.encode() + b"\0"
    out += bytes(-len(out) % 4) + struct.pack("<I", len(names))
    keys = len(out)
    for at in texts:
        out += struct.pack("<I", len(out) - at)
    out += struct.pack("<III", len(out) - keys, 4, len(names))
    start = len(out)
    for name in names:
        out += struct.pack("<f" if isinstance(values[name], float) else "<i", values[name])
    # The type of a value and, in its lower two bits, its width.
    out += bytes([(3 if isinstance(values[name], float) else 1) << 2 | 2 for name in names])
    out += struct.pack("<I", len(out) - start)
    return bytes(out) + bytes([9 << 2 | 2, 4])


class Spec(NamedTuple):
    """A tensor of a test model. ``value`` makes it a constant; ``scale`` and ``zero`` are numbers or lists."""

    shape: tuple = ()
    dtype: str = "float32"
    value: Any = None
    scale: Any = None
    zero: Any = 0
    axis: int = 0
    variable: bool = False
    sparsity: dict | None = None


def constant(values, dtype: str | None = None, scale=None, zero=0, axis: int = 0) -> Spec:
    array = np.asarray(values) if dtype is None else np.asarray(values).astype(dtype)
    return Spec(array.shape, str(array.dtype), array, scale, zero, axis)


class NodeSpec(NamedTuple):
    """An operator: its name (a custom one's own), numbers of tensors, options, bytes of custom options, numbers of the
    tensors inside of it."""

    operator: str
    inputs: list
    outputs: list
    options: dict | None = None
    custom: bytes | None = None
    intermediates: list | None = None


class GraphSpec(NamedTuple):
    """A graph of a model."""

    tensors: list[Spec]
    nodes: list[NodeSpec]
    inputs: list[int]
    outputs: list[int]


def write_model(tensors: list[Spec], nodes: list[NodeSpec], inputs: list[int], outputs: list[int], copies=1) -> bytes:
    """The bytes of a model. Tensor i has the name ``t<i>``. It has its graph so many times."""
    return write_graphs([GraphSpec(tensors, nodes, inputs, outputs)], copies)


def write_graphs(graphs: list[GraphSpec], copies=1) -> bytes:
    """The bytes of a model of several graphs; tensor i of graph k after the first has the name ``g<k>_t<i>``."""
    buffers: list[dict] = [{}]
    names = sorted({n.operator for g in graphs for n in g.nodes})
    rows = [_graph_row(k, g, names, buffers) for k, g in enumerate(graphs)]
    model = {"version": 3, "operator_codes": [_code(name) for name in names], "subgraphs": rows * copies,
             "buffers": buffers}  # fmt: skip
    writer = _Writer()
    writer.refer(0, writer.table("Model", model))
    return bytes(writer.out)


def _graph_row(number: int, graph: GraphSpec, names: list[str], buffers: list[dict]) -> dict:
    rows = []
    for i, t in enumerate(graph.tensors):
        name = f"g{number}_t{i}" if number else f"t{i}"
        row = {"shape": list(t.shape), "type": TENSOR_TYPES.index(t.dtype), "name": name, "buffer": 0}
        if t.value is not None:
            row["buffer"] = len(buffers)
            buffers.append({"data": np.ascontiguousarray(t.value).tobytes()})
        if t.scale is not None:
            scale = np.atleast_1d(np.asarray(t.scale, "float32"))
            zero = np.broadcast_to(np.asarray(t.zero, "int64"), scale.shape)
            row["quantization"] = {"scale": scale.tolist(), "zero_point": zero.tolist(), "quantized_dimension": t.axis}
        if t.sparsity is not None:
            row["sparsity"] = t.sparsity
        if t.variable:
            row["is_variable"] = True
        rows.append(row)
    made = {id(n): {"opcode_index": names.index(n.operator), "inputs": n.inputs, "outputs": n.outputs,
                     "intermediates": n.intermediates, **_options(n)}
            for n in graph.nodes}  # fmt: skip
    operators = [made[id(n)] for n in graph.nodes]
    return {"tensors": rows, "inputs": graph.inputs, "outputs": graph.outputs, "operators": operators,
            "name": f"graph_{number}" if number else "main"}  # fmt: skip


def _code(operator: str) -> dict:
    if operator not in OPERATORS:
        return {"deprecated_builtin_code": 32, "custom_code": operator, "version": 1, "builtin_code": 32}
    number = OPERATORS.index(operator)
    return {"deprecated_builtin_code": min(number, 127), "builtin_code": number, "version": VERSIONS.get(operator, 1)}


# LiteRT looks at versions for types that an operator took on later.
VERSIONS = {"BROADCAST_TO": 2}


def _options(node: NodeSpec) -> dict:
    if node.custom is not None:
        return {"custom_options": node.custom}
    kind = options_of(node.operator)
    if kind not in OPTION_TYPES:
        return {}
    number = OPTION_TYPES.index(kind)
    return {"builtin_options_type": number, "builtin_options": (f"{kind}Options", node.options or {})}


def one_node(operator: str, inputs: list[Spec], outputs: list[Spec], options=None, custom=None, between=()) -> bytes:
    """A model of one operator; those of its inputs without a value are the model's, None is one that is left out.
    ``between`` are the tensors inside of the operator."""
    tensors, numbers = [], []
    for spec in inputs:
        numbers.append(-1 if spec is None else len(tensors))
        tensors += [] if spec is None else [spec]
    made = list(range(len(tensors), len(tensors) + len(outputs)))
    given = [i for i, t in enumerate(tensors) if t.value is None and not t.variable]
    inside = list(range(len(tensors) + len(made), len(tensors) + len(made) + len(between))) or None
    node = NodeSpec(operator, numbers, made, options, custom, inside)
    return write_model([*tensors, *outputs, *between], [node], given, made)
