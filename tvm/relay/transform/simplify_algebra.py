"""Target-independent simplifications: full tensors, adjacent constants, casts after clips, adjacent layout
transforms."""

from __future__ import annotations

import math
from typing import Any

from ...dtype import info
from ...ir.op import OPS
from ..expr import Call, Constant, RelayExpr, const
from ..infer import dims
from ..op import tensor, transform
from ..op.layout import letters, parts
from .function_pass import is_call, type_of


def static_shape(e: RelayExpr) -> tuple[int, ...] | None:
    """Return the shape of a tensor if it is static, else None."""
    shape = getattr(e.checked_type_, "shape", None)
    if shape is None:
        return None
    sizes = dims(e.checked_type_)
    return sizes if all(isinstance(d, int) for d in sizes) else None


def filled_with(e: RelayExpr) -> Constant | None:
    """Return the scalar constant with which a tensor is filled, else None."""
    fill = e.args[0] if is_call(e, "full") else None
    return fill if isinstance(fill, Constant) and fill.data.shape == () else None


def full_to_scalar(node: Call, counts) -> RelayExpr | None:
    """Replace a full tensor by its scalar if the other operand has the shape of the output."""
    for side in (0, 1):
        fill, other = filled_with(node.args[side]), node.args[1 - side]
        if fill is not None and filled_with(other) is None and other.checked_type_ == node.checked_type_:
            scalar = const(fill.data.numpy().item(), node.args[side].checked_type_.dtype)
            args = (scalar, other) if side == 0 else (other, scalar)
            return Call(node.op, args, node.attrs, (), node.span)
    return None


def _exact(c: RelayExpr) -> bool:
    return isinstance(c, Constant) and c.data.dtype in ("float32", "float64", "int32", "int64")


def split_constant(node: RelayExpr, name: str, counts) -> tuple[RelayExpr, Constant] | None:
    """Return ``(x, c)`` of ``x + c`` or ``c + x`` (or of ``x * c``) if it has no other user, else None."""
    if not is_call(node, name) or counts.get(id(node), 1) > 1:
        return None
    for x, c in (node.args, tuple(reversed(node.args))):
        if _exact(c) and not isinstance(x, Constant) and x.checked_type_ == node.checked_type_:
            return x, c
    return None


def combine_constants(node: Call, counts) -> RelayExpr | None:
    """Rewrite ``(x + c) + d`` as ``x + (c + d)``, and multiplications likewise; the constants may be on either side."""
    name = node.op.name
    outer = split_constant(node, name, {})
    inner = None if outer is None else split_constant(outer[0], name, counts)
    if outer is None or inner is None:
        return None
    a, b = inner[1].data.numpy(), outer[1].data.numpy()
    return OPS[name].attrs["build"](inner[0], Constant((a + b if name == "add" else a * b).astype(a.dtype)))


def distribute_scale(node: Call, counts) -> RelayExpr | None:
    """Rewrite ``(x + c) * d`` as ``x * d + (c * d)``."""
    outer = split_constant(node, "multiply", {})
    inner = None if outer is None else split_constant(outer[0], "add", counts)
    if outer is None or inner is None:
        return None
    product = tensor.multiply(inner[0], outer[1])
    type_of(product)
    combined = combine_constants(product, counts)
    product = product if combined is None else combined
    a, b = inner[1].data.numpy(), outer[1].data.numpy()
    return tensor.add(product, Constant((a * b).astype(a.dtype)))


def divide_by_sqrt(node: Call, counts) -> RelayExpr | None:
    """Rewrite ``c / sqrt(x)`` as ``c * rsqrt(x)``."""
    c, root = node.args
    if not isinstance(c, Constant) or not is_call(root, "sqrt") or root.checked_type_ != node.checked_type_:
        return None
    reciprocal = tensor.rsqrt(root.args[0])
    array = c.data.numpy()
    return reciprocal if array.size == 1 and array.reshape(()) == 1 else tensor.multiply(c, reciprocal)


def order_before_dequantize(node: Call, counts) -> RelayExpr | None:
    """Apply argmax, argmin or argsort before dequantization, which preserves the order if there is one scale."""
    data = node.args[0]
    if not is_call(data, "qnn.dequantize") or data.args[0].checked_type_.dtype not in ("int8", "uint8", "int16"):
        return None
    scale = data.args[1]
    if not isinstance(scale, Constant) or scale.data.size != 1 or not scale.data.numpy().item() > 1e-30:
        return None
    return Call(node.op, (data.args[0],), node.attrs, (), node.span)


