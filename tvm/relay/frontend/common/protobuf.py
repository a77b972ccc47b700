"""Messages of protobuf out of a description of our own, so that no framework's generated code is needed.

A line of a description is a message and its fields, ``name number type``; ``*`` after the number says that a field
repeats. Maps are lists of pairs (a message with ``key 1`` and ``value 2``), which is how they are written. Fields that
an importer has no use for are left out of its description. Texts must be UTF-8, or the file is refused.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ....error import TVMError

_NUMBERS = {"double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8,
            "string": 9, "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17,
            "sint64": 18}  # fmt: skip
_MESSAGE = 11


class Schema:
    """The messages of a format.

    Every field that does not repeat knows whether it is there (``HasField``), also where it holds zero.

    Parameters
    ----------
    name : str
        The name of the format, for errors of protobuf.
    description : str
        The messages, one a line.
    oneof : tuple of str
        Messages of which at most one field is there; ``WhichOneof("value")`` tells which.
    """

    def __init__(self, name: str, description: str, oneof: tuple[str, ...] = ()):
        self.name = name
        self.description = description
        self.oneof = oneof

    @cached_property
    def messages(self) -> dict[str, Any]:
        """The classes of all messages, in a pool of their own: the framework's, if it is loaded, are others."""
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

        file = descriptor_pb2.FileDescriptorProto(name=f"{self.name}_files.proto", package="files", syntax="proto3")
        for line in self.description.strip().splitlines():
            name, _, fields = line.partition(":")
            message = file.message_type.add(name=name)
            if name in self.oneof:
                message.oneof_decl.add(name="value")
            for field in filter(None, fields.strip().split(", ")):
                self._add_field(message, *field.split(maxsplit=2))
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        names = [m.name for m in file.message_type]
        make = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
        return {name: make(pool.FindMessageTypeByName(f"files.{name}")) for name in names}

    def _add_field(self, message: Any, label: str, number: str, kind: str) -> None:
        made = message.field.add(name=label, number=int(number.rstrip("*")), label=3 if "*" in number else 1)
        made.type = _NUMBERS.get(kind, _MESSAGE)
        if made.type == _MESSAGE:
            made.type_name = f".files.{kind}"
        if message.name in self.oneof:
            made.oneof_index = 0
        elif "*" not in number:
            # The group of one field is how protobuf writes down that a field knows whether it is there.
            made.proto3_optional, made.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{label}")

    def parse(self, name: str, data: Any, what: str) -> Any:
        """A message out of its bytes; ``what`` is how errors call it."""
        from google.protobuf.message import DecodeError

        found = self.messages[name]()
        try:
            found.ParseFromString(bytes(data))
        except (DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise TVMError(f"{what} is damaged, or none: {problem}") from problem
        return found


__all__ = ["Schema"]
