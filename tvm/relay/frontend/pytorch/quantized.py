"""Quantized tensors, which are integers with a scale and a zero point, as arguments of operators.

Operators of the namespace ``quantized`` have their own converters (``quantized_ops.py``). Of the other operators, some
only move elements and are applied to the integers; some compute in float and requantize to the scale and zero point of
the argument, or to those that PyTorch fixes for the operator; all others report an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....error import TVMError
from ... import qnn
from ...expr import RelayExpr, const

# The integer types that store PyTorch's quantized element types, by code and name.
_STORED = {12: "int8", 13: "uint8", 14: "int32", "qint8": "int8", "quint8": "uint8", "qint32": "int32"}
MOVING = frozenset(
    "view reshape flatten unflatten transpose permute t slice select narrow squeeze unsqueeze contiguous clone detach "
    "alias expand chunk split split_with_sizes unbind max_pool1d max_pool2d max_pool3d dropout feature_dropout "
    "channel_shuffle pixel_shuffle upsample_nearest2d flip index_select to".split()
)
# Operators that compute in float; the output has the scale and zero point of the argument.
SMOOTH = frozenset(
    "mean avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d upsample_bilinear2d interpolate leaky_relu "
    "elu hardswish clamp hardtanh relu relu6".split()
)
# Operators of these that compute means, which PyTorch computes from the integers: the mean of integers is exact, while
# multiplying by the scale, which input and output share, would add rounding errors.
MEANS = frozenset("mean avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d upsample_bilinear2d".split())
ASKING = frozenset("size dim len numel".split())
# The scale and zero point that PyTorch uses for outputs of bounded range, by integer type.
_FIXED = {
    **dict.fromkeys(("sigmoid", "hardsigmoid"), {"uint8": (1 / 256, 0), "int8": (1 / 256, -128)}),
    "tanh": {"uint8": (2 / 256, 128), "int8": (2 / 256, 0)},
}


class Quantized:
    """A tensor of integers that represent (integer - zero) * scale."""

    __slots__ = ("expr", "scale", "zero")

    def __init__(self, expr: RelayExpr, scale: float, zero: int):
        # PyTorch computes with float32 scales.
        self.expr, self.scale, self.zero = expr, float(np.float32(scale)), int(zero)

    def like(self, expr: RelayExpr) -> Quantized:
        """Return other integers with the same scale and zero point."""
        return Quantized(expr, self.scale, self.zero)


class Packed:
    """The weights of a quantized layer, which PyTorch stores in a separate packed object."""

    __slots__ = ("held", "path")

    def __init__(self, held: Any, path: str):
        self.held, self.path = held, path


def stored_type(dtype) -> str:
    """Return the integer type that stores a quantized element type, by its code or name."""
    key = dtype if isinstance(dtype, int) else str(dtype).removeprefix("torch.")
    if key not in _STORED:
        raise TVMError(f"the quantized element type {dtype} is not supported; use qint8, quint8 or qint32")
    return _STORED[key]


def real(x: Quantized) -> RelayExpr:
    """Dequantize a tensor to float."""
    return qnn.op.dequantize(x.expr, const(x.scale, "float32"), const(x.zero, "int32"))


def in_steps(x: RelayExpr, scale: float, zero: int, dtype: str) -> Quantized:
    """Quantize floats to the given scale and zero point."""
    made = Quantized(x, scale, zero)
    made.expr = qnn.op.quantize(x, const(made.scale, "float32"), const(made.zero, "int32"), out_dtype=dtype)
    return made


def takes_quantized(name: str) -> bool:
    """Return whether a converter accepts quantized tensors."""
    return name.startswith("quantized::") or name in ("dequantize", "int_repr", "q_scale", "q_zero_point")


def holds_quantized(value) -> bool:
    """Return whether an argument is a quantized tensor, or a list that contains one."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(v, Quantized) for v in value)
    return isinstance(value, Quantized)


def on_quantized(ctx, name: str, converter: Callable[..., Any], taken: dict[str, Any]):
    """Convert an operator whose converter is not written for quantized tensors."""
    key = next((k for k, v in taken.items() if isinstance(v, Quantized)), None)
    if key is None or sum(holds_quantized(v) for v in taken.values()) > 1:
        raise TVMError(f"the operator {name} with several quantized arguments is not supported")
    x = taken[key]
    if name in ASKING or name in MOVING:
        made = converter(ctx, **{**taken, key: x.expr})
        if name in ASKING:
            return made
        return [x.like(m) for m in made] if isinstance(made, (list, tuple)) else x.like(made)
    dtype = ctx.dtype(x.expr)
    scale, zero = _FIXED[name][dtype] if name in _FIXED else (x.scale, x.zero)
    if name not in SMOOTH and name not in _FIXED:
        raise TVMError(f"the operator {name} does not support quantized tensors")
    whole = Quantized(x.expr, 1.0, x.zero) if name in MEANS else x
    made = ctx.infer(converter(ctx, **{**taken, key: ctx.infer(real(whole))}))
    if name in MEANS:
        return x.like(in_steps(made, 1.0, zero, dtype).expr)
    return in_steps(made, scale, zero, dtype)


__all__ = [
    "Packed",
    "Quantized",
    "holds_quantized",
    "in_steps",
    "on_quantized",
    "real",
    "stored_type",
    "takes_quantized",
]
