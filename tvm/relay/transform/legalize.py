"""Operators in the form a target has, and in the layout it likes: rules that operators carry."""

from __future__ import annotations

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ..expr import Call, Function, RelayExpr
from ..infer import infer_function
from .function_pass import RelayFunctionPass, function_pass, rewrite_typed
from .layouts import Layouts


def Legalize(legalize_map_attr_name: str = "FTVMLegalize") -> RelayFunctionPass:
    """Replace operators by what their rule gives: ``rule(attrs, inputs, types + [result type]) -> expr or None``."""

    @function_pass(opt_level=1, name="Legalize", required=["InferType"])
    def legalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        def rule(node: RelayExpr) -> RelayExpr | None:
            if type(node) is not Call or type(node.op) is not Op:
                return None
            own = node.op.attrs.get(legalize_map_attr_name)
            if own is None:
                return None
            return own(node.attrs, list(node.args), [*[a.checked_type_ for a in node.args], node.checked_type_])

        return rewrite_typed(func, rule, mod)

    return legalize


def _chosen(node: Call) -> RelayExpr | None:
    own = node.op.attrs.get("FTVMAlterOpLayout")
    if own is None:
        return None
    return own(node.attrs, list(node.args), [a.checked_type_ for a in node.args], node.checked_type_)


def AlterOpLayout(fold: bool = False) -> RelayFunctionPass:
    """Replace operators by forms in other layouts: ``FTVMAlterOpLayout(attrs, inputs, tinfos, out_type)`` gives a call
    over the same inputs whose attributes say its layouts. The operators in between follow. With ``fold``, constants
    are rearranged at once."""

    @function_pass(opt_level=3, name="AlterOpLayout", required=["InferType"])
    def alter(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        new = Layouts(_chosen, fold).run(func)
        return func if new is func else infer_function(new, mod)

    return alter


__all__ = ["AlterOpLayout", "Legalize"]
