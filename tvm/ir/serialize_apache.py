"""Loading of nodes from JSON text that Apache TVM's ``save_json`` wrote (0.6 to 0.14).

The text is ``{"root", "nodes", "b64ndarrays", "attrs": {"tvm_version"}}``. A node has a type key and fields, whose
values are strings: a number that refers to another node, or a plain value. Which of the two is determined by the class
of the node, and for operator attributes by the parameters of the function that creates the operator's calls.
"""

from __future__ import annotations

import base64
import inspect
import struct
from collections.abc import Callable
from typing import Any

from .node import NODE_TYPES, Node
from .op import OPS, Op
from .prim import IntImm

# Fields that are ignored, because they can be recomputed.
_DERIVED = {
    "_checked_type_",
    "checked_type_",
    "virtual_device_",
    "source_map",
    "global_var_map_",
    "global_type_var_map_",
}
_NAMES = {"Variable": "tir.Var", "relay.Module": "IRModule"}
_RENAMED = {
    ("relay.Var", "vid"): "name_hint",
    ("relay.TypeVar", "var"): "name_hint",
    ("relay.GlobalTypeVar", "var"): "name_hint",
    ("DictAttrs", "__dict__"): "entries",
}
# Attribute fields that are objects in Apache TVM and plain numbers here.
_BOXED = {
    "relay.attrs.TakeAttrs": {"axis", "batch_dims"},
    "relay.attrs.StackAttrs": {"axis"},
    "relay.attrs.RepeatAttrs": {"repeats", "axis"},
    "relay.attrs.GatherAttrs": {"axis"},
    "relay.attrs.GatherNDAttrs": {"batch_dims", "index_rank"},
    "relay.attrs.ScanopAttrs": {"axis", "exclusive"},
    "relay.attrs.ReverseAttrs": {"axis"},
    "relay.attrs.ReverseSequenceAttrs": {"seq_axis", "batch_axis"},
    "relay.attrs.ScatterElementsAttrs": {"axis"},
    "relay.attrs.ScatterAttrs": {"axis"},
    "relay.attrs.TopkAttrs": {"k"},
    "relay.attrs.SplitAttrs": {"indices_or_sections"},
    "relay.attrs.NonMaximumSuppressionAttrs": {"max_output_size"},
}
# ... and fields that are plain numbers, although the parameter here has no number as default.
_PLAIN = {
    **dict.fromkeys(("a_min", "a_max", "eps", "spatial_scale", "threshold"), "float"),
    **dict.fromkeys(("iou_loss", "is_multiply", "is_lshift_required", "is_rshift_required"), "bool"),
    **dict.fromkeys(("block_size", "depth", "feature_stride", "hop_length", "max_displacement", "multiplier",
                     "num_groups", "rpn_min_size", "rpn_post_nms_top_n", "rpn_pre_nms_top_n", "shift", "stride1",
                     "stride2", "win_length"), "int"),
}  # fmt: skip
_PLAIN_AXES = {f"relay.attrs.{name}Attrs" for name in ("ExpandDims", "Concatenate", "OneHot", "SlidingWindow")}
_DEFAULTS = {"bool": "bool", "int": "int", "float": "float", "str": "text"}
_MAGIC = 0xDD5E40F096B4A13F
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
_BUFFER_TYPES = {"1": "", "2": "auto_broadcast"}


