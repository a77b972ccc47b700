"""The serialized form of a factory of graph executors, which ``csrc/src/graph/factory.c`` reads."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from .params import pack_params

if TYPE_CHECKING:
    from .module import Module

TYPE_KEY = "GraphExecutorFactory"


class PackedFactory(NamedTuple):
    """The parts of a factory: the name of a model, its graph as JSON text, and its parameters by name."""

    name: str
    graph: str
    params: Mapping[str, object]

    @staticmethod
    def of_module(module: Module) -> PackedFactory:
        """Extract the parts of a graph executor factory module."""
        return PackedFactory(module["get_name"](), module["get_graph_json"](), module["get_graph_params"]())

    def head(self, params_size: int = 0) -> bytes:
        """Return the serialized name, graph and length of the parameters; the parameters follow them."""
        blocks = (self.name.encode(), self.graph.encode())
        packed = b"".join(part for block in blocks for part in (struct.pack("<Q", len(block)), block))
        return packed + struct.pack("<Q", params_size)

    def at(self, start: int) -> list[bytes | memoryview]:
        """Serialize in parts; parameter data is aligned if the serialized form starts at offset ``start`` of aligned
        memory."""
        params = list(pack_params(self.params, start + len(self.head()))) if self.params else []
        return [self.head(sum(map(len, params))), *params]


__all__ = ["TYPE_KEY", "PackedFactory"]
