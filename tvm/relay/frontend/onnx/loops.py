"""Run-time branches and loops: Relay's ``If`` and recursive functions.

A loop is a function of the iteration number, the loop condition, the carried values, the outputs collected so far, and
the values that the body captures from outer scopes. It ends with a call of itself, which the virtual machine executes
as a tail call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....error import TVMError
from ....ir.prim import Any_
from ....ir.tensor_type import TensorType
from ....ir.type import TupleType, Type
from ... import op as relay
from ...expr import Call, Constant, Function, If, RelayExpr, Tuple, TupleGetItem, const
from ..common.importer import ClosedScope
from .check import node_name
from .values import Choice, Nothing, Sequence, is_tensor, joined_type, opened, same_type

BOOL = TensorType((), "bool")
INT64 = TensorType((), "int64")


def scalar(ctx, value: RelayExpr, dtype: str) -> RelayExpr:
    """Return a tensor of one element as a scalar."""
    value = relay.reshape(value, ()) if ctx.rank(value) else value
    value = value if ctx.dtype(value) == dtype else relay.cast(value, dtype)
    return ctx.importer.typer.infer(value)


# -- branches -----------------------------------------------------------------------------------------------------


def chosen(ctx, condition: RelayExpr, yes: list, no: list) -> list:
    """Return, for each pair of values, an expression that selects one of them by a run-time condition."""
    importer = ctx.importer
    pairs: list[tuple[RelayExpr, RelayExpr, Type]] = []
    made = [_plan(ctx, condition, a, b, pairs) for a, b in zip(yes, no)]
    if not pairs:
        results: list[RelayExpr] = []
    elif len(pairs) == 1:
        results = [importer.given_type(If(condition, pairs[0][0], pairs[0][1]), pairs[0][2])]
    else:
        t = TupleType(tuple(p[2] for p in pairs))
        sides = [importer.typer.infer(Tuple([p[side] for p in pairs])) for side in (0, 1)]
        both = importer.given_type(If(condition, *sides), t)
        results = [importer.given_type(TupleGetItem(both, i), p[2]) for i, p in enumerate(pairs)]
    return [finish(results) for finish in made]


def _plan(ctx, condition: RelayExpr, a, b, pairs: list) -> Callable[[list], Any]:
    """Add the values that the branch must return to ``pairs``; return a function that builds the output from its
    results.
    """
    if a is b:
        return lambda results: a
    if isinstance(a, Sequence) and isinstance(b, Sequence) and len(a.items) == len(b.items):
        parts = [_plan(ctx, condition, x, y, pairs) for x, y in zip(a.items, b.items)]
        return lambda results: Sequence(tuple(p(results) for p in parts))
    if isinstance(a, Nothing) and isinstance(b, Nothing):
        return lambda results: Nothing(joined_type(a.type, b.type))
    if a is None or b is None:
        raise TVMError("the condition is computed at run time, but one of the branches omits an output")
    if isinstance(a, Choice) or isinstance(b, Choice) or _other_rank(ctx, a, b):
        return lambda results: Choice(condition, a, b)
    lists = ctx.importer.lists
    t = joined_type(lists.type_of(a), lists.type_of(b))
    index = len(pairs)
    pairs.append((lists.expression(a, t), lists.expression(b, t), t))
    return lambda results: results[index]


def _other_rank(ctx, a, b) -> bool:
    types = [ctx.importer.lists.type_of(v) for v in (a, b)]
    return all(isinstance(t, TensorType) for t in types) and len(types[0].shape) != len(types[1].shape)


# -- values whose rank a condition determines -----------------------------------------------------------------------


def first_choice(values: list) -> Choice | None:
    """Return the first ``Choice`` among the inputs of an operator, or None."""
    return next((v for v in values if isinstance(v, Choice)), None)


def resolved(value, condition: RelayExpr, side: int):
    """Return the value for a condition that is true (``side`` 1) or false (2)."""
    while isinstance(value, Choice) and value.condition is condition:
        value = value[side]
    return value


def convert_both_sides(ctx, choice: Choice, values: list, convert: Callable[[list], list]) -> list:
    """Convert an operator for both values of a ``Choice`` among its inputs.

    If the conversion fails for one of the values, the run ends with an error in that case.
    """
    sides: list[Any] = []
    for side in (1, 2):
        try:
            sides.append(convert([resolved(v, choice.condition, side) for v in values]))
        except TVMError as problem:
            sides.append(problem)
    if all(isinstance(s, TVMError) for s in sides):
        raise sides[0]
    if any(isinstance(s, TVMError) for s in sides):
        return [_checked(ctx, choice.condition, v, isinstance(sides[1], TVMError))
                for v in next(s for s in sides if not isinstance(s, TVMError))]  # fmt: skip
    return [_merged(ctx, choice.condition, a, b) for a, b in zip(*sides)]


def _checked(ctx, condition: RelayExpr, value, wanted: bool):
    """Return the value; the run ends with an error if the condition does not equal ``wanted``."""
    if value is None or isinstance(value, (Constant, Nothing)):
        return value
    if isinstance(value, Sequence):
        return Sequence(tuple(_checked(ctx, condition, v, wanted) for v in value.items))
    if isinstance(value, Choice):
        return Choice(value.condition, *(_checked(ctx, condition, v, wanted) for v in value[1:]))
    t = ctx.importer.lists.type_of(value)
    sides = [value, ctx.importer.lists.never(t, f"{ctx.where} cannot take the rank")]
    return ctx.importer.given_type(If(condition, *(sides if wanted else sides[::-1])), t)


def _merged(ctx, condition: RelayExpr, a, b):
    """Merge both values into one expression if they have the same type. Constants are kept in a ``Choice``."""
    if a is None or b is None:
        return None
    if any(isinstance(v, (Choice, Constant, Nothing, Sequence)) for v in (a, b)):
        return a if a is b else Choice(condition, a, b)
    types = [ctx.importer.lists.type_of(v) for v in (a, b)]
    return chosen(ctx, condition, [a], [b])[0] if same_type(*types) else Choice(condition, a, b)


def ranks_of(ctx, value) -> set[int]:
    """Return the possible numbers of dimensions of a value; -1 stands for a value that is not a tensor."""
    if isinstance(value, Choice):
        return ranks_of(ctx, value.yes) | ranks_of(ctx, value.no)
    return {ctx.rank(value) if is_tensor(value) else -1}


def of_rank(ctx, value, rank: int):
    """Narrow a ``Choice`` to the declared rank; the run ends with an error for other ranks."""
    if not isinstance(value, Choice):
        return value
    yes, no = of_rank(ctx, value.yes, rank), of_rank(ctx, value.no, rank)
    fits = [isinstance(v, RelayExpr) and ctx.rank(v) == rank for v in (yes, no)]
    if all(fits):
        return chosen(ctx, value.condition, [yes], [no])[0]
    return _checked(ctx, value.condition, yes if fits[0] else no, fits[0]) if any(fits) else value


# -- loops --------------------------------------------------------------------------------------------------------


class Step:
    """The outputs of a loop iteration: the loop condition (None: always true), the carried values and the collected
    values.
    """

    def __init__(self, going: RelayExpr | None, states: list, rows: list):
        self.going, self.states, self.rows = going, states, rows


def repeated(
    ctx,
    count: RelayExpr | None,
    going: RelayExpr | None,
    states: list,
    step: Callable[[RelayExpr, list], Step],
) -> tuple[list, list[RelayExpr]]:
    """Build a loop of ``count`` iterations (None: no limit) that runs while ``going`` is true.

    Return the final carried values, and the collected values stacked along a new first axis. ``step`` converts the body
    for an iteration number and carried values; it is called again if the body changes the shapes of the carried values.
    """
    importer, lists = ctx.importer, ctx.importer.lists
    types = [opened(lists.type_of(s)) for s in states]
    while True:
        scope = ClosedScope()
        with importer.inner_scope(scope):
            number, limit = importer.local("step", INT64), importer.local("count", INT64)
            importer.counters.add(number)
            variables = [importer.local(f"state{k}", t) for k, t in enumerate(types)]
            done = step(number, variables)
        after = [joined_type(t, lists.type_of(s)) for t, s in zip(types, done.states)]
        if all(map(same_type, types, after)):
            after = [lists.settled(t) for t in types]
            if all(map(same_type, types, after)):
                break
        types = after
    function = _Loop(ctx, scope, number, limit if count is not None else None, variables, done)
    return function.called(count, going, states)


class _Loop:
    """The Relay function of a loop whose body has been converted."""

    def __init__(self, ctx, scope: ClosedScope, number, limit, variables: list, done: Step):
        self.importer, self.lists = ctx.importer, ctx.importer.lists
        self.scope, self.limit = scope, limit
        self.types = [v.type_annotation for v in variables]
        self.parts = [self.row_type(r) for r in done.rows]
        self.collected = [self.importer.local(f"collected{k}", self.lists.list_of(t)) for k, t in enumerate(self.parts)]
        self.name = self.importer.new_function(f"loop_{node_name(ctx.node)}")
        self.define(self.importer.local("on", BOOL), number, variables, done)

    def row_type(self, row: RelayExpr) -> TensorType:
        """Return the type of a collected output: the values of all iterations joined along a new first axis."""
        t = self.lists.type_of(row)
        if not isinstance(t, TensorType):
            raise TVMError("a scan output of a loop must be a tensor, not a sequence or optional")
        return TensorType([Any_(), *t.shape], t.dtype)

    def define(self, on, number, variables: list, done: Step) -> None:
        importer, lists = self.importer, self.lists
        captured = [v for _, v in self.scope.captured.values()]
        limits = [] if self.limit is None else [self.limit]
        params = [on, number, *variables, *self.collected, *limits, *captured]
        self.result = TupleType((*self.types, *(c.checked_type_ for c in self.collected)))
        following = importer.typer.infer(relay.add(number, const(1, "int64")))
        states = [lists.expression(s, t) for s, t in zip(done.states, self.types)]
        rows = [
            lists.call("Cons", [importer.typer.infer(relay.expand_dims(r, 0)), c], c.checked_type_)
            for r, c in zip(done.rows, self.collected)
        ]
        again = [self.test(following, self.limit, done.going), following, *states, *rows, *limits, *captured]
        repeat = importer.given_type(Call(self.name, tuple(again)), self.result)
        end = importer.given_type(Tuple([*variables, *self.collected]), self.result)
        body = importer.given_type(If(on, repeat, end), self.result)
        importer.module[self.name] = Function(params, body, self.result)

    def test(self, number, limit, going) -> RelayExpr:
        """Return the condition under which the iteration with this number is executed."""
        infer = self.importer.typer.infer
        below = None if limit is None else infer(relay.less(number, limit))
        if going is None or isinstance(going, Constant) and bool(going.data.numpy()):
            return const(True, "bool") if below is None else below
        return going if below is None else infer(relay.logical_and(below, going))

    def called(self, count, going, states: list) -> tuple[list, list[RelayExpr]]:
        importer, lists = self.importer, self.lists
        start = const(0, "int64")
        limits = [] if self.limit is None else [count]
        empty = [lists.call("Nil", [], c.checked_type_) for c in self.collected]
        first = [lists.expression(s, t) for s, t in zip(states, self.types)]
        outer = [value for value, _ in self.scope.captured.values()]
        arguments = [self.test(start, count, going), start, *first, *empty, *limits, *outer]
        call = importer.given_type(Call(self.name, tuple(arguments)), self.result)
        fields = [importer.given_type(TupleGetItem(call, i), t) for i, t in enumerate(self.result.fields)]
        last, lines = fields[: len(states)], fields[len(states) :]
        back = [lists.call("rev", [c], c.checked_type_) for c in lines]
        return last, [lists.concatenated(c, t, 0, empty=True) for c, t in zip(back, self.parts)]


__all__ = ["Step", "convert_both_sides", "chosen", "of_rank", "first_choice", "ranks_of", "repeated", "scalar"]
