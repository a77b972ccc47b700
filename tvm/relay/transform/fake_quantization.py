"""Convert networks that compute in float between dequantize and quantize to integer arithmetic.

Before every ``qnn.quantize``, the operators back to ``qnn.dequantize`` are rebuilt over integers with the rules in
``fake_quantization_rules``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import rewrite
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem
from ..infer import infer_function
from ..qnn.op import qnn
from .fake_quantization_rules import (
    ALWAYS,
    OPTIONAL,
    RULES,
    Affine,
    NoRule,
    Rule,
    Value,
    registered,
    requantized,
    value_of,
)
from .function_pass import RelayFunctionPass, function_pass, is_call
from .fuse_ops import own_nodes


class _Region:
    """Rebuilds the subgraph before one quantize over integers; operands first and without recursion."""

    def __init__(self, out: Affine, rules: dict[str, Rule], memo: dict):
        self.out, self.rules, self.memo = out, rules, memo
        self.values: dict[int, Value | RelayExpr] = {}

    def run(self, root: RelayExpr) -> Value:
        stack = [root]
        while stack:
            e = stack[-1]
            if id(e) in self.values:
                stack.pop()
                continue
            waiting = [o for o in self.operands(e) if id(o) not in self.values]
            if waiting:
                stack.extend(waiting)
                continue
            self.values[id(e)] = self.make(e)
            stack.pop()
        return value_of(self.values[id(root)])

    def operands(self, e: RelayExpr) -> Iterable[RelayExpr]:
        if isinstance(e, Constant) or is_call(e, "qnn.dequantize"):
            return ()
        if isinstance(e, TupleGetItem):
            return (e.tuple_value,)
        if not isinstance(e, Call) or not isinstance(e.op, Op) or e.op.name not in self.rules:
            name = e.op.name if isinstance(e, Call) and isinstance(e.op, Op) else type(e).__name__
            raise NoRule(f"{name} has no rule for integers")
        args = e.args[:1] if e.op.name == "take" else e.args
        return [f for a in args for f in (a.fields if isinstance(a, Tuple) else (a,))]

    def make(self, e: RelayExpr) -> Value | RelayExpr:
        if isinstance(e, Constant):
            return e
        if isinstance(e, TupleGetItem):
            parts = value_of(self.values[id(e.tuple_value)])
            return Value(TupleGetItem(parts.expr, e.index), parts.affine)
        assert isinstance(e, Call)
        if e.op.name == "qnn.dequantize":
            data, scale, zero = e.args
            return Value(rewrite(data, memo=self.memo), Affine(scale, zero, data.checked_type_.dtype, e.attrs.axis))
        return self.rules[e.op.name](e, [self.values[id(o)] for o in self.operands(e)], self.out)


def _quantized(node: RelayExpr, rules: dict[str, Rule], hard_fail: bool, memo: dict) -> RelayExpr | None:
    if not isinstance(node, Call) or not is_call(node, "qnn.quantize"):
        return None
    data, scale, zero = node.args
    out = Affine(scale, zero, node.attrs.out_dtype, node.attrs.axis)
    if isinstance(data, Constant):
        return None
    try:
        return requantized(_Region(out, rules, memo).run(data), out).expr
    except NoRule as why:
        if hard_fail:
            raise TVMError(f"FakeQuantizationToInteger: {why}") from None
        return None


def _forward(func: Function, mod: IRModule) -> Function:
    """Rebuild operators whose operands are all dequantized over integers, followed by a dequantize.

    The quantization of their output is not known, so only the operators in ``ALWAYS`` are rebuilt."""
    values: dict[int, Value] = {}
    memo: dict[int, tuple[Any, Any]] = {}
    for node in own_nodes(func.body):
        if not isinstance(node, Call) or not isinstance(node.op, Op):
            continue
        if node.op.name == "qnn.dequantize":
            data, scale, zero = node.args
            values[id(node)] = Value(data, Affine(scale, zero, data.checked_type_.dtype, node.attrs.axis))
        elif node.op.name in ALWAYS and node.args and all(id(a) in values for a in node.args):
            operands = [values[id(a)] for a in node.args]
            try:
                made = RULES[node.op.name](node, [*operands], operands[0].affine)
            except NoRule:
                continue
            values[id(node)] = made
            have = made.affine
            axis = {} if have.single() else {"axis": have.axis}
            memo[id(node)] = (node, qnn.dequantize(made.expr, have.scale, have.zero, **axis))
    return infer_function(func.replace(body=rewrite(func.body, memo=memo)), mod) if memo else func


def FakeQuantizationToInteger(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: list[str] | None = None
) -> RelayFunctionPass:
    """Convert operators between dequantize and quantize to integer arithmetic.

    Parameters
    ----------
    hard_fail : bool, optional
        Whether an operator without a rule is an error. By default it stays in float.
    use_qat : bool, optional
        Whether operators with dequantized operands are converted even if no quantize follows them, as in networks from
        quantization-aware training.
    optional_qnn_ops : list[str], optional
        Names of additional operators that are converted, with their optional rules.

    Returns
    -------
    RelayFunctionPass

    Raises
    ------
    TVMError
        An optional operator has no rule.
    """
    rules = {**RULES, **registered("FTVMFakeQuantizationToInteger")}
    known = {**rules, **OPTIONAL, **registered("FTVMOptionalFakeQuantizationToInteger")}
    unknown = [n for n in optional_qnn_ops or () if n not in known]
    if unknown:
        raise TVMError(
            f"FakeQuantizationToInteger: no optional rule for '{unknown[0]}'; available: {', '.join(OPTIONAL)}"
        )
    rules.update({n: known[n] for n in optional_qnn_ops or ()})

    @function_pass(opt_level=0, name="FakeQuantizationToInteger", required=["InferType"])
    def convert(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        # Regions are read from the original, typed graph; ``memo`` maps its expressions to rewritten ones.
        memo: dict[int, tuple[Any, Any]] = {}
        found = False
        for node in own_nodes(func.body):
            got = _quantized(node, rules, hard_fail, memo)
            if got is not None:
                memo[id(node)] = (node, got)
                found = True
        made = infer_function(func.replace(body=rewrite(func.body, memo=memo)), mod) if found else func
        return _forward(made, mod) if use_qat else made

    return convert


__all__ = ["FakeQuantizationToInteger"]
