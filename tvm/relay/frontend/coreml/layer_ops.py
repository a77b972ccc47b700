"""Converters of the layers of specification versions 1 to 3.

The last three dimensions are channels, height and width.
"""

from __future__ import annotations

import numpy as np

from ....error import TVMError
from ... import op as relay
from . import activations as act
from .image_ops import BOXES, crop, cropped_regions, grown_sizes, resized_linear, resized_nearest
from .index_ops import counted_from_start
from .nn_ops import biased, conv, conv_transpose
from .norm_ops import batch_normalized, l2_norm, normalized, response_normalized, scaled
from .pool_ops import avg_pool, global_pool, l2_pool, max_pool
from .reduce_ops import REDUCTIONS, argmax
from .shape_ops import concat, depth_to_space, padded, pixel_shuffle, space_to_depth
from .table import Context, axis_of, const, constant, layer
from .values import weight_of

# The sampling modes by their number in the format.
_SAMPLING = ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS")


def weight(ctx: Context, params, shape, what: str):
    return constant(weight_of(params, shape, what))


def numbered(names, number: int, what: str) -> str:
    """Return the name of an enum value."""
    if not 0 <= number < len(names):
        raise TVMError(f"{what} {number} is not supported")
    return names[number]


# -- convolution and matmul -------------------------------------------------------------------------------------------


def _border(amounts) -> list[int]:
    """Return the amounts before and after height, then before and after width."""
    edges = amounts.borderAmounts
    if not edges:
        return [0, 0, 0, 0]
    if len(edges) != 2:
        raise TVMError(f"expected border amounts for 2 dimensions, got {len(edges)}")
    return [int(v) for e in edges for v in (e.startEdgeSize, e.endEdgeSize)]


def _padding(p) -> dict:
    if p.HasField("same"):
        return {"pad_type": "same_lower" if p.same.asymmetryMode == 1 else "same"}
    return {"pad_type": "custom", "pad": _border(p.valid.paddingAmounts)}


