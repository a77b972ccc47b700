"""Serialization of nodes as JSON.

The text is ``{"format", "root", "nodes", "arrays"}``. Each node is ``[type key, {field: value}]`` and refers to earlier
nodes, so sharing and the identity of variables are preserved, nothing recurses, and the same graph always gives the
same text. Values: null, booleans, numbers, strings and lists represent themselves; any other value is an object with
one key:

    {"node": 3}  {"map": [[key, value], ...]}  {"float": "nan"}  {"bytes": "..."}  {"array": 0}
    {"object": [name, value]}

A class whose constructor parameters differ from its fields defines a class method ``from_fields(dictionary)``. Loading
validates its input: unknown types and fields, forward references, and values of the wrong type raise a ValueError.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from ..hooks import Hook
from .attrs import near_matches
from .node import NODE_TYPES, REQUIRED, Node
from .op import Op
from .prim import IterVar, PrimExpr, Range, Var
from .serialize_apache import ApacheReader, is_apache
from .structural import is_array
from .type import Type
from .visit import post_order

FORMAT = "tvm-classic-ir-1"

# Objects other than nodes: class -> (name, function to plain value); name -> function from plain value. Layers above
# register their own.
ENCODERS: dict[type, tuple[str, Callable[[Any], Any]]] = {}
DECODERS: dict[str, Callable[[Any], Any]] = {}


def register_json_codec(cls: type, name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any]) -> None:
    """Register a codec for fields with objects of ``cls``: ``encode`` returns a JSON value, which may contain nodes;
    ``decode`` creates the object from it."""
    if name in DECODERS:
        raise ValueError(f"JSON codec '{name}' is already registered")
    ENCODERS[cls] = (name, encode)
    DECODERS[name] = decode


def numpy_array(data: bytes, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return a read-only NumPy array over raw bytes."""
    import numpy

    kind: Any = dtype
    if dtype == "bfloat16":
        import ml_dtypes

        kind = ml_dtypes.bfloat16
    flat: Any = numpy.frombuffer(data, kind)
    return flat.reshape(shape)


MAKE_ARRAY: Hook[[bytes, str, tuple[int, ...]], Any] = Hook(
    "ir.serialize.MAKE_ARRAY", "creates an array from raw bytes, a data type and a shape", numpy_array
)


def _fields(node: Any) -> list[tuple[str, Any]]:
    """Return the serialized fields of a node. An operator is serialized as its name, because the record is part of
    TVM."""
    if isinstance(node, Op):
        return [("name", node.name)]
    out = [(name, getattr(node, name)) for name in node._fields]
    if node.span is not None:
        out.append(("span", node.span))
    return out


def _nodes_in(value: Any, out: list[Node]) -> None:
    """Append the nodes in a value, in order. Containers are only a few levels deep; nodes are not entered."""
    if isinstance(value, Node):
        out.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _nodes_in(item, out)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _nodes_in(key, out)
            _nodes_in(item, out)
    elif type(value) in ENCODERS:
        _nodes_in(ENCODERS[type(value)][1](value), out)


def _referred(node: Node) -> list[Node]:
    """Return the nodes that the fields of a node refer to."""
    out: list[Node] = []
    for _, value in _fields(node):
        _nodes_in(value, out)
    return out


class _Writer:
    def __init__(self):
        self.index: dict[int, int] = {}
        self.nodes: list[list[Any]] = []
        self.arrays: list[dict[Any, Any]] = []
        self.array_index: dict[int, int] = {}

    def add(self, root: Any) -> None:
        """Number every node reachable from ``root``; referenced nodes come first."""
        first: list[Node] = []
        _nodes_in(root, first)
        for start in first:
            for node in post_order(start, self.index, _referred):
                where = type(node).__name__
                values = {name: self.value(v, f"{where}.{name}") for name, v in _fields(node)}
                self.nodes.append([_type_key(node), values])
                self.index[id(node)] = len(self.nodes) - 1

    def value(self, value: Any, where: str) -> Any:
        if value is None or value.__class__ in (bool, int, str):
            return value
        if isinstance(value, Enum):
            return self.value(value.value, where)
        if isinstance(value, Node):
            return {"node": self.index[id(value)]}
        if isinstance(value, float):
            return value if math.isfinite(value) else {"float": str(value)}
        if type(value) in ENCODERS:
            name, encode = ENCODERS[type(value)]
            return {"object": [name, self.value(encode(value), where)]}
        if isinstance(value, (list, tuple)):
            return [self.value(v, where) for v in value]
        if isinstance(value, Mapping):
            return {"map": [[self.value(k, where), self.value(v, where)] for k, v in value.items()]}
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": base64.b64encode(bytes(value)).decode("ascii")}
        if is_array(value):
            return {"array": self.array(value)}
        if isinstance(value, (str, int)):
            return str(value) if isinstance(value, str) else int(value)
        raise TypeError(f"save_json: {where} contains a {type(value).__name__}, which cannot be serialized as JSON")

    def array(self, value: Any) -> int:
        got = self.array_index.get(id(value))
        if got is None:
            array = value.numpy() if hasattr(value, "numpy") else value
            record = {
                "dtype": str(array.dtype),
                "shape": [int(n) for n in array.shape],
                "data": base64.b64encode(array.tobytes()).decode("ascii"),
            }
            got = self.array_index[id(value)] = len(self.arrays)
            self.arrays.append(record)
        return got


