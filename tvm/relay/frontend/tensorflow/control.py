"""Branches, loops and function calls.

Branches and loops with constant conditions are inlined or unrolled; others become an ``If`` or a recursive function for
the virtual machine. Function calls are inlined.
"""

from __future__ import annotations

from collections.abc import Callable

from ....error import TVMError
from ....ir.prim import Any_, IntImm
from ....ir.tensor_type import TensorType
from ....ir.type import FuncType, TupleType
from ... import op as relay
from ...expr import Call, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var, const
from .graph import MOST_NODES, Called
from .lists import TensorList
from .table import MOST_STEPS, Context, host

# Dimensions that change between iterations are found iteratively: each attempt makes at least one more dynamic.
_MOST_TRIES = 8


def as_bool(ctx: Context, e: RelayExpr) -> RelayExpr:
    """Convert a condition to a bool scalar; a number is true if it is not zero."""
    e = relay.reshape(e, ()) if ctx.rank(e) else e
    return ctx.made(e if ctx.dtype(e) == "bool" else relay.not_equal(e, ctx.like(0, e)))


def _joined(a: TensorType, b: TensorType) -> TensorType:
    """Return the common type of tensors of two types; dimensions that differ become dynamic."""
    if a.dtype != b.dtype or len(a.shape) != len(b.shape):
        raise TVMError(f"a value is {a} or {b}, depending on a run-time condition; this is not supported")
    dims = [
        p if isinstance(p, IntImm) and isinstance(q, IntImm) and p.value == q.value or p is q else Any_()
        for p, q in zip(a.shape, b.shape)
    ]
    return TensorType(dims, a.dtype)


# -- branches ---------------------------------------------------------------------------------------------------------


def chosen(ctx: Context, test: RelayExpr, then: Callable[[], list], other: Callable[[], list]) -> list:
    """Return the outputs of one of two branches."""
    test = as_bool(ctx, test)
    known = ctx.value(test)
    if known is not None:
        return then() if known.reshape(-1)[0] else other()
    yes, no = then(), other()
    if len(yes) != len(no):
        raise TVMError(f"the branches have {len(yes)} and {len(no)} outputs; the numbers must be equal")
    yes, no = ([_settled(ctx, v, w) for v, w in zip(a, b)] for a, b in ((yes, no), (no, yes)))
    places = [i for i, (a, b) in enumerate(zip(yes, no)) if a is not b]
    if not places:
        return yes
    types = [_joined(ctx.type(tensor_of(yes[i])), ctx.type(tensor_of(no[i]))) for i in places]
    sides = [ctx.made(Tuple([tensor_of(v[i]) for i in places])) for v in (yes, no)]
    made = ctx.importer.given_type(If(test, *sides), TupleType(tuple(types)))
    results = list(yes)
    for k, i in enumerate(places):
        part = ctx.importer.given_type(TupleGetItem(made, k), types[k])
        results[i] = like(yes[i], part)
    return results


def _settled(ctx: Context, value, other):
    """Return a value that a run-time condition can select: a tensor, or a list as a stacked tensor."""
    if value is other:
        return value
    if isinstance(value, TensorList):
        return value.stacked(ctx)
    if not isinstance(value, RelayExpr):
        raise TVMError("a run-time condition selects a value that is not a tensor; this is not supported")
    return value


def tensor_of(value) -> RelayExpr:
    return value.stack if isinstance(value, TensorList) else value


def like(value, tensor: RelayExpr):
    """Return a tensor, or a list with this stacked tensor if ``value`` is a list."""
    return value.with_stack(tensor) if isinstance(value, TensorList) else tensor


def place(ctx: Context, test: RelayExpr, first: int) -> RelayExpr:
    """Return the index of the executed branch; ``first`` is the index of the branch for a true condition."""
    number = relay.cast(as_bool(ctx, test), "int32")
    return ctx.made(number if first else relay.subtract(const(1, "int32"), number))


# -- loops ------------------------------------------------------------------------------------------------------------


def loop(ctx: Context, states: list, test: Callable[[list], RelayExpr], step: Callable[[list], list]) -> list:
    """Return the final values of a loop. ``test`` returns the condition and ``step`` the next values."""
    start, steps, before = list(states), 0, ctx.importer.converted
    while True:
        known = ctx.value(as_bool(ctx, test(states)))
        if known is None:
            return _dynamic_loop(ctx, states, test, step)
        if not known.reshape(-1)[0]:
            return states
        if steps >= MOST_STEPS or ctx.importer.converted - before > MOST_NODES // 2:
            ctx.importer.converted = before
            return _dynamic_loop(ctx, start, test, step)
        states = [ctx.made(v) if isinstance(v, RelayExpr) else v for v in step(states)]
        if len(states) != len(start):
            raise TVMError(f"the loop body returns {len(states)} values for {len(start)} loop-carried values")
        steps += 1


