"""Converters of branches and loops.

They are resolved or unrolled if the conditions are constant, and become control flow of the virtual machine otherwise.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from ..common.control import branched, repeated
from .table import MOST_STEPS, Context

# A layer's condition is false if its absolute value is below this.
_NEAR = 1e-6


def as_condition(ctx: Context, e: RelayExpr) -> RelayExpr:
    """Convert a tensor with one element to a condition."""
    e = relay.reshape(e, ()) if ctx.rank(e) else e
    if ctx.dtype(e) == "bool":
        return ctx.made(e)
    return ctx.made(relay.greater(relay.abs(e), ctx.like(_NEAR, e)) if ctx.is_float(e)
                    else relay.not_equal(e, ctx.like(0, e)))  # fmt: skip


def constant_condition(ctx: Context, e: RelayExpr) -> bool | None:
    found = ctx.value(as_condition(ctx, e))
    return None if found is None else bool(found.reshape(-1)[0])


# -- ML programs ------------------------------------------------------------------------------------------------------


def cond(ctx: Context, scope: ChainMap, given: dict[str, Any]) -> list:
    then, other = _two_blocks(ctx)
    test = given.get("pred")
    if not isinstance(test, RelayExpr):
        raise TVMError("the input 'pred' (the condition) is missing")
    known = constant_condition(ctx, test)
    if known is not None:
        return ctx.walker.outputs(then if known else other, scope)
    yes, no = (ctx.walker.outputs(block, scope) for block in (then, other))
    if len(yes) != len(no) or not all(isinstance(v, RelayExpr) for v in (*yes, *no)):
        raise TVMError(
            f"the branches have {len(yes)} and {len(no)} outputs; the numbers must be equal, and all "
            "outputs must be tensors"
        )
    return branched(ctx.importer, as_condition(ctx, test), yes, no)


def _two_blocks(ctx: Context) -> list:
    if len(ctx.node.blocks) != 2:
        raise TVMError(f"expected 2 blocks, got {len(ctx.node.blocks)}")
    return list(ctx.node.blocks)


def used_names(block: Any) -> list[str]:
    """Return the names that a block and its nested blocks read, without duplicates."""
    found: dict[str, None] = {}
    work = [block]
    while work:
        one = work.pop()
        for operation in one.operations:
            for pair in operation.inputs:
                found.update((b.name, None) for b in pair.value.arguments if b.name)
            work += operation.blocks
        found.update((name, None) for name in one.outputs)
    return list(found)


def while_loop(ctx: Context, scope: ChainMap, given: dict[str, Any]) -> list:
    test, body = _two_blocks(ctx)
    first = given.get("loop_vars", [])
    first = first if isinstance(first, list) else [first]
    if not all(isinstance(v, RelayExpr) for v in first):
        raise TVMError("the loop variables must be tensors")
    # Tensors that the blocks read from the enclosing scope become loop variables, too. Constants remain visible.
    names = [n for n in dict.fromkeys(used_names(test) + used_names(body)) if isinstance(scope.get(n), RelayExpr)
             and not isinstance(scope[n], Constant)]  # fmt: skip

    def asked(states: list, seen: ChainMap) -> RelayExpr:
        (going,) = ctx.walker.outputs(test, seen, states)
        return going

    def moved(states: list, seen: ChainMap) -> list:
        after = ctx.walker.outputs(body, seen, states)
        if len(after) != len(first) or not all(isinstance(v, RelayExpr) for v in after):
            raise TVMError(f"the loop body returns {len(after)} values for {len(first)} loop variables")
        return after

    states, before = first, ctx.importer.converted
    while ctx.importer.converted - before < MOST_STEPS:
        known = constant_condition(ctx, asked(states, scope))
        if known is None:
            break
        if not known:
            return states
        states = moved(states, scope)

    def step(variables: list) -> tuple[RelayExpr, list]:
        seen = scope.new_child(dict(zip(names, variables[len(first) :])))
        own = variables[: len(first)]
        return as_condition(ctx, asked(own, seen)), [*moved(own, seen), *variables[len(first) :]]

    return repeated(ctx.importer, "loop", [*first, *(scope[n] for n in names)], step)[: len(first)]


__all__ = ["cond", "constant_condition", "as_condition", "used_names", "while_loop"]
