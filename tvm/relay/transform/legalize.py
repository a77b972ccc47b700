"""Legalization and layout selection for a target with the rules registered for operators."""

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
    """Replace each operator by the result of its rule in ``attribute``.

    The rule gets the attributes, the operands, and the types of the operands and of the output. It returns None to keep
    the operator."""

    def rule(node: RelayExpr) -> RelayExpr | None:
        own = node.op.attrs.get(attribute) if type(node) is Call and type(node.op) is Op else None
        if own is None:
            return None
        return own(node.attrs, list(node.args), [*[a.checked_type_ for a in node.args], node.checked_type_])

    return rewrite_typed(func, rule, mod)


def Legalize(legalize_map_attr_name: str = "FTVMLegalize") -> RelayFunctionPass:
    """Replace operators by the results of their rules ``rule(attrs, inputs, types + [result type]) -> expr or None``.

    The rules of convolutions, dense layers and matmuls call the hooks ``topi.nn.conv2d_legalize``, ``dense_legalize``
    and ``batch_matmul_legalize`` for the current target.

    Parameters
    ----------
    legalize_map_attr_name : str, optional
        The operator attribute that contains the rule.

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
    """Replace operators by equivalent operators in other layouts.

    The rule ``FTVMAlterOpLayout(attrs, inputs, tinfos, out_type)`` returns a call on the same inputs whose attributes
    contain its layouts. The rules of convolutions and dense layers call the hooks ``topi.nn.conv2d_alter_layout``,
    ``conv3d_alter_layout`` and ``dense_alter_layout`` for the target. The operators between them follow.

    Parameters
    ----------
    fold : bool, optional
        Whether layout changes of constants are computed at compile time.
    target : Target, optional
        The target; None selects the current target.

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
