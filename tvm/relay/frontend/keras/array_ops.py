"""Converters of ``keras.ops`` operations that functional models call, and of TensorFlow operations that Keras 2 wrote
as layers (TFOpLambda).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import Constant, RelayExpr, const
from .core_ops import einsum
from .shape_ops import image_resized
from .table import CONVERTERS, Context, as_list, as_numpy, axis_of, check_count, dtype_of, layer, operation

_TYPES = ("bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def _expr(ctx: Context, value: Any, like: RelayExpr | None = None) -> RelayExpr:
    """Return an operand as an expression; numbers in the configuration get the type of the other operand."""
    if isinstance(value, RelayExpr):
        return value
    array = np.asarray(value)
    if array.dtype == object or array.dtype.kind not in "biuf":
        raise TVMError(f"expected a tensor, got {value!r}")
    if like is not None and (ctx.is_float(like) or array.dtype.kind != "f"):
        return Constant(array.astype(as_numpy(ctx.dtype(like))))
    return Constant(array.astype({"f": "float32", "i": "int32", "u": "int32", "b": "bool"}[array.dtype.kind]))


def _promoted(ctx: Context, a: Any, b: Any) -> tuple[RelayExpr, RelayExpr]:
    """Return two operands in their common type: floats take precedence over integers, and wider types over narrower
    ones.
    """
    first = a if isinstance(a, RelayExpr) else _expr(ctx, a, b if isinstance(b, RelayExpr) else None)
    second = _expr(ctx, b, first)
    kinds = [ctx.dtype(first), ctx.dtype(second)]
    if kinds[0] == kinds[1]:
        return first, second
    if any(k not in _TYPES for k in kinds):
        raise TVMError(f"operands of {kinds[0]} and {kinds[1]} are not supported")
    real = [k for k in kinds if "float" in k]
    wide = real[0] if len(real) == 1 else max(kinds, key=_TYPES.index)
    return ctx.cast(first, wide), ctx.cast(second, wide)


def _binary(function, *names: str) -> None:
    def convert(ctx, x1, x2):
        return function(*_promoted(ctx, x1, x2))

    operation(*names)(convert)


for _function, _names in (
    (relay.add, "Add"), (relay.subtract, "Subtract"), (relay.multiply, "Multiply"), (relay.power, "Power"),
    (relay.maximum, "Maximum"), (relay.minimum, "Minimum"), (relay.floor_mod, "Mod"), (relay.equal, "Equal"),
    (relay.not_equal, "NotEqual"), (relay.less, "Less"), (relay.less_equal, "LessEqual"), (relay.greater, "Greater"),
    (relay.greater_equal, "GreaterEqual"), (relay.floor_divide, "FloorDivide"),
):  # fmt: skip
    _binary(_function, _names)


@operation("Divide", "TrueDivide")
def divide(ctx, x1, x2):
    a, b = _promoted(ctx, x1, x2)
    return relay.divide(*(e if ctx.is_float(e) else ctx.cast(e, "float32") for e in (a, b)))


@operation("SquaredDifference")
def squared_difference(ctx, x1, x2):
    difference = relay.subtract(*_promoted(ctx, x1, x2))
    return relay.multiply(difference, difference)


@operation("LogicalAnd")
def logical_and(ctx, x1, x2):
    return relay.logical_and(*(ctx.cast(_expr(ctx, e), "bool") for e in (x1, x2)))


@operation("LogicalOr")
def logical_or(ctx, x1, x2):
    return relay.logical_or(*(ctx.cast(_expr(ctx, e), "bool") for e in (x1, x2)))


@operation("LogicalXor")
def logical_xor(ctx, x1, x2):
    return relay.not_equal(*(ctx.cast(_expr(ctx, e), "bool") for e in (x1, x2)))


@operation("LogicalNot")
def logical_not(ctx, x):
    return relay.logical_not(ctx.cast(x, "bool"))


def _unary(function, *names: str, real: bool = False) -> None:
    def convert(ctx, x):
        return function(ctx.cast(x, "float32") if real and not ctx.is_float(x) else x)

    operation(*names)(convert)


for _name, _function in {
    "Absolute": relay.abs, "Abs": relay.abs, "Negative": relay.negative, "Floor": relay.floor, "Ceil": relay.ceil,
    "Round": relay.round, "Sign": relay.sign, "Trunc": relay.trunc, "IsNan": relay.isnan, "Isnan": relay.isnan,
    "Isfinite": relay.isfinite, "Isinf": relay.isinf, "ZerosLike": relay.zeros_like, "OnesLike": relay.ones_like,
    "Copy": relay.copy,
}.items():  # fmt: skip
    _unary(_function, _name)
for _name in ("log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "erf"):
    _unary(getattr(relay, _name), _name.capitalize(), real=True)
for _name, _function in {
    "Arcsin": relay.asin, "Arccos": relay.acos, "Arctan": relay.atan, "Arcsinh": relay.asinh, "Arccosh": relay.acosh,
    "Arctanh": relay.atanh,
}.items():  # fmt: skip
    _unary(_function, _name, real=True)


@operation("Square")
def square(ctx, x):
    return relay.multiply(x, x)


@operation("Reciprocal")
def reciprocal(ctx, x):
    return relay.divide(ctx.like(1, x), x)


@operation("Log1p")
def log1p(ctx, x):
    return relay.log(relay.add(x, ctx.like(1, x)))


@operation("Expm1")
def expm1(ctx, x):
    return relay.subtract(relay.exp(x), ctx.like(1, x))


# -- reductions -------------------------------------------------------------------------------------------------------


def _axes(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, (list, tuple)) else axis


def _reduction(function, *names: str, real: bool = False, logical: bool = False) -> None:
    def convert(ctx, x, axis=None, keepdims=False):
        if real and not ctx.is_float(x) or logical:
            x = ctx.cast(x, "bool" if logical else "float32")
        return function(x, _axes(axis), bool(keepdims))

    operation(*names)(convert)


for _function, _name in ((relay.sum, "Sum"), (relay.prod, "Prod"), (relay.max, "Max"), (relay.min, "Min"),
                         (relay.max, "Amax"), (relay.min, "Amin")):  # fmt: skip
    _reduction(_function, _name)
for _function, _name in ((relay.mean, "Mean"), (relay.variance, "Var"), (relay.std, "Std"),
                         (relay.logsumexp, "Logsumexp")):  # fmt: skip
    _reduction(_function, _name, real=True)
for _function, _name in ((relay.any, "Any"), (relay.all, "All")):
    _reduction(_function, _name, logical=True)


def _place(function, name: str) -> None:
    def convert(ctx, x, axis=None, keepdims=False):
        if axis is None:
            x, axis = relay.reshape(x, (-1,)), 0
        return relay.cast(function(x, axis, bool(keepdims)), "int32")

    operation(name)(convert)


_place(relay.argmax, "Argmax")
_place(relay.argmin, "Argmin")


@operation("Cumsum")
def cumsum(ctx, x, axis=None, dtype=None):
    x = x if dtype is None else ctx.cast(x, dtype_of(dtype))
    return relay.cumsum(relay.reshape(x, (-1,)) if axis is None else x, 0 if axis is None else axis)


@operation("Normalize")
def normalize(ctx, x, axis=-1, order=2, epsilon=None):
    if order != 2:
        raise TVMError(f"normalization with order {order} is not supported")
    total = relay.sum(relay.multiply(x, x), _axes(axis), True)
    least = ctx.like((1e-7 if epsilon is None else epsilon) if ctx.version >= 3 else 1e-12, x)
    return relay.multiply(x, relay.rsqrt(relay.maximum(total, least)))


# -- shapes -----------------------------------------------------------------------------------------------------------


def _known(ctx: Context, value: Any, what: str) -> list[int]:
    """Return constant integers of the configuration, some of which can be computed during the import."""
    out = []
    for v in as_list(value):
        array = ctx.value(v) if isinstance(v, RelayExpr) else v
        if array is None:
            raise ctx.not_constant(what, [v])
        out += [int(d) for d in np.asarray(array).reshape(-1)]
    return out


@operation("Reshape")
def reshape(ctx, x, newshape=None, shape=None):
    wanted = newshape if newshape is not None else shape
    sizes = [-1 if d is None else d for d in as_list(wanted)]
    sizes = _known(ctx, sizes, "the shape")
    if sizes.count(-1) > 1 and ctx.rank(x):
        # A dynamic batch is kept; only one other dimension can be inferred.
        sizes[0] = ctx.known_size(x, 0)
    return relay.reshape(x, tuple(sizes), allowzero=True) if 0 not in sizes else relay.reshape(x, tuple(sizes))


@operation("Transpose")
def transpose(ctx, x, axes=None):
    return relay.transpose(x, None if axes is None else tuple(axes))


@operation("ExpandDims")
def expand_dims(ctx, x, axis):
    rank = ctx.rank(x)
    for a in sorted(axis_of(v, rank + len(as_list(axis))) for v in as_list(axis)):
        x = relay.expand_dims(x, a)
    return x


@operation("Squeeze")
def squeeze(ctx, x, axis=None):
    return relay.squeeze(x, None if axis is None else [axis_of(a, ctx.rank(x)) for a in as_list(axis)])


@operation("Ravel")
def ravel(ctx, x):
    return relay.reshape(x, (-1,))


@operation("Swapaxes")
def swapaxes(ctx, x, axis1, axis2):
    order = list(range(ctx.rank(x)))
    a, b = axis_of(axis1, len(order)), axis_of(axis2, len(order))
    order[a], order[b] = order[b], order[a]
    return relay.transpose(x, order)


@operation("Moveaxis")
def moveaxis(ctx, x, source, destination):
    rank = ctx.rank(x)
    pairs = [(axis_of(s, rank), axis_of(d, rank)) for s, d in zip(as_list(source), as_list(destination))]
    order = [i for i in range(rank) if i not in [s for s, _ in pairs]]
    for s, d in sorted(pairs, key=lambda p: p[1]):
        order.insert(d, s)
    return relay.transpose(x, order)


@operation("Concatenate")
def concatenate(ctx, xs, axis=0):
    parts = as_list(xs)
    like = next((p for p in parts if isinstance(p, RelayExpr)), None)
    parts = [_expr(ctx, p, like) for p in parts]
    return relay.concatenate(parts, axis)


@operation("Stack")
def stack(ctx, x, axis=0):
    return relay.stack([_expr(ctx, e) for e in as_list(x)], axis)


@operation("Split")
def split(ctx, x, indices_or_sections, axis=0):
    return list(relay.split(x, indices_or_sections, axis_of(axis, ctx.rank(x))))


@operation("Unstack")
def unstack(ctx, x, num=None, axis=0):
    axis = axis_of(axis, ctx.rank(x))
    count = ctx.known_size(x, axis)
    parts = relay.split(x, count, axis) if count > 1 else [x]
    return [relay.squeeze(p, [axis]) for p in parts]


@operation("Tile")
def tile(ctx, x, repeats):
    check_count("the output of Tile", [*ctx.known_shape(x), *as_list(repeats)])
    return relay.tile(x, tuple(as_list(repeats)))


@operation("Repeat")
def repeat(ctx, x, repeats, axis=None):
    if not isinstance(repeats, int):
        raise TVMError("a separate number of repeats for each element is not supported")
    check_count("the output of Repeat", [*ctx.known_shape(x), repeats])
    return relay.repeat(relay.reshape(x, (-1,)) if axis is None else x, repeats, 0 if axis is None else axis)


@operation("Flip")
def flip(ctx, x, axis=None):
    for a in range(ctx.rank(x)) if axis is None else as_list(axis):
        x = relay.reverse(x, axis_of(a, ctx.rank(x)))
    return x


@operation("Pad")
def pad(ctx, x, pad_width, mode="constant", constant_values=None):
    widths = np.broadcast_to(np.asarray(pad_width, "int64"), (ctx.rank(x), 2))
    pairs = tuple((int(a), int(b)) for a, b in widths)
    if mode == "constant":
        return relay.nn.pad(x, pairs, float(constant_values or 0))
    if mode not in ("reflect", "symmetric"):
        raise TVMError(f"padding mode '{mode}' is not supported")
    return relay.nn.mirror_pad(x, pairs, mode.upper())


@operation("BroadcastTo")
def broadcast_to(ctx, x, shape):
    sizes = [ctx.known_size(x, i) if d is None else d for i, d in enumerate(as_list(shape))]
    check_count("data", sizes)
    return relay.broadcast_to(x, tuple(sizes))


@operation("ConvertToTensor")
def convert_to_tensor(ctx, x, dtype=None, sparse=None, ragged=None):
    return x if dtype is None else ctx.cast(_expr(ctx, x), dtype_of(dtype))


@operation("Cast")
def cast(ctx, x, dtype="float32"):
    return ctx.cast(x, dtype_of(dtype))


@operation("Where")
def where(ctx, condition, x1=None, x2=None):
    if x1 is None or x2 is None:
        raise TVMError("Where without x1 and x2 (the indices of true elements) is not supported")
    a, b = _promoted(ctx, x1, x2)
    return relay.where(ctx.cast(_expr(ctx, condition), "bool"), a, b)


@operation("Clip")
def clip(ctx, x, x_min, x_max):
    return relay.clip(x, float(x_min), float(x_max))


@operation("Take")
def take(ctx, x, indices, axis=None):
    x, indices = _expr(ctx, x), _expr(ctx, indices)
    if axis is None:
        x, axis = relay.reshape(x, (-1,)), 0
    size = ctx.known_size(ctx.infer(x), axis)
    # Negative indices count from the end.
    indices = relay.where(
        relay.less(indices, ctx.like(0, indices)), relay.add(indices, ctx.like(size, indices)), indices
    )
    return relay.take(x, indices, axis)


@operation("OneHot")
def one_hot(ctx, x, num_classes, axis=-1, dtype=None, sparse=False):
    dtype = "float32" if dtype is None else dtype_of(dtype)
    check_count("the one-hot encoding", [*ctx.known_shape(x), num_classes])
    return relay.one_hot(ctx.cast(x, "int32"), const(1, dtype), const(0, dtype), num_classes, axis, dtype)


@operation("GetItem")
def get_item(ctx, x, key):
    keys = as_list(key)
    if Ellipsis in keys:
        at = keys.index(Ellipsis)
        used = len([k for k in keys if k is not None and k is not Ellipsis])
        keys[at : at + 1] = [slice(None)] * (ctx.rank(x) - used)
    begins, ends, strides, dropped, added, axis, place = [], [], [], [], [], 0, 0
    for k in keys:
        if k is None:
            added.append(place)
            place += 1
            continue
        size = ctx.known_size(x, axis) if k != slice(None) else None
        if isinstance(k, slice):
            begin, end, step = (0, 2**31 - 1, 1) if size is None else k.indices(size)
            end = -size - 1 if size is not None and step < 0 and end < 0 else end
            place += 1
        elif type(k) is int:
            begin, end, step = axis_of(k, size), axis_of(k, size) + 1, 1
            dropped.append(axis)
        else:
            raise TVMError(f"the index {k!r} must be constant at compile time")
        begins.append(begin)
        ends.append(end)
        strides.append(step)
        axis += 1
    out = relay.strided_slice(x, begins, ends, strides, list(range(axis))) if axis else x
    out = relay.squeeze(out, dropped) if dropped else out
    for a in added:
        out = relay.expand_dims(out, a)
    return out


# -- matmul -----------------------------------------------------------------------------------------------------------


@operation("Matmul")
def matmul(ctx, x1, x2):
    a, b = _promoted(ctx, x1, x2)
    ranks = ctx.rank(a), ctx.rank(b)
    if min(ranks) < 2:
        left, right = "ab"[2 - min(ranks[0], 2) :], "bc"[: min(ranks[1], 2)]
        return einsum(ctx, f"{left},{right}->{''.join(c for c in left + right if c != 'b')}", a, b)
    rank = max(ranks)
    letters = "defghijk"[: rank - 2]
    left, right = letters[rank - ranks[0] :], letters[rank - ranks[1] :]
    sizes = [
        max(p) for p in zip(*([1] * (rank - r) + list(ctx.known_shape(e)[: r - 2]) for r, e in zip(ranks, (a, b))))
    ]
    # Dimensions of size 1 are broadcast to those of the other operand.
    a = ctx.infer(relay.broadcast_to(a, (*sizes[rank - ranks[0] :], *ctx.known_shape(a)[-2:])))
    b = ctx.infer(relay.broadcast_to(b, (*sizes[rank - ranks[1] :], *ctx.known_shape(b)[-2:])))
    return einsum(ctx, f"{left}ab,{right}bc->{letters}ac", a, b)


@operation("Dot")
def dot(ctx, x1, x2):
    a, b = _promoted(ctx, x1, x2)
    if ctx.rank(a) == 0 or ctx.rank(b) == 0:
        return relay.multiply(a, b)
    if ctx.rank(b) == 1 or ctx.rank(a) <= 2 and ctx.rank(b) == 2:
        return matmul(ctx, a, b)
    left, right = "abcde"[: ctx.rank(a) - 1], "fghij"[: ctx.rank(b) - 1]
    return einsum(ctx, f"{left}z,{right[:-1]}z{right[-1:]}->{left}{right}", a, b)


@operation("Einsum")
def einsum_operation(ctx, *operands, subscripts=None):
    if len(operands) == 1 and isinstance(operands[0], list):
        operands = tuple(operands[0])
    if len(operands) != 2 or not isinstance(subscripts, str):
        raise TVMError("einsum is supported only for an equation string with two operands")
    return einsum(ctx, subscripts, *operands)


@operation("Resize")
def resize(
    ctx,
    images,
    size,
    interpolation="bilinear",
    antialias=False,
    crop_to_aspect_ratio=False,
    pad_to_aspect_ratio=False,
    data_format=None,
):
    if crop_to_aspect_ratio or pad_to_aspect_ratio:
        raise TVMError("crop_to_aspect_ratio and pad_to_aspect_ratio are not supported")
    rank = ctx.rank(images)
    axes = [rank - 2, rank - 1] if data_format == "channels_first" else [rank - 3, rank - 2]
    return image_resized(ctx, images, axes, list(size), interpolation, bool(antialias))


# -- TensorFlow operations written by Keras 2 -------------------------------------------------------------------------

# For each TensorFlow function, the equivalent operation and the names of its additional arguments.
_FUNCTIONS: dict[str, tuple[str, dict[str, str]]] = {
    **{f: (o, {"y": "x2"}) for f, o in (
        ("math.add", "Add"), ("__operators__.add", "Add"), ("math.subtract", "Subtract"), ("math.multiply", "Multiply"),
        ("math.divide", "Divide"), ("math.truediv", "Divide"), ("math.pow", "Power"), ("math.maximum", "Maximum"),
        ("math.minimum", "Minimum"), ("math.equal", "Equal"), ("math.not_equal", "NotEqual"), ("math.less", "Less"),
        ("math.greater", "Greater"), ("math.less_equal", "LessEqual"), ("math.greater_equal", "GreaterEqual"),
        ("math.squared_difference", "SquaredDifference"), ("math.floordiv", "FloorDivide"))},
    **{f: (o, {"axis": "axis", "keepdims": "keepdims"}) for f, o in (
        ("math.reduce_mean", "Mean"), ("math.reduce_sum", "Sum"), ("math.reduce_max", "Max"), ("math.reduce_min",
        "Min"),
        ("math.reduce_prod", "Prod"), ("math.argmax", "Argmax"), ("math.argmin", "Argmin"))},
    **{f"{module}{n}": (o, {}) for n, o in (
        ("abs", "Abs"), ("negative", "Negative"), ("exp", "Exp"), ("log", "Log"), ("sqrt", "Sqrt"), ("rsqrt", "Rsqrt"),
        ("square", "Square"), ("floor", "Floor"), ("ceil", "Ceil"), ("round", "Round"), ("sign", "Sign"),
        ("sin", "Sin"), ("cos", "Cos"), ("tanh", "Tanh"), ("sigmoid", "Sigmoid"), ("softplus", "Softplus"))
       for module in ("math.", "")},
    **{f"nn.{n}": (o, {}) for n, o in (
        ("relu", "Relu"), ("relu6", "Relu6"), ("sigmoid", "Sigmoid"), ("tanh", "Tanh"), ("elu", "Elu"), ("selu",
        "Selu"),
        ("silu", "Silu"), ("swish", "Silu"), ("softplus", "Softplus"), ("softsign", "Softsign"))},
    "nn.softmax": ("Softmax", {"axis": "axis"}), "nn.gelu": ("Gelu", {"approximate": "approximate"}),
    "nn.leaky_relu": ("LeakyRelu", {"alpha": "negative_slope"}),
    "cast": ("Cast", {"dtype": "dtype"}), "reshape": ("Reshape", {"shape": "newshape"}),
    "transpose": ("Transpose", {"perm": "axes"}), "compat.v1.transpose": ("Transpose", {"perm": "axes"}),
    "expand_dims": ("ExpandDims", {"axis": "axis"}), "squeeze": ("Squeeze", {"axis": "axis"}),
    "compat.v1.squeeze": ("Squeeze", {"axis": "axis"}),
    "concat": ("Concatenate", {"axis": "axis"}), "stack": ("Stack", {"axis": "axis"}),
    "split": ("Split", {"num_or_size_splits": "indices_or_sections", "axis": "axis"}),
    "tile": ("Tile", {"multiples": "repeats"}), "repeat": ("Repeat", {"repeats": "repeats", "axis": "axis"}),
    "reverse": ("Flip", {"axis": "axis"}), "linalg.matmul": ("Matmul", {"b": "x2"}),
    "clip_by_value": ("Clip", {"clip_value_min": "x_min", "clip_value_max": "x_max"}),
    "math.l2_normalize": ("Normalize", {"axis": "axis"}), "where": ("Where", {"x": "x1", "y": "x2"}),
    "one_hot": ("OneHot", {"depth": "num_classes", "axis": "axis"}),
    "image.resize": ("Resize", {"size": "size", "method": "interpolation", "antialias": "antialias"}),
}  # fmt: skip


def _tensorflow_operation(target: str, names: dict[str, str]):
    def convert(ctx, x, **given):
        kwargs = {}
        for key, value in given.items():
            if key in names:
                if value is not None:
                    kwargs[names[key]] = value
            elif value is not None and value is not False and key not in ("name", "conjugate"):
                raise TVMError(f"argument {key}={value!r} is not supported")
        found: Any = CONVERTERS.find(f"ops.{target}", 0)
        return found(ctx, x, **kwargs)

    return convert


for _name, _row in _FUNCTIONS.items():
    layer(f"tf.{_name}")(_tensorflow_operation(*_row))


@layer("SlicingOpLambda")
def tensorflow_slice(ctx, x, slice_spec=None):
    def key(value):
        if isinstance(value, dict):
            return slice(*(value.get(k) for k in ("start", "stop", "step")))
        return Ellipsis if value == "..." else value

    return get_item(ctx, x, [key(v) for v in as_list(slice_spec)])
