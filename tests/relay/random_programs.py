"""Random programs with branches, loops by recursion, closures, tuples and lists, for executors that run all of Relay.

Numbers are integers below a bound, so that every executor computes the same ones.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tvm
from tvm import relay
from tvm.relay.prelude import Prelude

SHAPE = (2, 3)
TENSOR = relay.TensorType(SHAPE, "int32")
NUMBER = relay.TensorType((), "int32")
BOOLEAN = relay.TensorType((), "bool")
BOUND = 101


class RandomProgram:
    """A function ``main`` of a tensor and a number in ``module``, which is the program's own unless it is given; there
    names end with a suffix."""

    tensor = TENSOR

    def __init__(self, seed: int, prelude: Prelude | None = None, suffix: str = ""):
        self.draw = random.Random(seed)
        self.prelude = prelude or Prelude(tvm.IRModule())
        self.module = self.prelude.mod
        self.suffix = suffix
        self.list, self.cons, self.nil = self.prelude.get_type("List")
        self.names = 0
        self.types = {
            "tensor": self.tensor,
            "number": NUMBER,
            "bool": BOOLEAN,
            "list": self.list(self.tensor),
            "pair": relay.TupleType([self.tensor, NUMBER]),
            "function": relay.FuncType([self.tensor], self.tensor),
        }
        self.loops = [self.loop(tail) for tail in (True, False)]
        x, n = self.var("tensor"), self.var("number")
        kinds = [self.draw.choice(list(self.types)[:-1]) for _ in range(self.draw.randint(1, 3))]
        scope = {"tensor": [x], "number": [n]}
        parts = [self.make(kind, self.draw.randint(2, 4), scope) for kind in kinds]
        self.main = relay.GlobalVar("main" + suffix)
        self.module[self.main] = relay.Function([x, n], relay.Tuple(parts))

    def var(self, kind: str) -> relay.Var:
        self.names += 1
        return relay.Var(f"{kind[0]}{self.names}", self.types[kind])

    def loop(self, tail: bool) -> relay.GlobalVar:
        """A function that calls itself as often as its number says."""
        name = relay.GlobalVar(("loop" if tail else "nest") + self.suffix)
        x, n = self.var("tensor"), self.var("number")
        step = self.make("tensor", 2, {"tensor": [x], "number": [n]}, calls=False)
        again = relay.Call(name, [step if tail else x, n - relay.const(1)])
        more = again if tail else self.joined(again, step)
        body = relay.If(relay.less(n, relay.const(1)), x, more)
        self.module[name] = relay.Function([x, n], body, self.tensor)
        return name

    def bounded(self, e: relay.Expr) -> relay.Expr:
        return relay.floor_mod(e, relay.const(BOUND))

    def joined(self, a: relay.Expr, b: relay.Expr) -> relay.Expr:
        return self.bounded(a + b)

    def make(self, kind: str, depth: int, scope: dict[str, list], calls: bool = True) -> relay.Expr:
        """An expression of a kind; one that was made before in the same scope may stand in several places."""
        known = scope.get(kind, [])
        if known and (depth <= 0 or self.draw.random() < 0.25):
            return self.draw.choice(known)
        self.calls = calls
        made = getattr(self, f"make_{kind}")(depth - 1, scope, calls)
        if self.draw.random() < 0.5:
            scope.setdefault(kind, known).append(made)
        return made

    def branch(self, kind: str, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        return relay.If(
            self.make("bool", depth, scope, calls),
            self.inner(kind, depth, scope, calls),
            self.inner(kind, depth, scope, calls),
        )

    def inner(self, kind: str, depth: int, scope: dict[str, list], calls: bool, **more: Any) -> relay.Expr:
        """An expression in a block of its own."""
        copy = {k: [*v, *more.get(k, ())] for k, v in scope.items()}
        for k, v in more.items():
            copy.setdefault(k, list(v))
        return self.make(kind, depth, copy, calls)

    def bound(self, kind: str, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        other = self.draw.choice(list(self.types))
        name = self.var(other)
        value = self.make(other, depth, scope, calls)
        return relay.Let(name, value, self.inner(kind, depth, scope, calls, **{other: [name]}))

    def make_tensor(self, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        draw = self.draw
        which = draw.randint(0, 3 if depth <= 0 else 11 if calls else 8)
        if which <= 3:
            return self.computed(which, depth, scope, calls)
        if which == 4:
            return relay.TupleGetItem(self.make("pair", depth, scope, calls), 0)
        if which == 5:
            parts = relay.split(self.make("tensor", depth, scope, calls), 3, axis=1)
            order = draw.sample(range(3), 3)
            return relay.concatenate([parts[i] for i in order], axis=1)
        if which in (6, 7):
            return (self.branch if which == 6 else self.bound)("tensor", depth, scope, calls)
        if which == 8:
            return self.matched(depth, scope, calls)
        if which == 9:
            count = relay.floor_mod(self.make("number", depth, scope, calls), relay.const(4))
            return relay.Call(draw.choice(self.loops), [self.make("tensor", depth, scope, calls), count])
        if which == 10:
            return self.make("function", depth, scope, calls)(self.make("tensor", depth, scope, calls))
        return self.local_loop(depth, scope, calls)

    def computed(self, which: int, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        if which == 0:
            return relay.const(np.asarray([[self.draw.randint(0, 9) for _ in range(3)] for _ in range(2)], "int32"))
        operator = self.draw.choice([relay.add, relay.subtract, relay.maximum, relay.multiply])
        other = self.make(self.draw.choice(["tensor", "number"]), depth, scope, calls)
        return self.bounded(operator(self.make("tensor", depth, scope, calls), other))

    def matched(self, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        head, rest = self.var("tensor"), self.var("list")
        full = relay.PatternConstructor(self.cons, [relay.PatternVar(head), relay.PatternVar(rest)])
        data = self.make("list", depth, scope, calls)
        return relay.Match(data, [
            relay.Clause(full, self.inner("tensor", depth, scope, calls, tensor=[head], list=[rest])),
            relay.Clause(relay.PatternConstructor(self.nil, []), self.inner("tensor", depth, scope, calls)),
        ])  # fmt: skip

    def local_loop(self, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        """A function inside another that calls itself and sees the variables around it."""
        name = relay.Var("again", relay.FuncType([self.tensor, NUMBER], self.tensor))
        x, n = self.var("tensor"), self.var("number")
        step = self.inner("tensor", min(depth, 1), scope, False, tensor=[x], number=[n])
        body = relay.If(relay.less(n, relay.const(1)), x, name(self.joined(step, x), n - relay.const(1)))
        value = relay.Function([x, n], body, self.tensor)
        count = relay.const(self.draw.randint(0, 3))
        return relay.Let(name, value, name(self.make("tensor", depth, scope, calls), count))

    def make_number(self, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        which = self.draw.randint(0, 1 if depth <= 0 else 6)
        if which == 0:
            return relay.const(self.draw.randint(0, 9))
        if which <= 2:
            return self.bounded(self.make("number", depth, scope, calls) * relay.const(7) + relay.const(which))
        if which == 3:
            return self.bounded(relay.sum(self.make("tensor", depth, scope, calls)))
        if which == 4:
            return relay.TupleGetItem(self.make("pair", depth, scope, calls), 1)
        if which == 5:
            return self.prelude.length(self.make("list", depth, scope, calls))
        return self.branch("number", depth, scope, calls)

    def make_bool(self, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        compared = relay.less(self.make("number", depth, scope, calls), self.make("number", depth, scope, calls))
        if depth > 0 and self.draw.random() < 0.3:
            return relay.logical_or(compared, self.make("bool", depth, scope, calls))
        return compared

    def make_list(self, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        which = self.draw.randint(0, 1 if depth <= 0 else 5)
        if which == 0:
            return self.cons(self.make("tensor", depth, scope, calls), self.nil())
        if which <= 2:
            return self.cons(self.make("tensor", depth, scope, calls), self.make("list", depth, scope, calls))
        if which == 3:
            return self.prelude.map(self.make("function", depth, scope, calls), self.make("list", depth, scope, calls))
        if which == 4:
            return self.prelude.rev(self.make("list", depth, scope, calls))
        return self.branch("list", depth, scope, calls)

    def make_pair(self, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        if depth > 0 and self.draw.random() < 0.3:
            return (self.branch if self.draw.random() < 0.5 else self.bound)("pair", depth, scope, calls)
        return relay.Tuple([self.make("tensor", depth, scope, calls), self.make("number", depth, scope, calls)])

    def make_function(self, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        if depth > 0 and self.draw.random() < 0.3:
            return self.branch("function", depth, scope, calls)
        if depth > 0 and self.draw.random() < 0.2:
            return self.prelude.compose(
                self.make("function", depth, scope, calls), self.make("function", depth, scope, calls)
            )
        x = self.var("tensor")
        return relay.Function([x], self.inner("tensor", depth, scope, calls, tensor=[x]), self.tensor)

    def arguments(self, rows: int = 2) -> tuple[np.ndarray, np.ndarray]:
        values = [self.draw.randint(0, 50) for _ in range(3 * rows)]
        return np.asarray(values, "int32").reshape(rows, 3), np.asarray(self.draw.randint(0, 20), "int32")


class RandomSizes(RandomProgram):
    """The same with tensors of any number of rows, which grow, shrink and are chosen by their values."""

    tensor = relay.TensorType((relay.Any(), 3), "int32")

    def joined(self, a: relay.Expr, b: relay.Expr) -> relay.Expr:
        return relay.strided_slice(relay.concatenate([a, b], 0), [0], [self.draw.choice([5, 9])], [1], axes=[0])

    def computed(self, which: int, depth: int, scope: dict[str, list], calls: bool) -> relay.Expr:
        draw, x = self.draw, self.make("tensor", depth, scope, calls)
        kind = draw.randint(0, 7)
        if kind == 0:
            row = relay.const(np.asarray([[draw.randint(0, 9) for _ in range(3)]], "int32"))
            return self.bounded(relay.add(x, row))
        if kind == 1:
            return self.joined(x, self.make("tensor", depth, scope, calls))
        if kind == 2:
            return self.bounded(x + relay.sum(self.make("tensor", depth, scope, calls), 0, keepdims=True))
        if kind == 3:
            chosen = relay.argwhere(relay.greater(relay.sum(x, 1), self.make("number", depth, scope, calls)))
            return relay.take(x, relay.reshape(chosen, (-1,)), 0)
        if kind == 4:
            return relay.reshape(relay.transpose(x, (1, 0)), (-1, 3))
        if kind == 5:
            count = relay.floor_mod(self.make("number", depth, scope, calls), relay.const(4))
            steps = relay.arange(relay.const(0), count, relay.const(1), dtype="int32")
            return self.bounded(relay.expand_dims(steps, 1) + relay.sum(x, 0, keepdims=True))
        if kind == 6:
            return relay.reverse(x, 0)
        return self.bounded(relay.multiply(x, self.make("number", depth, scope, calls)))


def together(kind: type[RandomProgram], seeds: range) -> tuple[tvm.IRModule, RandomProgram]:
    """A module whose ``main`` runs a program of each seed on the same arguments, and one of the programs. Programs of
    one module are inferred and compiled together, which costs much less than one by one."""
    prelude = Prelude(tvm.IRModule())
    programs = [kind(seed, prelude, f"_{seed}") for seed in seeds]
    x, n = relay.Var("x", kind.tensor), relay.Var("n", NUMBER)
    prelude.mod["main"] = relay.Function([x, n], relay.Tuple([p.main(x, n) for p in programs]))
    return relay.transform.RemoveUnusedFunctions()(relay.transform.InferType()(prelude.mod)), programs[0]


def shapes(value: Any) -> Any:
    """The shapes of the arrays in a result."""
    return tuple(value.shape) if hasattr(value, "shape") else [shapes(v) for v in getattr(value, "fields", value)]


def plain(value: Any) -> Any:
    """A result of any executor as nested lists: data with the number of its constructor first."""
    if hasattr(value, "numpy"):
        return value.numpy().tolist()
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    fields = [plain(v) for v in getattr(value, "fields", value)]
    return [int(getattr(value, "tag", 0)) & 0xFFFF, *fields]
