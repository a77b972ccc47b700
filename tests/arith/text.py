"""Expressions from text, for tables of tests: ``//`` and ``%`` floor, the rest as Python reads it."""

from __future__ import annotations

import ast

from tvm.ir.op import Op
from tvm.ir.prim import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    Call,
    Div,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    PrimExpr,
    Ramp,
    Select,
    Sub,
    Var,
    const,
)
from tvm.ir.primop import BUILD, cast, logical_not, match_types

_BINARY = {ast.Add: Add, ast.Sub: Sub, ast.Mult: Mul, ast.FloorDiv: FloorDiv, ast.Mod: FloorMod}
_COMPARE = {ast.Lt: LT, ast.LtE: LE, ast.Gt: GT, ast.GtE: GE, ast.Eq: EQ, ast.NotEq: NE}
_CALLS = {"min": Min, "max": Max, "truncdiv": Div, "truncmod": Mod}
_SYMBOLS = {Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%", LT: "<", LE: "<=", GT: ">", GE: ">=", EQ: "=="}
_SYMBOLS |= {NE: "!=", And: "and", Or: "or"}
_NAMES = {Min: "min", Max: "max", Div: "truncdiv", Mod: "truncmod", Select: "select", Broadcast: "broadcast"}


def parse(text: str, names: dict[str, PrimExpr], dtype: str = "int32") -> PrimExpr:
    """The expression, built as user code would build it: literals folded, nothing else."""
    return _build(ast.parse(text.strip(), mode="eval").body, names, dtype)


def _build(n: ast.AST, names, dtype) -> PrimExpr:
    if isinstance(n, ast.Name):
        return names[n.id]
    if isinstance(n, ast.Constant):
        return const(n.value, "bool" if isinstance(n.value, bool) else dtype)
    if isinstance(n, ast.UnaryOp):
        inner = _build(n.operand, names, dtype)
        if isinstance(n.op, ast.Not):
            return logical_not(inner)
        return IntImm(inner.dtype, -inner.value) if isinstance(inner, IntImm) else -inner
    if isinstance(n, ast.BinOp):
        return BUILD[_BINARY[type(n.op)]](_build(n.left, names, dtype), _build(n.right, names, dtype))
    if isinstance(n, ast.Compare):
        return BUILD[_COMPARE[type(n.ops[0])]](_build(n.left, names, dtype), _build(n.comparators[0], names, dtype))
    if isinstance(n, ast.BoolOp):
        got = _build(n.values[0], names, dtype)
        for v in n.values[1:]:
            got = BUILD[And if isinstance(n.op, ast.And) else Or](got, _build(v, names, dtype))
        return got
    name = n.func.id
    if name in ("ramp", "broadcast", "cast"):
        *args, last = n.args
        built = [_build(a, names, dtype) for a in args]
        if name == "cast":
            return cast(last.value, built[0])
        return Ramp(*built, last.value) if name == "ramp" else Broadcast(*built, last.value)
    built = [_build(a, names, dtype) for a in n.args]
    if name == "select":
        return Select(built[0], *match_types(*built[1:]))
    if name in _CALLS:
        return BUILD[_CALLS[name]](*built)
    return Call(built[-1].dtype, Op.get("tir." + name), built)


def show(e: PrimExpr) -> str:
    """Text of an expression, for messages."""
    cls = type(e)
    if isinstance(e, Var):
        return e.name
    if isinstance(e, IntImm):
        return str(bool(e.value)) if e.dtype == "bool" else str(e.value)
    if cls in _SYMBOLS:
        return f"({show(e.a)} {_SYMBOLS[cls]} {show(e.b)})"
    if cls is Not:
        return f"(not {show(e.a)})"
    name = e.op.name if isinstance(e, Call) else _NAMES.get(cls, cls.__name__)
    return f"{name}({', '.join(show(c) for c in e.children())})"
