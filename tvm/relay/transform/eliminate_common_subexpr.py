"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem
from .function_pass import RelayFunctionPass, function_pass, rewrite_typed


def _frozen(value: Any) -> Any:
    """Return an attribute value in a hashable form."""
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(v) for v in value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value).__name__, value


class _Seen:
    """Finds an earlier expression that is equal to a node. Equal operands are already the same object, so the key
    compares them by identity."""

    def __init__(self, skip: Callable[[RelayExpr], bool] | None):
        self.skip = skip
        self.table: dict[Any, RelayExpr] = {}

    def __call__(self, node: RelayExpr) -> RelayExpr | None:
        key = self.key(node)
        if key is None or self.skip is not None and self.skip(node):
            return None
        return self.table.setdefault(key, node)

    def key(self, node: RelayExpr) -> Any:
        kind = type(node)
        if kind is Call and type(node.op) is Op and not has_effect(node.op):
            attrs = () if node.attrs is None else tuple((k, _frozen(v)) for k, v in node.attrs.items())
            return node.op.name, attrs, tuple([id(a) for a in node.args])
        if kind is TupleGetItem:
            return "item", node.index, id(node.tuple_value)
        if kind is Tuple:
            return "tuple", tuple([id(f) for f in node.fields])
        if kind is Constant and not node.checked_type_.shape:
            return "scalar", node.data.dtype, node.data.numpy().tobytes()
        return None


def has_effect(op: Op) -> bool:
    return bool(op.attrs.get("random") or op.attrs.get("TOpIsStateful"))


def EliminateCommonSubexpr(fskip: Callable[[RelayExpr], bool] | None = None) -> RelayFunctionPass:
    """Compute equal expressions once.

    Parameters
    ----------
    fskip : callable, optional
        Returns True for expressions that must not be merged.

    Returns
    -------
    RelayFunctionPass

    Examples
    --------
    >>> x = relay.var("x", shape=(2,))
    >>> mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.exp(x) + relay.exp(x)))
    >>> both = relay.transform.EliminateCommonSubexpr()(mod)["main"].body.args
    >>> both[0] is both[1]
    True
    """

    @function_pass(opt_level=3, name="EliminateCommonSubexpr", required=["InferType"])
    def eliminate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        # Merging an expression of a branch with one outside is safe because graphs are evaluated on demand.
        return rewrite_typed(func, _Seen(fskip), mod)

    return eliminate


__all__ = ["EliminateCommonSubexpr", "has_effect"]
