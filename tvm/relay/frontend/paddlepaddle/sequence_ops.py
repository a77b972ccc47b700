"""Converters of operators on variable-length sequences (LoD tensors), which older programs use.

The inputs of a module are plain tensors without sequence lengths: all rows form one sequence. Operators whose meaning
would differ from PaddlePaddle's have no converter.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ..common import run_time
from .table import op

_POOLS = {
    "SUM": lambda x: relay.sum(x, axis=[0], keepdims=True),
    "AVERAGE": lambda x: relay.mean(x, axis=[0], keepdims=True),
    "MAX": lambda x: relay.max(x, axis=[0], keepdims=True),
    "FIRST": lambda x: relay.take(x, const([0], "int64"), 0),
    "LAST": lambda x: relay.take(relay.reverse(x, 0), const([0], "int64"), 0),
}


@op("sequence_pool")
def sequence_pool(ctx):
    x, kind = ctx.get("X"), ctx.attr("pooltype", "AVERAGE").upper()
    if kind == "SQRT":
        total, rows = ctx.made(_POOLS["SUM"](x)), relay.cast(run_time.size_of(ctx, x, 0), ctx.dtype(x))
        return {"Out": relay.divide(total, relay.sqrt(rows))}
    if kind not in _POOLS:
        raise TVMError(f"the attribute 'pooltype' must be one of {', '.join(sorted([*_POOLS, 'SQRT']))}, got {kind!r}")
    if ctx.shape(x)[0] == 0:
        raise TVMError("a sequence without rows is not supported")
    index = relay.cast(relay.argmax(x, axis=[0], keepdims=True), "int32") if ctx.wants("MaxIndex") else None
    return {"Out": _POOLS[kind](x), **({} if index is None else {"MaxIndex": index})}


@op("sequence_softmax")
def sequence_softmax(ctx):
    x = ctx.get("X")
    if ctx.rank(x) > 2 or ctx.rank(x) == 2 and ctx.shape(x)[1] != 1:
        raise TVMError(f"expected one value for each step, got a tensor of shape {ctx.shape(x)}")
    return {"Out": relay.nn.softmax(x, 0)}


@op("sequence_conv")
def sequence_conv(ctx):
    """Convolve over the rows, with zero padding."""
    x, weight = ctx.get("X"), ctx.get("Filter")
    length, start = ctx.attr("contextLength", 1), ctx.attr("contextStart", 0)
    ctx.refuse(contextStride=1, paddingTrainable=False)
    if ctx.rank(x) != 2 or length < 1 or not -length < start <= 0:
        raise TVMError(f"a window of {length} rows with start {start} over a tensor of {ctx.rank(x)} dimensions is not "
                       "supported")  # fmt: skip
    depth, (rows, outputs) = ctx.known_size(x, 1), ctx.known_shape(weight)
    if rows != length * depth:
        raise TVMError(f"weights of shape {(rows, outputs)} do not match windows of {length} rows of size {depth}")
    kernel = relay.transpose(relay.reshape(weight, (length, depth, outputs)), (2, 1, 0))
    line = relay.expand_dims(relay.transpose(x, (1, 0)), 0)
    out = relay.nn.conv1d(line, kernel, padding=(-start, length - 1 + start), channels=outputs, kernel_size=(length,))
    return {"Out": relay.transpose(relay.squeeze(out, [0]), (1, 0))}


@op("sequence_expand")
def sequence_expand(ctx):
    """Repeat the single row for each row of another sequence."""
    x, y = ctx.get("X"), ctx.get("Y")
    if ctx.shape(x)[0] != 1:
        raise TVMError(f"expected a tensor with one row, got shape {ctx.shape(x)}")
    return {"Out": relay.take(x, relay.zeros_like(run_time.counted(ctx, run_time.size_of(ctx, y, 0))), 0)}
