"""Operators: one record per operator or intrinsic, found by name."""

from __future__ import annotations

from typing import Any

from ..registry import Registry
from .node import Node

OPS: Registry[Op] = Registry("operator")


class Op(Node, key="Op"):
    """An operator. ``attrs`` holds what the layers say about it: effect, type rule, fusion pattern, lowering rules."""

    name: str
    description: str = ""
    num_inputs: int = -1
    attrs: Any = None

    def __init__(self, name, description="", num_inputs=-1, attrs=None, span=None):
        self.name = name
        self.description = description
        self.num_inputs = num_inputs
        self.attrs = {} if attrs is None else attrs
        self.span = span

    @staticmethod
    def get(op_name: str) -> Op:
        got = OPS.get(op_name)
        if got is None:
            raise AttributeError(f"operator '{op_name}' is not registered")
        return got

    @staticmethod
    def list_op_names() -> list[str]:
        return OPS.names()

    def get_attr(self, attr_name: str) -> Any:
        return self.attrs.get(attr_name)

    def has_attr(self, attr_name: str) -> bool:
        return attr_name in self.attrs

    def set_attr(self, attr_name: str, value: Any, plevel: int = 10) -> None:
        self.attrs[attr_name] = value

    def reset_attr(self, attr_name: str) -> None:
        self.attrs.pop(attr_name, None)

    def __str__(self):
        return f"Op({self.name})"

    __repr__ = __str__


def register_op(name: str, description: str = "", num_inputs: int = -1, **attrs: Any) -> Op:
    """Make the operator ``name``; a name in use is refused."""
    return OPS.register(name, Op(name, description, num_inputs, attrs))


# Priorities of attributes set through register_op_attr: (operator, key) -> level.
_LEVELS: dict[tuple[str, str], int] = {}


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10):
    """Set an attribute of an operator, making the operator if it is new. Without a value: a decorator."""

    def set_value(v):
        op = OPS.get(op_name) or register_op(op_name)
        if _LEVELS.get((op_name, attr_key), -1) <= level:
            op.attrs[attr_key] = v
            _LEVELS[(op_name, attr_key)] = level
        return v

    return set_value(value) if value is not None else set_value


def register_intrin_lowering(op_name: str, target: str, *, f=None, level: int = 10):
    """How a back end turns a call of ``op_name`` into simpler expressions: ``f(call) -> expression``."""
    return register_op_attr(op_name, target + ".FLowerIntrinsic", f, level)
