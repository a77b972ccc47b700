"""Converters of quantized PyTorch operators to Relay's QNN operators."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from ... import op as relay
from ... import qnn
from ...expr import Constant, RelayExpr, const
from .quantized import Packed, Quantized, in_steps, real, stored_type
from .table import op


@op("quantize_per_tensor")
def quantize_per_tensor(ctx, self, scale, zero_point, dtype):
    known = [ctx.known_number(v, f"the {what}") for v, what in ((scale, "scale"), (zero_point, "zero point"))]
    return in_steps(ctx.tensor(self, "float32"), known[0], int(known[1]), stored_type(dtype))


@op("dequantize")
def dequantize(ctx, self):
    if isinstance(self, (list, tuple)):
        return [dequantize(ctx, v) for v in self]
    return real(self) if isinstance(self, Quantized) else self


@op("int_repr")
def int_repr(ctx, self):
    return self.expr


@op("q_scale")
def q_scale(ctx, self):
    return self.scale


@op("q_zero_point")
def q_zero_point(ctx, self):
    return self.zero


# -- layers with weights ----------------------------------------------------------------------------------------------


class Layer(NamedTuple):
    """The weights of a layer as integers; ``scale`` and ``zero`` are scalars, or one number per filter."""

    weight: RelayExpr
    bias: RelayExpr | None
    scale: np.ndarray
    zero: np.ndarray
    shape: tuple[int, ...]


def _layer(ctx, packed: Packed, unpack: str, data: Quantized) -> Layer:
    """Return the weights that PyTorch unpacks.

    Parameters of the module are the float weights, which the graph quantizes, or the integers
    (``keep_quantized_weight``).
    """
    import torch  # pyright: ignore[reportMissingImports]

    weight, bias = getattr(torch.ops.quantized, unpack)(packed.held)
    if weight.qscheme() in (torch.per_channel_affine, torch.per_channel_symmetric):
        if weight.q_per_channel_axis() != 0:
            raise TVMError(
                f"weights quantized along axis {weight.q_per_channel_axis()} are not supported; the axis must be 0"
            )
        scale = weight.q_per_channel_scales().numpy().astype("float32")
        zero = weight.q_per_channel_zero_points().numpy().astype("int32")
    else:
        scale, zero = np.float32(weight.q_scale()), np.int32(weight.q_zero_point())
    sums = (np.float64(data.scale) * scale).astype("float32")
    kept = bias
    if bias is not None:
        kept = _parameter(ctx, f"{packed.path}_bias", bias.detach().numpy(), sums, np.int32(0), "int32")
    return Layer(
        _parameter(ctx, f"{packed.path}_weight", weight.dequantize().numpy(), scale, zero, "int8"),
        kept,
        scale,
        zero,
        tuple(weight.shape),
    )


def _parameter(ctx, name: str, values: np.ndarray, scale, zero, dtype: str) -> RelayExpr:
    """Return a weight as integers: quantized in the graph, or as an integer parameter."""
    if not ctx.importer.keep_quantized:
        held = ctx.importer.tensor_weight(name, values)
        zero = np.broadcast_to(zero, np.shape(scale)).astype("int32")
        return ctx.infer(qnn.op.quantize(held, Constant(np.asarray(scale)), Constant(zero), 0, dtype))
    spread = (-1, *[1] * (values.ndim - 1)) if np.ndim(scale) else ()
    steps = np.round(values / np.reshape(scale, spread)) + np.reshape(zero, spread if np.ndim(zero) else ())
    limits = np.iinfo(dtype)
    return ctx.importer.tensor_weight(name, np.clip(steps, limits.min, limits.max).astype(dtype))


def _finished(ctx, sums, layer: Layer, x: Quantized, scale, zero, axis: int, positive: bool) -> Quantized:
    """Add the bias to the integer output of a layer, and requantize it."""
    if layer.bias is not None:
        sums = relay.nn.bias_add(sums, layer.bias, axis)
    made = Quantized(sums, ctx.known_number(scale, "the scale"), ctx.known_int(zero, "the zero point"))
    before = (np.float64(x.scale) * layer.scale).astype("float32")
    made.expr = qnn.op.requantize(
        sums,
        Constant(np.asarray(before)),
        const(0, "int32"),
        const(made.scale, "float32"),
        const(made.zero, "int32"),
        axis=axis,
        compute_dtype="float32",
        rounding="TONEAREST",
        out_dtype=ctx.dtype(x.expr),
    )
    return _relu(ctx, made) if positive else made


def _relu(ctx, x: Quantized) -> Quantized:
    return x.like(relay.maximum(x.expr, const(x.zero, ctx.dtype(ctx.infer(x.expr)))))


def _zeros(layer: Layer) -> RelayExpr:
    return Constant(np.asarray(layer.zero, "int32"))


@op("quantized::conv2d", "quantized::conv2d_relu")
def conv2d(ctx, qx, packed_weight, output_scale, output_zero_point):
    import torch  # pyright: ignore[reportMissingImports]

    held = torch.ops.quantized
    layer = _layer(ctx, packed_weight, "conv2d_unpack", qx)
    strides, padding, dilation = (
        [int(v) for v in getattr(held, f"conv2d_{what}")(packed_weight.held)]
        for what in ("stride", "padding", "dilation")
    )
    sums = qnn.op.conv2d(
        qx.expr,
        layer.weight,
        const(qx.zero, "int32"),
        _zeros(layer),
        const(qx.scale, "float32"),
        Constant(np.asarray(layer.scale)),
        kernel_size=layer.shape[2:],
        channels=layer.shape[0],
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=int(held.conv2d_groups(packed_weight.held)),
    )
    return _finished(ctx, sums, layer, qx, output_scale, output_zero_point, 1, ctx.name.endswith("relu"))


@op("quantized::linear", "quantized::linear_relu")
def linear(ctx, X, W_prepack, Y_scale_i, Y_zero_point_i):
    layer = _layer(ctx, W_prepack, "linear_unpack", X)
    shape = ctx.shape(X.expr)
    data = X.expr if len(shape) == 2 else relay.reshape(X.expr, (-1, layer.shape[1]))
    sums = qnn.op.dense(
        data,
        layer.weight,
        const(X.zero, "int32"),
        _zeros(layer),
        const(X.scale, "float32"),
        Constant(np.asarray(layer.scale)),
        units=layer.shape[0],
    )
    made = _finished(ctx, sums, layer, X, Y_scale_i, Y_zero_point_i, 1, ctx.name.endswith("relu"))
    return made if len(shape) == 2 else made.like(relay.reshape(made.expr, (*shape[:-1], layer.shape[0])))


# -- element-wise operators -------------------------------------------------------------------------------------------


def _both(ctx, name: str, a: Quantized, b: Quantized, scale, zero_point) -> Quantized:
    made = Quantized(a.expr, ctx.known_number(scale, "the scale"), ctx.known_int(zero_point, "the zero point"))
    numbers: list[Any] = [v for x in (a, b, made) for v in (const(x.scale, "float32"), const(x.zero, "int32"))]
    made.expr = getattr(qnn.op, name)(a.expr, b.expr, *numbers)
    return made


@op("quantized::add", "quantized::add_relu")
def add(ctx, qa, qb, scale, zero_point):
    made = _both(ctx, "add", qa, qb, scale, zero_point)
    return _relu(ctx, made) if ctx.name.endswith("relu") else made


@op("quantized::mul", "quantized::mul_relu")
def mul(ctx, qa, qb, scale, zero_point):
    made = _both(ctx, "mul", qa, qb, scale, zero_point)
    return _relu(ctx, made) if ctx.name.endswith("relu") else made


@op("quantized::cat", "quantized::cat_relu")
def cat(ctx, qx, dim, scale=None, zero_point=None):
    first = qx[0]
    made = Quantized(
        first.expr, first.scale if scale is None else scale, first.zero if zero_point is None else zero_point
    )
    parts = [
        v.expr
        if (v.scale, v.zero) == (made.scale, made.zero)
        else qnn.op.requantize(
            v.expr,
            const(v.scale, "float32"),
            const(v.zero, "int32"),
            const(made.scale, "float32"),
            const(made.zero, "int32"),
            compute_dtype="float32",
            rounding="TONEAREST",
            out_dtype=ctx.dtype(v.expr),
        )
        for v in qx
    ]
    made.expr = relay.concatenate(parts, ctx.axis(first.expr, dim))
    return _relu(ctx, made) if ctx.name.endswith("relu") else made


def _through(name: str):
    """Return a converter that dequantizes, applies a float function, and quantizes its output."""

    def convert(ctx, qx, output_scale, output_zero_point, negative_slope=None, inplace=False):
        more = () if negative_slope is None else (negative_slope,)
        made = ctx.convert(name, ctx.infer(real(qx)), *more)
        return in_steps(made, output_scale, output_zero_point, ctx.dtype(qx.expr))

    return convert


op("quantized::sigmoid")(_through("sigmoid"))
op("quantized::leaky_relu")(_through("leaky_relu"))


@op("quantized::hardswish")
def hardswish(ctx, self, output_scale, output_zero_point):
    return _through("hardswish")(ctx, self, output_scale, output_zero_point)


@op("quantized::relu6")
def relu6(ctx, qx, inplace=False):
    made = ctx.convert("relu6", ctx.infer(real(qx)))
    return in_steps(made, qx.scale, qx.zero, ctx.dtype(qx.expr))