class ApacheReader:
    """Creates the nodes of a document on demand, without recursion."""

    def __init__(self, whole: dict[str, Any], make_array: Callable[[bytes, str, tuple[int, ...]], Any]):
        self.records: list[Any] = whole["nodes"]
        self.arrays = [_array(i, text, make_array) for i, text in enumerate(whole.get("b64ndarrays") or [])]
        facts: dict[str, Any] = whole.get("attrs") or {}
        version = str(facts.get("tvm_version", ""))
        # In these versions, strings are stored in the fields themselves.
        self.has_plain_texts = version.startswith("0.6")
        self.made: dict[int, Any] = {0: None}

    def fail(self, index: int, problem: str) -> ValueError:
        return ValueError(f"load_json: node {index} of a document of Apache TVM: {problem}")

    def load(self, root: Any) -> Any:
        """Return the value of the node with this index."""
        todo = [self.index(root, 0)]
        # A stack of nodes that depend on others, from the root to the current node.
        waiting: set[int] = set()
        while todo:
            at = todo[-1]
            if at in self.made:
                todo.pop()
                waiting.discard(at)
                continue
            missing = [i for i in self.referred(at) if i not in self.made]
            if not missing:
                self.made[at] = self.make(at)
                continue
            waiting.add(at)
            if waiting.intersection(missing):
                raise self.fail(at, "it refers to itself")
            todo += dict.fromkeys(missing)
        return self.made[self.index(root, 0)]

    def index(self, value: Any, of: int) -> int:
        try:
            number = 0 if value == "null" else int(value)
        except (TypeError, ValueError):
            raise self.fail(of, f"expected the index of a node, found {value!r}") from None
        if not 0 <= number < len(self.records):
            raise self.fail(of, f"refers to node {number}, but there are only {len(self.records)}")
        return number

    # -- nodes ----------------------------------------------------------------------------------------------

    def key(self, at: int) -> str:
        """Return the type key of a node, converted to the key used here."""
        record: Any = self.records[at]
        key: Any = record.get("type_key") if isinstance(record, dict) else None  # pyright: ignore[reportUnknownMemberType]
        if not isinstance(key, str):
            raise self.fail(at, "expected an object with a type_key")
        for name in (_NAMES.get(key, key), "tir." + key, "relay." + key, key.removeprefix("relay.")):
            if name in NODE_TYPES:
                return name
        return key

    def fields(self, at: int) -> dict[str, str]:
        found = self.records[at].get("attrs") or {}
        return {name: value for name, value in found.items() if name not in _DERIVED}

    def referred(self, at: int) -> list[int]:
        """Return the indices of the nodes that a node refers to."""
        key, record = self.key(at), self.records[at]
        if "repr_str" in record or "repr_b64" in record or "global_key" in record:
            return []
        if key in ("Array", "Map", "StrMap"):
            return [self.index(i, at) for i in record.get("data") or []]
        if key == "relay.Call":
            return self.referred_by_call(at)
        return [i for name, value in self.fields(at).items() for i in self.needed(at, self.kind(key, name), value)]

    def referred_by_call(self, at: int) -> list[int]:
        given = self.fields(at)
        numbers = {name: self.index(given.get(name, 0), at) for name in ("op", "args", "attrs", "type_args", "span")}
        attrs = numbers.pop("attrs")
        out = list(numbers.values())
        if numbers["op"] in self.made and attrs:
            kinds = self.attribute_kinds(self.made[numbers["op"]], attrs)
            fields = self.fields(attrs)
            out += [i for name, value in fields.items() for i in self.needed(attrs, kinds(name), value)]
        return out

    def needed(self, at: int, kind: str, value: str) -> list[int]:
        if kind == "ref" and (value.isdigit() or value == "null"):
            return [self.index(value, at)]
        return [int(value)] if kind == "text" and self.is_text(value) else []

    def is_text(self, value: str) -> bool:
        """Whether a value is the index of a string node."""
        if self.has_plain_texts or not value.isdigit() or int(value) >= len(self.records):
            return False
        return self.records[int(value)].get("type_key") in ("runtime.String", "StringImm", "relay.Id", "Variable", "")

    def kind(self, key: str, name: str) -> str:
        """Whether a field is a string, a plain number or a reference to a node."""
        if (key, name) in _RENAMED:
            return "ref"
        if name == "dtype":
            return "dtype"
        cls = NODE_TYPES.get(key)
        said = ""
        for base in cls.__mro__ if cls is not None else ():
            said = said or str(base.__dict__.get("__annotations__", {}).get(name, ""))
        if (key, name) == ("tir.Buffer", "buffer_type"):
            return "buffer_type"
        return {"str": "text", "int": "int", "bool": "bool", "float": "float", "TypeKind": "int", "ForKind": "int"}.get(
            said, "array" if (key, name) == ("relay.Constant", "data") else "ref"
        )

    def attribute_kinds(self, op: Any, attrs: int) -> Callable[[str], str]:
        build = op.attrs.get("build") if isinstance(op, Op) else None
        parameters = _parameters(build)
        key = self.records[attrs].get("type_key")
        boxed = _BOXED.get(key, ())
        known = {**_PLAIN, "axis": "int"} if key in _PLAIN_AXES else _PLAIN

        def kind(name: str) -> str:
            default: Any = parameters[name].default if name in parameters else None
            plain = _DEFAULTS.get(type(default).__name__, known.get(name, "ref"))
            return "ref" if name in boxed else "dtype" if name.endswith("dtype") else plain

        return kind

    def value(self, kind: str, value: Any, at: int) -> Any:
        try:
            if kind in ("int", "bool"):
                return bool(int(value)) if kind == "bool" else int(value)
            if kind == "float":
                return float(value)
            if kind == "array":
                return self.arrays[int(value)]
        except (ValueError, IndexError):
            raise self.fail(at, f"{value!r} is not of type {kind}") from None
        if kind == "dtype":
            return {"bool": "bool", "uint1": "bool"}.get(value, value)
        if kind == "buffer_type":
            return _BUFFER_TYPES.get(value, "")
        if kind == "text" and not self.is_text(value) or kind == "ref" and not (value.isdigit() or value == "null"):
            return value
        got = self.made[self.index(value, at)]
        return "" if kind == "text" and got is None else got

    # -- creation --------------------------------------------------------------------------------------------------

    def make(self, at: int) -> Any:
        key, record = self.key(at), self.records[at]
        if key in ("Array", "Map", "StrMap"):
            items = [self.made[self.index(i, at)] for i in record.get("data") or []]
            if key == "Array":
                return tuple(items)
            keys = record.get("keys")
            pairs = zip(keys, items) if keys is not None else zip(items[::2], items[1::2])
            return dict(pairs)
        text = self.text_of(record)
        if key in ("runtime.String", "String"):
            return text
        if key in ("relay.Id", "tir.Var") and "name_hint" in self.fields(at):
            return self.value("text", self.fields(at)["name_hint"], at)
        if key == "Op":
            op = OPS.get(text)
            if op is None:
                raise self.fail(at, f"unknown operator '{text}'")
            return op
        cls = NODE_TYPES.get(key)
        if cls is None:
            raise self.fail(at, f"nodes of type {key} are not supported")
        if key == "SourceName":
            return cls(text)
        return self.call(at, cls) if key == "relay.Call" else self.node(at, key, cls)

    def text_of(self, record: dict[str, Any]) -> str:
        if "repr_b64" in record:
            return base64.b64decode(record["repr_b64"])[8:].decode("utf-8")
        return str(record.get("repr_str", record.get("global_key", "")))

    def node(self, at: int, key: str, cls: Any) -> Node:
        given: dict[str, Any] = {}
        for name, value in self.fields(at).items():
            own = _RENAMED.get((key, name), name)
            found = self.value(self.kind(key, name), value, at)
            if own == "name_hint" and isinstance(found, Node):
                found = getattr(found, "name", found)
            if own == "kind" and key.endswith(("Type", "TypeVar")):
                found = int(value)
            if own in cls._fields or own == "span":
                given[own] = found
            elif found not in (None, (), {}, "", 0) and name != "dtype":
                raise self.fail(at, f"a {key} has no field '{name}' here")
        build = getattr(cls, "from_fields", None)
        return self.built(at, key, lambda: cls(**given) if build is None else build(given))

    def call(self, at: int, cls: Any) -> Node:
        given = self.fields(at)
        op, args, types, span = (self.made[self.index(given.get(name, 0), at)]
                                 for name in ("op", "args", "type_args", "span"))  # fmt: skip
        attrs = self.attributes(op, self.index(given.get("attrs", 0), at))
        if attrs is not None and isinstance(op, Op):
            attrs = NODE_TYPES["relay.CallAttrs"]({**self.defaults(op, args, attrs), **attrs})
        return self.built(at, "relay.Call", lambda: cls(op, args, attrs, types or (), span))

    def attributes(self, op: Any, at: int) -> dict[str, Any] | None:
        if not at:
            return None
        kinds = self.attribute_kinds(op, at)
        build = op.attrs.get("build") if isinstance(op, Op) else None
        known = _parameters(build)
        out: dict[str, Any] = {}
        for name, text in self.fields(at).items():
            value = _plain(self.value(kinds(name), text, at))
            # Layouts that the auto-scheduler rewrites, and similar fields, are empty unless the search set them.
            if name in known or value not in (None, (), "", 0, "0"):
                out[name] = value
        return out

    def defaults(self, op: Op, args: Any, attrs: dict[str, Any]) -> dict[str, Any]:
        """Return the remaining attributes, as set by the function that creates calls of the operator."""
        build = op.attrs.get("build")
        if build is None:
            return {}
        names = _parameters(build)
        try:
            made = build(**dict(zip([n for n in names if n not in attrs], args)),
                         **{n: v for n, v in attrs.items() if n in names})  # fmt: skip
        except (TypeError, ValueError, IndexError, AttributeError):
            return {}
        entries = getattr(getattr(getattr(made, "tuple_value", made), "attrs", None), "entries", None)
        return dict(entries or {})

    def built(self, at: int, key: str, build: Callable[[], Any]) -> Any:
        try:
            return build()
        except Exception as error:  # any error of a constructor is an error in the text
            raise self.fail(at, f"cannot create {key} from its fields: {error}") from error


