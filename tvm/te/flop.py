"""Counting of the arithmetic operations of a computation."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..ir import prim
from ..ir.prim import Call, IntImm, IterVar, PrimExpr, ProducerLoad, Reduce, Select
from ..ir.visit import post_order
from .tensor import ComputeOp, Operation, PlaceholderOp, TensorComputeOp


class FlopCalculationError(RuntimeError):
    """The number of operations of a computation cannot be determined."""


_ARITHMETIC = tuple(
    getattr(prim, name) for name in "Add Sub Mul Div Mod FloorDiv FloorMod Max Min EQ NE LT LE GT GE And Or Not".split()
)


def _of_expression(root: PrimExpr) -> int:
    """Return the number of operations that compute one element. Index arithmetic is not counted; of two branches the
    more expensive one counts."""
    counts: dict[int, int] = {}
    for node in post_order(root):
        if isinstance(node, ProducerLoad):
            counts[id(node)] = 0
        elif isinstance(node, Reduce):
            counts[id(node)] = _of_reduce(node)
        elif isinstance(node, Select):
            counts[id(node)] = counts[id(node.condition)] + max(
                counts[id(node.true_value)], counts[id(node.false_value)]
            )
        elif isinstance(node, Call) and getattr(node.op, "name", "") == "tir.if_then_else":
            condition, *values = node.args
            counts[id(node)] = max(counts[id(a)] for a in values) + (counts[id(condition)] if _reads(condition) else 0)
        else:
            own = isinstance(node, _ARITHMETIC) or isinstance(node, Call)
            counts[id(node)] = own + sum(counts.get(id(c), 0) for c in node.children())
    return counts[id(root)]


def _reads(expression: PrimExpr) -> bool:
    """Return whether the expression reads elements of tensors. Padding conditions depend on indices alone."""
    return any(isinstance(node, ProducerLoad) for node in post_order(expression))


def _of_reduce(node: Reduce) -> int:
    points = math.prod(_length(axis) for axis in node.axis)
    return points * (_of_expression(node.combiner.result[0]) + _of_expression(node.source[0]))


def _length(axis: IterVar) -> int:
    extent = axis.dom.extent if axis.dom is not None else None
    if not isinstance(extent, IntImm):
        raise FlopCalculationError(f"the axis extent {extent} is not constant")
    return extent.value


def count_operations(ops: Iterable[Operation]) -> int:
    """Return the number of operations of all these computations. Raises a FlopCalculationError if it cannot be
    determined."""
    total = 0
    for op in ops:
        if isinstance(op, ComputeOp):
            total += math.prod(_length(a) for a in op.axis) * _of_expression(op.body[0])
        elif not isinstance(op, PlaceholderOp) and not isinstance(op, TensorComputeOp):
            raise FlopCalculationError(f"cannot count the operations of {op.name}, a {type(op).__name__}")
    return total


__all__ = ["FlopCalculationError", "count_operations"]
