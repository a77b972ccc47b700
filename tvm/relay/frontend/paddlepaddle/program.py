"""The records of a program: blocks of operators over named variables."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ....error import TVMError
from .schema import LOD_TENSOR, SCHEMA, TENSOR_ARRAY, attribute, dtype_name, text

_MAX_AXES = 32


class Variable:
    """A variable declared by a block. Dynamic dimensions are -1; the shape is None if it is not a tensor."""

    def __init__(self, name: str, persistable: bool, kind: int, element: int, dims: tuple[int, ...]):
        self.name, self.persistable, self.kind = name, persistable, kind
        self._element, self._dims = element, dims

    @property
    def is_tensor(self) -> bool:
        return self.kind == LOD_TENSOR

    @property
    def is_array(self) -> bool:
        return self.kind == TENSOR_ARRAY

    @property
    def dtype(self) -> str:
        return dtype_name(self._element)

    @property
    def shape(self) -> tuple[int, ...]:
        if len(self._dims) > _MAX_AXES or any(d < -1 for d in self._dims):
            raise TVMError(f"the variable '{self.name}' has the invalid shape {self._dims[:_MAX_AXES]}")
        return self._dims


class Operator:
    """An operator. Inputs and outputs map parameter names to variables. Attributes are decoded on first access."""

    def __init__(self, kind: str, inputs: dict[str, list[str]], outputs: dict[str, list[str]], place: str, attrs: Any):
        self.type, self.inputs, self.outputs, self.place = kind, inputs, outputs, place
        self._attrs = attrs

    @cached_property
    def attrs(self) -> dict[str, Any]:
        if isinstance(self._attrs, dict):
            return self._attrs
        found = {text(a.name): attribute(a) for a in self._attrs}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def name(self) -> str:
        """The name of the operator for error messages: its first output."""
        for names in self.outputs.values():
            if names:
                return names[0]
        return self.place

    def reads(self) -> list[str]:
        return [name for names in self.inputs.values() for name in names]

    def writes(self) -> list[str]:
        return [name for names in self.outputs.values() for name in names]


class Block:
    """The operators of a block in execution order, and the variables it declares."""

    def __init__(self, index: int, variables: dict[str, Variable], operators: list[Operator]):
        self.index, self.variables, self.operators = index, variables, operators


def _slots(found) -> dict[str, list[str]]:
    return {text(s.parameter): [text(a) for a in s.arguments] for s in found}


def _block(proto, index: int) -> Block:
    variables = {}
    for v in proto.vars:
        tensor, name = v.type.lod_tensor.tensor, text(v.name)
        variables[name] = Variable(name, v.persistable, v.type.type, tensor.data_type, tuple(tensor.dims))
    operators = [
        Operator(text(o.type), _slots(o.inputs), _slots(o.outputs), f"operator {i} of block {index}", o.attrs)
        for i, o in enumerate(proto.ops)
    ]
    return Block(index, variables, operators)


class Program:
    """The blocks of a model. The first block is the main block; the others are bodies of branches and loops."""

    def __init__(self, blocks: list[Block]):
        self.blocks = blocks

    @staticmethod
    def read(data) -> Program:
        """Read a program from the bytes of a file."""
        proto = SCHEMA.parse("Program", data, "the program")
        if not proto.blocks or not any(len(b.ops) for b in proto.blocks):
            raise TVMError("the program has no operators, or the file is not a PaddlePaddle program")
        return Program([_block(b, i) for i, b in enumerate(proto.blocks)])

    @property
    def main(self) -> Block:
        return self.blocks[0]

    def block(self, index: int) -> Block:
        if not 0 < index < len(self.blocks):
            raise TVMError(f"block {index} does not exist; the program has {len(self.blocks)} blocks")
        return self.blocks[index]

    def persistable(self) -> list[Variable]:
        """Return the variables stored in parameter files, sorted by name."""
        found = {v.name: v for b in self.blocks for v in b.variables.values() if v.persistable and v.is_tensor}
        return [found[name] for name in sorted(found)]


__all__ = ["Block", "Operator", "Program", "Variable"]
