"""Windowed operators with run-time window sizes."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ..common import run_time
from ..common.run_time import number
from .table import check_steps


def added_back(ctx, data, image, block, attrs):
    """Add columns (batch, channels times block elements, blocks) to their source positions in the image (Col2Im).

    For each element of each block, the program computes its index in the padded image.
    """
    n = ctx.length(image, "the image shape")
    if ctx.length(block, "the block shape") != n or n < 1:
        raise TVMError(
            f"the image has {n} spatial dimensions, but the block has {ctx.length(block, 'the block shape')}"
        )
    check_steps("an image shape", n)
    image, block = run_time.vector(ctx, image), run_time.vector(ctx, block)
    strides, dilations = (attrs.get(name, [1] * n) for name in ("strides", "dilations"))
    amounts = attrs.get("pads", [0] * 2 * n)
    if len(strides) != n or len(dilations) != n or len(amounts) != 2 * n or min(*strides, *dilations) < 1:
        raise TVMError(
            f"strides and dilations must have {n} positive elements and pads {2 * n}, for {n} spatial dimensions"
        )
    sizes = relay.add(image, number([amounts[i] + amounts[i + n] for i in range(n)]))
    reach = relay.multiply(relay.subtract(block, number(1)), number(dilations))
    room = relay.subtract(relay.subtract(sizes, reach), number(1))
    counts = ctx.made(relay.add(relay.floor_divide(room, number(strides)), number(1)))
    sizes = ctx.made(sizes)
    places = _places(ctx, sizes, counts, block, strides, dilations, n)
    whole, columns = ctx.made(relay.prod(block, axis=0)), ctx.made(relay.prod(counts, axis=0))
    parts = relay.multiply(whole, columns)
    batch = run_time.size_of(ctx, data, 0)
    channels = relay.floor_divide(run_time.size_of(ctx, data, 1), relay.maximum(whole, number(1)))
    lines = ctx.made(relay.multiply(batch, channels))
    # This reshape reports an error if the number of blocks does not match the image.
    updates = ctx.made(relay.reshape(data, run_time.joined(ctx, [lines, ctx.made(parts)]), True))
    total = run_time.joined(ctx, [lines, ctx.made(relay.prod(sizes, axis=0))])
    empty = ctx.made(relay.full(ctx.like(0, data), total, ctx.dtype(data)))
    spread = ctx.made(relay.broadcast_to(relay.expand_dims(places, 0), run_time.shape_of(ctx, updates)))
    out = relay.scatter_elements(empty, spread, updates, 1, "add")
    out = ctx.made(relay.reshape(out, run_time.joined(ctx, [batch, ctx.made(channels), sizes]), True))
    begin, axes = number(amounts[:n]), list(range(2, n + 2))
    return relay.strided_slice(out, begin, ctx.made(relay.add(begin, image)), number([1] * n), axes)


def _places(ctx, sizes, counts, block, strides, dilations, n: int):
    """Return the indices of all block elements in the flat image; the element index varies more slowly than the block
    index.
    """
    elements, columns = (run_time.counted(ctx, ctx.made(relay.prod(v, axis=0))) for v in (block, counts))
    out, stride, inner, outer = None, number(1), number(1), number(1)
    for d in reversed(range(n)):
        size, own, count = (run_time.element(ctx, v, d) for v in (sizes, block, counts))
        k = relay.floor_mod(relay.floor_divide(elements, inner), relay.maximum(own, number(1)))
        at = relay.floor_mod(relay.floor_divide(columns, outer), relay.maximum(count, number(1)))
        k, at = relay.multiply(k, number(dilations[d])), relay.multiply(at, number(strides[d]))
        place = relay.multiply(relay.add(relay.expand_dims(k, 1), relay.expand_dims(at, 0)), stride)
        out = place if out is None else relay.add(out, place)
        stride = ctx.made(relay.multiply(stride, size))
        inner = ctx.made(relay.maximum(relay.multiply(inner, own), number(1)))
        outer = ctx.made(relay.maximum(relay.multiply(outer, count), number(1)))
    return ctx.made(relay.reshape(ctx.made(out), (-1,)))


def unpooled(ctx, x, places, natural: list, wanted):
    """Scatter elements to run-time indices of a flat tensor with the shape ``natural``, in a larger shape.

    The rest of the larger shape is filled with zeros.
    """
    shape = run_time.joined(ctx, natural)
    size = run_time.joined(ctx, [ctx.made(relay.prod(shape, axis=0))])
    empty = ctx.made(relay.full(ctx.like(0, x), size, ctx.dtype(x)))
    flat = [ctx.made(relay.reshape(e, (-1,))) for e in (places, x)]
    out = ctx.made(relay.reshape(relay.scatter_elements(empty, *flat, 0, "update"), shape, True))
    if wanted is None:
        return out
    rest = run_time.at_least(ctx, ctx.made(relay.subtract(run_time.vector(ctx, wanted), shape)), 0,
                             "output_shape minus the inferred output shape")  # fmt: skip
    amounts = run_time.joined(ctx, [number([0] * len(natural)), rest])
    return run_time.padded(ctx, out, amounts, None, ctx.like(0, x), "constant")


__all__ = ["added_back", "unpooled"]
