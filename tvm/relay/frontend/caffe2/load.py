"""Load nets from paths, bytes or messages into records."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ....error import TVMError
from .schema import FILES

# The scalar fields of an argument and its list fields.
_SINGLE, _LISTS = ("f", "i", "s", "n"), ("floats", "ints", "strings", "nets")


class Operator(NamedTuple):
    """An operator of a net. ``args`` maps argument names to numbers, bytes, lists of them, or nested nets."""

    type: str
    name: str
    inputs: list[str]
    outputs: list[str]
    args: dict[str, Any]

    @property
    def where(self) -> str:
        """The operator as error messages name it: type and name."""
        shown = self.name or (self.outputs[0] if self.outputs else "")
        return f"{self.type} '{shown}'"


class Net(NamedTuple):
    """A net: its operators in execution order, its external inputs and its outputs."""

    name: str
    operators: list[Operator]
    inputs: list[str]
    outputs: list[str]


def load(net, what: str) -> Net:
    """Load a net from a path, bytes or a message of Caffe2's own class. ``what`` names the net in error messages."""
    if isinstance(net, (str, os.PathLike)):
        path = os.fspath(net)
        try:
            with open(path, "rb") as file:
                net = file.read()
        except OSError as problem:
            raise TVMError(f"cannot read {os.path.basename(path)}: {problem.strerror}") from problem
    if hasattr(net, "SerializeToString"):
        net = net.SerializeToString()
    if not isinstance(net, (bytes, bytearray, memoryview)):
        raise TypeError(f"from_caffe2: {what} must be a NetDef, its bytes or a path, got {type(net).__name__}")
    message = FILES.parse("Net", net, what)
    if not message.op:
        raise TVMError(f"{what} has no operators, or it is not a NetDef")
    return _net(message)


def _net(message) -> Net:
    return Net(
        message.name, [_operator(o) for o in message.op], list(message.external_input), list(message.external_output)
    )


def _operator(message) -> Operator:
    args: dict[str, Any] = {}
    for arg in message.arg:
        if arg.name in args:
            raise TVMError(f"{message.type} '{message.name}' has two arguments named '{arg.name}'")
        args[arg.name] = _value(arg)
    return Operator(message.type, message.name, list(message.input), list(message.output), args)


def _value(arg):
    """Return the value of an argument; an empty argument is an empty list."""
    for field in _SINGLE:
        if arg.HasField(field):
            return _net(arg.n) if field == "n" else getattr(arg, field)
    for field in _LISTS:
        found = getattr(arg, field)
        if found:
            return list(found)
    return []


__all__ = ["Net", "Operator", "load"]
