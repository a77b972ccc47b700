"""Branches and loops: written out where their course is known, otherwise an If or a function that calls itself."""

from __future__ import annotations

from collections.abc import Callable

from ....error import TVMError
from ....ir.prim import Any_, IntImm
from ....ir.tensor_type import TensorType
from ....ir.type import FuncType, TupleType
from ... import op as relay
from ...expr import Call, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var, const
from ..common.context import MOST_STEPS
from ..common.incremental import tensor_type
from .importer import TorchImporter
from .table import Context, Number

# Sizes that change from step to step are found by trying: each try opens at least one more.
_MOST_TRIES = 8


def branch(importer: TorchImporter, where: str, condition, then: Callable[[], list], other: Callable[[], list]) -> list:
    """The results of one of two blocks."""
    context = Context(importer, "prim::If", where)
    if isinstance(condition, RelayExpr):
        condition = context.number(condition)
    if not isinstance(condition, Number):
        return then() if condition else other()
    before = dict(importer.states)
    yes, no = _as_tensors(context, then()), _as_tensors(context, other())
    if importer.states != before:
        raise TVMError("a tensor is changed in place in a branch that data decides on; this is not supported")
    if not yes:
        return []
    yes, no = (list(v) for v in zip(*(_alike(context, a, b) for a, b in zip(yes, no))))
    chosen = [i for i, (a, b) in enumerate(zip(yes, no)) if a is not b]
    made = If(context.tensor(condition, "bool"), Tuple([_expr(yes[i]) for i in chosen]),
              Tuple([_expr(no[i]) for i in chosen]))
    types = [_joined_type(_expr(yes[i]), _expr(no[i])) for i in chosen]
    made.checked_type_ = TupleType(tuple(types))
    results = list(yes)
    for k, i in enumerate(chosen):
        results[i] = _given(made, k, types[k], yes[i])
    return results


def _expr(value) -> RelayExpr:
    return value.expr if isinstance(value, Number) else value


def _given(made: RelayExpr, index: int, kind: TensorType, like):
    part = TupleGetItem(made, index)
    part.checked_type_ = kind
    return Number(part) if isinstance(like, Number) else part


def _as_tensors(context: Context, values: list) -> list:
    """Numbers as tensors, so that data can choose between them."""
    out = []
    for v in values:
        if isinstance(v, (bool, int, float)):
            v = Number(const(v, "bool" if isinstance(v, bool) else "int64" if isinstance(v, int) else "float64"))
        out.append(context.infer(v))
    return out


def _alike(context: Context, a, b):
    if a is b or a is None and b is None:
        return a, a
    if not isinstance(a, (RelayExpr, Number)) or type(a) is not type(b) and not (
            isinstance(a, RelayExpr) and isinstance(b, RelayExpr)):
        if not isinstance(a, (RelayExpr, Number)) and a == b:
            return a, a
        raise TVMError("data decides on a branch whose results are no tensors of one kind; this is not supported")
    x, y = _expr(a), _expr(b)
    if context.dtype(x) != context.dtype(y) or context.rank(x) != context.rank(y):
        raise TVMError("data decides on a branch whose results differ in type or number of dimensions")
    return a, b


def _joined_type(a: RelayExpr, b: RelayExpr) -> TensorType:
    """The type of both: sizes that differ are known when the model runs."""
    x, y = tensor_type(a), tensor_type(b)
    dims = [p if isinstance(p, IntImm) and isinstance(q, IntImm) and p.value == q.value else Any_()
            for p, q in zip(x.shape, y.shape)]
    return TensorType(dims, x.dtype)


def loop(importer: TorchImporter, where: str, limit, going, states: list, body: Callable[[object, list], list]) -> list:
    """The last values of a loop's variables. ``body(step, values)`` gives whether to go on, and the new values."""
    context = Context(importer, "prim::Loop", where)
    limit, going = (context.number(v) if isinstance(v, RelayExpr) else v for v in (limit, going))
    step = 0
    while not isinstance(limit, Number) and not isinstance(going, Number):
        if step >= limit or not going:
            return states
        if step >= MOST_STEPS:
            raise TVMError(f"the loop takes more than {MOST_STEPS} steps")
        going, *states = body(step, states)
        going = context.number(going) if isinstance(going, RelayExpr) else going
        step += 1
    return _late_loop(context, step, limit, going, states, body)


def _late_loop(context: Context, step: int, limit, going, states: list, body) -> list:
    """A loop whose number of steps data decides: a function of the step, whether to go on, and the values."""
    start = _as_tensors(context, [step, going, *states])
    if any(not isinstance(v, (RelayExpr, Number)) for v in start):
        raise TVMError("data decides on the number of steps of a loop that changes lists; this is not supported")
    types = [tensor_type(context.importer.typer.typed(_expr(v))) for v in start]
    end = context.tensor(limit, "int64")
    for _ in range(_MOST_TRIES):
        variables = [Var(f"loop_{i}", t) for i, t in enumerate(types)]
        for v in variables:
            v.checked_type_ = v.type_annotation
        inner = [Number(v) if isinstance(s, Number) else v for v, s in zip(variables, start)]
        before = dict(context.importer.states)
        results = _as_tensors(context, body(inner[0], inner[2:]))
        if context.importer.states != before:
            raise TVMError("a tensor is changed in place in a loop whose steps data decides on; this is not supported")
        new = [context.infer(relay.add(variables[0], const(1, "int64"))), *(_expr(v) for v in results)]
        found = [_wider(t, tensor_type(context.importer.typer.typed(v))) for t, v in zip(types, new)]
        if all(a is b for a, b in zip(found, types)):
            return _called(context, variables, new, start, end)
        types = found
    raise TVMError("the sizes of a loop's values could not be found")


def _wider(have: TensorType, new: TensorType) -> TensorType:
    if have.dtype != new.dtype or len(have.shape) != len(new.shape):
        raise TVMError(f"a value of a loop changes from {have} to {new}; this is not supported")
    dims = list(have.shape)
    changed = False
    for i, (p, q) in enumerate(zip(have.shape, new.shape)):
        if not isinstance(p, Any_) and not (isinstance(p, IntImm) and isinstance(q, IntImm) and p.value == q.value):
            dims[i], changed = Any_(), True
    return TensorType(dims, have.dtype) if changed else have


def _called(context: Context, variables: list[Var], new: list, start: list, end: RelayExpr) -> list:
    types = [v.type_annotation for v in variables]
    out = TupleType(tuple(types))
    function = Var("while_loop", FuncType(tuple(types), out))
    goes = relay.logical_and(relay.less(variables[0], end), context.tensor(variables[1], "bool"))
    body = If(goes, Call(function, new), Tuple(variables))
    whole = Let(function, Function(variables, body, out), Call(function, [_expr(v) for v in start]))
    whole.checked_type_ = out
    return [_given(whole, i, types[i], start[i]) for i in range(2, len(start))]


__all__ = ["branch", "loop"]
