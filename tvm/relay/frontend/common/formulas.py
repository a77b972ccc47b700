"""Functions of several frameworks that Relay does not have, composed of its operators."""

from __future__ import annotations

import math

from ... import op as relay
from ...expr import RelayExpr
from .context import NodeContext


def atan2(ctx: NodeContext, y: RelayExpr, x: RelayExpr) -> RelayExpr:
    """Return the angle of the point (x, y) with C's handling of signed zeros and infinities.

    The angle is computed for the first octant, where the slope is at most 1, and then moved to the octant of the point.
    """
    zero, one = ctx.like(0, y), ctx.like(1, y)
    size_y, size_x = relay.abs(y), relay.abs(x)
    high, low = relay.maximum(size_x, size_y), relay.minimum(size_x, size_y)
    diagonal = relay.cast(relay.greater(high, zero), ctx.dtype(y))
    slope = relay.where(relay.equal(high, low), diagonal, relay.divide(low, high))
    angle = relay.atan(slope)
    angle = relay.where(relay.greater(size_y, size_x), relay.subtract(ctx.like(math.pi / 2, y), angle), angle)

    def is_negative(e: RelayExpr) -> RelayExpr:
        """Return whether a number is negative; true for -0.0 too, whose reciprocal is -infinity."""
        return relay.logical_or(relay.less(e, zero), relay.less(relay.divide(one, e), zero))

    angle = relay.where(is_negative(x), relay.subtract(ctx.like(math.pi, y), angle), angle)
    return relay.where(is_negative(y), relay.negative(angle), angle)


def log_softmax(x: RelayExpr, axis: int) -> RelayExpr:
    shifted = relay.subtract(x, relay.max(x, axis=axis, keepdims=True))
    return relay.subtract(shifted, relay.log(relay.sum(relay.exp(shifted), axis=axis, keepdims=True)))


def polynomial(ctx: NodeContext, x: RelayExpr, factors) -> RelayExpr:
    """Evaluate a polynomial; ``factors`` are its coefficients, highest power first."""
    out = ctx.like(factors[0], x)
    for factor in factors[1:]:
        out = relay.add(relay.multiply(out, x), ctx.like(factor, x))
    return out


# Coefficients for the approximation of the inverse error function in the center and near -1 and 1.
_MIDDLE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_ENDS = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def erfinv(ctx: NodeContext, x: RelayExpr) -> RelayExpr:
    """Return the inverse error function: an approximation with float32 accuracy, refined by Newton steps for
    float64.
    """
    one = ctx.like(1, x)
    w = relay.negative(relay.log(relay.multiply(relay.subtract(one, x), relay.add(one, x))))
    middle = polynomial(ctx, relay.subtract(w, ctx.like(2.5, x)), _MIDDLE)
    ends = polynomial(ctx, relay.subtract(relay.sqrt(w), ctx.like(3, x)), _ENDS)
    out = relay.multiply(x, relay.where(relay.less(w, ctx.like(5, x)), middle, ends))
    for _ in range(2 if ctx.dtype(x) == "float64" else 0):
        slope = relay.multiply(ctx.like(2 / math.sqrt(math.pi), x), relay.exp(relay.negative(relay.multiply(out, out))))
        out = relay.subtract(out, relay.divide(relay.subtract(relay.erf(out), x), slope))
    # The value at -1 and 1 is infinite.
    return relay.where(relay.equal(relay.abs(x), one), relay.multiply(x, ctx.like(math.inf, x)), out)


# Coefficients of the Lanczos approximation of the gamma function.
_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)


def _gamma_parts(ctx: NodeContext, x: RelayExpr) -> tuple[RelayExpr, RelayExpr]:
    """Return log(gamma(x)) and gamma(x) for x >= 0.5."""
    z = relay.subtract(x, ctx.like(1, x))
    total = ctx.like(_LANCZOS[0], x)
    for k, factor in enumerate(_LANCZOS[1:], 1):
        total = relay.add(total, relay.divide(ctx.like(factor, x), relay.add(z, ctx.like(k, x))))
    t = relay.add(z, ctx.like(7.5, x))
    power = relay.add(z, ctx.like(0.5, x))
    log = relay.add(relay.subtract(relay.multiply(power, relay.log(t)), t), relay.log(total))
    log = relay.add(log, ctx.like(0.5 * math.log(2 * math.pi), x))
    return log, relay.exp(log)


def gamma(logarithm: bool):
    def convert(ctx: NodeContext, x: RelayExpr) -> RelayExpr:
        """Use the reflection formula below 0.5. Terms nearly cancel, so they are added in float64."""
        kind = ctx.dtype(x)
        x = relay.cast(x, "float64") if kind != "float64" else x
        wide = ctx.made(x)
        half, one = ctx.like(0.5, wide), ctx.like(1, wide)
        low = relay.less(wide, half)
        log, own = _gamma_parts(ctx, ctx.made(relay.where(low, relay.subtract(one, wide), wide)))
        pi = ctx.like(math.pi, wide)
        if logarithm:
            # Use the sine of the fractional part: it has the same magnitude, and is exact at the poles.
            sine = relay.sin(relay.multiply(pi, relay.subtract(wide, relay.floor(wide))))
            mirrored = relay.subtract(relay.log(relay.divide(pi, sine)), log)
            endless = relay.equal(relay.abs(wide), ctx.like(math.inf, wide))
            out = relay.where(endless, ctx.like(math.inf, wide), relay.where(low, mirrored, log))
        else:
            sine = relay.sin(relay.multiply(pi, wide))
            out = relay.where(low, relay.divide(pi, relay.multiply(sine, own)), own)
        return relay.cast(out, kind) if kind != "float64" else out

    return convert


__all__ = ["atan2", "erfinv", "gamma", "log_softmax", "polynomial"]
