"""Converters of fill operators, which create the weights."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant
from .schema import dtype_name
from .table import check_count, numbers, op

# The maximum number of dimensions of a NumPy array.
_MAX_AXES = 32


def shape_of(ctx, inputs, args, what: str) -> tuple[int, ...]:
    """Return the output shape of a fill operator: an argument, the shape or the value of the input, plus
    ``extra_shape``."""
    if inputs and not args.get("input_as_shape", 0):
        dims = list(ctx.known_shape(inputs[0]))
    elif inputs:
        dims = ctx.ints(inputs[0], f"the shape of {what}") or []
    else:
        dims = list(numbers(args, "shape", []))
    dims += numbers(args, "extra_shape", [])
    if len(dims) > _MAX_AXES:
        raise TVMError(f"a shape of {len(dims)} dimensions is not supported; the maximum is 32")
    check_count(what, dims)
    return tuple(dims)


def _given(dtype: str):
    def convert(ctx, inputs, args):
        values = args.get("values", [])
        shape = shape_of(ctx, inputs, args, "the tensor") if inputs or "shape" in args else (len(values),)
        if not isinstance(values, list) or len(values) != math.prod(shape):
            raise TVMError(
                f"a tensor of shape {shape} needs {math.prod(shape)} elements, but the file has "
                f"{len(values) if isinstance(values, list) else values!r}"
            )
        return Constant(
            np.array(values, "float64" if dtype.startswith("float") else "int64").astype(dtype).reshape(shape)
        )

    return convert


for _name, _dtype in (("", "float32"), ("Double", "float64"), ("Int", "int32"), ("Int64", "int64"), ("Int16", "int16"),
                      ("Bool", "bool")):  # fmt: skip
    op(f"GivenTensor{_name}Fill")(_given(_dtype))


@op("GivenTensorByteStringToUInt8Fill")
def given_bytes(ctx, inputs, args):
    values = args.get("values", [])
    text = values[0] if isinstance(values, list) and len(values) == 1 else values
    shape = shape_of(ctx, inputs, args, "the tensor")
    if not isinstance(text, bytes) or len(text) != math.prod(shape):
        raise TVMError(f"a tensor of shape {shape} needs {math.prod(shape)} bytes of data")
    return Constant(np.frombuffer(text, "uint8").reshape(shape).copy())


@op("ConstantFill")
def constant_fill(ctx, inputs, args):
    value = args.get("value", 0.0)
    if "dtype" in args:
        dtype = dtype_name(args["dtype"])
    else:
        dtype = "float32" if isinstance(value, float) else "int64"
    if isinstance(value, bytes) or isinstance(value, list):
        raise TVMError(f"the fill value {value!r} is not a number")
    return Constant(np.full(shape_of(ctx, inputs, args, "the tensor"), value).astype(dtype))


@op("Float16ConstantFill")
def half_fill(ctx, inputs, args):
    return Constant(np.full(shape_of(ctx, inputs, args, "the tensor"), args.get("value", 0.0)).astype("float16"))


@op("DiagonalFill")
def diagonal_fill(ctx, inputs, args):
    shape = shape_of(ctx, inputs, args, "the tensor")
    if len(shape) < 2 or len(shape) > 2 and len(set(shape)) != 1:
        raise TVMError(
            "DiagonalFill: the shape must have at least 2 dimensions, which must be equal if there are more "
            f"than 2; got {shape}"
        )
    value = args.get("value", 0.0)
    out = np.zeros(shape, dtype_name(args["dtype"]) if "dtype" in args else "float32")
    places = np.arange(min(shape))
    out[tuple([places] * len(shape))] = value
    return Constant(out)


@op("RangeFill")
def range_fill(ctx, inputs, args):
    shape = shape_of(ctx, inputs, args, "the tensor")
    return Constant(np.arange(math.prod(shape)).astype("float32").reshape(shape))


@op("Range")
def range_(ctx, inputs, args):
    """Return a range. The inputs are start, stop and step, or stop alone."""
    found = [ctx.array(e, "the bounds of a range") for e in inputs]
    if not found:
        raise TVMError("Range: expected at least 1 input (the stop value)")
    parts = [f.reshape(-1)[0] for f in found]
    start, stop = (0, parts[0]) if len(parts) == 1 else parts[:2]
    step = parts[2] if len(parts) == 3 else 1
    if not step or not all(math.isfinite(float(v)) for v in (start, stop, step)):
        raise TVMError(f"a range from {start} to {stop} with step {step} is not supported")
    check_count("the range", [max(math.ceil((float(stop) - float(start)) / float(step)), 0)])
    return Constant(np.arange(start, stop, step).astype(found[0].dtype))


def _random(ctx, inputs, args):
    raise TVMError("random numbers are not supported; use the nets of the trained model, which contain its weights")


op("XavierFill", "MSRAFill", "GaussianFill", "UniformFill", "UniformIntFill")(_random)


@op("FloatToHalf")
def to_half(ctx, inputs, args):
    return relay.cast(inputs[0], "float16")


@op("HalfToFloat")
def to_float(ctx, inputs, args):
    return relay.cast(inputs[0], "float32")


__all__ = ["shape_of"]
