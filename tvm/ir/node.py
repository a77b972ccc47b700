"""Nodes: immutable records with declared fields.

A node class lists its fields as annotations; the metaclass converts them to slots and generates ``__init__``,
``children`` and ``map_children``. The annotations determine what a traversal visits: ``PrimExpr``, ``Stmt``, ``Range``,
``IterVar`` and tuples of these are children; all other fields (names, variables being defined, buffers, dictionaries)
are data.

Equality of nodes is identity (``==`` on expressions builds an expression, as in TVM); ``structural_equal`` and
``structural_hash`` are functions in ``ir.structural``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..hooks import Hook

# Names of the classes that declare that fields of these classes are children.
_FOLLOWED: set[str] = set()
# type key -> class, for JSON and `ir.make_node`.
NODE_TYPES: dict[str, type[Any]] = {}

_FROZEN = os.environ.get("TVM_DEBUG", "") not in ("", "0")
REQUIRED = object()


def to_tuple(values: Any) -> tuple[Any, ...]:
    """Convert a list, array or single value to a tuple; None becomes the empty tuple."""
    if values is None:
        return ()
    if isinstance(values, (list, tuple)):
        return tuple(values)
    if isinstance(values, Node) or isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        return (values,)
    return tuple(values)


CONVERT: Hook[[Any], Any] = Hook(
    "ir.node.CONVERT", "converts a Python number, string or tensor element to an expression", lambda value: value
)


def convert_field(value: Any):
    return (CONVERT.function or CONVERT)(value)


def convert_fields(values: Any) -> tuple[Any, ...]:
    convert = CONVERT.function or CONVERT
    return tuple([v if isinstance(v, Node) else convert(v) for v in to_tuple(values)])


def _map_tuple(f: Any, items: tuple[Any, ...]) -> tuple[Any, ...]:
    new = [f(i) for i in items]
    for old, got in zip(items, new):
        if old is not got:
            return tuple(new)
    return items


def _field_kind(annotation: str) -> str:
    """Return the kind of a field: 'child', 'children' (a tuple), 'optional' (child or None), 'tuple' or 'data'."""
    text = annotation.replace(" ", "")
    if text in _FOLLOWED:
        return "child"
    if text.endswith("|None") and text[:-5] in _FOLLOWED:
        return "optional"
    if text.startswith("tuple[") and text[6:].split(",")[0].rstrip("]") in _FOLLOWED:
        return "children"
    if text.startswith("tuple"):
        return "tuple"
    return "data"


def _write_methods(
    fields: list[tuple[str, str, Any]], derived: dict[str, str], check: str | None, converts: bool, own_init: bool
):
    """Generate the source of ``__init__`` (unless the class defines it), ``children`` and ``map_children`` of a
    class."""
    params: list[str] = []
    init: list[str] = []
    kids: list[str] = []
    mapped: list[str] = []
    same: list[str] = []
    env: dict[str, Any] = {"_convert": convert_field, "_convert_all": convert_fields}
    env |= {"to_tuple": to_tuple, "Node": Node}
    env["_map_tuple"] = _map_tuple
    for name, kind, default in fields:
        if default is REQUIRED:
            params.append(name)
        else:
            env[f"_default_{name}"] = default
            params.append(f"{name}=_default_{name}")
        if kind == "children":
            init.append(f"    {name} = _convert_all({name})")
        elif kind == "tuple":
            init.append(f"    if {name}.__class__ is not tuple: {name} = to_tuple({name})")
        elif kind == "child" and converts:
            init.append(f"    if not isinstance({name}, Node): {name} = _convert({name})")
        elif kind == "optional" and converts:
            init.append(f"    if {name} is not None and not isinstance({name}, Node): {name} = _convert({name})")
        init.append(f"    self.{name} = {name}")
        if kind == "child":
            kids.append(f"    out.append(self.{name})")
            mapped.append(f"    {name} = f(self.{name})")
        elif kind == "optional":
            kids.append(f"    if self.{name} is not None: out.append(self.{name})")
            mapped.append(f"    {name} = None if self.{name} is None else f(self.{name})")
        elif kind == "children":
            kids.append(f"    out.extend(self.{name})")
            mapped.append(f"    {name} = _map_tuple(f, self.{name})")
        if kind in ("child", "optional", "children"):
            same.append(f"{name} is self.{name}")
    for name, code in derived.items():
        init.append(f"    self.{name} = {code}")
    if check:
        init.append(f"    {check}")
    init.append("    self.span = span")
    text = "" if own_init else f"def __init__(self, {', '.join(params + ['span=None'])}):\n" + "\n".join(init) + "\n"
    text += "def children(self):\n    out = []\n" + "\n".join(kids) + "\n    return out\n"
    if same:
        mapped_kinds = ("child", "optional", "children")
        kept = ", ".join(f"{n}={n}" if k in mapped_kinds else f"{n}=self.{n}" for n, k, _ in fields)
        text += "def map_children(self, f):\n" + "\n".join(mapped) + "\n"
        text += f"    if {' and '.join(same)}: return self\n    return self.__class__({kept}, span=self.span)\n"
    else:
        text += "def map_children(self, f):\n    return self\n"
    return text, env


if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    def _keyword(*, default: Any = None, kw_only: Literal[True] = True) -> Any:
        """A keyword field of the constructor, after all positional fields."""

    def slot_field(*, init: Literal[False] = False) -> Any:
        """A slot that constructors set themselves."""
else:
    dataclass_transform = lambda **_: lambda cls: cls


@dataclass_transform(eq_default=False, field_specifiers=(_keyword, slot_field) if TYPE_CHECKING else ())
class NodeMeta(type):
    """Converts field annotations to slots and methods; see the module docstring.

    Class keywords: ``derived`` maps additional slots to the expressions that compute them (evaluated in ``__init__``),
    ``check`` is a statement executed at the end of ``__init__``, ``key`` is the type key in JSON.
    """

    _type_key: str

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        derived: dict[str, str] | None = None,
        check: str | None = None,
        key: str | None = None,
        converts: bool = True,
        scope: dict[str, Any] | None = None,
    ):
        if namespace.get("_followed"):
            _FOLLOWED.add(name)
        own = dict(namespace.get("__annotations__", {}))
        inherited: list[tuple[str, str, Any]] = []
        for base in bases:
            inherited.extend(f for f in getattr(base, "_field_specs", ()) if f[0] not in own)
        specs = list(inherited)
        for field, annotation in own.items():
            specs.append((field, _field_kind(str(annotation)), namespace.pop(field, REQUIRED)))
        derived = derived or {}
        inherited_slots = {s for base in bases for c in base.__mro__ for s in getattr(c, "__slots__", ())}
        slots = [f for f in list(own) + list(derived) if f not in inherited_slots]
        if "span" not in inherited_slots:
            slots += ["span", "__weakref__"]
        namespace["__slots__"] = tuple(slots)
        namespace["_field_specs"] = tuple(specs)
        namespace["_fields"] = tuple(s[0] for s in specs)
        cls = super().__new__(mcs, name, bases, namespace)
        if own or derived:
            text, env = _write_methods(specs, derived, check, converts, "__init__" in namespace)
            env.update(scope or {})
            out: dict[str, Any] = {}
            exec(compile(text, f"<node {name}>", "exec"), env, out)
            for method, function in out.items():
                if method not in namespace:
                    function.__qualname__ = f"{name}.{method}"
                    setattr(cls, method, function)
        if key:
            if key in NODE_TYPES:
                raise ValueError(f"node type key '{key}' is already registered")
            NODE_TYPES[key] = cls
            cls._type_key = key
        return cls

    # The class keywords are handled in __new__.
    def __init__(  # pyright: ignore[reportInconsistentConstructor]
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any
    ):
        super().__init__(name, bases, namespace)


class Node(metaclass=NodeMeta):
    """Base class of all IR nodes."""

    _type_key = ""
    # Set by the class itself, not inherited: fields that are annotated with this class are children.
    _followed = False
    # The fields in comparison order, "!" marks fields that define variables; None: all fields, none defines variables.
    _compared = None
    # True for a class of variables, which are matched where they are defined, regardless of their names.
    _variable = False
    # Set by the class itself, not inherited: objects are matched one to one, as computations of a graph.
    _in_graph = False
    # True for a class whose public interface modifies it in place.
    _mutable = False

    if TYPE_CHECKING:
        span: Any = _keyword(default=None)
        # Generated by the metaclass: the names of the fields, fields of base classes first.
        _fields: ClassVar[tuple[str, ...]]
        # The name of each field, its kind for traversals, and its default.
        _field_specs: ClassVar[tuple[tuple[str, str, Any], ...]]
    else:

        def __init__(self, span=None):
            self.span = span

    def children(self) -> list[Any]:
        """The child nodes that passes visit, in the order of the fields.

        Returns
        -------
        list of Node
            The nodes.
        """
        return []

    def map_children(self, f: Callable[[Any], Any]):
        """This node with each child replaced by ``f(child)``.

        Parameters
        ----------
        f : Callable
            A function that returns a replacement node.

        Returns
        -------
        Node
            A new node, or this node if no child changes.
        """
        return self

    def replace(self, **changes: Any):
        """A copy with some fields changed; the same object if nothing changes.

        Parameters
        ----------
        **changes
            New values by field.

        Returns
        -------
        Node
            The copy.
        """
        if all(getattr(self, name) is value for name, value in changes.items()):
            return self
        values = {name: getattr(self, name) for name in self._fields}
        values.update(changes)
        return self.__class__(**values, span=self.span)

    @property
    def type_key(self) -> str:
        """The type key of the node's class in JSON and ``tvm.ir.make_node``."""
        return self._type_key  # pyright: ignore[reportPrivateUsage]

    def same_as(self, other: Any) -> bool:
        """Whether both are the same object.

        Parameters
        ----------
        other : object
            The other object.

        Returns
        -------
        bool
            Whether both are the same object.
        """
        return self is other

    def __str__(self):
        return PRINTER(self)

    def __repr__(self):
        return PRINTER(self)

    def script(self, **options: Any) -> str:
        """The text of this node; ``tvm.script.printer.Options`` lists the options.

        Parameters
        ----------
        **options
            Printer options.

        Returns
        -------
        str
            The text.
        """
        return PRINTER(self, **options)

    def show(self, style: Any = None, black_format: Any = None, **options: Any) -> None:
        """Print the text of this node. ``style`` and ``black_format`` are accepted for compatibility and ignored.

        Parameters
        ----------
        style : str, optional
            Ignored.
        black_format : bool, optional
            Ignored.
        **options
            Printer options, as for ``script``.
        """
        print(self.script(**options))

    def __copy__(self):
        return self

    def __deepcopy__(self, memo: Any):
        return self


if _FROZEN:

    def _refuse(self: Any, name: str, value: Any):
        # Private names cache values computed from the fields on demand; names with a trailing underscore are set by
        # type inference.
        if self._mutable or name.startswith("_") or name.endswith("_"):
            object.__setattr__(self, name, value)
            return
        slot: Any = getattr(self.__class__, name)
        try:
            slot.__get__(self)
        except AttributeError:
            object.__setattr__(self, name, value)
            return
        raise AttributeError(f"{type(self).__name__}.{name}: nodes are immutable; use replace()")

    Node.__setattr__ = _refuse  # type: ignore[method-assign]


def _plain_repr(node: Any, **options: Any) -> str:
    body = ", ".join(f"{f}={getattr(node, f, None)!r}" for f in node._fields)
    return f"{type(node).__name__}({body})"


PRINTER: Hook[..., str] = Hook("ir.node.PRINTER", "prints a node in the text format of its IR", _plain_repr)
