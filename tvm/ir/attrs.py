"""Attributes: named values attached to operators, functions and passes."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, NamedTuple

from ..error import TVMError, did_you_mean
from .node import CONVERT, NODE_TYPES, REQUIRED, Node

if TYPE_CHECKING:
    from .span import Span


class AttrFieldInfo(NamedTuple):
    """One field of an attribute record."""

    name: str
    type_info: str
    description: str = ""


class Attrs(Node):
    """Base class of attribute records: subclasses declare the fields, read as ``attrs.name`` or ``attrs["name"]``."""

    def keys(self) -> list[str]:
        """The names of the attributes.

        Returns
        -------
        list of str
            The names.
        """
        return list(self._fields)

    def items(self) -> list[tuple[str, Any]]:
        """The attributes.

        Returns
        -------
        list of tuple
            Pairs of a name and a value.
        """
        return [(name, getattr(self, name)) for name in self._fields]

    def __getitem__(self, item: str) -> Any:
        if item not in self._fields:
            known = ", ".join(self._fields) or "none"
            raise KeyError(f"{type(self).__name__} has no attribute '{item}'; it has: {known}")
        return getattr(self, item)

    def __contains__(self, item: str) -> bool:
        return item in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of an attribute.

        Parameters
        ----------
        key : str
            Its name.
        default : Any, optional
            The value returned if the attribute does not exist.

        Returns
        -------
        Any
            The value.
        """
        return getattr(self, key) if key in self._fields else default

    def get_int(self, key: str) -> int:
        """The value of an attribute as an integer.

        Parameters
        ----------
        key : str
            Its name.

        Returns
        -------
        int
            The value.
        """
        return int(self[key])

    def get_str(self, key: str) -> str:
        """The value of an attribute as text.

        Parameters
        ----------
        key : str
            Its name.

        Returns
        -------
        str
            The value.
        """
        return str(getattr(self[key], "value", self[key]))

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        """The value of an attribute as integers.

        Parameters
        ----------
        key : str
            Its name.

        Returns
        -------
        tuple of int
            The value.
        """
        return tuple(int(x) for x in self[key])

    @classmethod
    def list_field_info(cls) -> list[AttrFieldInfo]:
        """The attributes that the class declares.

        Returns
        -------
        list of AttrFieldInfo
            Their names, types and meaning.
        """
        types: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            types.update(base.__dict__.get("__annotations__", {}))
        out: list[AttrFieldInfo] = []
        for name, _, default in cls._field_specs:
            text = str(types.get(name, "object"))
            out.append(AttrFieldInfo(name, text if default is REQUIRED else f"{text}, default={default!r}"))
        return out


class DictAttrs(Node, key="DictAttrs"):
    """Attributes without a declared set of names.

    Parameters
    ----------
    entries : dict, optional
        The attributes by name.
    **named
        Attributes given as arguments.
    """

    entries: dict[Any, Any]

    def __init__(self, entries: Any = None, span: Span | None = None, **named: Any):
        self.entries = {**(entries or {}), **named}
        self.span = span

    def keys(self) -> KeysView[str]:
        """The names of the attributes.

        Returns
        -------
        KeysView
        """
        return self.entries.keys()

    def items(self) -> ItemsView[str, Any]:
        """The attributes as pairs of name and value.

        Returns
        -------
        ItemsView
        """
        return self.entries.items()

    def values(self) -> ValuesView[Any]:
        """The values of the attributes.

        Returns
        -------
        ValuesView
        """
        return self.entries.values()

    def __getitem__(self, key: str) -> Any:
        return self.entries[key]

    def __getattr__(self, key: str) -> Any:
        # Python finds slots first, so this is only called for attribute names.
        if key == "entries" or key.startswith("_"):
            raise AttributeError(key)
        try:
            return self.entries[key]
        except KeyError:
            raise AttributeError(f"DictAttrs has no attribute '{key}'") from None

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of an attribute.

        Parameters
        ----------
        key : str
            The name of the attribute.
        default : Any, optional
            The value returned if the attribute does not exist.

        Returns
        -------
        Any
        """
        return self.entries.get(key, default)


Mapping.register(DictAttrs)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def near_matches(name: str, known: Any) -> str:
    """Return a hint for an unknown name: the closest known names, or all if there are few."""
    known = sorted(known)
    few = "known: " + ", ".join(known) if len(known) <= 12 else f"{len(known)} names are known"
    return did_you_mean(name, known, cutoff=0.5) or few


class NodeFieldError(TVMError, AttributeError, TypeError):
    """A node cannot be created from the given fields."""


def _literals(value: Any) -> Any:
    """Convert numbers to literal nodes, also inside lists."""
    if isinstance(value, (list, tuple)):
        return tuple([_literals(v) for v in value])
    return CONVERT(value) if isinstance(value, (bool, int, float)) else value


def make_node(type_key: str, **kwargs: Any) -> Node:
    """A node from its type key and fields, as stored in JSON. Numbers in a DictAttrs become literal nodes.

    Parameters
    ----------
    type_key : str
        The key of the type, such as "tir.Add".
    **kwargs
        The fields by name.

    Returns
    -------
    Node

    Raises
    ------
    NodeFieldError
        The type is unknown, or its fields differ.
    """
    cls = NODE_TYPES.get(type_key)
    if cls is None:
        raise NodeFieldError(f"make_node: unknown node type '{type_key}'; {near_matches(type_key, NODE_TYPES)}")
    if cls is DictAttrs:
        return DictAttrs({name: _literals(value) for name, value in kwargs.items()})
    for name in kwargs:
        if name not in cls._fields and name != "span":
            raise NodeFieldError(f"make_node: {type_key} has no field '{name}'; {near_matches(name, cls._fields)}")
    try:
        return cls(**kwargs)
    except TypeError as error:
        raise NodeFieldError(f"make_node: cannot create {type_key} from the fields {sorted(kwargs)}: {error}") from None
