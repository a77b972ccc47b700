"""Remove kernel taps of convolutions that only read padding.

If a kernel is dilated beyond the image or is larger than it, some kernel rows and columns read no data for any output.
Without these taps the convolution has a smaller kernel and less padding. For example, a 3x3 kernel on a single pixel
becomes a 1x1 kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from ...topi.nn.utils import pads
from ..expr import Call, RelayExpr
from ..infer import dims
from ..op import transform
from ..op.record import CallAttrs


class Side(NamedTuple):
    """One dimension of a convolution window and of its data."""

    size: int
    taps: int
    stride: int
    dilation: int
    before: int
    after: int

    @property
    def results(self) -> int:
        return (self.size + self.before + self.after - (self.taps - 1) * self.dilation - 1) // self.stride + 1

    def is_live(self, tap: int) -> bool:
        """Return whether any output reads data with a tap."""
        first = tap * self.dilation - self.before
        # The first output for which the tap does not read leading padding.
        result = max(-(first // self.stride), 0)
        return result < self.results and first + result * self.stride < self.size


def without_dead_taps(side: Side) -> tuple[int, Side] | None:
    """Return the first tap to keep and the reduced window; None if all taps are kept."""
    live = [tap for tap in range(side.taps) if side.is_live(tap)]
    if not live or live[-1] - live[0] + 1 == side.taps:
        return None
    first, taps = live[0], live[-1] - live[0] + 1
    before, dilation = side.before - first * side.dilation, side.dilation if taps > 1 else 1
    needed = (side.results - 1) * side.stride + (taps - 1) * dilation + 1
    kept = side._replace(taps=taps, dilation=dilation, before=before, after=max(needed - side.size - before, 0))
    # The reduced window is not expressible if it would need negative padding or has fewer outputs.
    return (first, kept) if before >= 0 and kept.results == side.results else None


def live_window(node: Call, counts) -> RelayExpr | None:
    """Return the convolution with only the part of its kernel that reads data."""
    attrs, names = node.attrs, [c for c in "DHW" if c in node.attrs.data_layout]
    data, weight = (dims(arg.checked_type_) for arg in node.args)
    if not attrs.data_layout.isupper() or not attrs.kernel_layout.isupper():
        return None
    places = [attrs.kernel_layout.index(c) for c in names]
    sizes, window = [data[attrs.data_layout.index(c)] for c in names], [weight[p] for p in places]
    if not all(isinstance(d, int) and d > 0 for d in (*sizes, *window)):
        return None
    spans = [(k - 1) * d + 1 for k, d in zip(window, attrs.dilation)]
    before, after = pads(attrs.padding, spans, len(names), "padding")
    sides = [Side(*row) for row in zip(sizes, window, attrs.strides, attrs.dilation, before, after)]
    found = [without_dead_taps(side) for side in sides]
    if not any(found):
        return None
    kept = [got or (0, side) for got, side in zip(found, sides)]
    begin, end = [first for first, _ in kept], [first + side.taps for first, side in kept]
    part = transform.strided_slice(node.args[1], begin, end, [1] * len(names), places)
    new = {
        "kernel_size": tuple(side.taps for _, side in kept),
        "dilation": tuple(side.dilation for _, side in kept),
        "padding": (*(side.before for _, side in kept), *(side.after for _, side in kept)),
    }
    return Call(node.op, (node.args[0], part), CallAttrs({**attrs.entries, **new}), (), node.span)


__all__ = ["Side", "live_window", "without_dead_taps"]
