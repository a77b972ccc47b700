"""Operators in the form a target has, and in the layout it likes: rules that operators carry."""

from __future__ import annotations

from contextlib import nullcontext

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...target import Target
from ..expr import Call, Function, RelayExpr
from ..infer import infer_function
from .function_pass import RelayFunctionPass, function_pass, rewrite_typed, target_of_pass
from .layouts import Layouts


def follow_rules(func: Function, mod: IRModule, attribute: str) -> Function:
    """The function with each operator replaced by what its rule under ``attribute`` gives, given the attributes, the
    operands, and the types of the operands and of the output; None leaves the operator."""

    def rule(node: RelayExpr) -> RelayExpr | None:
        own = node.op.attrs.get(attribute) if type(node) is Call and type(node.op) is Op else None
        if own is None:
            return None
        return own(node.attrs, list(node.args), [*[a.checked_type_ for a in node.args], node.checked_type_])

    return rewrite_typed(func, rule, mod)


def Legalize(legalize_map_attr_name: str = "FTVMLegalize") -> RelayFunctionPass:
    """Replace operators by what their rule gives: ``rule(attrs, inputs, types + [result type]) -> expr or None``. The
    rules of convolutions, dense layers and matmuls call the hooks ``topi.nn.conv2d_legalize``, ``dense_legalize`` and
    ``batch_matmul_legalize`` for the current target.

    Parameters
    ----------
    legalize_map_attr_name : str, optional
        The attribute that holds the rule.

    Returns
    -------
    RelayFunctionPass
    """

    @function_pass(opt_level=1, name="Legalize", required=["InferType"])
    def legalize(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return follow_rules(func, mod, legalize_map_attr_name)

    return legalize


def _in_other_layout(node: Call, target: Target | None) -> RelayExpr | None:
    given = (node.attrs, list(node.args), [a.checked_type_ for a in node.args], node.checked_type_)
    users, ours = node.op.attrs.get("FTVMAlterOpLayout"), node.op.attrs.get("alter_layout")
    if users is not None:
        return users(*given)
    return None if ours is None else ours(*given, target)


def AlterOpLayout(fold: bool = False, target: Target | None = None) -> RelayFunctionPass:
    """Replace operators by forms in other layouts: ``FTVMAlterOpLayout(attrs, inputs, tinfos, out_type)`` gives a call
    over the same inputs whose attributes say its layouts. The rules of convolutions and dense layers call the hooks
    ``topi.nn.conv2d_alter_layout``, ``conv3d_alter_layout`` and ``dense_alter_layout`` for the target, by default the
    current one. The operators in between follow. With ``fold``, constants are rearranged at once.

    Parameters
    ----------
    fold : bool, optional
        Whether changes of layout of constants are computed at once.
    target : Target, optional
        The target; without it, the current one.

    Returns
    -------
    RelayFunctionPass
    """

    @function_pass(opt_level=3, name="AlterOpLayout", required=["InferType"])
    def alter(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        device = target_of_pass(target)
        with device if device is not None else nullcontext():
            new = Layouts(lambda node: _in_other_layout(node, device), fold).run(func)
        return func if new is func else infer_function(new, mod)

    return alter


__all__ = ["AlterOpLayout", "Legalize", "follow_rules"]
