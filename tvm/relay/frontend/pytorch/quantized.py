"""Quantized tensors: integers with a scale and a zero point, and what operators make of them.

Operators of the namespace ``quantized`` have converters of their own (``quantized_ops.py``). Of the others, some only
move elements, and take the integers as they are; some compute with real numbers and give integers of the same scale and
zero point, or of those that PyTorch fixes for them; any other is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....error import TVMError
from ... import qnn
from ...expr import RelayExpr, const

# PyTorch's numbers and names of quantized element types, as the integers that hold them.
_STORED = {12: "int8", 13: "uint8", 14: "int32", "qint8": "int8", "quint8": "uint8", "qint32": "int32"}
MOVING = frozenset(
    "view reshape flatten unflatten transpose permute t slice select narrow squeeze unsqueeze contiguous clone detach "
    "alias expand chunk split split_with_sizes unbind max_pool1d max_pool2d max_pool3d dropout feature_dropout "
    "channel_shuffle pixel_shuffle upsample_nearest2d flip index_select to".split()
)
# Operators that compute with real numbers; the result has the scale and zero point of the argument.
SMOOTH = frozenset(
    "mean avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d upsample_bilinear2d interpolate leaky_relu "
    "elu hardswish clamp hardtanh relu relu6".split()
)
# Those of them that give means, which PyTorch computes from the integers: a mean between two of them is exactly so, and
# the scale, which is that of the result too, would only add its rounding.
MEANS = frozenset("mean avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d upsample_bilinear2d".split())
ASKING = frozenset("size dim len numel".split())
# The scale and zero point that PyTorch gives results between two bounds, by the type of the integers.
_FIXED = {
    **dict.fromkeys(("sigmoid", "hardsigmoid"), {"uint8": (1 / 256, 0), "int8": (1 / 256, -128)}),
    "tanh": {"uint8": (2 / 256, 128), "int8": (2 / 256, 0)},
}


class Quantized:
    """A tensor of integers that stand for (integer - zero) * scale."""

    __slots__ = ("expr", "scale", "zero")

    def __init__(self, expr: RelayExpr, scale: float, zero: int):
        # PyTorch computes with scales of 32 bits.
        self.expr, self.scale, self.zero = expr, float(np.float32(scale)), int(zero)

    def like(self, expr: RelayExpr) -> Quantized:
        """Other integers of the same scale and zero point."""
        return Quantized(expr, self.scale, self.zero)


class Packed:
    """The weights of a quantized layer, which PyTorch keeps in an object of its own."""

    __slots__ = ("held", "path")

    def __init__(self, held: Any, path: str):
        self.held, self.path = held, path


def stored_type(dtype) -> str:
    """The integers that hold a quantized element type, by its number or name."""
    key = dtype if isinstance(dtype, int) else str(dtype).removeprefix("torch.")
    if key not in _STORED:
        raise TVMError(f"the quantized element type {dtype} is not supported; qint8, quint8 and qint32 are")
    return _STORED[key]


def real(x: Quantized) -> RelayExpr:
    """The real numbers that a quantized tensor stands for."""
    return qnn.op.dequantize(x.expr, const(x.scale, "float32"), const(x.zero, "int32"))


def in_steps(x: RelayExpr, scale: float, zero: int, dtype: str) -> Quantized:
    """Real numbers as the nearest integers of a scale and zero point."""
    made = Quantized(x, scale, zero)
    made.expr = qnn.op.quantize(x, const(made.scale, "float32"), const(made.zero, "int32"), out_dtype=dtype)
    return made


def takes_quantized(name: str) -> bool:
    """Whether a converter is made for quantized tensors."""
    return name.startswith("quantized::") or name in ("dequantize", "int_repr", "q_scale", "q_zero_point")


def holds_quantized(value) -> bool:
    """Whether an argument is a quantized tensor, or a list with one."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(v, Quantized) for v in value)
    return isinstance(value, Quantized)


def on_quantized(ctx, name: str, converter: Callable[..., Any], taken: dict[str, Any]):
    """What an operator that is not made for quantized tensors gives for one."""
    key = next((k for k, v in taken.items() if isinstance(v, Quantized)), None)
    if key is None or sum(holds_quantized(v) for v in taken.values()) > 1:
        raise TVMError(f"the operator {name} of several quantized tensors is not supported")
    x = taken[key]
    if name in ASKING or name in MOVING:
        made = converter(ctx, **{**taken, key: x.expr})
        if name in ASKING:
            return made
        return [x.like(m) for m in made] if isinstance(made, (list, tuple)) else x.like(made)
    dtype = ctx.dtype(x.expr)
    scale, zero = _FIXED[name][dtype] if name in _FIXED else (x.scale, x.zero)
    if name not in SMOOTH and name not in _FIXED:
        raise TVMError(f"the operator {name} of a quantized tensor is not supported")
    whole = Quantized(x.expr, 1.0, x.zero) if name in MEANS else x
    made = ctx.infer(converter(ctx, **{**taken, key: ctx.infer(real(whole))}))
    if name in MEANS:
        return x.like(in_steps(made, 1.0, zero, dtype).expr)
    return in_steps(made, scale, zero, dtype)


__all__ = ["Packed", "Quantized", "holds_quantized", "in_steps", "on_quantized", "real", "stored_type",
           "takes_quantized"]
