"""Algebraic data types: their constructors and definitions."""

from __future__ import annotations

from typing import Any

from ..hooks import Hook
from .module import RelayExpr
from .type import TAG_BITS, Type


class Constructor(RelayExpr, key="relay.Constructor"):
    """A constructor of the data type ``belong_to``; ``tag`` identifies it in a module.

    Parameters
    ----------
    name_hint : str
        The name of the constructor.
    inputs : list of Type
        The types of its fields.
    belong_to : GlobalTypeVar
        The data type.
    tag : int, optional
        The tag, which a module assigns when the type is added to it.
    """

    name_hint: str
    inputs: tuple[Any, ...]
    belong_to: Any
    tag: int = -1

    @property
    def number(self) -> int:
        """The index of the constructor in its type, which the virtual machine compares."""
        return self.tag & ((1 << TAG_BITS) - 1)

    def __call__(self, *args: Any):
        if not CALL:
            raise TypeError(f"constructor {self.name_hint}: import tvm.relay before calling it")
        return CALL(self, args)


CALL: Hook[[Any, tuple[Any, ...]], Any] = Hook("ir.adt.CALL", "creates a call of an ADT constructor")


class TypeData(Type, key="relay.TypeData"):
    """The definition of a data type: its name, type parameters and constructors.

    Parameters
    ----------
    header : GlobalTypeVar
        The name.
    type_vars : list of TypeVar
        The type parameters.
    constructors : list of Constructor
        The constructors.
    """

    _compared = "header type_vars! constructors"

    header: Any
    type_vars: tuple[Any, ...]
    constructors: tuple[Any, ...]


__all__ = ["Constructor", "TypeData"]
