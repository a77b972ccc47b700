"""Where in a function each expression belongs: the innermost block that holds all its uses."""

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
    """One pair of braces, or the part of one after a ``let``. ``lines`` is for whoever fills the block."""

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
    """What an expression is made of, in the order it is written: arguments before the function called."""
    kind = type(e)
    if kind is Call:
        return [*e.args, e.op]
    if kind in ATOMS:
        return []
    if kind is Match:
        return [e.data, *[c.rhs for c in e.clauses]]
    return e.children()


def written_order(root: RelayExpr) -> list:
    """Every expression once, operands first."""
    return list(post_order(root, operands=operands))


class Placement:
    """``home``: id -> block; ``inner``: id -> blocks an expression opens; ``tail``: ids whose one use ends a block (or
    is the value of a let); ``crossing``: ids used in another block than their own."""

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
            # The value stands before the let, the body behind it.
            rest = Block(block)
            self.inner[id(e)] = [rest]
            return [(e.value, block, True), (e.body, rest, True)]
        if kind is Match:
            blocks = [Block(block) for _ in e.clauses]
            self.inner[id(e)] = blocks
            return [(e.data, block, False), *[(c.rhs, b, True) for c, b in zip(e.clauses, blocks)]]
        return [(c, block, False) for c in operands(e)]


__all__ = ["ATOMS", "Block", "Placement", "written_order"]
