"""Scalar and vector expressions: the node classes and the Python operators on them.

Integer semantics: ``Div``/``Mod`` truncate, ``FloorDiv``/``FloorMod`` round towards minus infinity; signed overflow
wraps. ``docs/ir.md`` contains the complete semantics.
"""

from __future__ import annotations

from .base import BaseExpr, EqualOp, ExprOp, NotEqualOp, PrimExpr, PrimExprWithOp, bool_like
from .calls import Any_, Call, Let
from .conversion import convert
from .iteration import CommReducer, IterVar, Range, Reduce
from .loads import BufferLoad, ProducerLoad
from .operators import (
    Add,
    And,
    BinaryOpExpr,
    Cast,
    CmpExpr,
    Div,
    EQ,
    FloorDiv,
    FloorMod,
    GE,
    GT,
    LE,
    LT,
    LogicalExpr,
    Max,
    Min,
    Mod,
    Mul,
    NE,
    Not,
    Or,
    Select,
    Sub,
)
from .values import ConstExpr, FloatImm, IntImm, PYTHON_NUMBERS, SizeVar, StringImm, Var, const
from .vectors import Broadcast, Ramp, Shuffle

__all__ = [
    "Add",
    "And",
    "Any_",
    "BaseExpr",
    "BinaryOpExpr",
    "Broadcast",
    "BufferLoad",
    "Call",
    "Cast",
    "CmpExpr",
    "CommReducer",
    "ConstExpr",
    "Div",
    "EQ",
    "EqualOp",
    "ExprOp",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "GE",
    "GT",
    "IntImm",
    "IterVar",
    "LE",
    "LT",
    "Let",
    "LogicalExpr",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "NE",
    "Not",
    "NotEqualOp",
    "Or",
    "PYTHON_NUMBERS",
    "PrimExpr",
    "PrimExprWithOp",
    "ProducerLoad",
    "Ramp",
    "Range",
    "Reduce",
    "Select",
    "Shuffle",
    "SizeVar",
    "StringImm",
    "Sub",
    "Var",
    "bool_like",
    "const",
    "convert",
]
