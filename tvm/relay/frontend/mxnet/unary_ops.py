"""Converters of unary functions of ``mx.nd`` and ``mx.np``. Outputs have the element type of the input."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from ..common.formulas import erfinv, gamma
from .table import Context, op


def rounded(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Round half away from zero."""
    half = relay.floor(relay.add(relay.abs(x), ctx.like(0.5, x)))
    return relay.multiply(relay.sign(x), half)


def _nearest(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Round to the nearest integer, and half down."""
    low, high = relay.floor(x), relay.ceil(x)
    return relay.where(relay.less_equal(relay.subtract(x, low), relay.subtract(high, x)), low, high)


def _sign(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return the sign; the sign of NaN is 0."""
    return relay.where(relay.isnan(x), ctx.like(0, x), relay.sign(x)) if ctx.is_float(x) else relay.sign(x)


def cube_root(ctx: Context, x: RelayExpr) -> RelayExpr:
    return relay.multiply(relay.sign(x), relay.power(relay.abs(x), ctx.like(1 / 3, x)))


def softsign(ctx: Context, x: RelayExpr) -> RelayExpr:
    return relay.divide(x, relay.add(ctx.like(1, x), relay.abs(x)))


def expm1(ctx: Context, x: RelayExpr) -> RelayExpr:
    """Return exp(x) - 1: a Taylor series near zero, the difference elsewhere."""
    small = x
    for k in (5, 4, 3, 2):
        small = relay.multiply(x, relay.add(ctx.like(1, x), relay.divide(small, ctx.like(k, x))))
    return relay.where(relay.less(relay.abs(x), ctx.like(0.1, x)), small, relay.subtract(relay.exp(x), ctx.like(1, x)))


def _plain(function):
    return lambda ctx, x: function(x)


def _scaled(factor: float):
    return lambda ctx, x: relay.multiply(x, ctx.like(factor, x))


_UNARY = {
    "abs": _plain(relay.abs), "sign": _sign, "negative": _plain(relay.negative),
    "round": rounded, "rint": _nearest, "ceil": _plain(relay.ceil), "floor": _plain(relay.floor),
    "trunc": _plain(relay.trunc), "fix": _plain(relay.trunc), "square": lambda ctx, x: relay.multiply(x, x),
    "sqrt": _plain(relay.sqrt), "rsqrt": _plain(relay.rsqrt), "cbrt": cube_root,
    "rcbrt": lambda ctx, x: relay.divide(ctx.like(1, x), cube_root(ctx, x)), "exp": _plain(relay.exp),
    "expm1": expm1, "log": _plain(relay.log), "log10": _plain(relay.log10), "log2": _plain(relay.log2),
    "log1p": _plain(relay.log1p), "sin": _plain(relay.sin), "cos": _plain(relay.cos), "tan": _plain(relay.tan),
    "arcsin": _plain(relay.asin), "arccos": _plain(relay.acos), "arctan": _plain(relay.atan),
    "sinh": _plain(relay.sinh), "cosh": _plain(relay.cosh), "tanh": _plain(relay.tanh),
    "arcsinh": _plain(relay.asinh), "arccosh": _plain(relay.acosh), "arctanh": _plain(relay.atanh),
    "degrees": _scaled(180 / math.pi), "radians": _scaled(math.pi / 180), "erf": _plain(relay.erf),
    "erfinv": erfinv, "gamma": gamma(False), "gammaln": gamma(True),
    "reciprocal": lambda ctx, x: relay.divide(ctx.like(1, x), x), "relu": _plain(relay.nn.relu),
    "sigmoid": _plain(relay.sigmoid), "softsign": softsign,
    "logical_not": lambda ctx, x: relay.cast(relay.equal(x, ctx.like(0, x)), ctx.dtype(x)),
}  # fmt: skip
# Functions that return integers for integers.
_WHOLE = ("abs", "sign", "negative", "square", "ceil", "floor", "trunc", "fix", "round", "rint", "relu", "logical_not")


def _unary(name: str):
    function = _UNARY[name]

    def convert(ctx, inputs, attrs):
        x = inputs[0]
        if ctx.is_float(x):
            return function(ctx, x)
        if name in ("ceil", "floor", "trunc", "fix", "round", "rint"):
            return x
        if name in _WHOLE:
            return function(ctx, x)
        # Compute in float32; `mx.nd` converts the output back to integers.
        return relay.cast(function(ctx, ctx.made(relay.cast(x, "float32"))), ctx.dtype(x))

    return convert


for _name in _UNARY:
    op(_name)(_unary(_name))
for _name in (
    "sign negative ceil floor trunc fix square sqrt cbrt exp expm1 log log10 log2 log1p sin cos tan arcsin"
    " arccos arctan sinh cosh tanh arcsinh arccosh arctanh degrees radians reciprocal"
).split():
    op(f"_npi_{_name}")(_unary(_name))
op("_npi_absolute")(_unary("abs"))
op("_npx_relu")(_unary("relu"))
op("_npx_sigmoid")(_unary("sigmoid"))
op("_npi_rint")(_unary("rint"))


@op("_npi_around", "decimals:int=0")
def np_around(ctx, inputs, attrs):
    x = inputs[0]
    if not ctx.is_float(x):
        return x
    if abs(attrs.decimals) > 30:
        raise TVMError(f"the attribute decimals={attrs.decimals} is not supported")
    # Round half to even.
    if not attrs.decimals:
        return relay.round(x)
    scale = ctx.like(10.0**attrs.decimals, x)
    return relay.divide(relay.round(relay.multiply(x, scale)), scale)


@op("_npi_logical_not")
def np_logical_not(ctx, inputs, attrs):
    return relay.equal(inputs[0], ctx.like(0, inputs[0]))


@op("_npi_bitwise_not")
def np_bitwise_not(ctx, inputs, attrs):
    x = inputs[0]
    return relay.logical_not(x) if ctx.dtype(x) == "bool" else relay.bitwise_not(x)


def _question(name: str, ask):
    @op(name)
    def convert(ctx, inputs, attrs):
        x = inputs[0]
        return ask(ctx, x if ctx.is_float(x) else ctx.made(relay.cast(x, "float32")))


_question("_npi_isnan", lambda ctx, x: relay.isnan(x))
_question("_npi_isinf", lambda ctx, x: relay.isinf(x))
_question("_npi_isfinite", lambda ctx, x: relay.isfinite(x))
_question("_npi_isposinf", lambda ctx, x: relay.equal(x, ctx.like(math.inf, x)))
_question("_npi_isneginf", lambda ctx, x: relay.equal(x, ctx.like(-math.inf, x)))


@op("_npi_nan_to_num", "copy:bool=True nan:float=0 posinf:float?=None neginf:float?=None")
def nan_to_num(ctx, inputs, attrs):
    x = inputs[0]
    if not ctx.is_float(x):
        return x
    limits = np.finfo(ctx.dtype(x))
    high = float(limits.max) if attrs.posinf is None else attrs.posinf
    low = float(limits.min) if attrs.neginf is None else attrs.neginf
    x = relay.where(relay.isnan(x), ctx.like(attrs.nan, x), x)
    x = relay.where(relay.equal(x, ctx.like(math.inf, inputs[0])), ctx.like(high, inputs[0]), x)
    return relay.where(relay.equal(x, ctx.like(-math.inf, inputs[0])), ctx.like(low, inputs[0]), x)


__all__ = ["cube_root", "expm1", "rounded", "softsign"]
