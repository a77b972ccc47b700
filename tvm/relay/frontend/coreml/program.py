"""Convert an ML program block by block. A scope maps names to values."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from functools import partial
from typing import Any

from ....error import TVMError
from ...expr import RelayExpr
from . import control
from .load import Weights
from .table import OPERATIONS, Context, bound, constant, results
from .values import value_of

_BLOCKS = {"cond": control.cond, "while_loop": control.while_loop}
_OWN = {*_BLOCKS, "const", "classify"}


class Program:
    """The main function of an ML program."""

    def __init__(self, importer: Any, model: Any, weights: Weights):
        self.importer, self.weights = importer, weights
        wanted = model.description.defaultFunctionName or "main"
        functions = {pair.key: pair.value for pair in model.mlProgram.functions}
        if wanted not in functions:
            raise TVMError(
                f"the program has no function '{wanted}'; its functions are {', '.join(sorted(functions)) or 'none'}"
            )
        self.function = functions[wanted]
        blocks = {pair.key: pair.value for pair in self.function.block_specializations}
        if self.function.opset not in blocks:
            raise TVMError(f"the function '{wanted}' has no block for its opset '{self.function.opset}'")
        self.block = blocks[self.function.opset]

    def used(self) -> list[tuple[str, str]]:
        """Return the type and name of each operation of all blocks."""
        found, work = [], [self.block]
        while work:
            block = work.pop()
            for operation in block.operations:
                found.append((operation.type, _name(operation)))
                work += operation.blocks
        return found

    @staticmethod
    def knows(kind: str) -> bool:
        return kind in _OWN

    def run(self, inputs: Mapping[str, RelayExpr]) -> dict[str, Any]:
        """Convert the function. Return its outputs by name."""
        scope: ChainMap[str, Any] = ChainMap({})
        for argument in self.function.inputs:
            if argument.name not in inputs:
                raise TVMError(f"the function has the parameter '{argument.name}', which is not an input of the model")
            scope[argument.name] = inputs[argument.name]
        self.walk(self.block, scope)
        return {name: self.value(scope, name, "the outputs") for name in self.block.outputs}

    def walk(self, block: Any, scope: ChainMap) -> None:
        for operation in block.operations:
            self.convert(operation, scope)

    def outputs(self, block: Any, scope: ChainMap, arguments: list = ()) -> list:
        """Convert a nested block. Return its outputs."""
        inner = scope.new_child()
        if len(block.inputs) != len(arguments):
            raise TVMError(f"a block has {len(block.inputs)} inputs, but {len(arguments)} arguments are given")
        for argument, value in zip(block.inputs, arguments):
            inner[argument.name] = value
        self.walk(block, inner)
        return [self.value(inner, name, "a block") for name in block.outputs]

    def convert(self, operation: Any, scope: ChainMap) -> None:
        name = _name(operation)
        where = f"{operation.type} '{name}'"
        self.importer.count_node()
        context = Context(self.importer, where, operation, self, len(operation.outputs))
        with self.importer.at_node(where, name, partial(_in_words, operation)):
            made = self.results(context, scope)
            if len(made) != len(operation.outputs):
                raise TVMError(f"the operation has {len(made)} outputs, but the program names {len(operation.outputs)}")
            for output, value in zip(operation.outputs, made):
                scope[output.name] = context.made(value) if isinstance(value, RelayExpr) else value

    def results(self, ctx: Context, scope: ChainMap) -> list:
        operation = ctx.node
        if operation.type == "const":
            attributes = {pair.key: pair.value for pair in operation.attributes}
            if "val" not in attributes:
                raise TVMError("the constant has no value")
            return [self.constant(attributes["val"])]
        given = {pair.key: self.argument(ctx, scope, pair.value) for pair in operation.inputs}
        # Operations on compressed weights store their inputs as attributes.
        given |= {pair.key: self.constant(pair.value) for pair in operation.attributes if pair.key != "name"}
        if operation.type in _BLOCKS:
            return _BLOCKS[operation.type](ctx, scope, given)
        if operation.type == "classify":
            return [None, given.get("probabilities")][: ctx.count]
        convert = OPERATIONS.find(operation.type, 0)
        if convert is None:
            raise TVMError("the operation is not supported in this position")
        return results(convert(ctx, **bound(ctx, convert, given)))

    def argument(self, ctx: Context, scope: ChainMap, argument: Any) -> Any:
        """Return the value of an argument, or a list if it has several bindings."""
        values = [self.constant(b.value) if b.HasField("value") else self.value(scope, b.name, ctx.where)
                  for b in argument.arguments]  # fmt: skip
        return values[0] if len(values) == 1 else values

    def constant(self, value: Any) -> Any:
        found = value_of(value, self.weights)
        return self.importer.typer.infer(constant(found)) if hasattr(found, "dtype") else found

    def value(self, scope: ChainMap, name: str, where: str) -> Any:
        if name not in scope:
            raise TVMError(f"'{name}', an input of {where}, is not produced by any operation")
        return scope[name]


def _name(operation: Any) -> str:
    return operation.outputs[0].name if operation.outputs else operation.type


def _in_words(operation: Any, problem: Exception) -> str:
    if isinstance(problem, MemoryError):
        return "not enough memory to convert the operation"
    given = ", ".join(pair.key for pair in operation.inputs)
    return f"with the inputs {given}: {str(problem) or type(problem).__name__}"


__all__ = ["Program"]
