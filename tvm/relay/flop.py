"""Floating-point operations of graphs, counted as the direct computation does them."""

from __future__ import annotations

from math import prod
from typing import Any

from ..ir.op import Op
from ..ir.visit import post_order
from .expr import Call


def _shape(expr) -> list[int]:
    return [int(d) for d in expr.checked_type_.shape]


def _channels(shape: list[int], layout: str) -> int:
    """The channels of data in a layout such as NCHW, NHWC or NCHW16c."""
    axes = [c for c in layout if c.isalpha()]
    return prod(size for axis, size in zip(axes, shape) if axis in "Cc")


def _convolution(call) -> float:
    attrs = call.attrs
    data, weight, out = _shape(call.args[0]), _shape(call.args[1]), _shape(call)
    if "transpose" in call.op.name:
        # Every input element meets every weight of its channel once.
        return 2.0 * prod(data) * prod(weight) / weight[0]
    kernel = getattr(attrs, "kernel_size", None)
    layout = getattr(attrs, "data_layout", "NCHW")
    if kernel is not None:
        groups = int(attrs.groups)
        if "depthwise" in call.op.name:
            groups = _channels(data, layout)
        return 2.0 * prod(out) * prod(int(k) for k in kernel) * _channels(data, layout) / groups
    filters = _channels(out, getattr(attrs, "out_layout", "") or layout)
    return 2.0 * prod(out) * prod(weight) / filters


def _winograd(call) -> float:
    """As the direct convolution with 3x3 filters counts; the data is NCHW<c>c."""
    data = _shape(call.args[0])
    return 2.0 * prod(_shape(call)) * 9 * data[1] * data[4]


def _product(call) -> float:
    data = _shape(call.args[0])
    inner = data[-2] if getattr(call.attrs, "transpose_a", False) else data[-1]
    return 2.0 * prod(_shape(call)) * inner


def of_call(call) -> float:
    """Operations of one operator call; only convolutions and products count."""
    name = call.op.name
    if "winograd" in name:
        return _winograd(call)
    if "conv" in name:
        return _convolution(call) if hasattr(call.attrs, "strides") and len(call.args) > 1 else 0.0
    if any(word in name for word in ("dense", "matmul")):
        return _product(call)
    return 0.0


def of_function(function: Any) -> float:
    """Operations of all calls in a typed function."""
    calls = (n for n in post_order(function.body) if isinstance(n, Call) and isinstance(n.op, Op))
    return sum(of_call(call) for call in calls)
