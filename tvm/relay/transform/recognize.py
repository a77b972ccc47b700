"""Rules that recognize layer normalization written as elementary operators.

They are rules of the table in ``simplify_expr``: ``rule(node, counts)`` returns the replacement of a call or None.
"""

from __future__ import annotations

import numpy as np

from ...ir.tensor_type import TensorType
from ..expr import Call, Constant, RelayExpr
from ..infer import dims
from ..op import nn
from ..op.record import CallAttrs
from .function_pass import is_call


def _number(e: RelayExpr) -> float | None:
    """Return the value of a floating-point constant with one element, else None."""
    if not isinstance(e, Constant) or e.data.dtype not in ("float32", "float64") or e.data.size != 1:
        return None
    return float(e.data.numpy().reshape(-1)[0])


def _row_mean(e: RelayExpr) -> RelayExpr | None:
    """Return x of ``mean(x)`` over the last dimension with ``keepdims``, else None."""
    if not isinstance(e, Call) or not is_call(e, "mean") or not e.attrs.keepdims or e.attrs.exclude:
        return None
    rank = len(e.args[0].checked_type_.shape)
    axis = e.attrs.axis
    axes = (axis,) if isinstance(axis, int) else tuple(axis or ())
    return e.args[0] if [a % rank for a in axes] == [rank - 1] else None


def _squared(e: RelayExpr) -> RelayExpr | None:
    """Return x of ``x * x`` or ``x ^ 2``, else None."""
    if not isinstance(e, Call) or not is_call(e, "multiply", "power"):
        return None
    a, b = e.args
    if e.op.name == "multiply":
        return a if a is b else None
    return a if _number(b) == 2.0 else None


def _spread(e: RelayExpr) -> tuple[RelayExpr, float] | None:
    """Return ``(x, epsilon)`` of ``mean(x ^ 2) + epsilon``, else None."""
    if not isinstance(e, Call) or not is_call(e, "add"):
        return None
    for mean, small in (e.args, e.args[::-1]):
        square, epsilon = _row_mean(mean), _number(small)
        centered = None if square is None else _squared(square)
        if centered is not None and epsilon is not None:
            return centered, epsilon
    return None


def _centered(e: RelayExpr) -> RelayExpr | None:
    """Return x of ``x - mean(x)``, else None."""
    if not isinstance(e, Call) or not is_call(e, "subtract"):
        return None
    x, mean = e.args
    return x if _row_mean(mean) is x else None


def normalized(node: Call, counts) -> RelayExpr | None:
    """Recognize ``(x - mean) / sqrt(variance + epsilon)``, or the multiplication by ``rsqrt``, as layer
    normalization."""
    root = {"divide": "sqrt", "multiply": "rsqrt"}[node.op.name]
    sides = (node.args,) if node.op.name == "divide" else (node.args, node.args[::-1])
    for centered, below in sides:
        if not isinstance(below, Call) or not is_call(below, root):
            continue
        found, x = _spread(below.args[0]), _centered(centered)
        if found is None or x is None or found[0] is not centered:
            continue
        t = x.checked_type_
        if not isinstance(t, TensorType) or t.dtype not in ("float32", "float64") or not isinstance(dims(t)[-1], int):
            continue
        ones = np.ones(dims(t)[-1:], t.dtype)
        return nn.layer_norm(x, Constant(ones), Constant(ones * 0), -1, found[1], center=False, scale=False)
    return None


def _affine(node: Call, taken: str, *free: str) -> tuple[Call, RelayExpr] | None:
    """Return ``(layer normalization, vector)`` if the vector can become the gamma or beta of the layer
    normalization."""
    for norm, vector in (node.args, node.args[::-1]):
        if not isinstance(norm, Call) or not is_call(norm, "nn.layer_norm"):
            continue
        if any(norm.attrs[key] for key in (taken, *free)) or norm.checked_type_ != node.checked_type_:
            continue
        size = dims(norm.checked_type_)[-1:]
        shape = dims(vector.checked_type_)
        if isinstance(vector, Constant) and shape[-1:] == size and all(d == 1 for d in shape[:-1]):
            return norm, Constant(vector.data.numpy().reshape(size))
    return None


def scaled(node: Call, counts) -> RelayExpr | None:
    """Fold a multiplication by a vector into the gamma of a layer normalization."""
    found = _affine(node, "scale", "center")
    if found is None or counts.get(id(found[0]), 1) > 1:
        return None
    norm, vector = found
    data, _, beta = norm.args
    return Call(norm.op, (data, vector, beta), CallAttrs({**norm.attrs.entries, "scale": True}), (), node.span)


def shifted(node: Call, counts) -> RelayExpr | None:
    """Fold an addition of a vector into the beta of a layer normalization."""
    found = _affine(node, "center")
    if found is None or counts.get(id(found[0]), 1) > 1:
        return None
    norm, vector = found
    data, gamma, _ = norm.args
    return Call(norm.op, (data, gamma, vector), CallAttrs({**norm.attrs.entries, "center": True}), (), node.span)


__all__ = ["normalized", "scaled", "shifted"]
