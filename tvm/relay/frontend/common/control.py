"""Run-time branches and loops over tensors: Relay's ``If`` and recursive functions.

Values that a branch or a loop body uses are passed as arguments, so that functions capture nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from ....error import TVMError
from ....ir.prim import Any_
from ....ir.structural import structural_equal
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType
from ...expr import Call, Function, If, RelayExpr, Tuple, TupleGetItem, Var
from .importer import GraphImporter
from .incremental import opened, tensor_type


def joined(a: TensorType, b: TensorType) -> TensorType:
    """Return the common type of tensors of two types; dimensions that differ become dynamic. Return ``a`` itself if
    equal.
    """
    if a.dtype != b.dtype or len(a.shape) != len(b.shape):
        raise TVMError(f"a value is {a} or {b}, depending on a run-time condition; element types and numbers of "
                       "dimensions must be the same")  # fmt: skip
    if all(isinstance(x, Any_) or structural_equal(x, y) for x, y in zip(a.shape, b.shape)):
        return a
    return TensorType([x if structural_equal(x, y) else Any_() for x, y in zip(a.shape, b.shape)], a.dtype)


def branched(importer: GraphImporter, condition: RelayExpr, yes: list, no: list) -> list[RelayExpr]:
    """Return, for each pair of tensors, an expression that selects one of them by a scalar run-time condition."""
    pairs = [(a, b) for a, b in zip(yes, no) if a is not b]
    if not pairs:
        return list(yes)
    types = [joined(opened(tensor_type(a)), opened(tensor_type(b))) for a, b in pairs]
    sides = [importer.typer.infer(Tuple([pair[side] for pair in pairs])) for side in (0, 1)]
    made = importer.given_type(If(condition, *sides), TupleType(tuple(types)))
    found = iter(_fields(importer, made, types))
    return [a if a is b else next(found) for a, b in zip(yes, no)]


def repeated(
    importer: GraphImporter, name: str, states: list, step: Callable[[list[Var]], tuple[RelayExpr, list]]
) -> list[RelayExpr]:
    """Build a loop and return its final carried tensors.

    ``step`` converts the condition and the body for the carried tensors; it is called again if the body changes their
    shapes.
    """
    types = [opened(tensor_type(s)) for s in states]
    while True:
        variables = [importer.local(f"state{k}", t) for k, t in enumerate(types)]
        going, after = step(variables)
        found = [joined(t, opened(tensor_type(s))) for t, s in zip(types, after)]
        if all(a is b for a, b in zip(found, types)):
            break
        types = found
    result = TupleType(tuple(types))
    function = importer.new_function(name)
    again = importer.given_type(Call(function, tuple(after)), result)
    end = importer.given_type(Tuple(variables), result)
    body = importer.given_type(If(going, again, end), result)
    importer.module[function] = Function(variables, body, result)
    return _fields(importer, importer.given_type(Call(function, tuple(states)), result), types)


def _fields(importer: GraphImporter, made: RelayExpr, types: list[TensorType]) -> list[RelayExpr]:
    return [importer.given_type(TupleGetItem(made, i), t) for i, t in enumerate(types)]


__all__ = ["branched", "joined", "repeated"]
