"""Structural equality and hashing.

Two nodes are equal when their fields are equal. Variables are matched where they are defined, so their names do not
matter. Sharing does not matter either (a tree equals the same tree with shared subtrees), except for classes that are
``_in_graph``: an operator of a graph that is computed once and used twice differs from two equal operators. A variable
that is used but not defined inside equals only itself, unless ``map_free_vars`` is given.

``_compared`` of a class lists the compared fields, their order, and the fields that define variables; by default all
fields are compared in order. ``label=attribute`` compares an attribute instead of the field. Equality and hash use the
same list, so equal nodes have equal hashes; the exception is float attributes that were rounded differently. Sharing
does not affect hashes. They depend on content only and are the same in every process.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from ..object_path import ObjectPath
from .attrs import DictAttrs
from .module import GlobalVar
from .node import Node
from .op import Op
from .prim import FloatImm, IntImm, PrimExpr, StringImm, convert


class _Plan(NamedTuple):
    """How a class is compared: its kind, and for plain nodes the labels, definition marks and getter of its parts."""

    kind: int
    labels: tuple[str, ...] = ()
    defines: tuple[bool, ...] = ()
    parts: Callable[[Any], Any] = lambda node: ()
    tag: str = ""
    is_graph: bool = False


_NODE, _VAR, _LITERAL, _NAMED, _SEQUENCE, _MAPPING, _DATA = range(7)

_PLANS: dict[type, _Plan] = {}


def _plan(cls: type) -> _Plan:
    got = _PLANS.get(cls)
    if got is None:
        got = _PLANS[cls] = _make_plan(cls)
    return got


def _make_plan(cls: type[Any]) -> _Plan:
    if getattr(cls, "_variable", False):
        return _Plan(_VAR, tag=cls.__name__)
    if cls in (IntImm, FloatImm, StringImm):
        return _Plan(_LITERAL, tag=cls.__name__)
    if issubclass(cls, Op):
        return _Plan(_NAMED, parts=attrgetter("name"), tag="Op")
    if issubclass(cls, GlobalVar):
        return _Plan(_NAMED, parts=attrgetter("name_hint"), tag="GlobalVar")
    if issubclass(cls, (DictAttrs, Mapping)):
        return _Plan(_MAPPING, tag="map")
    if issubclass(cls, Node):
        return _node_plan(cls)._replace(is_graph="_in_graph" in cls.__dict__)
    if issubclass(cls, (list, tuple)):
        return _Plan(_SEQUENCE, tag="list")
    return _Plan(_DATA, tag=cls.__name__)


def _node_plan(cls: type[Any]) -> _Plan:
    key = cls._type_key if cls.__dict__.get("_type_key") else ""
    spec = cls._compared
    words = list(cls._fields) if spec is None else spec.split()
    defines = tuple(w.endswith("!") for w in words)
    pairs = [w.rstrip("!").partition("=") for w in words]
    labels = tuple(label for label, _, _ in pairs)
    read = tuple(attribute or label for label, _, attribute in pairs)
    tag = key or f"{cls.__module__}.{cls.__qualname__}"
    if not labels:
        return _Plan(_NODE, tag=tag)
    if len(labels) == 1:
        getter = attrgetter(read[0])

        def only(node: Any) -> tuple[Any]:
            return (getter(node),)

        return _Plan(_NODE, labels, defines, only, tag)
    return _Plan(_NODE, labels, defines, attrgetter(*read), tag)


def _plain(value: Any) -> Any:
    """Convert values of dictionaries: literal nodes become the Python values that they contain."""
    if isinstance(value, (IntImm, FloatImm, StringImm)):
        return value.value
    if isinstance(value, (list, tuple)):
        return tuple([_plain(v) for v in value])
    return value


def is_array(value: Any) -> bool:
    kind = type(value)
    return hasattr(kind, "shape") and hasattr(kind, "dtype") and (hasattr(kind, "numpy") or hasattr(kind, "tobytes"))


def _data_key(value: Any) -> str | None:
    """Return a text that represents data, or None if only identity and ``==`` can compare it."""
    if value is None:
        return "n"
    if isinstance(value, (bool, int)):
        # True and 1 are treated as equal, because both forms of attributes are used.
        return f"i{int(value)}"
    if isinstance(value, float):
        return "f" + struct.pack(">d", value).hex()
    if isinstance(value, str):
        return "s" + str(value)
    if isinstance(value, (bytes, bytearray)):
        return "b" + bytes(value).hex()
    if isinstance(value, (set, frozenset)):
        return "e" + repr(sorted(str(_data_key(_plain(v))) for v in value))
    if is_array(value):
        array = value.numpy() if hasattr(value, "numpy") else value
        digest = hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
        return f"a{array.dtype}{tuple(array.shape)}{digest}"
    return None


def _near(a: float, b: float) -> bool:
    """Whether two floats are the same number in different precision, such as 1e-5 and its float32."""
    return abs(a - b) < 1e-9 and abs(a - b) <= 1e-6 * max(abs(a), abs(b))


def _same_data(a: Any, b: Any) -> bool:
    if type(a) is float and type(b) is float and a != b:
        return _near(a, b)
    key = _data_key(a)
    if key is not None:
        return key == _data_key(b)
    return type(a) is type(b) and (a is b or bool(a == b))


def _map_key(key: Any) -> str:
    """Return a key of a dictionary as text: keys are names, numbers or named nodes."""
    got = _data_key(key)
    if got is not None:
        return got
    name = getattr(key, "name_hint", None) or getattr(key, "name", None)
    return f"k{name if name is not None else getattr(key, 'value', key)}"


def _in_order(keys: Mapping[Any, Any]) -> list[Any]:
    """Return sorted names, followed by variables in their original order."""
    return sorted([k for k in keys if isinstance(k, str)]) + [k for k in keys if not isinstance(k, str)]


def _is_variable(value: Any) -> bool:
    return _plan(value.__class__).kind == _VAR


class Mismatch(NamedTuple):
    """A difference: the paths on both sides, the values there, and the reason."""

    lhs_path: ObjectPath
    rhs_path: ObjectPath
    lhs: Any
    rhs: Any
    reason: str


# A path under construction is () for the root, (parent path, name) for a field, or (parent path, left step, right
# step), where a step is the name of a method of ObjectPath and its argument.
_ROOT: tuple[Any, ...] = ()


class _Absent:
    """Represents an element that exists on only one side."""

    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def _path(steps: tuple[Any, ...], side: int) -> ObjectPath:
    found: list[Any] = []
    while steps:
        found.append(("attr", steps[1]) if len(steps) == 2 else steps[side])
        steps = steps[0]
    path = ObjectPath.root()
    for method, *argument in reversed(found):
        path = getattr(path, method)(*argument)
    return path


class _Comparison:
    """A run of structural equality: remaining pairs, and the variables and graph nodes matched so far.

    Matches are never undone, so a pair that was found equal stays equal. The first difference ends the run.
    """

    __slots__ = ("backward", "forward", "graph", "renamed", "skipped", "stack")

    def __init__(self):
        self.forward: dict[Any, Any] = {}
        self.backward: dict[Any, Any] = {}
        # Matched graph nodes by identity: left to right (0) and right to left (1).
        self.graph: tuple[dict[int, Any], dict[int, Any]] = ({}, {})
        # Whether a variable or graph node was matched with a different object: then an object that is on both sides is
        # not necessarily equal to itself.
        self.renamed = False
        # Objects that are on both sides and were skipped; their variables are matched with themselves.
        self.skipped: list[Any] = []
        self.stack: list[tuple[Any, ...]] = []

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
            kind, labels, defines, parts, _, is_graph = plans.get(cls) or _plan(cls)
            if kind != _NODE:
                if kind == _VAR and self.forward.get(a) is b:
                    continue
                found = self.other(kind, a, b, free, path)
                if found is not None:
                    path, reason = found
                    return Mismatch(_path(path, 1), _path(path, 2), a, b, reason)
                continue
            if b.__class__ is not cls:
                return Mismatch(_path(path, 1), _path(path, 2), a, b, f"{_kind(a)} against {_kind(b)}")
            pair = (id(a), id(b))
            if pair in seen:
                continue
            seen.add(pair)
            if is_graph and not self.matches(a, b):
                return Mismatch(_path(path, 1), _path(path, 2), a, b, f"a {_kind(a)} used twice against two of them")
            x, y = parts(a), parts(b)
            for i in range(len(labels) - 1, -1, -1):
                u, v = x[i], y[i]
                part = u.__class__
                # Equal strings and numbers are not pushed; unequal ones are compared in order.
                if part is v.__class__ and (
                    (part is str or part is int)
                    and u == v
                    or part is IntImm
                    and u.value == v.value
                    and u.dtype == v.dtype
                ):
                    continue
                stack.append((u, v, free or defines[i], (path, labels[i])))
        return None

    def other(self, kind: int, a: Any, b: Any, free: bool, path: tuple[Any, ...]) -> tuple[tuple[Any, ...], str] | None:
        """Compare values that are not plain nodes; return paths and reason of a difference, or None after pushing
        parts."""
        if kind == _DATA:
            return None if a is b or _same_data(a, b) else (path, f"{_show(a)} against {_show(b)}")
        if kind == _SEQUENCE:
            return self.sequence(a, b, free, path)
        if kind == _MAPPING:
            return self.mapping(a, b, free, path)
        if b.__class__ is not a.__class__:
            return path, f"{_kind(a)} against {_kind(b)}"
        if kind == _VAR:
            return self.variable(a, b, free, path)
        if kind == _NAMED:
            x, y = _plan(a.__class__).parts(a), _plan(b.__class__).parts(b)
            return None if x == y else (path, f"{x} against {y}")
        if a.dtype != b.dtype:
            return (path, "dtype"), f"literal of {a.dtype} against {b.dtype}"
        if _data_key(a.value) != _data_key(b.value):
            return (path, "value"), f"{a.dtype} {a.value!r} against {b.value!r}"
        return None

    def sequence(self, a: Any, b: Any, free: bool, path: tuple[Any, ...]) -> tuple[tuple[Any, ...], str] | None:
        if not isinstance(b, (list, tuple)):
            return path, f"a list against {_kind(b)}"
        n = min(len(a), len(b))
        if len(a) != len(b):
            # Compared after the elements that both have, because a difference in those is more informative.
            here, gone = ("array_index", n), ("missing_array_element", n)
            if len(a) > n:
                self.stack.append((a[n], _ABSENT, free, (path, here, gone)))
            else:
                self.stack.append((_ABSENT, b[n], free, (path, gone, here)))
        for i in range(n - 1, -1, -1):
            step = ("array_index", i)
            self.stack.append((a[i], b[i], free, (path, step, step)))
        return None

    def mapping(self, a: Any, b: Any, free: bool, path: tuple[Any, ...]) -> tuple[tuple[Any, ...], str] | None:
        if _plan(b.__class__).kind != _MAPPING:
            return path, f"a dictionary against {_kind(b)}"
        # Keys that are variables are matched as variables; other keys by name, in sorted order.
        forward = self.forward
        x = {forward.get(k, k) if _is_variable(k) else _map_key(k): (k, v) for k, v in a.items()}
        y = {k if _is_variable(k) else _map_key(k): (k, v) for k, v in b.items()}
        for key in _in_order(x):
            if key not in y:
                return (path, ("map_value", x[key][0]), ("missing_map_entry",)), "the right side has no such key"
        for key in _in_order(y):
            if key not in x:
                return (path, ("missing_map_entry",), ("map_value", y[key][0])), "the left side has no such key"
        for key in reversed(_in_order(x)):
            (k, u), (m, v) = x[key], y[key]
            self.stack.append((_plain(u), _plain(v), free, (path, ("map_value", k), ("map_value", m))))
        return None

    def fix_skipped(self) -> None:
        """Match the variables and graph nodes of all skipped objects with themselves, before any of them is matched
        with another object."""
        self.renamed = True
        stack = self.skipped
        seen: set[int] = set()
        while stack:
            value = stack.pop()
            plan = _plan(value.__class__)
            if plan.kind == _VAR:
                self.forward.setdefault(value, value)
                self.backward.setdefault(value, value)
            elif plan.kind == _NODE:
                if id(value) not in seen:
                    seen.add(id(value))
                    if plan.is_graph:
                        self.matches(value, value)
                    stack.extend(plan.parts(value))
            elif plan.kind == _MAPPING:
                stack.extend(value.values())
            elif plan.kind == _SEQUENCE:
                stack.extend(value)

    def matches(self, a: Any, b: Any) -> bool:
        """Match nodes of two graphs; return False if one of them is already matched with another node."""
        if a is not b and not self.renamed:
            self.fix_skipped()
        left, right = self.graph
        return left.setdefault(id(a), b) is b and right.setdefault(id(b), a) is a

    def variable(self, a: Any, b: Any, free: bool, path: tuple[Any, ...]) -> tuple[tuple[Any, ...], str] | None:
        if a is not b and not self.renamed:
            self.fix_skipped()
        got = self.forward.get(a)
        if got is not None:
            return None if got is b else (path, f"variable {_name(a)} stands for {_name(got)}, not {_name(b)}")
        if b in self.backward:
            return path, f"variable {_name(b)} on the right stands for {_name(self.backward[b])}, not {_name(a)}"
        if a is not b:
            if not free:
                return path, f"variables {_name(a)} and {_name(b)} are defined outside and are not one object"
            x, y = _variable_type(a), _variable_type(b)
            if x != y:
                field = "type_annotation" if getattr(a, "dtype", "") == getattr(b, "dtype", "") else "dtype"
                return (path, field), f"variable {_name(a)} is {x}, {_name(b)} is {y}"
        self.forward[a] = b
        self.backward[b] = a
        return None


def _name(var: Any) -> str:
    return var.name_hint


def _variable_type(var: Any) -> str:
    """Return the type of a variable as text, so that equality and hash use the same representation."""
    dtype = getattr(var, "dtype", "")
    return f"{dtype} {_type_text(getattr(var, 'type_annotation', None))}".strip()


def _type_text(annotation: Any) -> str:
    if isinstance(annotation, (tuple, list)):
        return f"({', '.join(map(_type_text, annotation))})"
    plan = _plan(annotation.__class__)
    if not plan.labels or isinstance(annotation, PrimExpr):
        return str(annotation)
    return f"{type(annotation).__name__}({', '.join(map(_type_text, plan.parts(annotation)))})"


def _kind(value: Any) -> str:
    return "nothing" if value is None or value is _ABSENT else type(value).__name__


def _show(value: Any) -> str:
    try:
        text = repr(value) if not isinstance(value, Node) else str(value)
    except Exception as error:  # an error in a printer must not hide the difference
        text = f"<{type(value).__name__}, which cannot be printed: {error}>"
    lines = text.splitlines() or [""]
    if len(lines) > 20:
        lines = [*lines[:20], f"... ({len(lines) - 20} more lines)"]
    return "\n".join(line if len(line) <= 200 else line[:200] + "..." for line in lines)


def _prepare(value: Any) -> Any:
    if isinstance(value, (Node, str, Mapping)) or value is None or is_array(value):
        return value
    if isinstance(value, (list, tuple)):
        return tuple([_prepare(v) for v in value])
    try:
        return convert(value)
    except TypeError:
        return value


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two nodes (or lists, dictionaries, values) are equal up to names of variables.

    Parameters
    ----------
    lhs
        One side.
    rhs
        The other side.
    map_free_vars : bool, optional
        Whether free variables may be matched with each other.

    Returns
    -------
    bool

    Examples
    --------
    >>> x = te.var("x")
    >>> tvm.ir.structural_equal(x + 1, x + 1), tvm.ir.structural_equal(x + 1, x + 2)
    (True, False)
    """
    return _Comparison().run(_prepare(lhs), _prepare(rhs), map_free_vars) is None


