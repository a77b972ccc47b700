"""Read the CNTK 1 binary format: sections marked by UTF-16 names, and nodes whose fields depend on the file version.

A node does not store its length, so the reader must stop at a node of an unknown type.
"""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

import numpy as np

from ....error import OpNotImplemented, TVMError
from .schema import FIELDS, PLAIN

SIGNATURE = "BCN\0".encode("utf-16-le")
# The newest supported file version.
NEWEST = 31
_MAX_NODES = 1 << 20
_MAX_AXES = 32
_KINDS = {"u64": "<Q", "u32": "<I", "i32": "<i", "f32": "<f", "f64": "<d", "bool": "<?"}
_PRECISIONS = {"float": "float32", "double": "float64", "half": "float16", "": "float32"}
_SIZES = {2: "float16", 4: "float32", 8: "float64"}
# The name groups at the end of the file. Older files use other names for some groups.
_GROUPS = ("Feature", "Label", "Criterion", "Criteria", "NodesReqMultiSeqHandling", "Eval", "Output", "Pair")


class BinaryNode(NamedTuple):
    """A node of the file."""

    type: str
    name: str
    dtype: str
    fields: dict[str, Any]


class BinaryNetwork(NamedTuple):
    """A network of the binary format: nodes by name, the names of their inputs, and the name groups."""

    version: int
    nodes: dict[str, BinaryNode]
    inputs: dict[str, list[str]]
    groups: dict[str, list[str]]


class Cursor:
    """A position in the file that supports bounds-checked reads."""

    def __init__(self, data: bytes):
        self.data, self.at = memoryview(data), 0

    def take(self, count: int) -> memoryview:
        if count > len(self.data) - self.at:
            raise TVMError(
                f"unexpected end of the file: it has {len(self.data)} bytes and ends inside a value at byte {self.at}"
            )
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, kind: str):
        form = _KINDS[kind]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self) -> str:
        begin = self.at
        while self.take(2) != b"\0\0":
            pass
        try:
            return str(self.data[begin : self.at - 2], "utf-16-le")
        except UnicodeDecodeError as problem:
            raise TVMError(f"the name at byte {begin} is not valid UTF-16") from problem

    def match(self, name: str) -> bool:
        """Consume a section mark if it is at the current position, and return whether it is."""
        wanted = f"{name}\0".encode("utf-16-le")
        if self.data[self.at : self.at + len(wanted)] != wanted:
            return False
        self.at += len(wanted)
        return True

    def expect(self, name: str) -> None:
        if not self.match(name):
            raise TVMError(f"expected section {name} at byte {self.at}: the file is corrupt, or it is not a CNTK model")

    def count(self, what: str, most: int) -> int:
        found = self.number("u64")
        if found > most:
            raise TVMError(f"the file declares {found} {what}; the maximum is {most}")
        return found

    def shape(self, legacy: bool = False) -> tuple[int, ...]:
        """Read a shape, fastest axis first. An early form has three 64-bit sizes: channels, width, height."""
        rank = self.number("u32")
        first = self.number("u32") if rank else 0
        if legacy and rank and not first:
            width, height = self.number("u64"), self.number("u64")
            return (height, rank, width)
        if rank > _MAX_AXES:
            raise TVMError(f"a shape of {rank} dimensions is not supported")
        return (first, *(self.number("u32") for _ in range(rank - 1))) if rank else ()

    def matrix(self) -> np.ndarray:
        """Read the elements of a matrix in column-major order."""
        kind = bytes(self.take(1))
        if kind not in (b"d", b"s"):
            raise TVMError(f"the matrix at byte {self.at - 1} is neither dense nor sparse")
        self.expect("BMAT")
        size = self.number("u64")
        if size not in _SIZES:
            raise TVMError(f"matrix elements of {size} bytes are not supported")
        self.text()
        self.number("i32")
        dtype = np.dtype(_SIZES[size]).newbyteorder("<")
        found = self._dense(dtype) if kind == b"d" else self._sparse(dtype)
        self.expect("EMAT")
        return found

    def _dense(self, dtype: np.dtype) -> np.ndarray:
        rows, columns = self.number("u64"), self.number("u64")
        return np.frombuffer(self.take(rows * columns * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))

    def _sparse(self, dtype: np.dtype) -> np.ndarray:
        """Read a sparse matrix in CSC format: values, row indices and column offsets."""
        count, columns, rows = (self.number("u64") for _ in range(3))
        if rows * columns > 1 << 28:
            raise TVMError(f"a sparse matrix of {rows} x {columns} elements is too large")
        out = np.zeros((columns, rows), dtype.newbyteorder("="))
        if not count:
            return out.reshape(-1)
        values = np.frombuffer(self.take(count * dtype.itemsize), dtype)
        places = np.frombuffer(self.take(count * 4), "<i4")
        begins = np.frombuffer(self.take((columns + 1) * 4), "<i4").astype("int64")
        if begins[0] != 0 or begins[-1] > count or (np.diff(begins) < 0).any():
            raise TVMError("the column offsets of a sparse matrix are not in ascending order")
        used = int(begins[-1])
        if used and (places[:used].min() < 0 or places[:used].max() >= rows):
            raise TVMError("a sparse matrix has a row index out of range")
        out[np.repeat(np.arange(columns), np.diff(begins)), places[:used]] = values[:used]
        return out.reshape(-1)

    def field(self, kind: str):
        if kind == "shape":
            return self.shape()
        if kind == "bools":
            return [self.number("bool") for _ in range(self.count("booleans", 1 << 10))]
        if kind == "matrix":
            return self.matrix()
        if kind == "text":
            return self.text()
        return self.number(kind)


