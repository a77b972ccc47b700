"""Converters of operators that TensorFlow and TFLite define equally: they depend only on a node's inputs."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr
from . import formulas
from .context import NodeContext, axis_of, check_count


def transpose(ctx: NodeContext, inputs: list, _) -> RelayExpr:
    rank = ctx.rank(inputs[0])
    axes = [axis_of(a, rank) for a in ctx.ints(inputs[1], "the permutation of axes")]
    if sorted(axes) != list(range(rank)):
        raise TVMError(f"{axes} is not a permutation of {rank} axes")
    return relay.transpose(inputs[0], axes) if rank else inputs[0]


def reverse(ctx: NodeContext, inputs: list, _) -> RelayExpr:
    out = inputs[0]
    for axis in ctx.ints(inputs[1], "the axes"):
        out = relay.reverse(out, axis_of(axis, ctx.rank(out)))
    return out


def sparse_to_dense(ctx: NodeContext, inputs: list, _) -> RelayExpr:
    shape = ctx.ints(inputs[1], "the shape")
    check_count("a tensor", shape)
    return relay.sparse_to_dense(inputs[0], shape, inputs[2], relay.reshape(inputs[3], ()))


def floor_divide(ctx: NodeContext, inputs: list, _) -> RelayExpr:
    if ctx.is_float(inputs[0]):
        return relay.floor(relay.divide(*inputs[:2]))
    return relay.floor_divide(*inputs[:2])


def squared_difference(ctx: NodeContext, inputs: list, _) -> RelayExpr:
    difference = relay.subtract(*inputs[:2])
    return relay.multiply(difference, difference)


def atan2(ctx: NodeContext, inputs: list, _) -> RelayExpr:
    return formulas.atan2(ctx, *inputs[:2])


def log_softmax(ctx: NodeContext, inputs: list, _) -> RelayExpr:
    return formulas.log_softmax(inputs[0], -1)


def pad_width(ctx: NodeContext, inputs: list) -> tuple[tuple[int, int], ...]:
    """Return the number of elements that are added before and after each axis."""
    width = ctx.array(inputs[1], "the padding")
    if width.shape != (ctx.rank(inputs[0]), 2) or (width < 0).any():
        raise TVMError(
            f"padding must be non-negative and have the shape ({ctx.rank(inputs[0])}, 2), got the shape {width.shape}"
        )
    return tuple((int(a), int(b)) for a, b in width)


def blocks(ctx: NodeContext, inputs: list) -> tuple[list[int], list]:
    """Return the block sizes of a batch, and the elements that are added to or cropped from each axis."""
    block, edges = ctx.ints(inputs[1], "the blocks"), ctx.array(inputs[2], "the edges")
    if edges.shape != (len(block), 2) or any(b < 1 for b in block) or len(block) >= ctx.rank(inputs[0]):
        raise TVMError(
            f"blocks {block} and crops or paddings of shape {edges.shape} do not match a tensor with "
            f"{ctx.rank(inputs[0])} axes"
        )
    return block, [[int(v) for v in row] for row in edges]


def known_range(ctx: NodeContext, inputs: list) -> Constant:
    """Return the range from start to limit as a constant; all arguments must be constant."""
    start, stop, step = (ctx.array(x, w).reshape(-1) for x, w in zip(inputs[:3], ("start", "limit", "delta")))
    if any(v.size != 1 for v in (start, stop, step)) or step[0] == 0:
        raise TVMError("start, limit and delta must be scalars, and delta must not be 0")
    return constant_range(start[0], stop[0], step[0])


def constant_range(start: np.generic, stop: np.generic, step: np.generic) -> Constant:
    """Return the range from start to stop as a constant of the element type of start."""
    span = (float(stop) - float(start)) / float(step)
    if not math.isfinite(span):
        raise TVMError(f"cannot count from {start} to {stop} in steps of {step}")
    count = max(math.ceil(span), 0)
    check_count("a range", [count])
    return Constant((start + np.arange(count) * step).astype(start.dtype))
