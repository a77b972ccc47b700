"""Converters of operators that pad a tensor."""

from __future__ import annotations

import numpy as np

from ... import op as relay
from ...expr import const
from ..common import run_time
from .table import op


@op("constant_pad_nd", "pad")
def pad(ctx, self, pad, mode="constant", value=None):
    amounts = ctx.known_ints(pad, "the padding")
    if mode == "constant":
        return padded(ctx, self, amounts, value)
    return padded_by_index(ctx, self, amounts, {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


def _both_sides(rank: int, amounts: list[int]) -> list[tuple[int, int]]:
    """Return the amounts for each axis; PyTorch lists them from the last axis."""
    pairs = [(amounts[i], amounts[i + 1]) for i in range(0, len(amounts), 2)]
    return [(0, 0)] * (rank - len(pairs)) + pairs[::-1]


def padded(ctx, x, amounts: list[int], value=None):
    """Pad a tensor; negative amounts crop."""
    pairs = _both_sides(ctx.rank(x), amounts)
    for axis, (before, after) in enumerate(pairs):
        if before < 0 or after < 0:
            size = ctx.known_size(x, axis)
            x = ctx.infer(relay.strided_slice(x, [max(-before, 0)], [size - max(-after, 0)], [1], [axis]))
    pairs = [(max(b, 0), max(a, 0)) for b, a in pairs]
    if not any(b or a for b, a in pairs):
        return x
    if ctx.dtype(x) == "bool":
        wide = relay.nn.pad(relay.cast(x, "int8"), pairs, const(int(value or 0), "int8"))
        return relay.cast(wide, "bool")
    return relay.nn.pad(x, pairs, ctx.like(0 if value is None else value, x))


def padded_by_index(ctx, x, pad: list[int], mode: str):
    for axis, (before, after) in enumerate(_both_sides(ctx.rank(x), pad)):
        if min(before, after) >= 0 < max(before, after) and not isinstance(ctx.shape(x)[axis], int):
            amounts = const(np.array([before, after], "int64"))
            x = run_time.padded(ctx, x, amounts, const(np.array([axis], "int64")), ctx.like(0, x), mode)
        elif before or after:
            size = ctx.known_size(x, axis)
            places = np.arange(size, dtype="int64")[max(-before, 0) : size - max(-after, 0)]
            x = relay.take(x, const(np.pad(places, (max(before, 0), max(after, 0)), mode)), axis)
    return x


for _mode, _numpy in (("reflection", "reflect"), ("replication", "edge")):
    op(*(f"{_mode}_pad{n}d" for n in (1, 2, 3)))(
        lambda ctx, self, padding, mode=_numpy: padded_by_index(
            ctx, self, ctx.known_ints(padding, "the padding", 2 * (ctx.rank(self) - 1)), mode
        )
    )


@op("_pad_circular")
def pad_circular(ctx, self, pad):
    return padded_by_index(ctx, self, ctx.known_ints(pad, "the padding"), "wrap")


__all__ = ["padded"]
