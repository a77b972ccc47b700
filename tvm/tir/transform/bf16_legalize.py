"""BF16ComputeLegalize, BF16StorageLegalize: lower bfloat16 for targets without this type.

BF16ComputeLegalize computes in float32 and rounds each value back to bfloat16. BF16StorageLegalize stores bfloat16 as
16-bit integers and replaces casts by bit operations.
"""

from __future__ import annotations

import struct
from typing import Any

from ...dtype import info, make
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BinaryOpExpr, BufferLoad, Call, Cast, CmpExpr, FloatImm, PrimExpr, Select, Var, const
from ...ir.visit import rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..intrinsics import ELEMENTWISE
from ..stmt import Allocate, BufferStore, LetStmt, Stmt
from .statement import StmtRewriter, op_name


def is_bfloat(dtype: str) -> bool:
    return info(dtype).code == "bfloat"


def like(dtype: str, code: str, bits: int) -> str:
    return make(code, bits, info(dtype).lanes)


# Arithmetic in float32 --------------------------------------------------------------------------------------------


def widened(e: PrimExpr) -> PrimExpr:
    return primop.cast(like(e.dtype, "float", 32), e) if is_bfloat(e.dtype) else e


def compute_in_float32(node: Any):
    if isinstance(node, BinaryOpExpr) and is_bfloat(node.a.dtype):
        kind: Any = type(node)
        got = kind(widened(node.a), widened(node.b))
        return got if isinstance(node, CmpExpr) else Cast(node.dtype, got)
    if type(node) is Call and is_bfloat(node.dtype) and op_name(node).removeprefix("tir.") in ELEMENTWISE:
        wide = like(node.dtype, "float", 32)
        return Cast(node.dtype, Call(wide, node.op, tuple(widened(a) for a in node.args)))
    return None


def bf16_compute_legalize(func: PrimFunc) -> PrimFunc:
    return func.replace(body=rewrite(func.body, compute_in_float32))


# Storage as 16-bit integers ---------------------------------------------------------------------------------------


def word_to_float(word: PrimExpr) -> PrimExpr:
    wide = like(word.dtype, "uint", 32)
    shifted = Call(wide, Op.get("tir.shift_left"), (primop.cast(wide, word), const(16, wide)))
    return Call(like(word.dtype, "float", 32), Op.get("tir.reinterpret"), (shifted,))


def float_to_word(value: PrimExpr) -> PrimExpr:
    """Round to the nearest bfloat16, ties to even; NaN stays NaN."""
    wide = like(value.dtype, "uint", 32)
    bits = Call(wide, Op.get("tir.reinterpret"), (value,))
    last = Call(
        wide,
        Op.get("tir.bitwise_and"),
        (Call(wide, Op.get("tir.shift_right"), (bits, const(16, wide))), const(1, wide)),
    )
    rounded = bits + const(0x7FFF, wide) + last
    short = like(value.dtype, "uint", 16)
    word = primop.cast(short, Call(wide, Op.get("tir.shift_right"), (rounded, const(16, wide))))
    is_nan = primop.not_equal(value, value)
    return Select(is_nan, const(0x7FC0, short), word)


class StorageLegalizer(StmtRewriter):
    def __init__(self):
        self.buffers: dict[Buffer, Buffer] = {}
        self.variables: dict[Var, Var] = {}
        self.memo: dict = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        if not is_bfloat(buffer.dtype):
            return buffer
        got = self.buffers.get(buffer)
        if got is None:
            got = self.buffers[buffer] = buffer.replace(dtype=like(buffer.dtype, "uint", 16))
        return got

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after, self.before, self.memo)

    def before(self, node: Any):
        """Rewrite a cast before its bfloat16 operand is replaced by an integer."""
        if type(node) is not Cast or not (is_bfloat(node.dtype) or is_bfloat(node.value.dtype)):
            return None
        value = self.expr(node.value)
        if is_bfloat(node.value.dtype):
            value = word_to_float(value)
        if is_bfloat(node.dtype):
            return float_to_word(primop.cast(like(node.dtype, "float", 32), value))
        return primop.cast(node.dtype, value)

    def after(self, node: Any):
        if type(node) is BufferLoad and is_bfloat(node.buffer.dtype):
            return BufferLoad(self.buffer(node.buffer), node.indices)
        if type(node) is FloatImm and is_bfloat(node.dtype):
            return const(word_of(node.value), "uint16")
        if isinstance(node, Var) and is_bfloat(node.dtype):
            return self.variables.setdefault(node, Var(node.name, like(node.dtype, "uint", 16)))
        return None

    def on_Allocate(self, node: Allocate) -> Stmt:
        new = self.keep(node)
        return new.replace(dtype=like(node.dtype, "uint", 16)) if is_bfloat(node.dtype) else new

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        value, body = self.expr(node.value), self.stmt(node.body)
        return LetStmt(self.variables.get(node.var, node.var), value, body)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        return new.replace(buffer=self.buffer(node.buffer)) if is_bfloat(node.buffer.dtype) else new


def word_of(value: float) -> int:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if value != value:
        return 0x7FC0
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def bf16_storage_legalize(func: PrimFunc) -> PrimFunc:
    legalizer = StorageLegalizer()
    body = legalizer.stmt(func.body)
    buffers = {p: legalizer.buffer(b) for p, b in func.buffer_map.items()}
    return func.replace(body=body, buffer_map=buffers)