def _range(dtype: str) -> tuple[int, int] | None:
    kind = info(dtype)
    if kind.code == "uint":
        return 0, 2**kind.bits - 1
    return (-(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1) if kind.code == "int" and dtype != "bool" else None


def skip_cast_after_clip(node: Call, counts) -> RelayExpr | None:
    """Remove a cast between a clip and another cast if its integer type contains the range of the clip."""
    middle = node.args[0]
    if not is_call(middle, "cast") or not is_call(middle.args[0], "clip"):
        return None
    source, holds = middle.args[0], _range(middle.attrs.dtype)
    if holds is None or not holds[0] <= source.attrs.a_min <= source.attrs.a_max <= holds[1]:
        return None
    is_integer = _range(source.checked_type_.dtype) is not None
    wide = _range(node.attrs.dtype)
    fits = wide is not None and wide[0] <= source.attrs.a_min and source.attrs.a_max <= wide[1]
    if not is_integer and not fits:
        return None
    same = source.checked_type_.dtype == node.attrs.dtype
    return source if same else tensor.cast(source, node.attrs.dtype)


def drop_full_range_clip(node: Call, counts) -> RelayExpr | None:
    """Remove a clip to the whole range of an integer type."""
    holds = _range(node.checked_type_.dtype)
    if holds is not None and node.attrs.a_min <= holds[0] and node.attrs.a_max >= holds[1]:
        return node.args[0]
    return None


def merge_clips(node: Call, counts) -> RelayExpr | None:
    """Merge two clips with a cast between them if the integer type of the cast contains the range of the first clip."""
    source = node.args[0]
    if not is_call(source, "cast") or not is_call(source.args[0], "clip"):
        return None
    first, holds = source.args[0], _range(node.checked_type_.dtype)
    low, high = max(first.attrs.a_min, node.attrs.a_min), min(first.attrs.a_max, node.attrs.a_max)
    inside = holds is not None and holds[0] <= first.attrs.a_min and first.attrs.a_max <= holds[1]
    if not inside or low > high or not all(float(v).is_integer() for v in (node.attrs.a_min, node.attrs.a_max)):
        return None
    return tensor.cast(tensor.clip(first.args[0], low, high), node.checked_type_.dtype)


def double_to_scale(node: Call, counts) -> RelayExpr | None:
    """Rewrite ``x + x`` as ``x * 2``, which is exact."""
    x, y = node.args
    if x is not y or isinstance(x, Constant) or info(node.checked_type_.dtype).code not in ("int", "uint", "float"):
        return None
    return tensor.multiply(x, const(2, node.checked_type_.dtype))


def axes_of(node: Call) -> tuple[int, ...]:
    """Return the permutation of a transpose as non-negative axes."""
    rank = len(dims(node.args[0].checked_type_))
    axes = node.attrs.axes
    return tuple(range(rank))[::-1] if axes is None else tuple(a % rank for a in axes)


def _as_layouts(node: Any, named: list[str] | None) -> tuple[list[str], list[str]] | None:
    """Return the axis names before and after a transpose or layout transform; ``named`` are the axes of a transpose's
    output."""
    if is_call(node, "layout_transform"):
        return tuple([f"{n or ''}{c}" for c, n in parts(x)] for x in (node.attrs.src_layout, node.attrs.dst_layout))
    axes = axes_of(node)
    if named is None or len(named) != len(axes):
        return None
    before = [""] * len(axes)
    for name, axis in zip(named, axes):
        before[axis] = name
    return before, named


def merge_transposes(node: Call, counts) -> RelayExpr | None:
    """Merge adjacent transposes and layout transforms; inverse ones cancel out."""
    inner = node.args[0]
    if is_call(node, "layout_transform") and node.attrs.src_layout == node.attrs.dst_layout:
        return inner
    if not is_call(inner, "transpose", "layout_transform"):
        return _as_transpose(node) if is_call(node, "transpose") else None
    if is_call(node, "transpose") and is_call(inner, "transpose"):
        axes = tuple(axes_of(inner)[a] for a in axes_of(node))
        return _transposed(inner.args[0], axes)
    if is_call(node, "transpose"):
        first = _as_layouts(inner, None)
        middle = first[1] if first is not None else []
        last = [middle[a] for a in axes_of(node)] if len(middle) == len(axes_of(node)) else None
    else:
        source, last = _as_layouts(node, None)
        first = _as_layouts(inner, source)
        if first is not None and first[1] != source:
            return None
    return None if first is None or last is None else _moved(inner.args[0], first[0], last, node)


def _as_transpose(node: Call) -> RelayExpr | None:
    return node.args[0] if axes_of(node) == tuple(range(len(axes_of(node)))) else None


def _transposed(source: RelayExpr, axes: tuple[int, ...]) -> RelayExpr:
    return source if axes == tuple(range(len(axes))) else transform.transpose(source, axes)


def _moved(source: RelayExpr, before: list[str], after: list[str], node: Call) -> RelayExpr | None:
    shape, wanted = static_shape(source), static_shape(node)
    if shape is None or wanted is None or math.prod(shape) != math.prod(wanted):
        # A block layout contains padding that the second transform removes, so the two do not cancel.
        return None
    if sorted(before) == sorted(after):
        return _transposed(source, tuple(before.index(name) for name in after))
    if {c for c in letters("".join(before)) if c.isupper()} != {c for c in letters("".join(after)) if c.isupper()}:
        return None
    return transform.layout_transform(source, "".join(before), "".join(after))


__all__ = [
    "combine_constants",
    "distribute_scale",
    "divide_by_sqrt",
    "drop_full_range_clip",
    "filled_with",
    "full_to_scalar",
    "merge_transposes",
    "order_before_dequantize",
    "skip_cast_after_clip",
    "static_shape",
]
