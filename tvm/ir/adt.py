"""Algebraic data types: their constructors and definitions."""

from __future__ import annotations

from typing import Any

from .module import RelayExpr
from .type import Type


class Constructor(RelayExpr, key="relay.Constructor"):
    """A constructor of the data type ``belong_to``; ``tag`` numbers it among its siblings."""

    name_hint: str
    inputs: tuple
    belong_to: Any
    tag: int = -1

    def __call__(self, *args):
        if not CALL:
            raise TypeError(f"constructor {self.name_hint} can be called once tvm.relay is imported")
        return CALL[0](self, args)


# Set by relay: makes the call expression of a constructor.
CALL: list[Any] = []


class TypeData(Type, key="relay.TypeData"):
    """The definition of a data type: its name, type parameters and constructors."""

    header: Any
    type_vars: tuple
    constructors: tuple


__all__ = ["Constructor", "TypeData"]