def read(data: bytes) -> BinaryNetwork:
    """Read a network of the binary format."""
    cursor = Cursor(data)
    cursor.expect("BCN")
    version = 1
    if cursor.match("BVersion"):
        version = cursor.number("u64")
        cursor.expect("EVersion")
    if not 1 <= version <= NEWEST:
        raise TVMError(f"file version {version} is not supported; the newest supported version is {NEWEST}")
    count = cursor.count("nodes", _MAX_NODES)
    cursor.expect("BNodeList")
    nodes: dict[str, BinaryNode] = {}
    for _ in range(count):
        node = _node(cursor, version)
        if node.name in nodes:
            raise TVMError(f"the file has two nodes named '{node.name}'")
        nodes[node.name] = node
    cursor.expect("ENodeList")
    cursor.expect("BRelation")
    inputs: dict[str, list[str]] = {}
    for _ in range(count):
        name = cursor.text()
        inputs[name] = [cursor.text() for _ in range(cursor.count(f"inputs of '{name}'", 1 << 16))]
    cursor.expect("ERelation")
    return BinaryNetwork(version, nodes, inputs, _groups(cursor))


def _groups(cursor: Cursor) -> dict[str, list[str]]:
    cursor.expect("BRootNodes")
    found: dict[str, list[str]] = {}
    for group in _GROUPS:
        name = group if group.startswith("Nodes") else f"{group}Nodes"
        if cursor.match(f"B{name}"):
            found[group] = [cursor.text() for _ in range(cursor.count(name, _MAX_NODES))]
            if not (group == "Criterion" and cursor.match("ECriteriaNodes")):
                cursor.expect(f"E{name}")
    cursor.expect("ERootNodes")
    cursor.expect("ECN")
    return found


def _node(cursor: Cursor, version: int) -> BinaryNode:
    precision = cursor.text() if version >= 7 else ""
    if precision not in _PRECISIONS:
        raise TVMError(f"unknown element type '{precision[:40]}' of the node at byte {cursor.at}")
    kind, name = cursor.text(), cursor.text()
    special = _SPECIAL.get(kind)
    if special is not None:
        fields = special(cursor, version)
    elif kind in FIELDS:
        rows = [r for r in FIELDS[kind] if r[2] <= version <= (r[3] if len(r) > 3 else version)]
        fields = {row[0]: cursor.field(row[1]) for row in rows}
    elif kind in PLAIN:
        fields = {}
    else:
        raise OpNotImplemented(
            f"the model uses a CNTK operator that is not supported: {kind[:80]}, node "
            f"'{name[:80]}'; the nodes after it cannot be read"
        )
    return BinaryNode(kind, name, _PRECISIONS[precision], fields)


# -- nodes whose fields depend on other fields ------------------------------------------------------------------------


def _input(cursor: Cursor, version: int) -> dict[str, Any]:
    rows, _ = cursor.number("u64"), cursor.number("u64")
    shape = cursor.shape(legacy=True)
    if rows and rows != math.prod(shape):
        shape = (rows,)
    axes = cursor.number("u32") if version >= 8 else 0
    if axes > 1:
        raise TVMError(f"an input with {axes} dynamic axes is not supported")
    axis = cursor.text() if axes else ""
    if version >= 10:
        cursor.number("f32")
    return {"shape": shape, "axis": axis}


def _parameter(cursor: Cursor, version: int) -> dict[str, Any]:
    if version >= 3:
        cursor.number("f32")
        shape = cursor.shape()
    else:
        cursor.number("bool")
        rows, columns = cursor.number("u64"), cursor.number("u64")
        shape = (rows, columns)
        if not rows:
            shape = cursor.shape(legacy=True)
            shape = (*shape, columns) if columns > 1 else shape
    value = cursor.matrix()
    if math.prod(shape) != value.size:
        raise TVMError(f"a parameter of shape {shape} has {value.size} elements in the file")
    return {"shape": shape, "value": value}


