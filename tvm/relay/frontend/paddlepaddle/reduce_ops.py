"""Converters of reductions and norms."""

from __future__ import annotations

import math

from ... import op as relay
from ...expr import RelayExpr
from .elementwise import as_bool, cast_to, unary
from .table import Context, axis_of, op


def _axes(ctx: Context, x: RelayExpr, name: str = "dim") -> list[int]:
    """Return the reduced axes; all axes if none are given."""
    rank = ctx.rank(x)
    given = ctx.operator.attrs.get(name)
    given = [given] if isinstance(given, int) else ctx.attr(name, [] if name == "axis" else [0])
    if ctx.attr("reduce_all", False) or not given:
        return list(range(rank))
    return sorted({axis_of(a, max(rank, 1)) for a in given}) if rank else []


_FORMS = {"reduce_sum": relay.sum, "reduce_mean": relay.mean, "reduce_max": relay.max, "reduce_min": relay.min,
          "reduce_prod": relay.prod, "reduce_amax": relay.max, "reduce_amin": relay.min}  # fmt: skip


def _reduced(name: str):
    def convert(ctx, x):
        axes, keep = _axes(ctx, x), bool(ctx.attr("keep_dim", False))
        narrow = ctx.dtype(x) == "bool" or name == "reduce_sum" and ctx.dtype(x) == "int32"
        wanted = ctx.dtype_attr("out_dtype", "int64" if narrow else ctx.dtype(x))
        x = cast_to(ctx, x, wanted)
        return _FORMS[name](x, axis=axes, keepdims=keep) if axes else x

    return convert


for _name in _FORMS:
    unary(_name)(_reduced(_name))


def _logical(form):
    def convert(ctx, x):
        axes = _axes(ctx, x)
        return form(as_bool(ctx, x), axis=axes, keepdims=bool(ctx.attr("keep_dim", False))) if axes else as_bool(ctx, x)

    return convert


unary("reduce_all")(_logical(relay.all))
unary("reduce_any")(_logical(relay.any))


@unary("mean")
def mean(ctx, x):
    return relay.mean(x, axis=list(range(ctx.rank(x)))) if ctx.rank(x) else x


@unary("logsumexp")
def logsumexp(ctx, x):
    axes, keep = _axes(ctx, x, "axis"), bool(ctx.attr("keepdim", False))
    if not axes:
        return x
    top = relay.max(x, axis=axes, keepdims=True)
    safe = relay.where(relay.isfinite(top), top, relay.zeros_like(top))
    total = relay.log(relay.sum(relay.exp(relay.subtract(x, safe)), axis=axes, keepdims=keep))
    return relay.add(total, safe if keep else relay.squeeze(safe, axes))


def norm_of(ctx: Context, x: RelayExpr, axes: list[int], p: float, keep: bool) -> RelayExpr:
    """Return the p-norm along axes."""
    size = relay.abs(x)
    if p == 0:
        return relay.sum(relay.cast(relay.not_equal(x, ctx.like(0, x)), ctx.dtype(x)), axis=axes, keepdims=keep)
    if math.isinf(p):
        return (relay.max if p > 0 else relay.min)(size, axis=axes, keepdims=keep)
    if p == 1:
        return relay.sum(size, axis=axes, keepdims=keep)
    if p == 2:
        return relay.sqrt(relay.sum(relay.multiply(x, x), axis=axes, keepdims=keep))
    total = relay.sum(relay.power(size, ctx.like(p, x)), axis=axes, keepdims=keep)
    return relay.power(total, ctx.like(1.0 / p, x))


@unary("p_norm")
def p_norm(ctx, x):
    rank = ctx.rank(x)
    axes = list(range(rank)) if ctx.attr("asvector", False) else [ctx.axis("axis", x)]
    return norm_of(ctx, x, axes, ctx.attr("porder", 2.0), bool(ctx.attr("keepdim", False)))


@unary("frobenius_norm")
def frobenius_norm(ctx, x):
    return norm_of(ctx, x, _axes(ctx, x), 2, bool(ctx.attr("keep_dim", False)))


@unary("l1_norm")
def l1_norm(ctx, x):
    return relay.sum(relay.abs(x), axis=list(range(ctx.rank(x))))


@unary("squared_l2_norm")
def squared_l2_norm(ctx, x):
    return relay.reshape(relay.sum(relay.multiply(x, x), axis=list(range(ctx.rank(x)))), (1,))


@op("norm")
def norm(ctx):
    """Normalize along an axis. Return the output and the L2 norms."""
    x = ctx.get("X")
    axis = ctx.axis("axis", x)
    total = relay.sum(relay.multiply(x, x), axis=axis, keepdims=True)
    length = ctx.made(relay.sqrt(relay.add(total, ctx.like(ctx.attr("epsilon", 1e-10), x))))
    return {"Out": relay.divide(x, length), "Norm": length}


@op("dist")
def dist(ctx):
    x = relay.subtract(ctx.get("X"), ctx.get("Y"))
    x = ctx.made(x)
    return norm_of(ctx, x, list(range(ctx.rank(x))), ctx.attr("p", 2.0), False) if ctx.rank(x) else relay.abs(x)


__all__ = ["norm_of"]
