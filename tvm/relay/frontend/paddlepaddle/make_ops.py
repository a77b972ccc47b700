"""Converters of operators that create tensors: fills, ranges, shapes."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from ..common import run_time
from ..common.tensorflow_ops import constant_range
from .slice_ops import attribute_array
from .table import Context, check_count, op
from .tensors import numpy_dtype


def _filled(ctx: Context, value: RelayExpr, shape: RelayExpr) -> RelayExpr:
    if ctx.is_run_time_value(shape):
        return run_time.filled(ctx, value, shape)
    sizes = ctx.ints(shape, "the shape") or []
    check_count("a filled tensor", sizes)
    return relay.full(value, sizes, ctx.dtype(value))


def _value(ctx: Context, dtype: str) -> RelayExpr:
    """Return the fill value as a scalar. Some versions also store the value as text, which is exact."""
    given = ctx.maybe("ValueTensor")
    if given is not None:
        return run_time.scalar(ctx, given, dtype)
    written = ctx.attr("str_value", "")
    value = ctx.attr("value", 0.0) if not written else float(written) if dtype.startswith(("f", "b")) else None
    if value is None:
        try:
            value = int(written)
        except ValueError:
            value = int(float(written))
    if dtype.startswith(("int", "uint")) and not math.isfinite(value):
        raise TVMError(f"the value {value} is not representable as {dtype}")
    return const(np.array(value).astype(numpy_dtype(dtype)))


@op("fill_constant")
def fill_constant(ctx):
    return _filled(ctx, _value(ctx, ctx.dtype_attr("dtype")), ctx.vector("shape", "ShapeTensor", "ShapeTensorList"))


@op("fill_constant_batch_size_like")
def fill_constant_batch_size_like(ctx):
    like, shape = ctx.get("Input"), ctx.attr("shape", [])
    own, source = ctx.attr("output_dim_idx", 0), ctx.attr("input_dim_idx", 0)
    if not 0 <= own < len(shape) or not 0 <= source < ctx.rank(like):
        raise TVMError(f"axis {own} of {shape} or axis {source} of the input is out of range")
    sizes = [run_time.number(d) for d in shape]
    sizes[own] = run_time.size_of(ctx, like, source)
    return _filled(ctx, _value(ctx, ctx.dtype_attr("dtype")), run_time.joined(ctx, sizes))


@op("fill_any_like", "fill_zeros_like", "fill_zeros_like2")
def fill_any_like(ctx):
    x = ctx.get("X")
    return _filled(ctx, _value(ctx, ctx.dtype_attr("dtype", ctx.dtype(x))), run_time.shape_of(ctx, x))


@op("assign_value")
def assign_value(ctx):
    return Constant(attribute_array(ctx, ctx.dtype_attr("dtype"), ctx.attr("shape", [])))


@op("shape", "shape64")
def shape(ctx):
    wide = ctx.operator.type == "shape64"
    found = run_time.shape_of(ctx, ctx.get("Input"))
    return found if wide else relay.cast(found, "int32")


@op("size")
def size(ctx):
    x = ctx.get("Input")
    return relay.prod(run_time.shape_of(ctx, x), axis=0) if ctx.rank(x) else run_time.number(1)


@op("is_empty")
def is_empty(ctx):
    x = ctx.get("X")
    return relay.any(relay.equal(run_time.shape_of(ctx, x), run_time.number(0))) if ctx.rank(x) else const(False)


@op("range", "range_v2")
def range_(ctx):
    ends = [ctx.get(n) for n in ("Start", "End", "Step")]
    if ctx.is_run_time_value(*ends):
        return run_time.ranged(ctx, *ends)
    start, stop, step = (ctx.array(e, "the range").reshape(-1) for e in ends)
    if any(v.size != 1 for v in (start, stop, step)) or step[0] == 0:
        raise TVMError("start, end and step of a range must be scalars, and the step must not be 0")
    return constant_range(start[0], stop[0], step[0])


@op("linspace")
def linspace(ctx):
    start, stop = (float(ctx.array(ctx.get(n), "a range bound").reshape(-1)[0]) for n in ("Start", "Stop"))
    count = ctx.number("", "Num", 1)
    check_count("a range", [count])
    return Constant(np.linspace(start, stop, count).astype(numpy_dtype(ctx.dtype_attr("dtype"))))


@op("eye")
def eye(ctx):
    rows, columns = ctx.attr("num_rows", 1), ctx.attr("num_columns", -1)
    columns = rows if columns == -1 else columns
    check_count("a matrix", [rows, columns])
    return Constant(np.eye(rows, columns).astype(numpy_dtype(ctx.dtype_attr("dtype"))))
