"""Parsing of protobuf messages by schemas of this project, which needs no generated code of a framework.

A line of a schema describes a message and its fields, ``name number type``; ``*`` after the number marks a repeated
field. Maps are lists of pairs (a message with ``key 1`` and ``value 2``), as in the wire format. Schemas omit fields
that an importer does not use. Strings must be valid UTF-8; otherwise the file is rejected.
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

    Presence of each field that is not repeated is recorded (``HasField``), also if its value is zero.

    Parameters
    ----------
    name : str
        The name of the format, for protobuf's error messages.
    description : str
        The messages, one per line.
    oneof : tuple of str
        Messages of which at most one field is present; ``WhichOneof("value")`` returns its name.
    """

    def __init__(self, name: str, description: str, oneof: tuple[str, ...] = ()):
        self.name = name
        self.description = description
        self.oneof = oneof

    @cached_property
    def messages(self) -> dict[str, Any]:
        """Return the classes of all messages, in a separate descriptor pool: those of a loaded framework are different
        classes.
        """
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
            # A oneof of a single field is the encoding of a field with presence.
            made.proto3_optional, made.oneof_index = True, len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{label}")

    def parse(self, name: str, data: Any, what: str) -> Any:
        """Parse a message from bytes; ``what`` describes it in error messages."""
        from google.protobuf.message import DecodeError

        found = self.messages[name]()
        try:
            found.ParseFromString(bytes(data))
        except (DecodeError, UnicodeDecodeError, RecursionError) as problem:
            raise TVMError(f"cannot parse {what}: the data is damaged or has another format: {problem}") from problem
        return found


__all__ = ["Schema"]