def _parameters(build: Any) -> dict[str, inspect.Parameter]:
    return {} if build is None else dict(inspect.signature(build).parameters)


def _plain(value: Any) -> Any:
    """Convert the value of an attribute: literal nodes become numbers."""
    if isinstance(value, tuple):
        return tuple([_plain(item) for item in value])
    if isinstance(value, IntImm):
        return bool(value.value) if value.dtype == "bool" else value.value
    return getattr(value, "value", value) if getattr(type(value), "_type_key", "") == "FloatImm" else value


def _array(number: int, text: Any, make_array: Callable[[bytes, str, tuple[int, ...]], Any]) -> Any:
    """Parse an array: magic number, a reserved word, device, dimensions, type, shape, size and data."""
    try:
        data = base64.b64decode(text, validate=True)
        magic, _, _, _, ndim, code, bits, lanes = struct.unpack_from("<QQiiiBBH", data, 0)
        if magic != _MAGIC or lanes != 1 or not 0 <= ndim < 64:
            raise ValueError("the magic number is missing")
        shape = struct.unpack_from(f"<{ndim}q", data, 32)
        (size,) = struct.unpack_from("<q", data, 32 + 8 * ndim)
        dtype = "bool" if (code, bits) == (1, 1) else f"{_CODES[code]}{bits}"
        return make_array(data[40 + 8 * ndim : 40 + 8 * ndim + size], dtype, shape)
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise ValueError(f"load_json: array {number} of a document of Apache TVM: {error}") from None


def is_apache(whole: dict[str, Any]) -> bool:
    """Whether Apache TVM wrote a document."""
    nodes = whole.get("nodes")
    return "format" not in whole and "root" in whole and isinstance(nodes, list) and "attrs" in whole


__all__ = ["ApacheReader", "is_apache"]
