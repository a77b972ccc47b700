"""Replace operators with dynamic shapes by static operators if the shapes are constants."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import post_order, rewrite
from ..expr import Call, Function, RelayExpr
from ..infer import infer_function
from .expand_ops import typed
from .fold_constant import _Fold, _transposed
from .function_pass import RelayFunctionPass, function_pass, replacement


class _Static:
    """The rewrite rule. Operands are rewritten first, so that a call sees operands that have become constants."""

    def __init__(self):
        self.fold = _Fold()

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        if type(node) is not Call or not isinstance(node.op, Op):
            return self.fold(node)
        rule = node.op.attrs.get("to_static")
        made = rule(node.attrs, node.args) if rule is not None else None
        if made is not None:
            node = made
        for arg in node.args:
            typed(arg)
        folded = self.fold(node)
        return folded if folded is not None else made


def static_function(func: Function, mod: IRModule | None = None) -> Function:
    if not any(type(n) is Call and isinstance(n.op, Op) and "to_static" in n.op.attrs for n in post_order(func)):
        return func
    rule = _Static()
    return infer_function(rewrite(func, lambda node: replacement(rule, node), _transposed), mod)


def DynamicToStatic() -> RelayFunctionPass:
    """Replace operators with dynamic shapes by static operators if constants determine the shapes."""

    @function_pass(opt_level=0, name="DynamicToStatic", required=["InferType"])
    def make_static(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return static_function(func, mod)

    return make_static
