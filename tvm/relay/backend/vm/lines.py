"""Represent a function as blocks of lines in execution order, with the number of uses of each value."""

from __future__ import annotations

from collections.abc import Iterator

from ....ir.op import Op
from ....ir.visit import post_order
from ...adt import Match
from ...expr import Call, Constant, Function, If, Let, RelayExpr, Tuple, TupleGetItem, Var
from ...scopes import ATOMS, Block, Placement


def used(e: RelayExpr) -> list[RelayExpr]:
    """Return the expressions whose values an expression uses, including its branches. A let has the value of its
    body."""
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
    """Return the body of a chain of lets."""
    while type(e) is Let:
        e = e.body
    return e


class Lines:
    """The blocks of a function.

    ``top`` is the block of the function, ``inner`` contains the blocks of branches, and ``uses`` counts the uses of
    each expression by its id. The lines of a block are expressions after their operands, and blocks after a let, which
    belong to the enclosing block.
    """

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
        """Iterate over the lines of a block, including those after its lets. A let precedes the lines that use its
        variable."""
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
    """Return whether an expression is a call of an operator or of a kernel."""
    if type(e) is not Call:
        return False
    return isinstance(e.op, Op) or isinstance(e.op, Function) and bool(e.op.attrs.get("Primitive"))


def is_straight(body: RelayExpr) -> bool:
    """Return whether an expression consists only of operators, kernels, tuples, variables and constants."""
    for e in post_order(body, operands=used):
        if isinstance(e, Function):
            # Calls of primitive functions are checked by is_computed.
            if not e.attrs.get("Primitive"):
                return False
        elif not (is_computed(e) or isinstance(e, (Tuple, TupleGetItem, Var, Constant, Op))):
            return False
    return True


__all__ = ["Lines", "is_computed", "is_straight", "used", "without_lets"]
