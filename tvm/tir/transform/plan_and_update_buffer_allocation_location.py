"""PlanAndUpdateBufferAllocationLocation: move the allocation of a buffer into the innermost loop that contains all its
uses.

The allocation stays outside every loop that carries the value of the buffer between iterations. These are the reduction
loops of a block that writes the buffer.
"""

from __future__ import annotations

from ...ir.prim import BufferLoad, IterVar, Var, const
from ...ir.visit import post_order
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Block, BlockRealize, BufferStore, For, Stmt
from .statement import StmtRewriter


class Locations:
    """The loops and blocks around all uses of each buffer, outermost first."""

    def __init__(self):
        self.path: list[Stmt] = []
        self.common: dict[Buffer, list[Stmt]] = {}
        self.bindings: dict[Var, set[Var]] = {}  # Axis of a block -> loop variables in its value

    def note(self, buffer: Buffer, path: list[Stmt]) -> None:
        old = self.common.get(buffer)
        if old is None:
            self.common[buffer] = list(path)
            return
        same = 0
        while same < min(len(old), len(path)) and old[same] is path[same]:
            same += 1
        del old[same:]

    def visit(self, node: Stmt) -> None:
        if isinstance(node, BlockRealize):
            for axis, value in zip(node.block.iter_vars, node.iter_values):
                self.bindings[axis.var] = self.loop_variables(value)
            self.read(node.predicate)
            self.visit(node.block)
            return
        if isinstance(node, BufferStore):
            self.note(node.buffer, self.outside_of_carried(self.path))
        inside = isinstance(node, (For, Block))
        if inside:
            self.path.append(node)
        for child in node.children():
            if isinstance(child, Stmt):
                self.visit(child)
            else:
                self.read(child)
        if isinstance(node, Block):
            for match in node.match_buffers:
                self.note(match.source.buffer, self.path)
        if inside:
            self.path.pop()

    def read(self, node) -> None:
        for n in post_order(node):
            if isinstance(n, BufferLoad):
                self.note(n.buffer, self.path)

    def loop_variables(self, value) -> set[Var]:
        out: set[Var] = set()
        for n in post_order(value):
            if isinstance(n, Var):
                out |= self.bindings.get(n, {n})
        return out

    def outside_of_carried(self, path: list[Stmt]) -> list[Stmt]:
        carried: set[Var] = set()
        for block in path:
            if isinstance(block, Block):
                for axis in block.iter_vars:
                    if axis.iter_type not in (IterVar.DataPar,):
                        carried |= self.bindings.get(axis.var, set())
        for depth, node in enumerate(path):
            if isinstance(node, For) and node.loop_var in carried:
                return path[:depth]
        return path


class Mover(StmtRewriter):
    def __init__(self, at: dict[int, list[Buffer]]):
        self.at = at

    def on_Block(self, node: Block) -> Stmt:
        body = self.stmt(node.body)
        init = None if node.init is None else self.stmt(node.init)
        return node.replace(body=body, init=init, alloc_buffers=tuple(self.at.get(id(node), ())))

    def on_For(self, node: For) -> Stmt:
        body = self.stmt(node.body)
        buffers = self.at.get(id(node))
        if buffers:
            block = Block((), (), (), "", body, None, tuple(buffers))
            body = BlockRealize((), const(True, "bool"), block)
        return node if body is node.body else node.replace(body=body)


def plan_and_update_buffer_allocation_location(func: PrimFunc) -> PrimFunc:
    allocated = [(n, b) for n in post_order(func.body) if isinstance(n, Block) for b in n.alloc_buffers]
    if not allocated:
        return func
    found = Locations()
    found.visit(func.body)
    at: dict[int, list[Buffer]] = {}
    for block, buffer in allocated:
        path = found.common.get(buffer)
        if path:
            at.setdefault(id(path[-1]), []).append(buffer)
        elif path is not None:
            at.setdefault(id(block), []).append(buffer)
    return func.replace(body=Mover(at).stmt(func.body))