def _type_key(node: Node) -> str:
    key = type(node).__dict__.get("_type_key", "")
    if not key:
        raise TypeError(f"save_json: {type(node).__name__} has no type key and could not be loaded again")
    return key


def save_json(node: Any) -> str:
    """The JSON text of a node, or of a list or dictionary of nodes.

    Parameters
    ----------
    node
        The node.

    Returns
    -------
    str

    Examples
    --------
    >>> tvm.ir.load_json(tvm.ir.save_json(tvm.tir.IntImm("int32", 3)))
    3
    """
    # A comparison with == or != becomes an expression only when it is used as one.
    node = node.asobject() if hasattr(node, "asobject") and not isinstance(node, Node) else node
    writer = _Writer()
    writer.add(node)
    whole = {"format": FORMAT, "root": writer.value(node, "the root"), "nodes": writer.nodes, "arrays": writer.arrays}
    return json.dumps(whole, separators=(",", ":"), allow_nan=False)


# Field annotation -> required class of the value; other annotations accept any value.
_FIELD_CLASSES: dict[str, type | tuple[type, ...]] = {
    "PrimExpr": PrimExpr,
    "Range": Range,
    "IterVar": IterVar,
    "Var": Var,
    "Type": (Type, type(None)),
    "str": str,
    "int": int,
    "bool": (bool, int),
    "float": (float, int),
    "dict": Mapping,
    "list": (list, tuple),
}


def _checks(cls: type[Any]) -> dict[str, Callable[[Any], bool]]:
    """Return a validation function for each field, from the annotations of the class and its bases."""
    annotations: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        annotations.update(base.__dict__.get("__annotations__", {}))
    out: dict[str, Callable[[Any], bool]] = {}
    for name, kind, default in cls._field_specs:
        text = str(annotations.get(name, "Any")).replace(" ", "")
        optional = text.endswith("|None") or default is None
        text = text.removesuffix("|None")
        wanted = _FIELD_CLASSES.get(text)
        if wanted is None and kind in ("child", "optional"):
            wanted = Node
        if kind in ("children", "tuple"):
            element = _FIELD_CLASSES.get(text[6:].split(",")[0].rstrip("]"), Node) if kind == "children" else object
            out[name] = lambda v, e=element: isinstance(v, (list, tuple)) and all(isinstance(i, e) for i in v)
        elif wanted is not None:
            out[name] = lambda v, w=wanted, o=optional: (o and v is None) or isinstance(v, w)
    return out


_CHECKS: dict[type, dict[str, Callable[[Any], bool]]] = {}


