"""Converters of branch and loop layers.

Blobs that a branch or a loop body writes replace those of the enclosing network.
"""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ... import op as relay
from ...expr import Constant
from ..common.control import branched, repeated
from .control import as_condition, constant_condition
from .network import layers_of
from .table import MOST_STEPS, Context, const, constant, layer


@layer("copy")
def copy(ctx, inputs, p):
    return inputs[0]


@layer("branch")
def branch(ctx, inputs, p, scope):
    if len(inputs) != 1:
        raise TVMError(f"expected 1 input (the condition), got {len(inputs)}")
    known = constant_condition(ctx, inputs[0])
    if known is not None:
        ctx.walker.walk(p.ifBranch if known else p.elseBranch, scope)
        return
    sides = [dict(scope), dict(scope)]
    for inner, network in zip(sides, (p.ifBranch, p.elseBranch)):
        ctx.walker.walk(network, inner)
    names = [n for n in sides[0] if n in sides[1] and sides[0][n] is not sides[1][n]]
    values = branched(ctx.importer, as_condition(ctx, inputs[0]), *([side[n] for n in names] for side in sides))
    scope.update(zip(names, values))


class Loop:
    """A loop layer: its condition, its body and its maximum number of iterations (unlimited if not given)."""

    def __init__(self, ctx: Context, inputs: list, p: Any):
        self.ctx, self.p = ctx, p
        self.asks = p.HasField("conditionNetwork") and bool(p.conditionVar)
        self.most = None
        if inputs:
            self.most = ctx.made(relay.reshape(ctx.cast(inputs[0], "float32"), ()))
        elif p.maxLoopIterations or not self.asks:
            self.most = ctx.made(constant(float(p.maxLoopIterations), "float32"))
        for found in layers_of(p.bodyNetwork):
            if found.HasField("loopBreak") or found.HasField("loopContinue"):
                raise TVMError("loops with loopBreak or loopContinue are not supported")

    def going(self, scope: dict, steps, most):
        """Return whether the loop continues, as a condition, which may be constant."""
        tests = []
        if most is not None:
            tests.append(self.ctx.made(relay.less(steps, most)))
            if constant_condition(self.ctx, tests[0]) is False:
                return tests[0]
        if self.asks:
            self.ctx.walker.walk(self.p.conditionNetwork, scope)
            if self.p.conditionVar not in scope:
                raise TVMError(f"no layer produces the loop condition '{self.p.conditionVar}'")
            tests.append(as_condition(self.ctx, scope[self.p.conditionVar]))
        return tests[0] if len(tests) == 1 else self.ctx.made(relay.logical_and(*tests))

    def names(self, scope: dict) -> list[str]:
        """Return the names of the enclosing scope that the loop reads or writes, except constants that it only
        reads."""
        own = layers_of(self.p.bodyNetwork) + layers_of(self.p.conditionNetwork)
        written = {n for found in own for n in found.output}
        used = dict.fromkeys(n for found in own for n in (*found.input, *found.output))
        return [n for n in used if n in scope and (n in written or not isinstance(scope[n], Constant))]


@layer("loop")
def loop(ctx, inputs, p, scope):
    made = Loop(ctx, inputs, p)
    inner, steps, written = dict(scope), 0, ctx.importer.converted
    while ctx.importer.converted - written < MOST_STEPS:
        known = constant_condition(ctx, made.going(inner, const(float(steps), "float32"), made.most))
        if known is None:
            break
        if not known:
            scope.update(inner)
            return
        ctx.walker.walk(p.bodyNetwork, inner)
        steps += 1
    names = made.names(scope)
    limits = [] if made.most is None else [made.most]
    before = 1 + len(limits)

    def step(variables: list):
        seen = {**scope, **dict(zip(names, variables[before:]))}
        test = made.going(seen, variables[0], variables[1] if limits else None)
        ctx.walker.walk(p.bodyNetwork, seen)
        following = ctx.made(relay.add(variables[0], const(1.0, "float32")))
        return test, [following, *variables[1:before], *(seen[n] for n in names)]

    first = ctx.made(constant(0.0, "float32"))
    after = repeated(ctx.importer, "loop", [first, *limits, *(scope[n] for n in names)], step)
    scope.update(zip(names, after[before:]))


__all__ = ["branch", "copy", "loop"]
