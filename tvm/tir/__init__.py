# ruff: noqa: F401
"""Tensor programs as loops: expressions, statements, buffers, functions, and what is done with them."""

from __future__ import annotations

import importlib

from ..ir import node as _node
from ..ir.op import Op
from ..ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOpExpr,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CmpExpr,
    CommReducer,
    ConstExpr,
    Div,
    ExprOp,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterVar,
    Let,
    LogicalExpr,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    PrimExprWithOp,
    ProducerLoad,
    Ramp,
    Range,
    Reduce,
    Select,
    Shuffle,
    SizeVar,
    StringImm,
    Sub,
    Var,
)
from ..ir.prim import Any_ as Any
from .buffer import Buffer, decl_buffer
from .function import PrimFunc
from .op import *
from .stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
    stmt_list,
    stmt_seq,
)

# Parts imported when first asked for, so that `import tvm` stays quick.
_PARTS = (
    "analysis", "data_layout", "expr", "generic", "intrin_rules", "ir_builder", "pipeline", "schedule",
    "stmt_functor", "tensor_intrin", "transform", "usmp", "verify",
)  # fmt: skip


def __getattr__(name: str):
    if name in _PARTS:
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _text(node, **options) -> str:
    # The printer is loaded by the first node that is printed.
    return importlib.import_module("tvm.script.printer").script(node, **options)


_node.PRINTERS[0] = _text