class _Reader:
    def __init__(self, whole: dict[Any, Any]):
        self.arrays = [self.read_array(i, a) for i, a in enumerate(whole["arrays"])]
        self.nodes: list[Any] = []
        for record in whole["nodes"]:
            self.nodes.append(self.node(record))

    def fail(self, problem: str) -> ValueError:
        return ValueError(f"load_json: node {len(self.nodes)}: {problem}")

    def node(self, record: Any) -> Any:
        if not isinstance(record, list) or [type(part) for part in record] != [str, dict]:
            raise self.fail("expected [type key, fields]")
        return self.make(*record)

    def make(self, key: str, given: dict[str, Any]) -> Any:
        cls = NODE_TYPES.get(key)
        if cls is None:
            raise self.fail(f"unknown type '{key}'; {near_matches(key, NODE_TYPES)}")
        fields = {name: self.value(v) for name, v in given.items()}
        if cls is Op:
            return self.operator(fields)
        self.check_fields(cls, key, fields)
        build = getattr(cls, "from_fields", None)
        try:
            return cls(**fields) if build is None else build(fields)
        except Exception as error:  # any error of a constructor is an error in the text
            raise self.fail(f"cannot create {key} from its fields: {error}") from error

    def operator(self, fields: dict[Any, Any]) -> Op:
        name = fields.get("name")
        if not isinstance(name, str) or len(fields) != 1:
            raise self.fail("an operator must have one field, its name")
        try:
            return Op.get(name)
        except AttributeError as error:
            raise self.fail(str(error)) from None

    def check_fields(self, cls: type[Any], key: str, fields: dict[Any, Any]) -> None:
        for name in fields:
            if name not in cls._fields and name != "span":
                raise self.fail(f"{key} has no field '{name}'; its fields are: {', '.join(cls._fields)}")
        for name, _, default in cls._field_specs:
            if name not in fields and default is REQUIRED:
                raise self.fail(f"{key}: the field '{name}' is missing")
        checks = _CHECKS.get(cls)
        if checks is None:
            checks = _CHECKS[cls] = _checks(cls)
        for name, value in fields.items():
            test = checks.get(name)
            if test is not None and not test(value):
                raise self.fail(f"field '{name}' of {key} must not have the type {type(value).__name__}")

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return tuple([self.value(v) for v in value])
        if not isinstance(value, dict):
            return value
        if len(value) != 1:
            raise self.fail(f"an object that represents a value must have one key, got {sorted(value)}")
        [(kind, content)] = value.items()
        if kind == "node":
            return self.reference(content, self.nodes, "node")
        if kind == "array":
            return self.reference(content, self.arrays, "array")
        if kind == "map":
            return self.mapping(content)
        if kind == "float" and content in ("nan", "inf", "-inf"):
            return float(content)
        if kind == "bytes" and isinstance(content, str):
            return self.decode(content)
        if kind == "object" and isinstance(content, list) and len(content) == 2 and content[0] in DECODERS:
            try:
                return DECODERS[content[0]](self.value(content[1]))
            except Exception as error:  # as for constructors of nodes
                raise self.fail(f"cannot create a {content[0]} from its value: {error}") from error
        raise self.fail(f"unknown value {json.dumps(value)[:80]}")

    def reference(self, index: Any, table: list[Any], what: str) -> Any:
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(table):
            raise self.fail(f"refers to {what} {index!r}, but only {len(table)} precede it")
        return table[index]

    def mapping(self, content: Any) -> dict[Any, Any]:
        if not isinstance(content, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in content):
            raise self.fail("a map must be a list of [key, value]")
        out: dict[Any, Any] = {}
        for key, item in content:
            name = self.value(key)
            if not isinstance(name, (str, int, Node)):
                raise self.fail(f"a key of a map must not have the type {type(name).__name__}")
            out[name] = self.value(item)
        return out

    def decode(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.fail(f"bytes are not base64: {error}") from None

    def read_array(self, number: int, record: Any) -> Any:
        try:
            data = base64.b64decode(record["data"], validate=True)
            shape = tuple(int(n) for n in record["shape"])
            return MAKE_ARRAY(data, str(record["dtype"]), shape)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(f"load_json: array {number} does not match its dtype and shape: {error}") from None


def load_json(json_str: str) -> Any:
    """The node (or list or dictionary) in JSON text that ``save_json`` of this version or of Apache TVM up to 0.14
    wrote.

    Inferred types and virtual devices in files of Apache TVM are ignored.

    Parameters
    ----------
    json_str : str
        The text.

    Returns
    -------
    Node
        The deserialized object.

    Raises
    ------
    ValueError
        The text was not written by ``save_json``.
    """
    try:
        loaded = json.loads(json_str)
    except (json.JSONDecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"load_json: the text is not JSON: {error}") from None
    whole: dict[str, Any] = loaded if isinstance(loaded, dict) else {"format": type(loaded).__name__}
    if is_apache(whole):
        return ApacheReader(whole, MAKE_ARRAY).load(whole["root"])
    if whole.get("format") != FORMAT:
        found = whole.get("format")
        raise ValueError(f"load_json: expected a document of format '{FORMAT}', found {found!r}")
    for part in ("nodes", "arrays"):
        if not isinstance(whole.get(part), list):
            raise ValueError(f"load_json: the list '{part}' is missing")
    if "root" not in whole:
        raise ValueError("load_json: the field 'root' is missing")
    reader = _Reader(whole)
    try:
        return reader.value(whole["root"])
    except RecursionError:
        raise ValueError("load_json: values are nested too deeply") from None


__all__ = ["load_json", "register_json_codec", "save_json"]
