"""Windows over data with dynamic shapes."""

from __future__ import annotations

from ... import op as relay
from . import run_time
from .run_time import number


def same_padded(ctx, data, kernel, strides, dilations, upper: bool, value):
    """Pad data with dynamic shapes by TensorFlow's SAME rule: one window per (possibly incomplete) stride.

    If the total padding of an axis is odd, the additional element is at the end if ``upper``, else at the beginning.
    """
    n = len(kernel)
    sizes = run_time.joined(ctx, [run_time.size_of(ctx, data, i + 2) for i in range(n)])
    steps, reach = number(strides), number([(k - 1) * d + 1 for k, d in zip(kernel, dilations)])
    begun = relay.floor_divide(relay.add(sizes, relay.subtract(steps, number(1))), steps)
    used = relay.add(relay.multiply(relay.subtract(begun, number(1)), steps), reach)
    total = ctx.made(relay.maximum(relay.subtract(used, sizes), number(0)))
    half = ctx.made(relay.floor_divide(total, number(2)))
    rest = ctx.made(relay.subtract(total, half))
    none = number([0, 0])
    amounts = run_time.joined(ctx, [none, half, none, rest] if upper else [none, rest, none, half])
    return ctx.made(run_time.padded(ctx, data, amounts, None, value, "constant"))


__all__ = ["same_padded"]
