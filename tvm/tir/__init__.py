"""Tensor programs as loop nests: expressions, statements, buffers, functions, and their analyses and
transformations."""

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
from . import intrin_rules
from .buffer import Buffer, decl_buffer
from .function import IndexMap, PrimFunc, TensorIntrin
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

# Submodules that are imported at their first use, so that `import tvm` is fast.
_PARTS = (
    "analysis", "data_layout", "expr", "functor", "generic", "ir_builder", "pipeline", "schedule",
    "stmt_functor", "tensor_intrin", "transform", "usmp", "verify",
)  # fmt: skip


# Names that are defined in those submodules.
_NAMES = {
    "BijectiveLayout": "data_layout",
    "Layout": "data_layout",
    "bijective_layout": "data_layout",
    "layout": "data_layout",
    "PyStmtExprMutator": "functor",
    "PyStmtExprVisitor": "functor",
    "BlockScope": "schedule",
    "Schedule": "schedule",
    "ScheduleError": "schedule",
    "ScheduleState": "schedule",
    "StmtSRef": "schedule",
    "Dependency": "schedule",
    "DepKind": "schedule",
}


def __getattr__(name: str):
    part = name if name in _PARTS else _NAMES.get(name)
    if part is not None:
        path = f"{__name__}.{part}"
        try:
            module = importlib.import_module(path)
        except ModuleNotFoundError as error:
            if error.name != path:
                raise
        else:
            return module if part == name else getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _text(node, **options) -> str:
    # The printer is imported when the first node is printed.
    return importlib.import_module("tvm.script.printer").script(node, **options)


_node.PRINTER.give(_text)
