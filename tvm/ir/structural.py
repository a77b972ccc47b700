"""Structural equality and hashing.

Two nodes are equal when their fields are, with variables matched where they are defined: names of variables do not
matter, and neither does sharing (a tree equals the same tree with common parts). A variable that is used but not
defined inside equals only itself, unless ``map_free_vars`` is given.

Which fields count, in which order, and where variables are defined is the table RULES; every other class counts all
its fields in order. Equality and hash read the same table, so equal nodes have equal hashes. Hashes depend on content
alone: they are the same in every process.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from .attrs import DictAttrs
from .module import GlobalVar
from .node import Node
from .object_path import ObjectPath
from .op import Op
from .prim import FloatImm, IntImm, StringImm, Var, convert
from .type import TypeVar

# Type key -> fields in the order they are compared; "!" marks what defines variables; names left out do not count.
RULES: dict[str, str] = {
    "tir.Let": "var! value body",
    "tir.LetStmt": "var! value body",
    "tir.For": "loop_var! min extent kind body thread_binding annotations",
    "tir.IterVar": "dom var! iter_type thread_tag",
    "tir.CommReducer": "lhs! rhs! result identity_element",
    "tir.Reduce": "axis! combiner source init condition value_index",
    "tir.Any": "",
    "tir.Buffer": "data! dtype shape! strides! elem_offset! axis_separators data_alignment offset_factor buffer_type",
    "tir.BufferRealize": "buffer! bounds condition body",
    "tir.Allocate": "buffer_var! dtype extents condition body annotations",
    "tir.AllocateConst": "buffer_var! dtype extents data_or_idx body annotations",
    "tir.DeclBuffer": "buffer! body",
    "tir.MatchBufferRegion": "buffer! source",
    "tir.Block": "iter_vars! alloc_buffers! match_buffers! reads writes body init annotations",
}

# Parts of a node that are no fields: type key -> {name: function of the node}.
DERIVED: dict[str, dict[str, Callable[[Any], Any]]] = {
    "tir.PrimFunc": {"buffers": lambda f: tuple(f.buffer_map.get(p) for p in f.params)},
    "IRModule": {"by_name": lambda m: {v.name_hint: f for v, f in m.functions.items()}},
}
RULES["tir.PrimFunc"] = "params! buffers! ret_type body attrs"
RULES["IRModule"] = "by_name attrs type_definitions"


# Classes whose objects are variables: matched where they are defined. Other IRs add theirs.
VARIABLE_CLASSES: list[type] = [Var, TypeVar]


class _Plan(NamedTuple):
    """How one class is compared: its kind, and for plain nodes the labels, definition marks and getter of its parts."""

    kind: int
    labels: tuple[str, ...] = ()
    defines: tuple[bool, ...] = ()
    parts: Callable[[Any], tuple] = lambda node: ()
    tag: str = ""


_NODE, _VAR, _LITERAL, _NAMED, _SEQUENCE, _MAPPING, _DATA = range(7)

_PLANS: dict[type, _Plan] = {}


def _plan(cls: type) -> _Plan:
    got = _PLANS.get(cls)
    if got is None:
        got = _PLANS[cls] = _make_plan(cls)
    return got


def _make_plan(cls: type) -> _Plan:
    if issubclass(cls, tuple(VARIABLE_CLASSES)):
        return _Plan(_VAR, tag=cls.__name__)
    if cls in (IntImm, FloatImm, StringImm):
        return _Plan(_LITERAL, tag=cls.__name__)
    if issubclass(cls, Op):
        return _Plan(_NAMED, parts=lambda op: op.name, tag="Op")
    if issubclass(cls, GlobalVar):
        return _Plan(_NAMED, parts=lambda var: var.name_hint, tag="GlobalVar")
    if issubclass(cls, (DictAttrs, Mapping)):
        return _Plan(_MAPPING, tag="map")
    if issubclass(cls, Node):
        return _node_plan(cls)
    if issubclass(cls, (list, tuple)):
        return _Plan(_SEQUENCE, tag="list")
    return _Plan(_DATA, tag=cls.__name__)


def _node_plan(cls: type) -> _Plan:
    key = cls._type_key if cls.__dict__.get("_type_key") else ""
    spec = RULES.get(cls._type_key)
    words = list(cls._fields) if spec is None else spec.split()
    labels = tuple(w.rstrip("!") for w in words)
    defines = tuple(w.endswith("!") for w in words)
    derived = DERIVED.get(cls._type_key, {})
    tag = key or f"{cls.__module__}.{cls.__qualname__}"
    if not labels:
        return _Plan(_NODE, tag=tag)
    if derived:
        getters = [derived.get(n) or attrgetter(n) for n in labels]
        return _Plan(_NODE, labels, defines, lambda node: tuple([g(node) for g in getters]), tag)
    if len(labels) == 1:
        getter = attrgetter(labels[0])
        return _Plan(_NODE, labels, defines, lambda node: (getter(node),), tag)
    return _Plan(_NODE, labels, defines, attrgetter(*labels), tag)


def _plain(value: Any) -> Any:
    """Values of dictionaries: literal nodes count as the Python values they hold."""
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return value.value
    if isinstance(value, (list, tuple)):
        return tuple([_plain(v) for v in value])
    return value


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype") and (hasattr(value, "numpy") or hasattr(value, "tobytes"))


def _data_key(value: Any) -> str | None:
    """Text that stands for a piece of data, or None when only identity and ``==`` can tell."""
    if value is None:
        return "n"
    if isinstance(value, (bool, int)):
        # True and 1 are one value: attributes are written either way.
        return f"i{int(value)}"
    if isinstance(value, float):
        return "f" + struct.pack(">d", value).hex()
    if isinstance(value, str):
        return "s" + str(value)
    if isinstance(value, (bytes, bytearray)):
        return "b" + bytes(value).hex()
    if isinstance(value, (set, frozenset)):
        return "e" + repr(sorted(str(_data_key(_plain(v))) for v in value))
    if _is_array(value):
        array = value.numpy() if hasattr(value, "numpy") else value
        digest = hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
        return f"a{array.dtype}{tuple(array.shape)}{digest}"
    return None


def _same_data(a: Any, b: Any) -> bool:
    key = _data_key(a)
    if key is not None:
        return key == _data_key(b)
    return type(a) is type(b) and (a is b or bool(a == b))


def _map_key(key: Any) -> str:
    """Keys of dictionaries are names; a variable as a key goes by its name."""
    if isinstance(key, str):
        return str(key)
    name = getattr(key, "name_hint", None) or getattr(key, "name", None)
    return str(name) if name is not None else str(getattr(key, "value", key))


class Mismatch(NamedTuple):
    """Where two sides part: the path, the two values and why they differ."""

    path: ObjectPath
    lhs: Any
    rhs: Any
    reason: str


_ROOT: tuple = ()


class _Absent:
    """Stands for the element that the shorter of two lists lacks."""

    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def _path(steps: tuple) -> ObjectPath:
    found = []
    while steps:
        steps, kind, value = steps
        found.append((kind, value))
    path = ObjectPath.root()
    for kind, value in reversed(found):
        path = getattr(path, kind)(value)
    return path


class _Comparison:
    """One run of structural equality: pairs still to compare, and variables matched so far.

    Matches are never undone, so a pair found equal once stays equal. The first difference ends the run.
    """

    __slots__ = ("backward", "forward", "renamed", "skipped", "stack")

    def __init__(self):
        self.forward: dict[Any, Any] = {}
        self.backward: dict[Any, Any] = {}
        # Whether some variable was matched with another: then one object on both sides need not mean equality.
        self.renamed = False
        # Objects found on both sides and not looked into; their variables stand for themselves.
        self.skipped: list[Any] = []
        self.stack: list[tuple] = []

    def run(self, lhs: Any, rhs: Any, map_free_vars: bool) -> Mismatch | None:
        stack = self.stack
        stack.append((lhs, rhs, map_free_vars, _ROOT))
        seen: set[tuple[int, int]] = set()
        plans = _PLANS
        while stack:
            a, b, free, path = stack.pop()
            if a is b and not self.renamed:
                self.skipped.append(a)
                continue
            cls = a.__class__
            plan = plans.get(cls) or _plan(cls)
            kind = plan.kind
            if kind == _NODE:
                if b.__class__ is not cls:
                    return self.differ(path, a, b, f"{_kind(a)} against {_kind(b)}")
                pair = (id(a), id(b))
                if pair in seen:
                    continue
                seen.add(pair)
                labels, defines = plan.labels, plan.defines
                x, y = plan.parts(a), plan.parts(b)
                for i in range(len(labels) - 1, -1, -1):
                    u, v = x[i], y[i]
                    part = u.__class__
                    if part is v.__class__ and (part is str or part is int):
                        if u != v:
                            return self.differ((path, "attr", labels[i]), u, v, f"{labels[i]} {u!r} against {v!r}")
                    else:
                        stack.append((u, v, free or defines[i], (path, "attr", labels[i])))
                continue
            reason = self.other(kind, a, b, free, path)
            if reason:
                return self.differ(path, a, b, reason)
        return None

    def differ(self, path: tuple, a: Any, b: Any, reason: str) -> Mismatch:
        # A difference found early in a node may come before one that an earlier part would show; either is a first one.
        return Mismatch(_path(path), a, b, reason)

    def other(self, kind: int, a: Any, b: Any, free: bool, path: tuple) -> str | None:
        """Compare what is no plain node; the reason when it differs, None after pushing what is left to compare."""
        if kind == _DATA:
            return None if _same_data(a, b) else f"{_show(a)} against {_show(b)}"
        if kind == _SEQUENCE:
            if not isinstance(b, (list, tuple)):
                return f"a list against {_kind(b)}"
            n = min(len(a), len(b))
            if len(a) != len(b):
                # Compared after the elements both have: a differing one of those says more.
                x, y = (a[n], _ABSENT) if len(a) > n else (_ABSENT, b[n])
                self.stack.append((x, y, free, (path, "missing_array_element", n)))
            for i in range(n - 1, -1, -1):
                self.stack.append((a[i], b[i], free, (path, "array_index", i)))
            return None
        if kind == _MAPPING:
            return self.mapping(a, b, free, path)
        if b.__class__ is not a.__class__:
            return f"{_kind(a)} against {_kind(b)}"
        if kind == _VAR:
            return self.variable(a, b, free, path)
        if kind == _NAMED:
            x, y = _plan(a.__class__).parts(a), _plan(b.__class__).parts(b)
            return None if x == y else f"{x} against {y}"
        same = a.dtype == b.dtype and _data_key(a.value) == _data_key(b.value)
        return None if same else f"{a.dtype} {a.value!r} against {b.dtype} {b.value!r}"

    def mapping(self, a: Any, b: Any, free: bool, path: tuple) -> str | None:
        if _plan(b.__class__).kind != _MAPPING:
            return f"a dictionary against {_kind(b)}"
        x = {_map_key(k): v for k, v in a.items()}
        y = {_map_key(k): v for k, v in b.items()}
        for one, two, side in ((x, y, "right"), (y, x, "left")):
            missing = sorted(one.keys() - two.keys())
            if missing:
                return f"key '{missing[0]}' is missing on the {side}"
        for key in sorted(x, reverse=True):
            self.stack.append((_plain(x[key]), _plain(y[key]), free, (path, "map_value", key)))
        return None

    def fix_skipped(self) -> None:
        """Match the variables of everything skipped so far with themselves, before any is given another meaning."""
        self.renamed = True
        stack, seen = self.skipped, set()
        while stack:
            value = stack.pop()
            plan = _plan(value.__class__)
            if plan.kind == _VAR:
                self.forward.setdefault(value, value)
                self.backward.setdefault(value, value)
            elif plan.kind == _NODE:
                if id(value) not in seen:
                    seen.add(id(value))
                    stack.extend(plan.parts(value))
            elif plan.kind == _MAPPING:
                stack.extend(value.values())
            elif plan.kind == _SEQUENCE:
                stack.extend(value)

    def variable(self, a: Any, b: Any, free: bool, path: tuple) -> str | None:
        if a is not b and not self.renamed:
            self.fix_skipped()
        got = self.forward.get(a)
        if got is not None:
            return None if got is b else f"variable {_name(a)} stands for {_name(got)}, not {_name(b)}"
        if b in self.backward:
            return f"variable {_name(b)} on the right stands for {_name(self.backward[b])}, not {_name(a)}"
        if a is not b:
            if not free:
                return f"variables {_name(a)} and {_name(b)} are defined outside and are not one object"
            x, y = _variable_type(a), _variable_type(b)
            if x != y:
                return f"variable {_name(a)} is {x}, {_name(b)} is {y}"
        self.forward[a] = b
        self.backward[b] = a
        return None


def _name(var: Any) -> str:
    return var.name_hint


def _variable_type(var: Any) -> str:
    """The type of a variable as text; text, so that equality and hash cannot disagree."""
    dtype = getattr(var, "dtype", "")
    return f"{dtype} {_type_text(getattr(var, 'type_annotation', None))}".strip()


def _type_text(annotation: Any) -> str:
    fields = getattr(annotation, "_fields", ())
    if not fields:
        return str(annotation)
    return f"{type(annotation).__name__}({', '.join(_type_text(getattr(annotation, f)) for f in fields)})"


def _kind(value: Any) -> str:
    return "nothing" if value is None or value is _ABSENT else type(value).__name__


def _show(value: Any) -> str:
    try:
        text = repr(value) if not isinstance(value, Node) else str(value)
    except Exception as error:  # a broken printer must not hide the difference that is being reported
        text = f"<{type(value).__name__}, which cannot be printed: {error}>"
    lines = text.splitlines() or [""]
    if len(lines) > 20:
        lines = [*lines[:20], f"... ({len(lines) - 20} more lines)"]
    return "\n".join(line if len(line) <= 200 else line[:200] + "..." for line in lines)


def _prepare(value: Any) -> Any:
    if isinstance(value, (Node, str, Mapping)) or value is None or _is_array(value):
        return value
    if isinstance(value, (list, tuple)):
        return tuple([_prepare(v) for v in value])
    try:
        return convert(value)
    except TypeError:
        return value


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes (or lists, dictionaries, values) are equal up to names of variables."""
    return _Comparison().run(_prepare(lhs), _prepare(rhs), map_free_vars) is None


