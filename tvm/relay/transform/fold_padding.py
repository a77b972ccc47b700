"""Fold explicit padding into the padding attribute of the following convolution or pooling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.module import IRModule
from ...ir.op import Op
from ...ir.transform import PassContext
from ...ir.visit import rewrite
from ..expr import Call, Constant, Function, RelayExpr
from ..op.record import CallAttrs
from .function_pass import RelayFunctionPass, function_pass, is_call, type_of


def padding_absorbed(node: Call, layout: str, fills: Callable[[Any], bool], **attrs: Any) -> RelayExpr | None:
    """Return the operator applied to the unpadded data, with the padding added to its own (and other ``attrs``
    replaced).

    None unless the data is padded only along spatial dimensions, with a constant that ``fills`` accepts."""
    data = node.args[0]
    if not is_call(data, "nn.pad") or data.attrs.pad_mode != "constant" or not layout.isupper():
        return None
    value = data.args[1]
    if not isinstance(value, Constant) or value.data.size != 1 or not fills(value.data.numpy().item()):
        return None
    if isinstance(node.attrs.padding, str):
        return None
    letters = [c for c in "DHW" if c in layout]
    for letter, (before, after) in zip(layout, data.attrs.pad_width):
        if before < 0 or after < 0 or (before or after) and letter not in letters:
            return None
    have = tuple(node.attrs.padding)
    have = have * (2 * len(letters)) if len(have) == 1 else have * 2 if len(have) == len(letters) else have
    extra = [data.attrs.pad_width[layout.index(c)] for c in letters]
    padding = tuple(h + e for h, e in zip(have, [b for b, _ in extra] + [a for _, a in extra]))
    changed = CallAttrs({**node.attrs.entries, **attrs, "padding": padding})
    return Call(node.op, (data.args[0], *node.args[1:]), changed, (), node.span)


def _convolution(node: Call) -> RelayExpr | None:
    return padding_absorbed(node, node.attrs.data_layout, lambda value: value == 0)


def _quantized(node: Call) -> RelayExpr | None:
    """Fold padding with the zero point of the data into a quantized convolution."""
    zero = node.args[2]
    if not isinstance(zero, Constant) or zero.data.size != 1:
        return None
    return padding_absorbed(node, node.attrs.data_layout, lambda value: value == zero.data.numpy().item())


def _max_pool(node: Call) -> RelayExpr | None:
    """Fold padding with minus infinity or the smallest integer into a max pooling.

    Padding with the smallest finite number is folded if every window contains an element of the data."""
    dtype = np.dtype(type_of(node).dtype)
    least = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    found = padding_absorbed(node, node.attrs.layout, lambda value: value == least)
    if found is not None or dtype.kind != "f":
        return found
    found = padding_absorbed(node, node.attrs.layout, lambda value: value == np.finfo(dtype).min)
    if found is None:
        return None
    extents = [(size - 1) * step + 1 for size, step in zip(node.attrs.pool_size, node.attrs.dilation)]
    return found if all(p < e for p, e in zip(found.attrs.padding, extents * 2)) else None


def _average_pool(node: Call) -> RelayExpr | None:
    """Fold padding with zeros into an average pooling that counts padding. A pooling without own padding can be changed
    to count it."""
    if node.attrs.ceil_mode or not node.attrs.count_include_pad and any(node.attrs.padding):
        return None
    pads = is_call(node.args[0], "nn.pad") and any(any(pair) for pair in node.args[0].attrs.pad_width)
    counts = bool(node.attrs.count_include_pad) or pads
    return padding_absorbed(node, node.attrs.layout, lambda value: value == 0, count_include_pad=counts)


_RULES: dict[str, Callable[[Call], RelayExpr | None]] = {
    **{f"nn.conv{n}d": _convolution for n in (1, 2, 3)},
    **{f"nn.max_pool{n}d": _max_pool for n in (1, 2, 3)},
    **{f"nn.avg_pool{n}d": _average_pool for n in (1, 2, 3)},
    "qnn.conv2d": _quantized,
}


def FoldExplicitPadding() -> RelayFunctionPass:
    """Fold ``nn.pad`` into the padding of the convolution or pooling that reads it, if the pad values agree.

    Returns
    -------
    RelayFunctionPass

    Examples
    --------
    >>> x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    >>> padded = relay.nn.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    >>> mod = tvm.IRModule.from_expr(relay.nn.conv2d(padded, w))
    >>> relay.transform.FoldExplicitPadding()(mod)["main"].body.attrs.padding
    (1, 1, 1, 1)
    """

    def post(node: Any) -> RelayExpr | None:
        rule = _RULES.get(node.op.name) if isinstance(node, Call) and isinstance(node.op, Op) else None
        return None if rule is None else rule(node)

    @function_pass(opt_level=0, name="FoldExplicitPadding", required=["InferType"])
    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return rewrite(func, post)

    return fold


__all__ = ["FoldExplicitPadding", "padding_absorbed"]
