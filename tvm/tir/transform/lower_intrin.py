"""LowerIntrin: replace intrinsics by operations of the target, using the rules registered for their operators.

A rule is the attribute ``<target>.FLowerIntrinsic`` (or ``.FLegalize``) of the operator: a function from the call to an
expression. If it returns None or the same call, the next rule is tried. Rules are tried from the most to the least
specific, and their output is lowered again. Floor division becomes a shift for powers of two, a truncating division if
the signs are known, and otherwise a truncating division with a correction.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...dtype import info
from ...error import TVMError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import (
    Add,
    Broadcast,
    Call,
    Cast,
    Div,
    FloorDiv,
    FloorMod,
    Max,
    Min,
    Mod,
    Mul,
    PrimExpr,
    Ramp,
    Select,
    const,
)
from ...ir.visit import rewrite
from ..function import PrimFunc
from ..stmt import IfThenElse, LetStmt, Stmt
from .facts import analyzer_of
from .simplify import plain
from .statement import RangeRewriter

_ROUNDS = 16  # Maximum number of replacements of one call; more indicate rules that replace each other's output
# Maximum depth of a vector expression that is searched to determine its sign.
_DEEPEST = 64


def rule_names(target: Any) -> list[str]:
    """Return the prefixes of the attribute names to look up, most specific first."""
    names: list[str] = []
    if target is not None:
        kind = target.kind.name
        triple = str(target.attrs.get("mtriple", "")) if getattr(target, "attrs", None) else ""
        if triple.startswith(("aarch64", "arm64")):
            names.append(f"{kind}.aarch64")
        names.append(kind)
        if kind not in ("c", "llvm", "hexagon"):
            names.extend(k for k in getattr(target, "keys", ()) if k != kind)
    names.append("default")
    return list(dict.fromkeys(names))


class IntrinLowerer(RangeRewriter):
    def __init__(self, target: Any, analyzer: Analyzer):
        self.names = rule_names(target)
        self.analyzer = analyzer
        self.memo: dict = {}
        # id of a vector -> the vector, and whether all its lanes are known to be non-negative.
        self.signs: dict[int, tuple[PrimExpr, bool]] = {}
        self.rules: dict[str, list] = {}

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        condition = self.expr(node.condition)
        outer = self.memo, self.signs
        self.memo, self.signs = {}, {}
        with self.analyzer.constraint_scope(plain(node.condition)):
            then_case = self.stmt(node.then_case)
        self.memo, self.signs = outer
        else_case = None if node.else_case is None else self.stmt(node.else_case)
        if condition is node.condition and then_case is node.then_case and else_case is node.else_case:
            return node
        return IfThenElse(condition, then_case, else_case)

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        kind = info(node.var.dtype)
        if kind.is_int and kind.lanes == 1:
            self.analyzer.bind(node.var, node.value)
        return self.keep(node)

    # Expressions ----------------------------------------------------------------------------------------------
    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after, None, self.memo)

    def after(self, node: Any):
        handler = DIVISIONS.get(type(node))
        if handler is not None:
            return handler(self, node)
        if type(node) is Call:
            return self.call(node)
        return None

    def rules_of(self, op: Op) -> list:
        got = self.rules.get(op.name)
        if got is None:
            keys = [f"{n}.{kind}" for kind in ("FLowerIntrinsic", "FLegalize") for n in self.names]
            got = self.rules[op.name] = [op.attrs[k] for k in keys if k in op.attrs]
        return got

    def call(self, node: Call) -> PrimExpr | None:
        if not isinstance(node.op, Op):
            return None
        for rule in self.rules_of(node.op):
            new = rule(node)
            if new is node:
                return None
            if new is not None:
                return self.again(new, node)
        return None

    def again(self, node: PrimExpr, origin: Call, rounds: int = _ROUNDS) -> PrimExpr:
        """Lower the expression that a rule returned for ``origin``, whose operands are already lowered."""
        if not rounds:
            raise TVMError(f"the lowering rules of {node} replace each other endlessly")
        lowerer = self

        def post(n):
            if type(n) is Call and isinstance(n.op, Op):
                for rule in lowerer.rules_of(n.op):
                    new = rule(n)
                    if new is n:
                        return None
                    if new is not None:
                        return lowerer.again(new, n, rounds - 1)
                return None
            handler = DIVISIONS.get(type(n))
            return handler(lowerer, n) if handler is not None else None

        return rewrite(node, post, None, {id(a): (a, a) for a in origin.args})

    # Division that rounds down --------------------------------------------------------------------------------
    def not_negative(self, e: PrimExpr, depth: int = 0) -> bool:
        """Return whether every lane is provably non-negative; deep expressions are not analyzed."""
        if info(e.dtype).is_uint:
            return True
        if info(e.dtype).lanes == 1:
            return self.analyzer.const_int_bound(e).min_value >= 0
        got = self.signs.get(id(e))
        if got is None:
            got = self.signs[id(e)] = e, depth < _DEEPEST and self.lanes_not_negative(e, depth + 1)
        return got[1]

    def lanes_not_negative(self, e: PrimExpr, depth: int) -> bool:
        kind = type(e)
        if kind is Ramp:
            return self.not_negative(e.base, depth) and self.not_negative(e.stride, depth)
        if kind is Broadcast:
            return self.not_negative(e.value, depth)
        if kind in (Add, Mul, Div, Mod, Min, Max, FloorDiv, FloorMod):
            return self.not_negative(e.a, depth) and self.not_negative(e.b, depth)
        if kind is Cast:
            return info(e.value.dtype).is_integer and self.not_negative(e.value, depth)
        return False

    def floor_div(self, node: FloorDiv) -> PrimExpr | None:
        a, b = node.a, node.b
        kind = info(node.dtype)
        if kind.is_float:
            return Call(node.dtype, Op.get("tir.floor"), (Div(a, b),))
        shift = power_of_two(b)
        if shift is not None and not kind.is_uint:
            return Call(node.dtype, Op.get("tir.shift_right"), (a, const(shift, node.dtype)))
        if self.not_negative(a) and self.not_negative(b):
            return Div(a, b)
        quotient, remainder = Div(a, b), Mod(a, b)
        wrong = remainder_has_other_sign(remainder, b, self.not_negative(b))
        return Select(wrong, quotient - const(1, node.dtype), quotient)

    def floor_mod(self, node: FloorMod) -> PrimExpr | None:
        a, b = node.a, node.b
        kind = info(node.dtype)
        shift = power_of_two(b)
        if shift is not None and not kind.is_uint:
            mask = const((1 << shift) - 1, node.dtype)
            return Call(node.dtype, Op.get("tir.bitwise_and"), (a, mask))
        if self.not_negative(a) and self.not_negative(b):
            return Mod(a, b)
        remainder = Mod(a, b)
        wrong = remainder_has_other_sign(remainder, b, self.not_negative(b))
        return Select(wrong, remainder + b, remainder)


def remainder_has_other_sign(remainder: PrimExpr, divisor: PrimExpr, positive: bool) -> PrimExpr:
    """Return whether the truncated remainder has the wrong sign for floor division."""
    zero = const(0, remainder.dtype)
    if positive:
        return primop.less(remainder, zero)
    down = primop.logical_and(primop.less(remainder, zero), primop.greater(divisor, zero))
    up = primop.logical_and(primop.greater(remainder, zero), primop.less(divisor, zero))
    return primop.logical_or(down, up)


def power_of_two(e: PrimExpr) -> int | None:
    value = primop.literal(e)
    if isinstance(value, int) and value > 0 and value & (value - 1) == 0:
        return value.bit_length() - 1
    return None


DIVISIONS = {FloorDiv: IntrinLowerer.floor_div, FloorMod: IntrinLowerer.floor_mod}


def lower_intrin(func: PrimFunc, target: Any = None) -> PrimFunc:
    target = target if target is not None else func.attrs.get("target")
    return func.replace(body=IntrinLowerer(target, analyzer_of(func)).stmt(func.body))