def find_mismatch(lhs: Any, rhs: Any, map_free_vars: bool = False) -> Mismatch | None:
    """The first place where the two sides differ, with what is there; None when they are equal."""
    return _Comparison().run(_prepare(lhs), _prepare(rhs), map_free_vars)


def get_first_structural_mismatch(
    lhs: Any, rhs: Any, map_free_vars: bool = False
) -> tuple[ObjectPath, ObjectPath] | None:
    """The paths, on both sides, of the first difference; None when the sides are equal."""
    got = find_mismatch(lhs, rhs, map_free_vars)
    return None if got is None else (got.path, got.path)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise ValueError, showing the first difference, unless the two sides are structurally equal."""
    got = find_mismatch(lhs, rhs, map_free_vars)
    if got is not None:
        raise ValueError(
            f"StructuralEqual check failed at {got.path}: {got.reason}\n"
            f"left side there:\n{_indent(_show(got.lhs))}\nright side there:\n{_indent(_show(got.rhs))}\n"
            f"whole left side:\n{_indent(_show(lhs))}\nwhole right side:\n{_indent(_show(rhs))}"
        )


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


class _Numbering:
    """Gives every distinct structure a number; the sequence of new structures is what gets hashed.

    Two nodes with one number are structurally equal, so sharing does not matter; numbers are given in the order of
    first visit, so the sequence depends on content alone.
    """

    def __init__(self):
        self.numbers: dict[tuple, int] = {}
        self.memo: dict[int, int] = {}
        self.variables: dict[Any, int] = {}

    def number(self, key: tuple) -> int:
        got = self.numbers.get(key)
        if got is None:
            got = self.numbers[key] = len(self.numbers)
        return got

    def run(self, root: Any, map_free_vars: bool) -> None:
        # `done` collects numbers of finished values; a (None, plan, node, count) entry folds the last `count` of them.
        stack: list[tuple] = [(root, map_free_vars)]
        done: list[int] = []
        memo = self.memo
        while stack:
            task = stack.pop()
            if len(task) == 4:
                _, tag, node, count = task
                start = len(done) - count
                got = self.number((tag, *done[start:]))
                del done[start:]
                if node is not None:
                    memo[id(node)] = got
                done.append(got)
                continue
            value, free = task
            plan = _PLANS.get(value.__class__) or _plan(value.__class__)
            if plan.kind == _NODE:
                known = memo.get(id(value))
                if known is not None:
                    done.append(known)
                    continue
                parts = plan.parts(value)
                stack.append((None, plan.tag, value, len(parts)))
                for i in range(len(parts) - 1, -1, -1):
                    stack.append((parts[i], free or plan.defines[i]))
            elif plan.kind == _SEQUENCE:
                stack.append((None, "list", None, len(value)))
                stack.extend([(v, free) for v in reversed(value)])
            elif plan.kind == _MAPPING:
                items = sorted([(_map_key(k), _plain(v)) for k, v in value.items()], key=lambda item: item[0])
                stack.append((None, "map", None, 2 * len(items)))
                for key, item in reversed(items):
                    stack.append((item, free))
                    stack.append((key, free))
            else:
                done.append(self.leaf(plan, value, free))

    def leaf(self, plan: _Plan, value: Any, free: bool) -> int:
        if plan.kind == _VAR:
            return self.variable(plan, value, free)
        if plan.kind == _LITERAL:
            return self.number((plan.tag, value.dtype, _data_key(value.value)))
        if plan.kind == _NAMED:
            return self.number((plan.tag, plan.parts(value)))
        key = _data_key(value)
        # Objects that only `==` can compare count by their type: equal ones agree, and the hash stays the same.
        return self.number(("data", key) if key is not None else ("object", type(value).__qualname__))

    def variable(self, plan: _Plan, var: Any, free: bool) -> int:
        index = self.variables.get(var)
        if index is None:
            if not free:
                return self.number((plan.tag, _variable_type(var), "outside", _name(var)))
            key = (plan.tag, _variable_type(var), "inside", len(self.variables))
            index = self.variables[var] = self.number(key)
        return index


def _digest(node: Any, map_free_vars: bool) -> Any:
    numbering = _Numbering()
    numbering.run(_prepare(node), map_free_vars)
    text = "\n".join([repr(key) for key in numbering.numbers])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A 64-bit number that structurally equal nodes share; the same in every process."""
    return int.from_bytes(_digest(node, map_free_vars).digest()[:8], "big")


def structural_key(node: Any, map_free_vars: bool = False) -> str:
    """The same as 32 hexadecimal digits: fit to name a cache entry."""
    return _digest(node, map_free_vars).hexdigest()


__all__ = [
    "Mismatch",
    "ObjectPath",
    "assert_structural_equal",
    "find_mismatch",
    "get_first_structural_mismatch",
    "structural_equal",
    "structural_hash",
    "structural_key",
]
