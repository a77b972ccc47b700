"""PrimFunc: a function over scalars and buffers."""

from __future__ import annotations

from ..ir.module import BaseFunc
from ..ir.prim import Var
from ..ir.type import Type, VoidType
from .buffer import Buffer, decl_buffer
from .stmt import Stmt


class PrimFunc(BaseFunc, key="tir.PrimFunc"):
    """``params`` are variables; ``buffer_map`` says which handle parameters are buffers."""

    params: tuple
    body: Stmt
    ret_type: Type | None = None
    buffer_map: dict | None = None
    attrs: dict | None = None

    def __init__(self, params, body, ret_type=None, buffer_map=None, attrs=None, span=None):
        variables = []
        buffers = dict(buffer_map or {})
        for p in params:
            if isinstance(p, Buffer):
                handle = Var(f"{p.name}_handle", "handle")
                buffers[handle] = p
                p = handle
            if not isinstance(p, Var):
                raise TypeError(f"a parameter of a PrimFunc is a Var or a Buffer, got {type(p).__name__}")
            variables.append(p)
        self.params = tuple(variables)
        self.body = body
        self.ret_type = VoidType() if ret_type is None else ret_type
        self.buffer_map = buffers
        self.attrs = dict(attrs or {})
        self.span = span

    def with_body(self, new_body: Stmt, span=None) -> PrimFunc:
        return self.replace(body=new_body)


__all__ = ["Buffer", "PrimFunc", "decl_buffer"]
