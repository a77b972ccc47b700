"""Branches and loops: decided at import time where their conditions are constant, otherwise an If or a recursive
function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from ....ir.module import IRModule
from ....ir.prim import Any_, IntImm
from ....ir.tensor_type import TensorType
from ....ir.type import FuncType, TupleType
from ....ir.visit import rewrite
from ... import op as relay
from ...checked_type import typed_var, with_type
from ...expr import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var, const
from ...infer import infer_type
from ...substitute import free_vars
from ...transform import FoldConstantExpr
from ..common.context import MOST_STEPS
from ..common.incremental import tensor_type
from .importer import TorchImporter
from .table import Context, Number, Raised

# Dimensions that change between iterations are found iteratively: each attempt makes at least one more dynamic.
_MOST_TRIES = 8


def branch(importer: TorchImporter, where: str, condition, then: Callable[[], list], other: Callable[[], list]) -> list:
    """Return the outputs of one of two blocks."""
    context = Context(importer, "prim::If", where)
    if isinstance(condition, RelayExpr):
        condition = context.number(condition)
    if not isinstance(condition, Number):
        return then() if condition else other()
    taken = _unless_empty(context, condition)
    # If one branch raises an exception, it becomes a run-time check, and the other branch is the result.
    yes = _isolated(importer, "a branch", then)
    if isinstance(yes.results, Raised):
        importer.checks.append((context.infer(relay.logical_not(condition.expr)), str(yes.results)))
        return other()
    no = _isolated(importer, "a branch", other)
    if isinstance(no.results, Raised):
        importer.checks.append((condition.expr, str(no.results)))
        return _apply_effects(importer, yes, where)
    kept = {k: importer.value(k, where) for k in sorted({*yes.values, *no.values})}
    state = {p: importer.state_at(p) for p in sorted({*yes.left, *no.left})}
    count = len(yes.results)
    ways = [
        _as_tensors(context, [*c.results, *{**kept, **c.values}.values(), *{**state, **c.left}.values()])
        for c in (yes, no)
    ]
    if taken is not None and any(_rank(context, a) != _rank(context, b) for a, b in zip(*ways)):
        return then() if taken else other()
    _check(context, yes.checks, ways[0], relay.logical_not(condition.expr))
    _check(context, no.checks, ways[1], condition.expr)
    if not ways[0]:
        return []
    values = _chosen(context, condition, *(list(v) for v in zip(*(_alike(context, a, b) for a, b in zip(*ways)))))
    changes = iter(values[count:])
    effects = BlockEffects(values[:count], dict(zip(kept, changes)), dict(zip(state, changes)), [])
    return _apply_effects(importer, effects, where)


def _chosen(context: Context, condition: Number, yes: list, no: list) -> list:
    """Return expressions that select the values of one of two branches."""
    chosen = [i for i, (a, b) in enumerate(zip(yes, no)) if a is not b]
    importer = context.importer
    # Exceptions that the model raises before the branch end the run before the branch is executed.
    waiting, importer.awaited = importer.checks[importer.awaited :], len(importer.checks)
    test = checked(context, context.tensor(condition, "bool"), waiting)
    made = If(test, Tuple([_expr(yes[i]) for i in chosen]), Tuple([_expr(no[i]) for i in chosen]))
    types = [_joined_type(_expr(yes[i]), _expr(no[i])) for i in chosen]
    with_type(made, TupleType(tuple(types)))
    results = list(yes)
    for k, i in enumerate(chosen):
        results[i] = _given(made, k, types[k], yes[i])
    return results


def _apply_effects(importer: TorchImporter, course: BlockEffects, where: str) -> list:
    """Apply the changes of a block to the outer scope and return its outputs."""
    for key, value in course.values.items():
        importer.write(key, value, where)
    importer.left.update(course.left)
    importer.checks += course.checks
    return course.results


def _check(context: Context, checks: list, values: list, otherwise: RelayExpr) -> None:
    """Attach the checks of a branch to its first output, so that they are evaluated only if the branch is executed.

    The checks of a branch without outputs become checks of the model that also pass if ``otherwise`` is true.
    """
    at = next((i for i, v in enumerate(values) if isinstance(v, (RelayExpr, Number))), None)
    if at is None:
        context.importer.checks += [(context.infer(relay.logical_or(otherwise, c)), words) for c, words in checks]
        return
    value = checked(context, _expr(values[at]), checks)
    values[at] = Number(value) if isinstance(values[at], Number) else value


def checked(context: Context, value: RelayExpr, checks: list[tuple[RelayExpr, str]]) -> RelayExpr:
    """Return a tensor after run-time checks of conditions; a false condition ends the run with an error."""
    value = context.infer(value)
    for condition, words in checks:
        rows = value if context.rank(value) else relay.reshape(value, (1,))
        made = context.infer(relay.dynamic.checked(rows, condition, words))
        sizes = [context.size(value, 0), *[-1] * (context.rank(value) - 1)] if context.rank(value) else []
        value = context.sized(made, sizes) if sizes else context.infer(relay.reshape(made, ()))
    return value


def _rank(context: Context, value) -> int | None:
    return context.rank(_expr(value)) if isinstance(value, (RelayExpr, Number)) else None


def _unless_empty(context: Context, condition: Number) -> bool | None:
    """Return the value of a condition for non-empty tensors, if it only tests whether a tensor is empty.

    Some models change the rank of empty tensors; in the imported model they keep the rank of non-empty tensors.
    """

    def with_size(size: int) -> bool | None:
        def sizes(node):
            if isinstance(node, Call) and node.op == relay.shape_of.op:
                dims = [d.value if isinstance(d, IntImm) else size for d in tensor_type(node.args[0]).shape]
                return const(np.array(dims, "int64").reshape(len(dims)), node.attrs.dtype)
            return None

        asked = rewrite(condition.expr, pre=sizes)
        found = FoldConstantExpr(infer_type(asked), IRModule()) if not free_vars(asked) else None
        return bool(found.data.numpy()) if isinstance(found, Constant) else None

    nothing, *others = (with_size(size) for size in (0, 1, 2, 1000))
    return others[0] if None not in others and len(set(others)) == 1 and nothing != others[0] else None


class BlockEffects(NamedTuple):
    """The effects of a block with a run-time condition: its outputs, or the exception that it raises.

    ``values`` are the outer tensors that the block changes in place, by name; ``left`` is the state that it changes in
    attributes, by path.
    """

    results: Any
    values: dict[str, Any]
    left: dict[tuple[str, ...], Any]
    checks: list[tuple[RelayExpr, str]]


def _isolated(importer: TorchImporter, what: str, act: Callable[[], list], given: dict[str, object] | None = None):
    """Convert a block without changing the outer scope, and return its effects.

    ``given`` are the initial values of outer tensors in the block.
    """
    states, attributes = dict(importer.states), importer.attribute_changes
    left, checks, awaited = importer.left, importer.checks, importer.awaited
    importer.left, importer.checks, importer.awaited = dict(left), [], 0
    held = [(v, list(v)) for scope in importer.scopes for v in scope.values() if isinstance(v, (list, dict))]
    with importer.inner_scope(dict(given or {})) as values:
        for key in given or ():
            importer.states[key] = importer.states.get(key, 0) + 1
        try:
            results = act()
        except Raised as problem:
            results = problem
    new_left, new_checks = importer.left, importer.checks
    importer.left, importer.checks, importer.awaited = left, checks, awaited
    if importer.attribute_changes != attributes or any(
        len(now) != len(then) or any(a is not b for a, b in zip(now, then)) for now, then in held
    ):
        raise TVMError(f"changing an attribute or a list in {what} with a run-time condition is not supported")
    # Views that were recomputed in the block must be recomputed outside too.
    for key in values:
        if key in importer.views:
            importer.views[key].state = -1
    outside = {key for scope in importer.scopes for key in scope}
    changed = [key for key, state in importer.states.items() if state != states.get(key, 0) and key in outside]
    new = {path: value for path, value in new_left.items() if path not in left or left[path] is not value}
    return BlockEffects(results, {key: values[key] for key in changed if key in values}, new, new_checks)


def _expr(value) -> RelayExpr:
    return value.expr if isinstance(value, Number) else value


def _given(made: RelayExpr, index: int, kind: TensorType, like):
    part = with_type(TupleGetItem(made, index), kind)
    return Number(part) if isinstance(like, Number) else part


def _as_tensors(context: Context, values: list) -> list:
    """Convert numbers to tensors, so that a run-time condition can select between them."""
    out = []
    for v in values:
        if isinstance(v, (bool, int, float)):
            v = Number(const(v, "bool" if isinstance(v, bool) else "int64" if isinstance(v, int) else "float64"))
        out.append(context.infer(v))
    return out


def _alike(context: Context, a, b):
    if a is b or a is None and b is None:
        return a, a
    if (
        not isinstance(a, (RelayExpr, Number))
        or type(a) is not type(b)
        and not (isinstance(a, RelayExpr) and isinstance(b, RelayExpr))
    ):
        if not isinstance(a, (RelayExpr, Number)) and a == b:
            return a, a
        raise TVMError(
            "a branch with a run-time condition must return tensors or numbers of the same type in both cases"
        )
    x, y = _expr(a), _expr(b)
    if context.rank(x) != context.rank(y):
        x, y = _empty_like(context, x, y), _empty_like(context, y, x)
    if context.dtype(x) != context.dtype(y) or context.rank(x) != context.rank(y):
        raise TVMError(
            "the outputs of a branch with a run-time condition differ in type or number of dimensions: "
            f"{context.type(x)} and {context.type(y)}"
        )
    return (a, b) if isinstance(a, Number) else (x, y)


def _empty_like(context: Context, e: RelayExpr, other: RelayExpr) -> RelayExpr:
    """Return an empty tensor with the rank of another, where a model returns an empty tensor in place of it."""
    if 0 not in context.shape(e) or not context.rank(other):
        return e
    sizes = [d if isinstance(d, int) else 0 for d in context.shape(other)[1:]]
    return context.infer(const(np.zeros((0, *sizes), context.dtype(e))))


def _joined_type(a: RelayExpr, b: RelayExpr) -> TensorType:
    """Return the common type; dimensions that differ become dynamic."""
    x, y = tensor_type(a), tensor_type(b)
    dims = [
        p if isinstance(p, IntImm) and isinstance(q, IntImm) and p.value == q.value else Any_()
        for p, q in zip(x.shape, y.shape)
    ]
    return TensorType(dims, x.dtype)


def loop(importer: TorchImporter, where: str, limit, going, states: list, body: Callable[[object, list], list]) -> list:
    """Convert a loop and return the final values of its variables. ``body(step, values)`` returns the condition and new
    values.
    """
    context = Context(importer, "prim::Loop", where)
    limit, going = (context.number(v) if isinstance(v, RelayExpr) else v for v in (limit, going))
    step = 0
    while not isinstance(limit, Number) and not isinstance(going, Number):
        if step >= limit or not going:
            return states
        if step >= MOST_STEPS:
            raise TVMError(f"the loop has more than {MOST_STEPS} iterations")
        going, *states = body(step, states)
        going = context.number(going) if isinstance(going, RelayExpr) else going
        step += 1
    return _dynamic_loop(context, step, limit, going, states, body)


def _dynamic_loop(context: Context, step: int, limit, going, states: list, body) -> list:
    """Convert a loop with a run-time number of iterations to a function of the step, the condition and the values."""
    start = _as_tensors(context, [step, going, *states])
    if any(not isinstance(v, (RelayExpr, Number)) for v in start):
        raise TVMError("a loop that changes lists must have a constant number of iterations")
    importer = context.importer
    types = [tensor_type(importer.typer.typed(_expr(v))) for v in start]
    end = context.tensor(limit, "int64")
    # Outer tensors that the body changes in place are additional loop-carried values.
    count, carried = len(start), []
    for _ in range(_MOST_TRIES):
        variables = [typed_var(f"loop_{i}", t) for i, t in enumerate(types)]
        inner = [Number(v) if isinstance(s, Number) else v for v, s in zip(variables, start)]
        act = functools.partial(body, inner[0], inner[2:count])
        results, changed, left, checks = _isolated(importer, "a loop", act, dict(zip(carried, inner[count:])))
        if isinstance(results, Raised):
            raise results
        if left:
            raise TVMError("changing an attribute in a loop with a run-time number of iterations is not supported")
        more = [key for key in changed if key not in carried]
        if more:
            carried += more
            outer = _as_tensors(context, [importer.value(key, context.where) for key in more])
            start += outer
            types += [tensor_type(importer.typer.typed(v)) for v in outer]
            continue
        results = _as_tensors(context, [*results, *(changed[key] for key in carried)])
        _check(context, checks, results, const(True))
        new = [context.infer(relay.add(variables[0], const(1, "int64"))), *(_expr(v) for v in results)]
        found = [_wider(t, tensor_type(importer.typer.typed(v))) for t, v in zip(types, new)]
        if all(a is b for a, b in zip(found, types)):
            last = _called(context, variables, new, start, end)
            for key, value in zip(carried, last[count - 2 :]):
                importer.write(key, value, context.where)
            return last[: count - 2]
        types = found
    raise TVMError("cannot infer the shapes of the loop-carried values")


def _wider(have: TensorType, new: TensorType) -> TensorType:
    if have.dtype != new.dtype or len(have.shape) != len(new.shape):
        raise TVMError(f"a loop-carried value changes its type from {have} to {new}; this is not supported")
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
    with_type(whole, out)
    return [_given(whole, i, types[i], start[i]) for i in range(2, len(start))]


__all__ = ["branch", "checked", "loop"]
