"""Type inference and constant folding of a graph while it is built, each node visited once.

Converters ask for shapes at every node. Inferring the whole graph behind a value each time would be quadratic, so
types are kept on the nodes, and only what a converter has just built is visited. Small results of constants are
computed at once (other nodes need their numbers); large ones wait for constant folding or until they are asked for.
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

# Results of constants with at most this many elements are computed while importing.
SMALL = 4096
# Elements of one tensor: addresses of the machines in use have 47 bits.
MOST_ADDRESSED = 1 << 47


def as_tensor(value) -> RelayExpr:
    return value.astuple() if isinstance(value, TupleWrapper) else value


class IncrementalTyper:
    """Types and folds what converters build. ``params`` are values of variables that stand for weights."""

    def __init__(self, params: Mapping[str, Any]):
        self.params = params
        # The nodes are held so that an id is not used again.
        self.done: dict[int, tuple[RelayExpr, RelayExpr]] = {}
        self.arrays: dict[int, tuple[RelayExpr, Any]] = {}
        # Variables of functions inside the graph, and what those stand for that have a value from around them.
        self.locals: set[Var] = set()
        self.stands_for: dict[int, tuple[Var, RelayExpr]] = {}
        # Values that follow from sizes which are known only when the model runs.
        self.sizes = SizeValues()

    def infer(self, value) -> RelayExpr:
        """The value with a type, its small constant parts computed."""
        root = as_tensor(value)
        for node in post_order(root, self.done, _operands):
            new = node.map_children(lambda c: self.done[id(c)][1] if id(c) in self.done else c)
            set_type(new)
            new = self._folded(new)
            self.done[id(node)] = (node, new)
            self.done[id(new)] = (new, new)
        return self.done[id(root)][1]

    def typed(self, e: RelayExpr) -> RelayExpr:
        """The expression with types on all its nodes."""
        if e.checked_type_ is None:
            for node in post_order(e, operands=_untyped_operands):
                set_type(node)
        return e

    def array(self, e: RelayExpr):
        """The value of an expression of constants and weights; None if it depends on inputs."""
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
    """The type of a node whose operands have theirs."""
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
            raise TVMError(f"operator {node.op.name} has no type rule")
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
    """Refuse a tensor that no machine can hold; its size is a mistake of the model, or an attack."""
    if isinstance(t, TensorType):
        count = math.prod(max(getattr(d, "value", 1), 0) for d in t.shape)
        if count > MOST_ADDRESSED:
            shown = ", ".join(str(d) for d in t.shape)
            raise TVMError(f"a result would have the shape ({shown}), more than can be addressed")


def tensor_type(e: RelayExpr) -> TensorType:
    if not isinstance(e.checked_type_, TensorType):
        raise TVMError(f"a tensor is wanted, got {e.checked_type_}")
    return e.checked_type_


def opened(t: Type) -> Type:
    """The type with all sizes unknown that are no numbers."""
    if isinstance(t, TensorType):
        return TensorType([d if isinstance(d, IntImm) else Any_() for d in t.shape], t.dtype)
    if isinstance(t, TupleType):
        return TupleType(tuple(map(opened, t.fields)))
    return TypeCall(t.func, tuple(map(opened, t.args))) if isinstance(t, TypeCall) else t


__all__ = ["SMALL", "IncrementalTyper", "as_tensor", "opened", "set_type", "tensor_type"]
