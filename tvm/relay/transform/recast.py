"""Chosen operators in other types, between casts."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.tensor_type import TensorType
from ...ir.visit import rewrite
from ..expr import Call, RelayExpr
from ..infer import infer_type
from ..op import tensor
from ..op.record import CallAttrs
from .function_pass import is_call


def recast(
    expr: RelayExpr,
    dtype: str,
    out_dtype: str,
    ops: Sequence[str] | None = None,
    skip_layers: Sequence[int] | None = None,
) -> RelayExpr:
    """The inputs of ``ops`` (nn.conv2d) are cast to ``dtype`` and their sums taken in ``out_dtype``; results have the
    type they had. ``skip_layers`` names calls that stay, by their number in order, negative from the end.

    Parameters
    ----------
    expr : RelayExpr
        The expression.
    dtype : str
        The type of the inputs.
    out_dtype : str
        The type of the sums.
    ops : Sequence[str], optional
        The operators.
    skip_layers : Sequence[int], optional
        The numbers of calls that stay.

    Returns
    -------
    RelayExpr
    """
    names = tuple(ops) if ops is not None else ("nn.conv2d",)
    expr = infer_type(expr)
    total = 0

    def count(node):
        nonlocal total
        total += is_call(node, *names)

    rewrite(expr, count)
    skipped = {i % total for i in skip_layers or ()} if total else set()
    number = -1

    def post(node):
        nonlocal number
        if not is_call(node, *names):
            return None
        number += 1
        if number in skipped:
            return None
        args = [tensor.cast(a, dtype) for a in node.args]
        entries = dict(node.attrs.entries) if node.attrs is not None else {}
        if "out_dtype" in entries:
            entries["out_dtype"] = out_dtype
        old = types[number]
        return tensor.cast(Call(node.op, tuple(args), CallAttrs(entries), (), node.span), old)

    types = _types(expr, names)
    return infer_type(rewrite(expr, post))


def _types(expr: RelayExpr, names: tuple[str, ...]) -> list[str]:
    """The types of the calls' results, in the order in which they are rewritten."""
    found: list[str] = []

    def note(node):
        if is_call(node, *names):
            t = node.checked_type_
            found.append(t.dtype if isinstance(t, TensorType) else "float32")

    rewrite(expr, note)
    return found


__all__ = ["recast"]
