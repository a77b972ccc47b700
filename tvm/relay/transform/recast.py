"""Compute selected operators in other types, between casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.module import IRModule
from ...ir.type import TupleType, Type
from ...ir.visit import rewrite
from ..expr import Call, Function, RelayExpr, Tuple, TupleGetItem
from ..infer import infer_module, infer_type
from ..op import tensor
from ..op.record import CallAttrs
from .function_pass import is_call


def recast(
    expr: RelayExpr | IRModule,
    dtype: str,
    out_dtype: str,
    ops: Sequence[str] | None = None,
    skip_layers: Sequence[int] | None = None,
) -> RelayExpr | IRModule:
    """Cast the inputs of the operators ``ops`` to ``dtype`` and compute them with ``out_dtype``.

    Their outputs are cast back to their original types.

    Parameters
    ----------
    expr : RelayExpr or IRModule
        The expression, or a module whose function ``main`` is changed.
    dtype : str
        The type of the inputs.
    out_dtype : str
        The accumulation and output type (the attribute ``out_dtype``).
    ops : Sequence[str], optional
        The names of the operators; ``nn.conv2d`` by default.
    skip_layers : Sequence[int], optional
        The indices of calls that stay unchanged, in execution order; negative indices count from the end.

    Returns
    -------
    RelayExpr or IRModule
    """
    names = tuple(ops) if ops is not None else ("nn.conv2d",)
    if not isinstance(expr, IRModule):
        made = infer_type(_recast(infer_type(expr), dtype, out_dtype, names, skip_layers or ()))
        return _annotated_as(expr, made)
    mod = expr.clone()
    mod["main"] = _recast(infer_module(expr)["main"], dtype, out_dtype, names, skip_layers or ())
    mod = infer_module(mod)
    mod["main"] = _annotated_as(expr["main"], mod["main"])
    return mod


def _annotated_as(old: RelayExpr, new: RelayExpr) -> RelayExpr:
    """Remove the inferred return type of a function whose original had none."""
    return new.replace(ret_type=None) if isinstance(old, Function) and old.ret_type is None else new


def _recast(expr: RelayExpr, dtype: str, out_dtype: str, names: tuple[str, ...], skip: Sequence[int]) -> RelayExpr:
    """Insert the casts into a typed expression."""
    calls = _calls(expr, names)
    skipped = {i % len(calls) for i in skip} if calls else set()
    number = -1

    def post(node: RelayExpr) -> RelayExpr | None:
        nonlocal number
        if not is_call(node, *names):
            return None
        number += 1
        if number in skipped:
            return None
        # The types of the original call are used, since rewritten operands have no types yet.
        old = calls[number]
        args = [_cast(a, t.checked_type_, lambda t: dtype) for a, t in zip(node.args, old.args)]
        entries = dict(node.attrs.entries) if node.attrs is not None else {}
        if "out_dtype" in entries:
            entries["out_dtype"] = out_dtype
        made = Call(node.op, tuple(args), CallAttrs(entries), (), node.span)
        return _cast(made, old.checked_type_, lambda t: t.dtype)

    return rewrite(expr, post)


def _cast(e: RelayExpr, t: Type, wanted: Callable[[Type], str]) -> RelayExpr:
    """Cast a tensor, or each field of a tuple, to the type that ``wanted`` returns."""
    if not isinstance(t, TupleType):
        return tensor.cast(e, wanted(t))
    fields = e.fields if isinstance(e, Tuple) else [TupleGetItem(e, i) for i in range(len(t.fields))]
    return Tuple([_cast(field, own, wanted) for field, own in zip(fields, t.fields)])


def _calls(expr: RelayExpr, names: tuple[str, ...]) -> list[Call]:
    """Return the calls of the operators in the order in which they are rewritten."""
    found: list[Call] = []

    def note(node: RelayExpr) -> None:
        if is_call(node, *names):
            found.append(node)

    rewrite(expr, note)
    return found


__all__ = ["recast"]
