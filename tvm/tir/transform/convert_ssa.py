"""ConvertSSA: replace a variable that has several definitions by one variable for each definition."""

from __future__ import annotations

from ...ir.prim import Var
from ..function import PrimFunc
from ..stmt import Allocate, BufferStore, For, LetStmt, Stmt
from .statement import StmtRewriter
from .unroll_loop import renamed_buffer, substitute_all


class SingleDefinition(StmtRewriter):
    def __init__(self, params):
        self.defined: set[Var] = set(params)
        self.variables: dict[Var, Var] = {}
        self.buffers: dict = {}

    def expr(self, node):
        return substitute_all(node, self.variables, self.buffers)

    def define(self, var: Var) -> Var:
        if var not in self.defined:
            self.defined.add(var)
            return var
        new = type(var)(var.name, var.dtype, var.type_annotation)
        self.variables[var] = new
        return new

    def inside(self, var: Var, build) -> Stmt:
        outer = self.variables.get(var)
        new = self.define(var)
        made = build(new)
        if new is not var:
            if outer is None:
                del self.variables[var]
            else:
                self.variables[var] = outer
        return made

    def on_For(self, node: For) -> Stmt:
        low, extent = self.expr(node.min), self.expr(node.extent)
        return self.inside(
            node.loop_var, lambda var: node.replace(loop_var=var, min=low, extent=extent, body=self.stmt(node.body))
        )

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.expr(node.value)
        return self.inside(node.var, lambda var: LetStmt(var, value, self.stmt(node.body)))

    def on_Allocate(self, node: Allocate) -> Stmt:
        extents = tuple(self.expr(e) for e in node.extents)
        return self.inside(
            node.buffer_var, lambda var: node.replace(buffer_var=var, extents=extents, body=self.stmt(node.body))
        )

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        buffer = renamed_buffer(node.buffer, self.variables, self.buffers)
        return new if buffer is node.buffer else new.replace(buffer=buffer)


def convert_ssa(func: PrimFunc) -> PrimFunc:
    pointers = [b.data for b in func.buffer_map.values()]
    return func.replace(body=SingleDefinition([*func.params, *pointers]).stmt(func.body))