@layer("convolution")
def convolution(ctx, inputs, p):
    x, front = ctx.flat(inputs[0], 3)
    kernel, groups = [int(v) for v in p.kernelSize] or [3, 3], int(p.nGroups) or 1
    out, depth = int(p.outputChannels), int(p.kernelChannels)
    shape = (depth, out // groups, *kernel) if p.isDeconvolution else (out, depth, *kernel)
    if len(inputs) > 1:
        weights = ctx.made(relay.reshape(inputs[1], shape))
        bias = inputs[2] if len(inputs) > 2 else None
    else:
        weights = weight(ctx, p.weights, shape, "the weights")
        bias = weight(ctx, p.bias, (out,), "the bias") if p.hasBias else None
    settings = {"strides": [int(v) for v in p.stride], "groups": groups, **_padding(p)}
    if p.isDeconvolution:
        made = conv_transpose(ctx, x, weights, bias, output_shape=[int(v) for v in p.outputShape] or None, **settings)
    else:
        made = conv(ctx, x, weights, bias, dilations=[int(v) for v in p.dilationFactor], **settings)
    return ctx.unflat(ctx.made(made), front)


@layer("innerProduct")
def inner_product(ctx, inputs, p):
    """Matmul with the weights. The last three dimensions are flattened if there are at least four."""
    x = inputs[0]
    sizes = ctx.known_shape(x)
    if p.int8DynamicQuantize:
        raise TVMError("int8DynamicQuantize is not supported")
    depth, out = int(p.inputChannels), int(p.outputChannels)
    front = sizes[:-3] if len(sizes) >= 4 else sizes[:-1]
    rest = int(np.prod(sizes[len(front) :]))
    if rest != depth:
        raise TVMError(f"inputChannels is {depth}, but the input of shape {sizes} has {rest} elements per row")
    flat = relay.reshape(x, (-1, depth), True)
    made = relay.nn.dense(flat, weight(ctx, p.weights, (out, depth), "the weights"))
    made = biased(ctx, made, weight(ctx, p.bias, (out,), "the bias") if p.hasBias else None)
    return relay.reshape(made, (*front, out, *([1, 1] if len(sizes) >= 4 else [])))


@layer("embedding")
def embedding(ctx, inputs, p):
    sizes = ctx.known_shape(inputs[0])
    if len(sizes) < 4 or sizes[-3:] != (1, 1, 1):
        raise TVMError(f"an input of shape {sizes} is not supported; its last three dimensions must be 1")
    made = embedded(ctx, inputs[0], p, int(p.inputDim), int(p.outputChannels))
    return relay.reshape(made, (*sizes[:-3], int(p.outputChannels), 1, 1))


def embedded(ctx: Context, x, p, count: int, width: int):
    """Look up the rows of an embedding table for integer indices."""
    table = weight_of(p.weights, (width, count), "the weights").T
    places = ctx.made(relay.reshape(ctx.indices(x), (-1,)))
    made = relay.take(constant(table), counted_from_start(ctx, places, count), 0)
    return biased(ctx, made, weight(ctx, p.bias, (width,), "the bias") if p.hasBias else None)


# -- pooling ----------------------------------------------------------------------------------------------------------

_POOLS = {"max": max_pool, "average": avg_pool, "l2": l2_pool}


@layer("pooling")
def pooling(ctx, inputs, p):
    x, front = ctx.flat(inputs[0], 3)
    kind = numbered(("max", "average", "l2"), p.type, "the pooling type")
    if p.globalPooling:
        return ctx.unflat(ctx.made(global_pool(ctx, x, kind, 2)), front)
    settings: dict = {"kernel_sizes": [int(v) for v in p.kernelSize] or [3, 3], "strides": [int(v) for v in p.stride]}
    if kind == "average":
        settings["exclude_padding_from_average"] = bool(p.avgPoolExcludePadding)
    if p.HasField("includeLastPixel"):
        amounts = [int(v) for v in p.includeLastPixel.paddingAmounts] or [0, 0]
        if len(amounts) != 2:
            raise TVMError(f"includeLastPixel: expected 2 padding amounts, got {amounts}")
        settings |= {"pad_type": "custom", "pad": [amounts[0]] * 2 + [amounts[1]] * 2, "ceil_mode": True}
    else:
        settings |= _padding(p)
    return ctx.unflat(ctx.made(_POOLS[kind](ctx, x, **settings)), front)


# -- normalization ----------------------------------------------------------------------------------------------------


@layer("batchnorm")
def batchnorm(ctx, inputs, p):
    x, count = inputs[0], int(p.channels)
    epsilon = p.epsilon or 1e-5
    gamma = weight(ctx, p.gamma, (count,), "gamma") if p.HasField("gamma") else None
    beta = weight(ctx, p.beta, (count,), "beta") if p.HasField("beta") else None
    if not p.computeMeanVar:
        mean, variance = weight(ctx, p.mean, (count,), "the mean"), weight(ctx, p.variance, (count,), "the variance")
        return batch_normalized(ctx, x, mean, variance, gamma, beta, epsilon, -3)
    rank = ctx.rank(x)
    if rank < 3:
        raise TVMError(f"an input of {rank} dimensions is not supported; expected at least 3")
    axes = [rank - 2, rank - 1] if p.instanceNormalization else [a for a in range(rank) if a != rank - 3]
    return scaled(ctx, ctx.made(normalized(ctx, x, axes, epsilon)), gamma, beta, -3)


@layer("mvn")
def mvn(ctx, inputs, p):
    rank = ctx.rank(inputs[0])
    axes = [axis_of(a, rank) for a in ((-3, -2, -1) if p.acrossChannels else (-2, -1))]
    return normalized(ctx, inputs[0], axes, p.epsilon or 1e-6, bool(p.normalizeVariance))


@layer("l2normalize")
def l2normalize(ctx, inputs, p):
    return l2_norm(ctx, inputs[0], p.epsilon or 1e-6)


@layer("softmax")
def softmax(ctx, inputs, p):
    return act.softmax(ctx, inputs[0], -3)


@layer("lrn")
def lrn(ctx, inputs, p):
    return response_normalized(ctx, inputs[0], int(p.localSize), p.alpha, p.beta, p.k or 1.0, -3)


# -- activations and element-wise layers ------------------------------------------------------------------------------


def _vector(ctx: Context, params, x, what: str):
    """Return a constant vector with one element for each channel, or one for all channels."""
    count = len(params.floatValue) or len(params.float16Value) // 2
    return weight(ctx, params, (count,), what)


def activation_of(ctx: Context, p):
    """Return the activation function that a parameter message describes."""
    kinds = [field.name for field, _ in p.ListFields()]
    if len(kinds) != 1:
        raise TVMError("the activation has no supported type")
    kind, own = kinds[0], getattr(p, kinds[0])
    plain = {"ReLU": act.relu, "tanh": act.tanh, "sigmoid": act.sigmoid, "softsign": act.softsign,
             "softplus": act.softplus}  # fmt: skip
    one = {"leakyReLU": act.leaky_relu, "thresholdedReLU": act.thresholded_relu, "ELU": act.elu}
    two = {"linear": act.linear_activation, "scaledTanh": act.scaled_tanh, "sigmoidHard": act.sigmoid_hard}
    if kind in plain:
        return plain[kind]
    if kind in one:
        return lambda ctx, x: one[kind](ctx, x, own.alpha)
    if kind in two:
        return lambda ctx, x: two[kind](ctx, x, own.alpha, own.beta)
    if kind == "PReLU":
        return lambda ctx, x: act.sloped(ctx, x, _vector(ctx, own.alpha, x, "alpha"), -3)
    return lambda ctx, x: act.grown(ctx, x, _vector(ctx, own.alpha, x, "alpha"), _vector(ctx, own.beta, x, "beta"), -3)


@layer("activation")
def activation(ctx, inputs, p):
    return activation_of(ctx, p)(ctx, inputs[0])


_UNARY = ("SQRT", "RSQRT", "INVERSE", "POWER", "EXP", "LOG", "ABS", "THRESHOLD")


@layer("unary")
def unary(ctx, inputs, p):
    x, kind = inputs[0], numbered(_UNARY, p.type, "the unary function")
    scale, epsilon = p.scale or 1.0, const(p.epsilon or 1e-6, "float32")
    x = relay.multiply(x, const(scale, "float32")) if scale != 1 else x
    x = ctx.made(relay.add(x, const(p.shift, "float32")) if p.shift else x)
    forms = {"SQRT": lambda: relay.sqrt(x), "RSQRT": lambda: relay.rsqrt(relay.add(x, epsilon)),
             "INVERSE": lambda: relay.divide(const(1.0, "float32"), relay.add(x, epsilon)),
             "POWER": lambda: relay.power(x, const(p.alpha, "float32")), "EXP": lambda: relay.exp(x),
             "LOG": lambda: relay.log(x), "ABS": lambda: relay.abs(x),
             "THRESHOLD": lambda: relay.maximum(x, const(p.alpha, "float32"))}  # fmt: skip
    return forms[kind]()


def _joined(build):
    def convert(ctx: Context, inputs, p):
        if len(inputs) == 1:
            return build(inputs[0], const(p.alpha, "float32"))
        return folded(build, inputs)

    return convert


def folded(build, values):
    """Combine all tensors from left to right with a binary operator."""
    if len(values) < 2:
        raise TVMError(f"expected at least 2 inputs, got {len(values)}")
    out = values[0]
    for value in values[1:]:
        out = build(out, value)
    return out


layer("add")(_joined(relay.add))
layer("multiply")(_joined(relay.multiply))


@layer("average")
def average(ctx, inputs, p):
    return relay.divide(folded(relay.add, inputs), const(float(len(inputs)), "float32"))


@layer("max")
def largest(ctx, inputs, p):
    return folded(relay.maximum, inputs)


@layer("min")
def smallest(ctx, inputs, p):
    return folded(relay.minimum, inputs)


def _column(ctx: Context, params, shape, what: str):
    """Return constant weights of shape [1], [C], [1, H, W] or [C, H, W], reshaped to broadcast."""
    sizes = [int(d) for d in shape]
    found = weight_of(params, tuple(sizes), what)
    return constant(found.reshape((*sizes, 1, 1)) if len(sizes) == 1 else found)


@layer("scale")
def scale_(ctx, inputs, p):
    out = relay.multiply(inputs[0], _column(ctx, p.scale, p.shapeScale, "the scale"))
    return relay.add(out, _column(ctx, p.bias, p.shapeBias, "the bias")) if p.hasBias else out


@layer("bias")
def bias_(ctx, inputs, p):
    return relay.add(inputs[0], _column(ctx, p.bias, p.shape, "the bias"))


@layer("dot")
def dot(ctx, inputs, p):
    a, b = inputs
    axis = axis_of(-3, ctx.rank(a))
    total = relay.sum(relay.multiply(a, b), [axis], True)
    if not p.cosineSimilarity:
        return total
    lengths = [relay.sqrt(relay.sum(relay.multiply(v, v), [axis], True)) for v in (a, b)]
    return relay.divide(total, relay.multiply(*lengths))


_REDUCE = ("sum", "mean", "prod", "LOGSUM", "sum_square", "l1_norm", "l2_norm", "max", "min", "ARGMAX")
_REDUCED = ((-3, -2, -1), (-2, -1), (-3,), (-2,), (-1,))


@layer("reduce")
def reduce_(ctx, inputs, p):
    x, kind = inputs[0], numbered(_REDUCE, p.mode, "the reduction")
    if not 0 <= p.axis < len(_REDUCED):
        raise TVMError(f"the reduction axis {p.axis} is not supported")
    axes = list(_REDUCED[p.axis])
    if kind == "ARGMAX":
        if len(axes) != 1:
            raise TVMError("ARGMAX over several axes is not supported")
        return ctx.cast(ctx.made(argmax(ctx, x, axes[0], True)), "float32")
    if kind == "LOGSUM":
        x, kind = ctx.made(relay.log(relay.add(x, const(p.epsilon or 1e-6, "float32")))), "sum"
    return REDUCTIONS[kind](ctx, x, axes, True)


@layer("loadConstant")
def load_constant(ctx, inputs, p):
    sizes = [int(d) for d in p.shape]
    if len(sizes) != 3:
        raise TVMError(f"expected a shape of 3 dimensions, got {sizes}")
    found = weight_of(p.data, tuple(sizes), "the data")
    return constant(found.reshape((*[1] * ((ctx.walker.rank or 5) - 3), *sizes)))


# -- shapes -----------------------------------------------------------------------------------------------------------


def _channels_last(ctx: Context, x):
    rank = ctx.rank(x)
    return relay.transpose(x, (*range(rank - 3), rank - 2, rank - 1, rank - 3))


@layer("flatten")
def flatten(ctx, inputs, p):
    x = inputs[0]
    sizes = ctx.known_shape(x)
    if len(sizes) < 3:
        raise TVMError(f"an input of {len(sizes)} dimensions is not supported; expected at least 3")
    numbered(("first", "last"), p.mode, "the channel order")
    x = _channels_last(ctx, x) if p.mode == 1 else x
    return relay.reshape(x, (*sizes[:-3], int(np.prod(sizes[-3:])), 1, 1), True)


@layer("reshape")
def reshape_(ctx, inputs, p):
    x, wanted = inputs[0], [int(d) for d in p.targetShape]
    sizes = ctx.known_shape(x)
    if len(wanted) not in (3, 4) or len(sizes) < 3 or any(d < 0 for d in wanted):
        raise TVMError(f"cannot reshape a tensor of shape {sizes} to {wanted}")
    # With three target sizes the leading dimensions are kept; a fourth one replaces the sequence dimension.
    front = list(sizes[:-3]) if len(wanted) == 3 else [wanted[0], *sizes[1:-3]]
    target = wanted[-3:]
    if int(np.prod([*front, *target])) != int(np.prod(sizes)):
        raise TVMError(f"a tensor of shape {sizes} has a different number of elements than {[*front, *target]}")
    if numbered(("first", "last"), p.mode, "the channel order") == "first":
        return relay.reshape(x, (*front, *target), True)
    out = relay.reshape(_channels_last(ctx, x), (*front, target[1], target[2], target[0]), True)
    rank = len(front) + 3
    return relay.transpose(out, (*range(rank - 3), rank - 1, rank - 3, rank - 2))


@layer("permute")
def permute(ctx, inputs, p):
    """Permute sequence, channels, height and width. The batch axis is kept."""
    rank = ctx.rank(inputs[0])
    axes = [int(a) for a in p.axis] or [0, 1, 2, 3]
    if sorted(axes) != [0, 1, 2, 3] or rank not in (4, 5) or rank == 4 and axes[0] != 0:
        raise TVMError(f"the permutation {axes} of a tensor of {rank} dimensions is not supported")
    if rank == 4:
        return relay.transpose(inputs[0], axes)
    named = (0, 2, 3, 4)
    return relay.transpose(inputs[0], (named[axes[0]], 1, *(named[a] for a in axes[1:])))


@layer("concat")
def concat_(ctx, inputs, p):
    return concat(ctx, inputs, -5 if p.sequenceConcat else -3)


@layer("split")
def split_(ctx, inputs, p):
    axis, count = axis_of(-3, ctx.rank(inputs[0])), int(p.nOutputs)
    size = ctx.known_size(inputs[0], axis)
    if not count or size % count:
        raise TVMError(f"{size} channels cannot be split into {count} equal parts")
    return relay.split(inputs[0], count, axis) if count > 1 else inputs


@layer("sequenceRepeat")
def sequence_repeat(ctx, inputs, p):
    rank, count = ctx.rank(inputs[0]), int(p.nRepetitions) or 1
    if rank < 5 or count > 1 << 20:
        raise TVMError(f"{count} repetitions of a tensor of {rank} dimensions are not supported")
    return relay.tile(inputs[0], [count if a == rank - 5 else 1 for a in range(rank)])


@layer("reorganizeData")
def reorganize(ctx, inputs, p):
    x, front = ctx.flat(inputs[0], 3)
    build = (space_to_depth, depth_to_space, pixel_shuffle)
    if not 0 <= p.mode < len(build):
        raise TVMError(f"the reorganization mode {p.mode} is not supported")
    return ctx.unflat(ctx.made(build[p.mode](ctx, x, int(p.blockSize))), front)


@layer("slice")
def slice_(ctx, inputs, p):
    axis = axis_of({0: -3, 1: -2, 2: -1}.get(p.axis, 9), ctx.rank(inputs[0]))
    if not p.stride:
        raise TVMError("the stride must not be 0")
    return relay.strided_slice(inputs[0], [p.startIndex], [p.endIndex], [int(p.stride)], [axis])


@layer("crop")
def crop_(ctx, inputs, p):
    x = inputs[0]
    if len(inputs) == 1:
        amounts = _border(p.cropAmounts)
        return crop(ctx, x, amounts[:2], amounts[2:])
    top, left = [int(v) for v in p.offset] or [0, 0]
    rank = ctx.rank(x)
    height, width = ctx.known_shape(inputs[1])[-2:]
    if top + height > ctx.known_size(x, rank - 2) or left + width > ctx.known_size(x, rank - 1):
        raise TVMError(f"cannot crop {height} x {width} at offset ({top}, {left}) from {ctx.known_shape(x)[-2:]}")
    return relay.strided_slice(x, [top, left], [top + height, left + width], [1, 1], [rank - 2, rank - 1])


@layer("padding")
def padding(ctx, inputs, p):
    mode = "reflect" if p.HasField("reflection") else "edge" if p.HasField("replication") else "constant"
    fill = const(p.constant.value if mode == "constant" else 0.0, "float32")
    return padded(ctx, inputs[0], _border(p.paddingAmounts), mode, fill)


# -- images -----------------------------------------------------------------------------------------------------------


@layer("upsample")
def upsample(ctx, inputs, p):
    x = inputs[0]
    factors = [float(v) for v in p.fractionalScalingFactor] or [float(v) for v in p.scalingFactor] or [1.0, 1.0]
    if len(factors) != 2:
        raise TVMError(f"expected 2 scaling factors, got {factors}")
    sizes = grown_sizes(ctx, x, factors)
    if numbered(("NN", "BILINEAR"), p.mode, "the interpolation mode") == "NN":
        return resized_nearest(ctx, x, sizes)
    modes = ("DEFAULT", "STRICT_ALIGN_CORNERS", "UNALIGN_CORNERS")
    return resized_linear(ctx, x, sizes, numbered(modes, p.linearUpsampleMode, "the sampling mode"))


@layer("resizeBilinear")
def resize_bilinear(ctx, inputs, p):
    sizes = [int(v) for v in p.targetSize] or [1, 1]
    mode = numbered(_SAMPLING, p.mode.samplingMethod, "the sampling mode")
    return resized_linear(ctx, inputs[0], sizes, mode)


@layer("cropResize")
def crop_resize(ctx, inputs, p):
    x, regions = inputs
    sizes = [int(v) for v in p.targetSize] or [1, 1]
    mode = numbered(_SAMPLING, p.mode.samplingMethod, "the sampling mode")
    boxes = numbered(BOXES, p.boxIndicesMode.boxMode, "the box mode")
    shape = ctx.known_shape(x)
    if len(shape) != 5 or shape[0] != 1 or len(sizes) != 2:
        raise TVMError(f"cropping to {sizes} from a tensor of shape {shape} is not supported")
    images = ctx.made(relay.reshape(x, shape[1:]))
    return cropped_regions(ctx, images, regions, tuple(sizes), bool(p.normalizedCoordinates), p.spatialScale or 1.0,
                           boxes, mode)  # fmt: skip


__all__ = ["activation_of", "embedded", "folded", "numbered", "weight"]
