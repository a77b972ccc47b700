"""Incremental type inference and constant folding of a graph under construction; each node is visited once.

Converters need shapes at every node. Inferring the whole graph of a value each time would take quadratic time, so types
are stored in the nodes, and only new nodes are visited. Small constant expressions are folded immediately because other
nodes need their values; large ones are folded later, or when a converter needs their value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ....error import DiagnosticError, TVMError
from ....ir.op import Op
from ....ir.prim import Any_, IntImm
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType, Type, TypeCall
from ....ir.visit import post_order
from ...checked_type import with_derived_type, with_type
from ...evaluate import evaluate_call
from ...expr import Call, Constant, RelayExpr, Tuple, TupleGetItem, TupleWrapper, Var
from ...infer import infer_type
from ...size_values import SizeValues

# Maximum number of elements of constants that are folded during the import.
SMALL = 4096
# Maximum number of elements of a tensor: current machines have 47-bit virtual addresses.
MOST_ADDRESSED = 1 << 47


def as_tensor(value) -> RelayExpr:
    return value.astuple() if isinstance(value, TupleWrapper) else value


class IncrementalTyper:
    """Infers types of, and folds, new expressions. ``params`` are the values of variables that are weights."""

    def __init__(self, params: Mapping[str, Any]):
        self.params = params
        # Keep the nodes alive so that their ids are not reused.
        self.done: dict[int, tuple[RelayExpr, RelayExpr]] = {}
        self.arrays: dict[int, tuple[RelayExpr, Any]] = {}
        # Variables of functions in the graph, and the values of those that have one outside the function.
        self.locals: set[Var] = set()
        self.stands_for: dict[int, tuple[Var, RelayExpr]] = {}
        # Values that are computed from dynamic dimensions.
        self.sizes = SizeValues()

    def infer(self, value) -> RelayExpr:
        """Infer the type of a value and fold its small constant parts."""
        root = as_tensor(value)
        for node in post_order(root, self.done, _operands):
            new = node.map_children(lambda c: self.done[id(c)][1] if id(c) in self.done else c)
            set_type(new)
            new = self._folded(new)
            self.done[id(node)] = (node, new)
            self.done[id(new)] = (new, new)
        return self.done[id(root)][1]

    def typed(self, e: RelayExpr) -> RelayExpr:
        """Infer the types of all nodes of an expression."""
        if e.checked_type_ is None:
            for node in post_order(e, operands=_untyped_operands):
                set_type(node)
        return e

    def array(self, e: RelayExpr):
        """Return the value of an expression of constants and weights; None if it depends on inputs."""
        if isinstance(e, Constant):
            return e.data.numpy()
        self.typed(e)
        for node in post_order(e, self.arrays, _operands):
            got = self._value(node)
            if got is None:
                return None
            self.arrays[id(node)] = (node, got)
        return self.arrays[id(e)][1]

    def _value(self, node: RelayExpr):
        if isinstance(node, Constant):
            return node.data.numpy()
        if isinstance(node, Var) and node in self.locals:
            return self.array(self.stands_for[id(node)][1]) if id(node) in self.stands_for else None
        if isinstance(node, Var):
            weight = self.params.get(node.name_hint)
            return None if weight is None else weight.numpy()
        if isinstance(node, Tuple):
            return [self.arrays[id(f)][1] for f in node.fields]
        if isinstance(node, TupleGetItem):
            return self.arrays[id(node.tuple_value)][1][node.index]
        if not _computable(node):
            return None
        arrays = []
        for a in node.args:
            got = self.arrays[id(a)][1]
            arrays += got if isinstance(got, list) else [got]
        return evaluate_call(node, arrays)

    def _folded(self, node: RelayExpr) -> RelayExpr:
        if type(node) is TupleGetItem and isinstance(node.tuple_value, Tuple):
            return node.tuple_value.fields[node.index]
        if not _computable(node) or not _small(node.checked_type_):
            return node
        arrays = []
        for a in node.args:
            for part in a.fields if isinstance(a, Tuple) else (a,):
                if not isinstance(part, Constant):
                    return node
                arrays.append(part.data.numpy())
        result = evaluate_call(node, arrays)
        if isinstance(result, list):
            out = Tuple([Constant(r) for r in result])
            set_type(out)
            return out
        return Constant(result)


def _operands(node: RelayExpr) -> list:
    if isinstance(node, Call) and isinstance(node.op, Op):
        return list(node.args)
    if isinstance(node, (Tuple, TupleGetItem)):
        return node.children()
    return []


def _untyped_operands(node: RelayExpr) -> list:
    return [operand for operand in _operands(node) if operand.checked_type_ is None]


def _computable(node: RelayExpr) -> bool:
    if type(node) is not Call or not isinstance(node.op, Op):
        return False
    facts = node.op.attrs
    return facts.get("compute") is not None and not facts.get("random") and bool(node.args)


def _small(t) -> bool:
    if isinstance(t, TupleType):
        return all(_small(f) for f in t.fields)
    total = 1
    for d in t.shape:
        total *= getattr(d, "value", 1 << 40)
    return total <= SMALL


def set_type(node: RelayExpr) -> None:
    """Infer the type of a node whose operands have types."""
    if node.checked_type_ is not None:
        return
    if isinstance(node, Var):
        with_type(node, node.type_annotation)
    elif isinstance(node, Tuple):
        with_derived_type(node)
    elif isinstance(node, TupleGetItem) and isinstance(node.tuple_value.checked_type_, TupleType):
        with_derived_type(node)
    elif isinstance(node, Call) and isinstance(node.op, Op):
        if node.op.attrs.get("type_rule") is None:
            raise TVMError(f"operator {node.op.name} has no type relation")
        try:
            with_derived_type(node)
        except DiagnosticError:
            raise
        except (TypeError, ValueError, IndexError) as problem:
            shown = ", ".join(str(a.checked_type_) for a in node.args)
            raise TVMError(f"{node.op.name} of ({shown}): {problem}") from problem
    else:
        infer_type(node)
    _check_size(node.checked_type_)


def _check_size(t) -> None:
    """Reject a tensor that exceeds the address space: its shape is invalid or malicious."""
    if isinstance(t, TensorType):
        count = math.prod(max(getattr(d, "value", 1), 0) for d in t.shape)
        if count > MOST_ADDRESSED:
            shown = ", ".join(str(d) for d in t.shape)
            raise TVMError(f"the output shape ({shown}) exceeds the address space")


def tensor_type(e: RelayExpr) -> TensorType:
    if not isinstance(e.checked_type_, TensorType):
        raise TVMError(f"expected a tensor, got {e.checked_type_}")
    return e.checked_type_


def opened(t: Type) -> Type:
    """Return the type with all dimensions dynamic that are not integers."""
    if isinstance(t, TensorType):
        return TensorType([d if isinstance(d, IntImm) else Any_() for d in t.shape], t.dtype)
    if isinstance(t, TupleType):
        return TupleType(tuple(map(opened, t.fields)))
    return TypeCall(t.func, tuple(map(opened, t.args))) if isinstance(t, TypeCall) else t


__all__ = ["SMALL", "IncrementalTyper", "as_tensor", "opened", "set_type", "tensor_type"]
