"""Converters of reductions, sorting and top-k."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ..common import run_time
from .elementwise import dtype_of
from .table import Context, Ints, axis_of, half, op


def reduce_axes(ctx: Context, x, axes) -> list[int]:
    rank = ctx.rank(x)
    return list(range(rank)) if axes is None else sorted({axis_of(int(a), rank) for a in axes})


def _log_sum_exp(ctx: Context, x, axes, keep: bool):
    return relay.logsumexp(x, axes, keep)


FORMS = {
    "sum": lambda ctx, x, axes, keep: relay.sum(x, axes, keep),
    "mean": lambda ctx, x, axes, keep: relay.mean(x, axes, keep),
    "prod": lambda ctx, x, axes, keep: relay.prod(x, axes, keep),
    "max": lambda ctx, x, axes, keep: relay.max(x, axes, keep),
    "min": lambda ctx, x, axes, keep: relay.min(x, axes, keep),
    "l1_norm": lambda ctx, x, axes, keep: relay.sum(relay.abs(x), axes, keep),
    "l2_norm": lambda ctx, x, axes, keep: relay.sqrt(relay.sum(relay.multiply(x, x), axes, keep)),
    "sum_square": lambda ctx, x, axes, keep: relay.sum(relay.multiply(x, x), axes, keep),
    "log_sum": lambda ctx, x, axes, keep: relay.log(relay.sum(x, axes, keep)),
    "log_sum_exp": _log_sum_exp,
}


def _reduction(form):
    @half
    def convert(ctx: Context, x, axes: Ints | None = None, keep_dims: bool = False):
        found = reduce_axes(ctx, x, axes)
        return form(ctx, x, found, keep_dims) if found else x

    return convert


REDUCTIONS = {name: op(f"reduce_{name}")(_reduction(form)) for name, form in FORMS.items()}


@op("reduce_argmax")
def argmax(ctx, x, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32"):
    found = relay.argmax(x, axis_of(axis, ctx.rank(x)), keep_dims)
    return ctx.cast(ctx.made(found), dtype_of(output_dtype))


@op("reduce_argmin")
def argmin(ctx, x, axis: int = -1, keep_dims: bool = False, output_dtype: str = "int32"):
    found = relay.argmin(x, axis_of(axis, ctx.rank(x)), keep_dims)
    return ctx.cast(ctx.made(found), dtype_of(output_dtype))


@op("argsort")
def argsort(ctx, x, axis: int = -1, ascending: bool = False):
    return relay.argsort(x, axis_of(axis, ctx.rank(x)), ascending, "int32")


@op("topk")
def topk(ctx, x, k=None, axis: int = -1, ascending: bool = False, sort: bool = True, return_indices: bool = True,
         output_indices_dtype: str = "int32"):  # fmt: skip
    axis = axis_of(axis, ctx.rank(x))
    count = 1 if k is None else ctx.value(k)
    if count is None:
        values, places = run_time.largest(ctx, x, k, axis, ascending)
    else:
        number, size = int(count if k is None else count.reshape(-1)[0]), ctx.shape(x)[axis]
        if isinstance(size, int) and not 0 < number <= size:
            raise TVMError(f"top-k: k {number} is out of range for an axis of {size} elements")
        values, places = relay.topk(x, number, axis, "both", ascending, "int32")
    places = ctx.cast(ctx.made(places), dtype_of(output_indices_dtype))
    return [values, places] if return_indices else values


@op("cumsum")
@half
def cumsum(ctx, x, axis: int = 0, exclusive: bool = False, reverse: bool = False):
    axis = axis_of(axis, ctx.rank(x))
    x = relay.reverse(x, axis) if reverse else x
    out = relay.cumsum(x, axis, exclusive=exclusive)
    return relay.reverse(out, axis) if reverse else out


__all__ = ["REDUCTIONS", "argmax", "argmin", "argsort", "cumsum", "reduce_axes", "topk"]