def _dynamic_loop(ctx: Context, states: list, test, step) -> list:
    """Convert a loop with a run-time number of iterations."""
    states = [v.stacked(ctx) if isinstance(v, TensorList) else v for v in states]
    moving = [i for i, v in enumerate(states) if isinstance(v, (RelayExpr, TensorList))]
    for _ in range(_MOST_TRIES):
        types = [ctx.type(tensor_of(states[i])) for i in moving]
        types = [TensorType([d if isinstance(d, IntImm) else Any_() for d in t.shape], t.dtype) for t in types]
        made = _tried(ctx, states, moving, types, test, step)
        if isinstance(made, list):
            return made
        for i, start in made.restarts.items():
            states[i] = start
    raise TVMError("cannot infer the shapes of the loop-carried values")


class _Retry:
    """The result of a conversion that must be repeated with other initial values."""

    def __init__(self, restarts: dict):
        self.restarts = restarts


def _tried(ctx: Context, states: list, moving: list[int], types: list, test, step):
    importer = ctx.importer
    for _ in range(_MOST_TRIES):
        variables = [importer.local(f"carried_{k}", t) for k, t in enumerate(types)]
        inner = list(states)
        for i, v in zip(moving, variables):
            inner[i] = like(states[i], v)
        condition = as_bool(ctx, test(inner))
        results = step(inner)
        results = [v.stacked(ctx) if isinstance(v, TensorList) else v for v in results]
        fixed = [i for i, v in enumerate(states) if i not in moving and results[i] is not v]
        if fixed:
            raise TVMError(
                "a loop with a run-time number of iterations changes a value that is not a tensor; this is not "
                "supported"
            )
        restarts = {
            i: states[i].like(ctx, results[i])
            for i in moving
            if isinstance(states[i], TensorList) and states[i].differs(ctx, results[i])
        }
        if restarts:
            return _Retry(restarts)
        new = [ctx.made(tensor_of(results[i])) for i in moving]
        found = [_joined(t, ctx.type(v)) for t, v in zip(types, new)]
        if all(_same(a, b) for a, b in zip(found, types)):
            return _called(ctx, states, moving, variables, condition, new)
        types = found
    raise TVMError("cannot infer the shapes of the loop-carried values")


def _same(a: TensorType, b: TensorType) -> bool:
    return all(isinstance(p, Any_) == isinstance(q, Any_) for p, q in zip(a.shape, b.shape))


def _called(ctx: Context, states: list, moving: list[int], variables: list[Var], condition, new: list) -> list:
    """Return the call of a function that calls itself while the condition is true."""
    types = [v.type_annotation for v in variables]
    out = TupleType(tuple(types))
    function = Var("while_loop", FuncType(tuple(types), out))
    body = If(condition, Call(function, new), Tuple(variables))
    first = [tensor_of(states[i]) for i in moving]
    whole = Let(function, Function(variables, body, out), Call(function, first))
    whole = ctx.importer.given_type(whole, out)
    results = list(states)
    for k, i in enumerate(moving):
        results[i] = like(states[i], ctx.importer.given_type(TupleGetItem(whole, k), types[k]))
    return results


# -- operators --------------------------------------------------------------------------------------------------------


def _function(attrs, name: str) -> str:
    found = attrs.get(name)
    if not isinstance(found, Called):
        raise TVMError(f"the attribute '{name}' is not a function")
    return found.name


@host("PartitionedCall", "StatefulPartitionedCall")
def partitioned_call(ctx, inputs, attrs):
    return ctx.importer.call(_function(attrs, "f"), inputs, ctx.scope.depth)


@host("If", "StatelessIf")
def if_(ctx, inputs, attrs):
    sides = [_function(attrs, name) for name in ("then_branch", "else_branch")]
    calls = [lambda name=name: ctx.importer.call(name, inputs[1:], ctx.scope.depth) for name in sides]
    return chosen(ctx, inputs[0], *calls)


@host("Case", "StatelessCase")
def case(ctx, inputs, attrs):
    """Select the branch with the given index; all other indices select the last branch."""
    names = [f.name for f in attrs.get("branches", [])]
    if not names:
        raise TVMError("the attribute 'branches' is empty")
    known = ctx.value(inputs[0])

    def call(i: int) -> list:
        return ctx.importer.call(names[i], inputs[1:], ctx.scope.depth)

    if known is not None:
        at = int(known.reshape(-1)[0])
        return call(at if 0 <= at < len(names) else len(names) - 1)

    def among(i: int) -> list:
        if i == len(names) - 1:
            return call(i)
        test = ctx.made(relay.equal(inputs[0], ctx.like(i, inputs[0])))
        return chosen(ctx, test, lambda: call(i), lambda: among(i + 1))

    return among(0)


@host("While", "StatelessWhile")
def while_(ctx, inputs, attrs):
    test, body = _function(attrs, "cond"), _function(attrs, "body")
    depth = ctx.scope.depth
    return loop(
        ctx,
        inputs,
        lambda values: ctx.importer.call(test, values, depth)[0],
        lambda values: ctx.importer.call(body, values, depth),
    )


__all__ = ["chosen", "like", "loop", "place", "tensor_of", "as_bool"]
