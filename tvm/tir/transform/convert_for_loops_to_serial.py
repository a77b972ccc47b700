"""ConvertForLoopsToSerial: replace parallel loops by serial loops."""

from __future__ import annotations

from ..function import PrimFunc
from ..stmt import For, ForKind, Stmt
from .statement import StmtRewriter


class Serializer(StmtRewriter):
    def on_For(self, node: For) -> Stmt:
        new = self.keep(node)
        return new.replace(kind=ForKind.SERIAL) if node.kind is ForKind.PARALLEL else new


def convert_for_loops_to_serial(func: PrimFunc) -> PrimFunc:
    return func.replace(body=Serializer().stmt(func.body))
