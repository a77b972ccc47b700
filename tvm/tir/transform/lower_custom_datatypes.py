"""LowerCustomDatatypes: replace values of registered custom types by unsigned integers of the same width, and
operations on them by the lowering functions that are registered for them (``tvm.target.datatype``).

Buffer parameters keep the custom type in the signature of the function; loads from them have the integer type.
"""

from __future__ import annotations

from typing import Any

from ...dtype import CUSTOM, info, stored
from ...error import TVMError
from ...ir.op import Op
from ...ir.prim import BinaryOpExpr, BufferLoad, Call, Cast, CmpExpr, FloatImm, PrimExpr, Var
from ...ir.visit import post_order, pre_order
from ...target.datatype import LOWER, lower_key
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Allocate, BufferStore, DeclBuffer, LetStmt, Stmt
from .statement import StmtRewriter


class CustomLowerer(StmtRewriter):
    def __init__(self, target: str):
        self.target = target
        self.buffers: dict[Buffer, Buffer] = {}
        self.variables: dict[Var, Var] = {}
        # The original nodes are kept alive with their replacements, so that their identities are not reused.
        self.done: dict[int, tuple[Any, Any]] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        if not info(buffer.dtype).is_custom:
            return buffer
        if buffer not in self.buffers:
            self.buffers[buffer] = buffer.replace(dtype=stored(buffer.dtype))
        return self.buffers[buffer]

    def variable(self, var: Var) -> Var:
        if not info(var.dtype).is_custom:
            return var
        if var not in self.variables:
            self.variables[var] = Var(var.name, stored(var.dtype))
        return self.variables[var]

    def expr(self, node: Any) -> Any:
        for part in post_order(node, self.done):
            self.done[id(part)] = (part, self.lowered(part))
        return self.done[id(node)][1]

    def lowered(self, old: Any) -> Any:
        if isinstance(old, Var):
            return self.variable(old)
        new = old.map_children(lambda child: self.done[id(child)][1])
        if not isinstance(old, PrimExpr):
            return new
        if isinstance(old, BufferLoad):
            return BufferLoad(self.buffer(old.buffer), new.indices)
        custom = info(old.dtype).is_custom
        if isinstance(old, Cast):
            return self.cast(old, new) if custom or info(old.value.dtype).is_custom else new
        if isinstance(old, (BinaryOpExpr, CmpExpr)):
            return self.by_function(new, type(old).__name__, old.a.dtype) if info(old.a.dtype).is_custom else new
        if isinstance(old, FloatImm):
            return self.by_function(new, "FloatImm", old.dtype) if custom else new
        return self.call(old, new) if custom and isinstance(old, Call) else new

    def cast(self, old: Cast, new: Cast) -> PrimExpr:
        given, wanted = type_name(old.value.dtype), type_name(old.dtype)
        key = lower_key("Cast", self.target, given, wanted, None)
        return self.replaced(key, new, f"Cast from {old.value.dtype} to {old.dtype}")

    def by_function(self, new: PrimExpr, name: str, dtype: str) -> PrimExpr:
        return self.replaced(lower_key(name, self.target, type_name(dtype), None, None), new, f"{name} of {dtype}")

    def call(self, old: Call, new: Call) -> PrimExpr:
        name = getattr(old.op, "name", "")
        if name in ("tir.type_annotation", "tir.reinterpret"):
            return Call(stored(old.dtype), new.op, new.args)
        intrinsic = name if isinstance(old.op, Op) else None
        key = lower_key("Call", self.target, type_name(old.dtype), None, intrinsic)
        rule = old.op.attrs.get("default.FLowerIntrinsic") if intrinsic is not None else None
        simpler = rule(old) if rule is not None and key not in LOWER else None
        if simpler is not None and simpler is not old:
            # Lower the intrinsic to simpler intrinsics, which more libraries implement.
            return self.expr(simpler)
        return self.replaced(key, new, f"Call of {name} with the result {old.dtype}")

    def replaced(self, key: str, new: PrimExpr, what: str) -> PrimExpr:
        function = LOWER.get(key)
        if function is None:
            raise TVMError(
                f"{what}: no lowering function is registered for target {self.target}; register one with "
                f"tvm.target.datatype.register_op"
            )
        return function(new)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        indices = tuple(self.expr(i) for i in node.indices)
        return BufferStore(self.buffer(node.buffer), self.expr(node.value), indices)

    def on_Allocate(self, node: Allocate) -> Stmt:
        new: Any = self.keep(node)
        return new.replace(dtype=stored(node.dtype)) if info(node.dtype).is_custom else new

    def on_DeclBuffer(self, node: DeclBuffer) -> Stmt:
        new: Any = self.keep(node)
        return new.replace(buffer=self.buffer(node.buffer))

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        new: Any = self.keep(node)
        return LetStmt(self.variable(node.var), new.value, new.body)


def type_name(dtype: str) -> str:
    """Return the name of a type as used by the registry of lowering functions."""
    kind = info(dtype)
    return kind.code[7:-1] if kind.is_custom else "uint" if kind.is_bool else kind.code


def uses_custom_types(func: PrimFunc) -> bool:
    """Return whether a function computes with values of a custom type."""
    if not CUSTOM:
        return False
    return any(info(n.dtype).is_custom for n in pre_order(func.body) if isinstance(n, (PrimExpr, Allocate))) or any(
        info(b.dtype).is_custom for b in func.buffer_map.values()
    )


def lower_custom_datatypes(func: PrimFunc) -> PrimFunc:
    if not uses_custom_types(func):
        return func
    target = func.attrs.get("target")
    if target is None:
        raise TVMError("LowerCustomDatatypes: the function has no target; run BindTarget first")
    return func.replace(body=CustomLowerer(target.kind.name).stmt(func.body))