def find_mismatch(lhs: Any, rhs: Any, map_free_vars: bool = False) -> Mismatch | None:
    """Return the first difference between the two sides, or None if they are equal."""
    return _Comparison().run(_prepare(lhs), _prepare(rhs), map_free_vars)


def get_first_structural_mismatch(
    lhs: Any, rhs: Any, map_free_vars: bool = False
) -> tuple[ObjectPath, ObjectPath] | None:
    """The paths of the first difference on both sides; None if the sides are equal.

    Parameters
    ----------
    lhs
        One side.
    rhs
        The other side.
    map_free_vars : bool, optional
        Whether free variables may be matched with each other.

    Returns
    -------
    tuple[ObjectPath, ObjectPath]
    """
    got = find_mismatch(lhs, rhs, map_free_vars)
    return None if got is None else (got.lhs_path, got.rhs_path)


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise a ValueError that shows the first difference, unless the two sides are structurally equal.

    Parameters
    ----------
    lhs
        One side.
    rhs
        The other side.
    map_free_vars : bool, optional
        Whether free variables may be matched with each other.

    Raises
    ------
    ValueError
        The structures differ; the message contains the location.
    """
    got = find_mismatch(lhs, rhs, map_free_vars)
    if got is not None:
        left, right = str(got.lhs_path), str(got.rhs_path)
        where = left if left == right else f"{left} (right side: {right})"
        raise ValueError(
            f"StructuralEqual check failed at {where}: {got.reason}\n"
            f"left side there:\n{_indent(_show(got.lhs))}\nright side there:\n{_indent(_show(got.rhs))}\n"
            f"whole left side:\n{_indent(_show(lhs))}\nwhole right side:\n{_indent(_show(rhs))}"
        )


def _indent(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


class _Numbering:
    """Assigns a number to every distinct structure; the sequence of new structures is hashed.

    Nodes with the same number are structurally equal except for sharing. Numbers are assigned in the order of the first
    visit, so the sequence depends on content only.
    """

    def __init__(self):
        self.numbers: dict[tuple[Any, ...], int] = {}
        self.memo: dict[int, int] = {}
        self.variables: dict[Any, int] = {}

    def number(self, key: tuple[Any, ...]) -> int:
        got = self.numbers.get(key)
        if got is None:
            got = self.numbers[key] = len(self.numbers)
        return got

    def run(self, root: Any, map_free_vars: bool) -> None:
        # `done` contains numbers of finished values; a (None, plan, node, count) entry combines the last `count` of
        # them.
        stack: list[tuple[Any, ...]] = [(root, map_free_vars)]
        done: list[int] = []
        memo, numbers, plans = self.memo, self.numbers, _PLANS
        while stack:
            task = stack.pop()
            if len(task) == 4:
                _, tag, node, count = task
                start = len(done) - count
                key = (tag, *done[start:])
                got = numbers.get(key)
                if got is None:
                    got = numbers[key] = len(numbers)
                del done[start:]
                if node is not None:
                    memo[id(node)] = got
                done.append(got)
                continue
            value, free = task
            plan = plans.get(value.__class__) or _plan(value.__class__)
            if plan.kind == _NODE:
                known = memo.get(id(value))
                if known is not None:
                    done.append(known)
                    continue
                parts, defines = plan.parts(value), plan.defines
                stack.append((None, plan.tag, value, len(parts)))
                for i in range(len(parts) - 1, -1, -1):
                    stack.append((parts[i], free or defines[i]))
            elif plan.kind == _SEQUENCE:
                stack.append((None, "list", None, len(value)))
                stack.extend([(v, free) for v in reversed(value)])
            elif plan.kind == _MAPPING:
                items = sorted([(self.map_key(k, free), _plain(v)) for k, v in value.items()], key=lambda item: item[0])
                stack.append((None, "map", None, 2 * len(items)))
                for key, item in reversed(items):
                    stack.append((item, free))
                    stack.append((key, False))
            else:
                done.append(self.leaf(plan, value, free))

    def map_key(self, key: Any, free: bool) -> str:
        plan = _plan(key.__class__)
        return f"v{self.variable(plan, key, free):08d}" if plan.kind == _VAR else _map_key(key)

    def leaf(self, plan: _Plan, value: Any, free: bool) -> int:
        if plan.kind == _VAR:
            return self.variable(plan, value, free)
        if plan.kind == _LITERAL:
            content = value.value if plan.tag == "IntImm" else _data_key(value.value)
            return self.number((plan.tag, value.dtype, content))
        if plan.kind == _NAMED:
            return self.number((plan.tag, plan.parts(value)))
        key = _data_key(value)
        # Objects that only `==` can compare are represented by their type, so equal objects have equal hashes.
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
    """A 64-bit hash that is equal for structurally equal nodes, in every process.

    Parameters
    ----------
    node
        The node.
    map_free_vars : bool, optional
        Whether free variables may be matched with each other.

    Returns
    -------
    int
    """
    return int.from_bytes(_digest(node, map_free_vars).digest()[:8], "big")


def structural_key(node: Any, map_free_vars: bool = False) -> str:
    """Return the structural hash as 32 hexadecimal digits, for names of cache entries."""
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
