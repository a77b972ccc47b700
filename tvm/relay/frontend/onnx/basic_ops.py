"""Converters of plain tensor operators."""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, const
from .table import op

_SAME = {
    "Add": "add",
    "Sub": "subtract",
    "Mul": "multiply",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Abs": "abs",
    "Neg": "negative",
    "Floor": "floor",
    "Ceil": "ceil",
    "Erf": "erf",
    "Sign": "sign",
    "Not": "logical_not",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
    "Equal": "equal",
    "Greater": "greater",
    "Less": "less",
    "GreaterOrEqual": "greater_equal",
    "LessOrEqual": "less_equal",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "IsNaN": "isnan",
    "Round": "round",
}


def _same(name: str):
    function = getattr(relay, name)

    def convert(ctx, inputs, attrs):
        return function(*inputs)

    return convert


for _onnx, _name in _SAME.items():
    op(_onnx)(_same(_name))


@op("Identity")
def identity(ctx, inputs, attrs):
    return inputs[0]


@op("Constant")
def constant(ctx, inputs, attrs):
    from .reader import tensor_array

    if "value" in attrs:
        return Constant(tensor_array(attrs["value"]))
    for key, dtype in (("value_float", "float32"), ("value_floats", "float32"), ("value_int", "int64"),
                       ("value_ints", "int64")):
        if key in attrs:
            return Constant(np.array(attrs[key], dtype))
    raise TVMError("the constant is of a kind that is not supported (strings and sparse tensors are not)")


@op("Div")
def divide(ctx, inputs, attrs):
    return relay.divide(*inputs)


@op("Pow")
def power(ctx, inputs, attrs):
    base, exponent = inputs
    if ctx.dtype(exponent) != ctx.dtype(base):
        exponent = relay.cast(exponent, ctx.dtype(base))
    return relay.power(base, exponent)


@op("Reciprocal")
def reciprocal(ctx, inputs, attrs):
    return relay.divide(const(1, ctx.dtype(inputs[0])), inputs[0])


def _chain(name: str):
    def convert(ctx, inputs, attrs):
        out = inputs[0]
        for x in inputs[1:]:
            out = getattr(relay, name)(out, x)
        return out

    return convert


op("Max")(_chain("maximum"))
op("Min")(_chain("minimum"))
op("Sum")(_chain("add"))


@op("Mean")
def mean(ctx, inputs, attrs):
    return relay.divide(_chain("add")(ctx, inputs, attrs), const(len(inputs), ctx.dtype(inputs[0])))


@op("Clip")
def clip_6(ctx, inputs, attrs):
    low, high = attrs.get("min", -np.finfo("float32").max), attrs.get("max", np.finfo("float32").max)
    return relay.clip(inputs[0], low, high)


@op("Clip", since=11)
def clip(ctx, inputs, attrs):
    out = inputs[0]
    bounds = [inputs[i] if len(inputs) > i else None for i in (1, 2)]
    if all(isinstance(b, Constant) for b in bounds) and ctx.dtype(out).startswith("float"):
        low, high = (b.data.numpy().item() for b in bounds)
        return relay.clip(out, low, high)
    if bounds[0] is not None:
        out = relay.maximum(out, bounds[0])
    if bounds[1] is not None:
        out = relay.minimum(out, bounds[1])
    return out


@op("Cast")
def cast(ctx, inputs, attrs):
    from .reader import onnx_dtype

    return relay.cast(inputs[0], onnx_dtype(attrs["to"]))


@op("Reshape")
def reshape_1(ctx, inputs, attrs):
    return relay.reshape(inputs[0], attrs["shape"])


@op("Reshape", since=5)
def reshape(ctx, inputs, attrs):
    return relay.reshape(inputs[0], ctx.ints(inputs[1], "the shape"), bool(attrs.get("allowzero", 0)))


@op("Flatten")
def flatten(ctx, inputs, attrs):
    axis = attrs.get("axis", 1)
    shape = ctx.shape(inputs[0])
    axis = axis + len(shape) if axis < 0 else axis
    if axis == 1:
        return relay.nn.batch_flatten(inputs[0])
    first = 1
    for d in ctx.known_shape(inputs[0])[:axis]:
        first *= d
    return relay.reshape(inputs[0], (first, -1))


