"""Matmuls and batched matmuls, with static and dynamic shapes."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...op.rules import broadcast_dims
from ...size_values import plain, same_size
from . import run_time


def numpy_matmul(ctx, a, b, out_dtype: str = ""):
    """Return NumPy's matmul of two tensors; float16 is accumulated in float32."""
    if ctx.dtype(a) == "float16" and not out_dtype:
        return relay.cast(numpy_matmul(ctx, a, b, "float32"), "float16")
    x, y = ctx.shape(a), ctx.shape(b)
    if not x or not y:
        raise TVMError("matmul operands must have at least 1 dimension, got a scalar")
    if len(x) == 1 or len(y) == 1:
        out = numpy_matmul(
            ctx, relay.expand_dims(a, 0) if len(x) == 1 else a, relay.expand_dims(b, 1) if len(y) == 1 else b, out_dtype
        )
        last = len(ctx.shape(out)) - 1
        gone = ([last - 1] if len(x) == 1 else []) + ([last] if len(y) == 1 else [])
        return relay.squeeze(out, gone)
    if not all(isinstance(d, int) for d in (*x, *y)):
        return _dynamic_matmul(ctx, a, b, out_dtype)
    if len(y) == 2:
        flat = relay.reshape(a, (int(np.prod(x[:-1])), x[-1]), True) if len(x) > 2 else a
        out = relay.nn.dense(flat, relay.transpose(b, (1, 0)), out_dtype=out_dtype)
        return relay.reshape(out, (*x[:-1], y[-1]), True) if len(x) > 2 else out
    batch = tuple(broadcast_dims(x[:-2], y[:-2]))
    count = int(np.prod(batch))
    a = relay.broadcast_to(a, (*batch, *x[-2:])) if batch != tuple(x[:-2]) else a
    b = relay.broadcast_to(b, (*batch, *y[-2:])) if batch != tuple(y[:-2]) else b
    a = relay.reshape(a, (count, *x[-2:]), True) if len(batch) != 1 else a
    b = relay.reshape(b, (count, *y[-2:]), True) if len(batch) != 1 else b
    out = _stacks(ctx, a, b, out_dtype)
    return relay.reshape(out, (*batch, x[-2], y[-1]), True) if len(batch) != 1 else out


def _stacks(ctx, a, b, out_dtype: str):
    if ctx.importer.config.get("use_nt_batch_matmul", False):
        return relay.nn.batch_matmul(a, relay.transpose(b, (0, 2, 1)), out_dtype=out_dtype)
    return relay.nn.batch_matmul(a, b, out_dtype=out_dtype, transpose_b=False)


def _dynamic_matmul(ctx, a, b, out_dtype: str):
    """Return the matmul or batched matmul of operands with dynamic shapes."""
    x, y = ([plain(d) for d in ctx.type(e).shape] for e in (a, b))
    if len(y) == 2:
        return relay.nn.dense(a, relay.transpose(b, (1, 0)), out_dtype=out_dtype)
    if len(x) != len(y) or not all(same_size(p, q) for p, q in zip(x[:-2], y[:-2])):
        a, b = _broadcast_batches(ctx, a, b)
    count = ctx.rank(a) - 2
    out = ctx.made(_stacks(ctx, *(ctx.made(run_time.flattened(ctx, e, count)) for e in (a, b)), out_dtype))
    return run_time.unflattened(ctx, out, a, count)


def _broadcast_batches(ctx, a, b) -> list:
    """Broadcast the batch dimensions of two operands against each other."""
    rank = max(ctx.rank(a), ctx.rank(b))
    rows, sizes = [], [[1] * (rank - ctx.rank(e)) + [plain(d) for d in ctx.type(e).shape[:-2]] for e in (a, b)]
    for e in (a, b):
        own = relay.strided_slice(run_time.shape_of(ctx, e), [0], [ctx.rank(e) - 2], [1], [0])
        rows.append(run_time.joined(ctx, [run_time.number([1] * (rank - ctx.rank(e))), ctx.made(own)]))
    batch = ctx.made(relay.where(relay.equal(rows[0], run_time.number(1)), rows[1], rows[0]))
    known = [run_time.broadcast_size(p, q) for p, q in zip(*sizes)]
    out = []
    for e in (a, b):
        last = relay.strided_slice(run_time.shape_of(ctx, e), [ctx.rank(e) - 2], [ctx.rank(e)], [1], [0])
        target = run_time.joined(ctx, [batch, ctx.made(last)])
        made = relay.broadcast_to(e, target)
        out.append(run_time.sharpened(ctx, made, [*known, *ctx.shape(e)[-2:]]))
    return out


__all__ = ["numpy_matmul"]
