"""Compute the block of each expression: the innermost block that contains all its uses."""

from __future__ import annotations

from typing import Any

from ..ir.adt import Constructor
from ..ir.module import GlobalVar
from ..ir.op import Op
from ..ir.visit import post_order
from .adt import Match
from .expr import Call, Constant, Function, If, Let, RelayExpr, Var

ATOMS = (Var, GlobalVar, Constant, Op, Constructor)


class Block:
    """A block in braces, or the part of a block after a ``let``. The user of the block fills ``lines``."""

    __slots__ = ("parent", "depth", "lines")

    def __init__(self, parent: Block | None):
        self.parent = parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.lines: list[Any] = []


def common(a: Block, b: Block) -> Block:
    while a is not b:
        if a.depth >= b.depth:
            a = a.parent  # type: ignore[assignment]
        else:
            b = b.parent  # type: ignore[assignment]
    return a


def operands(e: RelayExpr) -> list:
    """Return the operands of an expression in textual order: arguments before the callee."""
    kind = type(e)
    if kind is Call:
        return [*e.args, e.op]
    if kind in ATOMS:
        return []
    if kind is Match:
        return [e.data, *[c.rhs for c in e.clauses]]
    return e.children()


def written_order(root: RelayExpr) -> list:
    """Return every expression once, operands first."""
    return list(post_order(root, operands=operands))


class Placement:
    """The block of each expression of a graph.

    ``home`` maps the id of an expression to its block, and ``inner`` to the blocks that it opens. ``tail`` contains the
    ids of expressions whose only use is as the value of a block or let. ``crossing`` contains the ids of expressions
    used in another block than their own.
    """

    def __init__(self, root: RelayExpr, top: Block):
        self.order = written_order(root)
        self.home: dict[int, Block] = {id(root): top}
        self.inner: dict[int, list[Block]] = {}
        places: dict[int, list[Block]] = {}
        last: set[int] = {id(root)}
        for e in reversed(self.order):
            for child, where, ends in self.uses(e, self.home[id(e)]):
                key = id(child)
                places.setdefault(key, []).append(where)
                known = self.home.get(key)
                self.home[key] = where if known is None else common(known, where)
                if ends:
                    last.add(key)
        self.tail = {k for k in last if len(places.get(k, ())) <= 1}
        self.crossing = {k for k, blocks in places.items() if any(b is not self.home[k] for b in blocks)}

    def uses(self, e: RelayExpr, block: Block) -> list[tuple[RelayExpr, Block, bool]]:
        kind = type(e)
        if kind is Function:
            inside = Block(block)
            self.inner[id(e)] = [inside]
            return [(e.body, inside, True)]
        if kind is If:
            yes, no = Block(block), Block(block)
            self.inner[id(e)] = [yes, no]
            return [(e.cond, block, False), (e.true_branch, yes, True), (e.false_branch, no, True)]
        if kind is Let:
            # The value is evaluated before the let, the body after it.
            rest = Block(block)
            self.inner[id(e)] = [rest]
            return [(e.value, block, True), (e.body, rest, True)]
        if kind is Match:
            blocks = [Block(block) for _ in e.clauses]
            self.inner[id(e)] = blocks
            return [(e.data, block, False), *[(c.rhs, b, True) for c, b in zip(e.clauses, blocks)]]
        return [(c, block, False) for c in operands(e)]


__all__ = ["ATOMS", "Block", "Placement", "written_order"]