@op("Transpose")
def transpose(ctx, inputs, attrs):
    return relay.transpose(inputs[0], attrs.get("perm"))


@op("Concat")
def concat(ctx, inputs, attrs):
    return inputs[0] if len(inputs) == 1 else relay.concatenate(inputs, attrs.get("axis", 1))


@op("Shape")
def shape(ctx, inputs, attrs):
    dims = ctx.shape(inputs[0])
    if all(isinstance(d, int) for d in dims):
        return Constant(np.array(dims[attrs.get("start", 0) : attrs.get("end", len(dims))], "int64"))
    return relay.shape_of(inputs[0], "int64")


def _axes(ctx, inputs, attrs, since_input: int):
    if "axes" in attrs:
        return attrs["axes"]
    return ctx.ints(inputs[1], "the axes") if len(inputs) > 1 and ctx.opset >= since_input else None


@op("Squeeze")
def squeeze(ctx, inputs, attrs):
    return relay.squeeze(inputs[0], _axes(ctx, inputs, attrs, 13))


@op("Unsqueeze")
def unsqueeze(ctx, inputs, attrs):
    axes = _axes(ctx, inputs, attrs, 13)
    rank = ctx.rank(inputs[0]) + len(axes)
    out = inputs[0]
    for axis in sorted(a % rank for a in axes):
        out = relay.expand_dims(out, axis)
    return out


@op("Gather")
def gather(ctx, inputs, attrs):
    return relay.take(inputs[0], _from_end(ctx, inputs[0], inputs[1], attrs.get("axis", 0)), attrs.get("axis", 0))


def _from_end(ctx, data, indices, axis: int):
    """Negative indices count from the end."""
    size = ctx.shape(data)[axis]
    if isinstance(indices, Constant):
        array = indices.data.numpy()
        return Constant(np.where(array < 0, array + size, array).astype(array.dtype)) if (array < 0).any() else indices
    dtype = ctx.dtype(indices)
    return relay.where(relay.less(indices, const(0, dtype)), relay.add(indices, const(int(size), dtype)), indices)


@op("Slice")
def slice_1(ctx, inputs, attrs):
    return relay.strided_slice(inputs[0], attrs["starts"], attrs["ends"], None, attrs.get("axes"))


@op("Slice", since=10)
def slice_(ctx, inputs, attrs):
    starts, ends = ctx.ints(inputs[1], "starts"), ctx.ints(inputs[2], "ends")
    axes = ctx.ints(inputs[3], "axes") if len(inputs) > 3 else None
    steps = ctx.ints(inputs[4], "steps") if len(inputs) > 4 else None
    rank = ctx.rank(inputs[0])
    axes = list(range(len(starts))) if axes is None else [a % rank for a in axes]
    return relay.strided_slice(inputs[0], starts, ends, steps or [1] * len(starts), axes)


@op("Expand")
def expand(ctx, inputs, attrs):
    from ...op.rules import broadcast_dims

    wanted = ctx.ints(inputs[1], "the shape")
    return relay.broadcast_to(inputs[0], broadcast_dims(ctx.shape(inputs[0]), tuple(wanted)))


def _reduce(name: str, since_input: int):
    def convert(ctx, inputs, attrs):
        axes = _axes(ctx, inputs, attrs, since_input)
        if not axes and attrs.get("noop_with_empty_axes", 0):
            return inputs[0]
        return getattr(relay, name)(inputs[0], axis=axes or None, keepdims=bool(attrs.get("keepdims", 1)))

    return convert


for _onnx, _name, _since in (("ReduceSum", "sum", 13), ("ReduceMean", "mean", 18), ("ReduceMax", "max", 18),
                             ("ReduceMin", "min", 18), ("ReduceProd", "prod", 18)):
    op(_onnx)(_reduce(_name, _since))


@op("Where")
def where(ctx, inputs, attrs):
    return relay.where(*inputs)