def _convolution(cursor: Cursor, version: int) -> dict[str, Any]:
    if version >= 5:
        rows = [r for r in FIELDS["Convolution"] if r[2] <= version]
        return {row[0]: cursor.field(row[1]) for row in rows}
    width, height, x, y = (cursor.number("u64") for _ in range(4))
    count, layout = cursor.number("u32"), cursor.number("u32")
    pad = cursor.number("bool")
    cursor.number("u64")
    return {
        "kernelShape": (width, height, 1),
        "mapCount": (count,),
        "strides": (x, y, 1),
        "sharing": [True],
        "autoPadding": [pad],
        "lowerPad": (0,),
        "upperPad": (0,),
        "imageLayout": layout,
        "convolution2D": True,
    }


def _batch_norm(cursor: Cursor, version: int) -> dict[str, Any]:
    """Read batch normalization fields.

    Before version 13 the file stores the inverse standard deviation, not the variance.
    """
    if version >= 6:
        spatial = cursor.number("bool")
        for kind in ("f64", "f64", "i32"):
            cursor.number(kind)
        cursor.number("bool" if version == 19 else "u64")
        epsilon = cursor.number("f64")
        cursor.number("bool")
        return {"spatial": spatial, "epsilon": epsilon, "inverse": version < 13}
    written, readable = cursor.number("i32"), cursor.number("i32")
    if readable > written or written < 0x00010001 or readable > 0x00010004:
        raise TVMError("the version of a BatchNormalization node is not supported")
    cursor.number("bool")
    spatial = cursor.number("bool")
    cursor.number("f64")
    epsilon = 1e-5
    if written >= 0x00010002:
        cursor.number("i32")
        cursor.number("u64")
    if written >= 0x00010003:
        epsilon = cursor.number("f64")
        cursor.number("bool")
    return {"spatial": spatial, "epsilon": epsilon, "inverse": True}


def _slice(cursor: Cursor, version: int) -> dict[str, Any]:
    """Read the bounds of a slice of each axis. Axes count from 1."""
    count = cursor.number("i32") if version >= 22 else 1
    if not 1 <= count <= _MAX_AXES:
        raise TVMError(f"a slice of {count} axes is not supported")
    begins, ends, axes, steps = [], [], [], []
    for _ in range(count):
        begin, count = (n - (1 << 64) if n >> 63 else n for n in (cursor.number("u64"), cursor.number("u64")))
        begins.append(begin)
        ends.append(begin + count)
        axes.append(cursor.number("i32") if version >= 3 else 1)
        steps.append(cursor.number("i32") if version >= 27 else 1)
    return {"begins": begins, "ends": ends, "axes": axes, "steps": steps}


def _delayed(cursor: Cursor, version: int) -> dict[str, Any]:
    steps = cursor.number("i32")
    if version > 3:
        shape = cursor.shape()
    else:
        shape = (cursor.number("u64"),)
        cursor.number("u64")
    initial = cursor.number("f32") if version >= 2 else 0.0
    return {"offset": steps, "shape": shape, "initial": initial}


def _transposed(cursor: Cursor, version: int) -> dict[str, Any]:
    if version < 3:
        return {"axis1": 1, "axis2": 2}
    first, second = cursor.number("i32"), cursor.number("i32")
    if version >= 25 and not first and not second:
        order = [cursor.number("u64") for _ in range(cursor.count("axes", _MAX_AXES))]
        return {"order": order}
    return {"axis1": first, "axis2": second}


def _reduced(cursor: Cursor, version: int) -> dict[str, Any]:
    count = cursor.number("i32") if version >= 27 else 1
    if not 0 <= count <= _MAX_AXES:
        raise TVMError(f"a reduction over {count} axes is not supported")
    axes = [cursor.number("i32") for _ in range(count)]
    operation = cursor.text()
    keep = cursor.number("bool") if version >= 24 else True
    return {"axes": axes, "operation": operation, "keep": keep}


_SPECIAL = {"InputValue": _input, "SparseInputValue": _input, "LearnableParameter": _parameter,
            "Convolution": _convolution, "BatchNormalization": _batch_norm, "Slice": _slice, "PastValue": _delayed,
            "FutureValue": _delayed, "TransposeDimensions": _transposed, "ReduceElements": _reduced}  # fmt: skip

__all__ = ["SIGNATURE", "BinaryNetwork", "BinaryNode", "read"]
