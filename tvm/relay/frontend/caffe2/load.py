"""Nets as they are handed over, as records: operators with their arguments as values of Python."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ....error import TVMError
from .schema import FILES

# The single fields of an argument, then those that are lists.
_SINGLE, _LISTS = ("f", "i", "s", "n"), ("floats", "ints", "strings", "nets")


class Operator(NamedTuple):
    """An operator of a net: ``args`` are numbers, bytes, lists of them, or inner nets."""

    type: str
    name: str
    inputs: list[str]
    outputs: list[str]
    args: dict[str, Any]

    @property
    def where(self) -> str:
        """How errors name it."""
        shown = self.name or (self.outputs[0] if self.outputs else "")
        return f"{self.type} '{shown}'"


class Net(NamedTuple):
    """Operators in the order in which they run, and the blobs that come from outside and that are results."""

    name: str
    operators: list[Operator]
    inputs: list[str]
    outputs: list[str]


def load(net, what: str) -> Net:
    """A net that is a path, bytes, or a message of Caffe2's own class; ``what`` is how errors call it."""
    if isinstance(net, (str, os.PathLike)):
        path = os.fspath(net)
        try:
            with open(path, "rb") as file:
                net = file.read()
        except OSError as problem:
            raise TVMError(f"{os.path.basename(path)} cannot be read: {problem.strerror}") from problem
    if hasattr(net, "SerializeToString"):
        net = net.SerializeToString()
    if not isinstance(net, (bytes, bytearray, memoryview)):
        raise TypeError(f"from_caffe2: {what} is a NetDef, its bytes or a path, got {type(net).__name__}")
    message = FILES.parse("Net", net, what)
    if not message.op:
        raise TVMError(f"{what} has no operators, or is no NetDef")
    return _net(message)


def _net(message) -> Net:
    return Net(message.name, [_operator(o) for o in message.op], list(message.external_input),
               list(message.external_output))


def _operator(message) -> Operator:
    args: dict[str, Any] = {}
    for arg in message.arg:
        if arg.name in args:
            raise TVMError(f"{message.type} '{message.name}' has the argument '{arg.name}' twice")
        args[arg.name] = _value(arg)
    return Operator(message.type, message.name, list(message.input), list(message.output), args)


def _value(arg):
    """What an argument holds; one with nothing in it is an empty list."""
    for field in _SINGLE:
        if arg.HasField(field):
            return _net(arg.n) if field == "n" else getattr(arg, field)
    for field in _LISTS:
        found = getattr(arg, field)
        if found:
            return list(found)
    return []


__all__ = ["Net", "Operator", "load"]
