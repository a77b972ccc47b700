"""A function as blocks of lines: what each pair of braces computes, in order, and how often each value is used."""

from __future__ import annotations

from collections.abc import Iterator

from ....ir.op import Op
from ....ir.visit import post_order
from ...adt import Match
from ...expr import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var
from ...scopes import ATOMS, Block, Placement


def used(e: RelayExpr) -> list[RelayExpr]:
    """The expressions whose values an expression uses, its branches included. A let has the value of its body."""
    kind = type(e)
    if kind is Call:
        return [*e.args, e.op]
    if kind is Let:
        return [e.value]
    if kind is If:
        return [e.cond, e.true_branch, e.false_branch]
    if kind is Match:
        return [e.data, *[c.rhs for c in e.clauses]]
    return [] if kind is Function or isinstance(e, ATOMS) else e.children()


def without_lets(e: RelayExpr) -> RelayExpr:
    """The expression whose value a chain of lets has."""
    while type(e) is Let:
        e = e.body
    return e


class Lines:
    """``top`` is the block of the function, ``inner`` gives the blocks of branches; ``uses`` counts how often the value
    of an expression is used, by its identity. The lines of a block are expressions, each after its operands, and blocks
    behind a let, which belong to the block around it."""

    def __init__(self, body: RelayExpr):
        self.top = Block(None)
        places = Placement(body, self.top)
        self.inner = places.inner
        self.uses: dict[int, int] = {id(without_lets(body)): 1}
        for e in places.order:
            if isinstance(e, ATOMS):
                continue
            for operand in map(without_lets, used(e)):
                self.uses[id(operand)] = self.uses.get(id(operand), 0) + 1
            block = places.home[id(e)]
            if type(e) is Let:
                block.lines.append(e)
                block.lines.append(self.inner[id(e)][0])
            elif type(e) is not Function:
                block.lines.append(e)

    def of(self, block: Block) -> Iterator[RelayExpr]:
        """The lines of a block, those behind its lets included. A let stands before the lines that see its name."""
        stack = [iter(block.lines)]
        while stack:
            line = next(stack[-1], None)
            if line is None:
                stack.pop()
            elif isinstance(line, Block):
                stack.append(iter(line.lines))
            else:
                yield line


def is_computed(e: RelayExpr) -> bool:
    """Whether an expression belongs to the tensor program: an operator, or a function that is a kernel."""
    if type(e) is not Call:
        return False
    return isinstance(e.op, Op) or isinstance(e.op, Function) and bool(e.op.attrs.get("Primitive"))


def is_straight(body: RelayExpr) -> bool:
    """Whether an expression is operators, kernels, tuples, variables and constants alone."""
    for e in post_order(body, operands=used):
        if isinstance(e, Function):
            # A kernel is looked at with its call.
            if not e.attrs.get("Primitive"):
                return False
        elif not (is_computed(e) or isinstance(e, (Tuple, TupleGetItem, Var, Constant, Op))):
            return False
    return True


__all__ = ["Lines", "is_computed", "is_straight", "used", "without_lets"]
