"""Combine the operands of an operator that follows each of several combined layers.

The combined operand has the same effect on the output of the combined layer. Each rule gets the operands (one for each
branch), the calls that use them, and the axis along which the branches are concatenated in the output. A rule returns
None if the operands cannot be combined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..expr import Call, Constant, RelayExpr
from ..infer import dims
from ..op import transform


def concatenated(parts: Sequence[RelayExpr], axis: int) -> RelayExpr:
    if all(isinstance(p, Constant) for p in parts):
        return Constant(np.concatenate([p.data.numpy() for p in parts], axis))
    return transform.concatenate(list(parts), axis)


def _shapes(operands: Sequence[RelayExpr]) -> list[tuple] | None:
    """Return the static shapes of the operands; None unless all are tensors of one data type and rank."""
    types = [e.checked_type_ for e in operands]
    if any(t is None or not hasattr(t, "shape") for t in types):
        return None
    shapes = [dims(t) for t in types]
    alike = all(t.dtype == types[0].dtype and len(s) == len(shapes[0]) for t, s in zip(types, shapes))
    return shapes if alike and all(isinstance(d, int) for s in shapes for d in s) else None


def side_by_side(operands: Sequence[RelayExpr], calls: Sequence[Call], axis: int) -> RelayExpr | None:
    """Concatenate operands that span the axis of the branches and have equal sizes in all other dimensions."""
    shapes = _shapes(operands)
    if shapes is None:
        return None
    outs = [dims(c.checked_type_) for c in calls]
    own = axis - len(outs[0]) + len(shapes[0])
    if own < 0 or any(s[own] != out[axis] or _but(s, own) != _but(shapes[0], own) for s, out in zip(shapes, outs)):
        return None
    return concatenated(operands, own)


def _but(shape: tuple, axis: int) -> tuple:
    return shape[:axis] + shape[axis + 1 :]


def in_columns(operands: Sequence[RelayExpr], calls: Sequence[Call], axis: int) -> RelayExpr | None:
    """Concatenate operands along the last axis; an operand of size 1 is repeated for all columns of its branch."""
    shapes = _shapes(operands)
    outs = [dims(c.checked_type_) for c in calls]
    if shapes is None or axis != len(outs[0]) - 1 or any(s[:-1] != shapes[0][:-1] for s in shapes):
        return None
    wide = []
    for operand, shape, out in zip(operands, shapes, outs):
        if shape and shape[-1] not in (1, out[-1]):
            return None
        if not shape:
            wide.append(transform.repeat(transform.expand_dims(operand, -1), out[-1], 0))
        else:
            wide.append(operand if shape[-1] != 1 else transform.repeat(operand, out[-1], len(shape) - 1))
    return concatenated(wide, max(0, len(shapes[0]) - 1))


def stacked(operands: Sequence[RelayExpr], calls: Sequence[Call], axis: int) -> RelayExpr | None:
    """Stack operands of equal shape along a new first axis, one for each branch."""
    shapes = _shapes(operands)
    if shapes is None or any(s != shapes[0] for s in shapes):
        return None
    missing = len(dims(calls[0].checked_type_)) - len(shapes[0])
    parts = [transform.expand_dims(e, 0, missing) if missing else e for e in operands]
    return transform.stack(parts, 0)


def constant_columns(operands: Sequence[RelayExpr], calls: Sequence[Call], axis: int) -> Constant | None:
    """Concatenate constants along the last axis. A scalar that is equal in all branches stays a scalar."""
    arrays = [c.data.numpy() for c in operands if isinstance(c, Constant)]
    if len(arrays) != len(operands) or any(a.dtype != arrays[0].dtype or a.ndim != arrays[0].ndim for a in arrays):
        return None
    if all(a.size == 1 and a.shape == arrays[0].shape for a in arrays):
        # The values are compared as bytes, so that NaN equals itself.
        return Constant(arrays[0]) if len({a.tobytes() for a in arrays}) == 1 else None
    widths = [dims(c.checked_type_)[-1] for c in calls]
    if any(a.ndim == 0 or a.shape[-1] != w or a.size != w for a, w in zip(arrays, widths)):
        return None
    return Constant(np.concatenate(arrays, axis=-1))
