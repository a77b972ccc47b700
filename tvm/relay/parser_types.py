"""The parser of types in Relay text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dtype import info
from ..ir.attrs import near_matches
from ..ir.prim import Any_, IntImm, SizeVar
from ..ir.tensor_type import TensorType
from ..ir.type import FuncType, GlobalTypeVar, IncompleteType, RelayRefType, TupleType, Type, TypeCall, TypeVar
from .parser_tokens import TokenReader


class TypeReader(TokenReader):
    """Parses types. A dimension name denotes the same variable in the whole text."""

    def __init__(self, source: str, name: str, meta: Mapping | None, types: dict[str, Type]):
        super().__init__(source, name, meta)
        self.types = types
        self.sizes: dict[str, SizeVar] = {}

    def type(self) -> Any:
        if self.accept("("):
            one_comma = self.at
            fields = self.items(")", self.type)
            single = len(fields) == 1 and self.tokens[self.at - 2].text != ","
            return fields[0] if single and one_comma else TupleType(tuple(fields))
        if self.accept("?"):
            return IncompleteType()
        token = self.look()
        name = self.need("name", "a type")
        if name == "_":
            return IncompleteType()
        if name == "fn":
            return self.function_type()
        if name == "ref":
            self.expect("(")
            value = self.type()
            self.expect(")")
            return RelayRefType(value)
        if name == "meta":
            self.at -= 1
            return self.meta_reference()
        if name == "Tensor" and self.sees("["):
            return self.tensor_type()
        if name in self.types:
            found = self.types[name]
            args = self.items("]", self.type) if self.accept("[") else []
            return TypeCall(found, tuple(args)) if args or isinstance(found, GlobalTypeVar) else found
        try:
            info(name)
        except ValueError:
            raise self.fail(
                f"'{name}' is not a type; {near_matches(name, [*self.types, 'Tensor', 'float32'])}", token.at
            ) from None
        return TensorType((), name)

    def function_type(self) -> FuncType:
        outer = dict(self.types)
        parameters = self.type_variable() if self.accept("[") else []
        self.expect("(")
        args = self.items(")", self.type)
        self.expect("->")
        result = self.type()
        self.types = outer
        return FuncType(tuple(args), result, tuple(parameters))

    def tensor_type(self) -> TensorType:
        self.expect("[")
        self.expect("(")
        shape = self.items(")", self.dimension)
        self.expect(",")
        at, dtype = self.look().at, self.need("name", "an element type")
        try:
            info(dtype)
        except ValueError as problem:
            raise self.fail(str(problem), at) from None
        self.expect("]")
        return TensorType(shape, dtype)

    def dimension(self) -> Any:
        token = self.take()
        if token.kind == "int":
            value, _, bits = token.text.partition("i")
            return IntImm("int" + bits, int(value)) if bits else int(value)
        if token.text == "?":
            return Any_()
        if token.text == "meta":
            self.at -= 1
            return self.meta_reference()
        if token.kind == "name":
            return self.sizes.setdefault(token.text, SizeVar(token.text))
        raise self.fail(f"expected a dimension, found '{token.text}'", token.at)

    def type_variable(self) -> list[TypeVar]:
        def one():
            name = self.need("name", "a type variable")
            self.types[name] = got = TypeVar(name)
            return got

        return self.items("]", one)

    def meta_reference(self) -> Any:
        start = self.look()
        self.expect("meta")
        self.expect("[")
        key = self.need("name", "a type key")
        self.expect("]")
        self.expect("[")
        index = int(self.need("int", "an index"))
        self.expect("]")
        entries = self.meta.get(key, [])
        if index >= len(entries):
            raise self.fail(
                f"meta[{key}][{index}] is not in the metadata; print with show_meta_data=True, or pass init_meta_table",
                start.at,
            )
        return entries[index]


__all__ = ["TypeReader"]
