"""Programs as records: blocks of operators over named variables."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ....error import TVMError
from .schema import LOD_TENSOR, SCHEMA, TENSOR_ARRAY, attribute, dtype_name, text

_MOST_AXES = 32


class Variable:
    """A variable that a block declares: its shape has -1 for open sizes, and is None if it is no tensor."""

    def __init__(self, proto):
        self.name = text(proto.name)
        self.persistable = proto.persistable
        self.kind = proto.type.type
        self._tensor = proto.type.lod_tensor.tensor

    @property
    def is_tensor(self) -> bool:
        return self.kind == LOD_TENSOR

    @property
    def is_array(self) -> bool:
        return self.kind == TENSOR_ARRAY

    @property
    def dtype(self) -> str:
        return dtype_name(self._tensor.data_type)

    @property
    def shape(self) -> tuple[int, ...]:
        dims = tuple(self._tensor.dims)
        if len(dims) > _MOST_AXES or any(d < -1 for d in dims):
            raise TVMError(f"the variable '{self.name}' has the shape {dims[:_MOST_AXES]}")
        return dims


class Operator:
    """An operator: variables by the name of the input or output they are given for."""

    def __init__(self, proto, place: str):
        self.proto = proto
        self.type = text(proto.type)
        self.inputs = {text(s.parameter): [text(a) for a in s.arguments] for s in proto.inputs}
        self.outputs = {text(s.parameter): [text(a) for a in s.arguments] for s in proto.outputs}
        self.place = place

    @cached_property
    def attrs(self) -> dict[str, Any]:
        found = {text(a.name): attribute(a) for a in self.proto.attrs}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def name(self) -> str:
        """How users find the operator: by what it makes."""
        for names in self.outputs.values():
            if names:
                return names[0]
        return self.place

    def reads(self) -> list[str]:
        return [name for names in self.inputs.values() for name in names]

    def writes(self) -> list[str]:
        return [name for names in self.outputs.values() for name in names]


class Block:
    """The operators of a block in the order they run, and the variables it declares."""

    def __init__(self, proto, index: int):
        self.index = index
        self.variables = {text(v.name): Variable(v) for v in proto.vars}
        self.operators = [Operator(o, f"operator {i} of block {index}") for i, o in enumerate(proto.ops)]


class Program:
    """The blocks of a model; the first is run, others are bodies of branches and loops."""

    def __init__(self, data):
        proto = SCHEMA.parse("Program", data, "the program")
        if not proto.blocks or not any(len(b.ops) for b in proto.blocks):
            raise TVMError("the program has no operators, or the file is no program of PaddlePaddle")
        self.blocks = [Block(b, i) for i, b in enumerate(proto.blocks)]

    @property
    def main(self) -> Block:
        return self.blocks[0]

    def block(self, index: int) -> Block:
        if not 0 < index < len(self.blocks):
            raise TVMError(f"there is no block {index}; the program has {len(self.blocks)}")
        return self.blocks[index]

    def persistable(self) -> list[Variable]:
        """The variables whose values lie in the files of parameters, in the order of their names."""
        found = {v.name: v for b in self.blocks for v in b.variables.values() if v.persistable and v.is_tensor}
        return [found[name] for name in sorted(found)]


__all__ = ["Block", "Operator", "Program", "Variable"]
