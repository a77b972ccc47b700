"""Counting the operations of a computation."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..ir import prim
from ..ir.prim import Call, IntImm, IterVar, PrimExpr, ProducerLoad, Reduce, Select
from ..ir.visit import post_order
from .tensor import ComputeOp, Operation, PlaceholderOp, TensorComputeOp


class FlopCalculationError(RuntimeError):
    """The operations of a computation cannot be counted."""


_ARITHMETIC = tuple(
    getattr(prim, name)
    for name in "Add Sub Mul Div Mod FloorDiv FloorMod Max Min EQ NE LT LE GT GE And Or Not".split()
)


def _of_expression(root: PrimExpr) -> int:
    """Operations to compute one element; indexes are not counted, of two branches the longer one is."""
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
    """Whether elements of tensors are read: where a value is padded is decided by indices alone."""
    return any(isinstance(node, ProducerLoad) for node in post_order(expression))


def _of_reduce(node: Reduce) -> int:
    points = math.prod(_length(axis) for axis in node.axis)
    return points * (_of_expression(node.combiner.result[0]) + _of_expression(node.source[0]))


def _length(axis: IterVar) -> int:
    extent = axis.dom.extent if axis.dom is not None else None
    if not isinstance(extent, IntImm):
        raise FlopCalculationError(f"an axis has the length {extent}, which is not constant")
    return extent.value


def count_operations(ops: Iterable[Operation]) -> int:
    """Operations of all these computations; a FlopCalculationError where they are not known."""
    total = 0
    for op in ops:
        if isinstance(op, ComputeOp):
            total += math.prod(_length(a) for a in op.axis) * _of_expression(op.body[0])
        elif not isinstance(op, PlaceholderOp) and not isinstance(op, TensorComputeOp):
            raise FlopCalculationError(f"{op.name} is a {type(op).__name__}, whose operations are not known")
    return total


__all__ = ["FlopCalculationError", "count_operations"]
