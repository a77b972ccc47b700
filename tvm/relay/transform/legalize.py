"""Operators in the form a target has, and in the layout it likes: rules that operators carry."""

from __future__ import annotations

from typing import Any

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ..expr import Call, Function, RelayExpr
from .convert_layout import change, sink_layouts
from .function_pass import RelayFunctionPass, function_pass, rewrite_typed, type_of


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


def _layout(attrs: Any) -> str:
    return "" if attrs is None else attrs.get("data_layout") or attrs.get("layout") or ""


def AlterOpLayout() -> RelayFunctionPass:
    """Replace operators by forms in other layouts: ``FTVMAlterOpLayout(attrs, inputs, tinfos, out_type)``. Layout
    changes are put around the new form as its attributes say, and cancel where neighbours agree."""

    @function_pass(opt_level=3, name="AlterOpLayout", required=["InferType"])
    def alter(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        changed = False

        def rule(node: RelayExpr) -> RelayExpr | None:
            nonlocal changed
            if type(node) is not Call or type(node.op) is not Op:
                return None
            own = node.op.attrs.get("FTVMAlterOpLayout")
            got = None if own is None else own(node.attrs, list(node.args), [a.checked_type_ for a in node.args],
                                               node.checked_type_)
            if got is None or type(got) is not Call:
                return got
            changed = True
            return _surround(node, got)

        new = rewrite_typed(func, rule, mod)
        return sink_layouts(new, mod) if changed else new

    return alter


def _surround(old: Call, new: Call) -> RelayExpr:
    """The new form with its inputs brought into its layouts and its result brought back."""
    before, after = _layout(old.attrs), _layout(new.attrs)
    args = list(new.args)
    if before and after and before != after and args[0] is old.args[0]:
        args[0] = change(args[0], before, after)
    kernel, wanted = (a.get("kernel_layout") if a is not None else None for a in (old.attrs, new.attrs))
    if kernel and wanted and kernel != wanted and len(args) > 1 and args[1] is old.args[1]:
        args[1] = change(args[1], kernel, wanted)
    made = Call(new.op, tuple(args), new.attrs, new.type_args, new.span)
    type_of(made)
    result = (new.attrs.get("out_layout") if new.attrs is not None else "") or after
    return change(made, result, before) if before and result and result != before else made


__all__ = ["AlterOpLayout", "Legalize"]
