"""Statements with a pragma, and passes that rewrite them."""

from __future__ import annotations

from collections.abc import Callable

from ....ir.transform import Pass
from ....tir.function import PrimFunc
from ....tir.stmt import AttrStmt, Stmt
from ....tir.transform import prim_func_pass
from ....tir.transform.statement import StmtRewriter


class _Pragmas(StmtRewriter):
    def __init__(self, handlers: dict[str, Callable[[AttrStmt], Stmt]]):
        self.handlers = handlers

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        handler = self.handlers.get(node.attr_key)
        return self.keep(node) if handler is None else handler(node)


def pragma_pass(name: str, **handlers: Callable[[AttrStmt], Stmt]) -> Pass:
    """Return a pass that replaces the statements with these pragmas by the outputs of their functions."""
    table = {"pragma_" + key: handler for key, handler in handlers.items()}

    def run(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        return func.replace(body=_Pragmas(table).stmt(func.body))

    return prim_func_pass(run, opt_level=0, name=f"tir.vta.{name}")
