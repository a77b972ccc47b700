"""Converters of the layers of specification version 4 and later, which accept tensors of any rank.

All layer outputs are float32, including indices, booleans (1 or 0) and shapes.
"""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ..common import run_time
from ..common.matmul import numpy_matmul
from . import activations as act
from .index_ops import (
    gather,
    gather_along_axis,
    gather_nd,
    non_maximum_suppression,
    non_zero,
    scatter,
    scatter_along_axis,
    scatter_nd,
)
from .layer_ops import embedded, numbered, weight
from .nn_ops import biased, conv, conv_transpose, matmul
from .norm_ops import layer_norm
from .pool_ops import avg_pool, global_pool, max_pool
from .reduce_ops import REDUCTIONS, argmax, argmin, argsort, cumsum, topk
from .shape_ops import (
    band_part,
    concat,
    expand_dims,
    fill,
    flatten2d,
    one_hot,
    padded,
    range_1d,
    reshape,
    reverse,
    reverse_sequence,
    shape,
    slice_by_index,
    slice_by_size,
    sliding_windows,
    split,
    squeeze,
    stack,
    tile,
    transpose,
)
from .table import OPERATIONS, Context, axis_of, check_count, const, constant, layer
from .values import weight_of


def whole(ctx: Context, e):
    """Return an integer vector of a shape or of indices."""
    known = ctx.value(e)
    return run_time.number([int(v) for v in known.reshape(-1)]) if known is not None else run_time.vector(ctx, e)


def single(ctx: Context, e, what: str) -> int:
    found = ctx.ints(e, what)
    if found is None or len(found) != 1:
        raise TVMError(f"{what} must be one integer")
    return found[0]


# -- element-wise layers ----------------------------------------------------------------------------------------------

_PLAIN = {"ceil": "ceil", "floor": "floor", "sign": "sign", "round": "round", "exp2": "exp2", "sin": "sin",
          "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
          "tanh": "tanh", "atanh": "atanh", "erf": "erf", "addBroadcastable": "add", "subtractBroadcastable": "sub",
          "multiplyBroadcastable": "mul", "divideBroadcastable": "real_div", "floorDivBroadcastable": "floor_div",
          "modBroadcastable": "mod", "powBroadcastable": "pow"}  # fmt: skip


def _as_operation(name: str):
    def convert(ctx: Context, inputs, p):
        return OPERATIONS.find(name, 0)(ctx, *inputs)

    return convert


for _layer, _name in _PLAIN.items():
    layer(_layer)(_as_operation(_name))


@layer("asinh")
def asinh(ctx, inputs, p):
    return relay.asinh(inputs[0])


@layer("acosh")
def acosh(ctx, inputs, p):
    return relay.acosh(inputs[0])


def _of_several(build):
    def convert(ctx: Context, inputs, p):
        out = inputs[0]
        for other in inputs[1:]:
            out = build(out, other)
        return out

    return convert


layer("maxBroadcastable")(_of_several(relay.maximum))
layer("minBroadcastable")(_of_several(relay.minimum))


@layer("clip")
def clip(ctx, inputs, p):
    return relay.clip(inputs[0], p.minVal, p.maxVal)


@layer("clampedReLU")
def clamped_relu(ctx, inputs, p):
    return OPERATIONS.find("clamped_relu", 0)(ctx, inputs[0], p.alpha, p.beta)


@layer("gelu")
def gelu(ctx, inputs, p):
    modes = ("EXACT", "TANH_APPROXIMATION", "SIGMOID_APPROXIMATION")
    return act.gelu(ctx, inputs[0], numbered(modes, p.mode, "the mode"))


def _compared(build):
    def convert(ctx: Context, inputs, p):
        other = inputs[1] if len(inputs) > 1 else const(p.alpha, "float32")
        return relay.cast(build(inputs[0], other), "float32")

    return convert


for _layer, _build in {"equal": relay.equal, "notEqual": relay.not_equal, "lessThan": relay.less,
                       "lessEqual": relay.less_equal, "greaterThan": relay.greater,
                       "greaterEqual": relay.greater_equal}.items():  # fmt: skip
    layer(_layer)(_compared(_build))


def _bool_layer(ctx: Context, e):
    return relay.not_equal(e, ctx.like(0, e))


def _logical(build):
    def convert(ctx: Context, inputs, p):
        return relay.cast(build(*(_bool_layer(ctx, e) for e in inputs)), "float32")

    return convert


for _layer, _build in {"logicalOr": relay.logical_or, "logicalXor": relay.logical_xor, "logicalNot": relay.logical_not,
                       "logicalAnd": relay.logical_and}.items():  # fmt: skip
    layer(_layer)(_logical(_build))


@layer("whereBroadcastable")
def where(ctx, inputs, p):
    return relay.where(_bool_layer(ctx, inputs[0]), inputs[1], inputs[2])


# -- matmul and normalization -----------------------------------------------------------------------------------------


@layer("batchedMatmul")
def batched_matmul(ctx, inputs, p):
    if len(inputs) == 2:
        a, b = (relay.expand_dims(e, i) if ctx.rank(e) == 1 else e for i, e in enumerate(inputs))
        return matmul(ctx, ctx.made(a), ctx.made(b), bool(p.transposeA), bool(p.transposeB))
    if p.int8DynamicQuantize:
        raise TVMError("int8DynamicQuantize is not supported")
    depth, out = int(p.weightMatrixFirstDimension), int(p.weightMatrixSecondDimension)
    # The file stores the matrix transposed.
    matrix = constant(weight_of(p.weights, (out, depth), "the weights").T)
    made = ctx.made(numpy_matmul(ctx, inputs[0], matrix))
    return biased(ctx, made, weight(ctx, p.bias, (out,), "the bias") if p.hasBias else None, ctx.rank(made) - 1)


@layer("embeddingND")
def embedding_nd(ctx, inputs, p):
    sizes = ctx.known_shape(inputs[0])
    if len(sizes) < 2 or sizes[-1] != 1:
        raise TVMError(f"an input of shape {sizes} is not supported; its last dimension must be 1")
    made = embedded(ctx, inputs[0], p, int(p.vocabSize), int(p.embeddingSize))
    return relay.reshape(made, (*sizes[:-1], int(p.embeddingSize)))


@layer("softmaxND")
def softmax_nd(ctx, inputs, p):
    return act.softmax(ctx, inputs[0], p.axis)


@layer("layerNormalization")
def layer_normalization(ctx, inputs, p):
    sizes = tuple(int(d) for d in p.normalizedShape)
    rank = ctx.rank(inputs[0])
    if not 0 < len(sizes) <= rank or ctx.known_shape(inputs[0])[rank - len(sizes) :] != sizes:
        raise TVMError(f"a tensor of shape {ctx.known_shape(inputs[0])} cannot be normalized over {sizes}")
    gamma, beta = (weight(ctx, v, sizes, what) for v, what in ((p.gamma, "gamma"), (p.beta, "beta")))
    return layer_norm(ctx, inputs[0], list(range(rank - len(sizes), rank)), gamma, beta, p.eps or 1e-5)


_SIDES = ("Front", "Back", "Top", "Bottom", "Left", "Right")
_THREE = ("Depth", "Height", "Width")


def _window(p) -> dict:
    kind = numbered(("custom", "valid", "same"), p.paddingType, "the padding")
    amounts = [int(getattr(p, f"customPadding{side}")) for side in _SIDES] if kind == "custom" else None
    return {"strides": [int(getattr(p, f"stride{d}")) or 1 for d in _THREE], "pad_type": kind, "pad": amounts}


@layer("convolution3d")
def convolution3d(ctx, inputs, p):
    groups, out, depth = p.nGroups or 1, p.outputChannels, p.inputChannels
    kernel = [int(getattr(p, f"kernel{d}")) or 3 for d in _THREE]
    dilations = [int(getattr(p, f"dilation{d}")) or 1 for d in _THREE]
    if groups < 1 or out % groups or depth % groups:
        raise TVMError(f"{depth} input channels and {out} output channels are not divisible into {groups} groups")
    bias = weight(ctx, p.bias, (out,), "the bias") if p.hasBias else None
    if p.isDeconvolution:
        weights = weight(ctx, p.weights, (depth, out // groups, *kernel), "the weights")
        return conv_transpose(ctx, inputs[0], weights, bias, output_shape=[int(v) for v in p.outputShape] or None,
                              groups=groups, **_window(p))  # fmt: skip
    weights = weight(ctx, p.weights, (out, depth // groups, *kernel), "the weights")
    return conv(ctx, inputs[0], weights, bias, dilations=dilations, groups=groups, **_window(p))


@layer("pooling3d")
def pooling3d(ctx, inputs, p):
    kernel = [int(getattr(p, f"kernel{d}")) for d in _THREE]
    if numbered(("max", "average"), p.type, "the pooling type") == "max":
        return max_pool(ctx, inputs[0], kernel, **_window(p))
    return avg_pool(ctx, inputs[0], kernel, exclude_padding_from_average=bool(p.countExcludePadding), **_window(p))


@layer("globalPooling3d")
def global_pooling3d(ctx, inputs, p):
    return global_pool(ctx, inputs[0], numbered(("max", "average"), p.type, "the pooling type"), 3)


# -- reductions and sorting -------------------------------------------------------------------------------------------


def _reduced(form):
    def convert(ctx: Context, inputs, p):
        axes = None if p.reduceAll or not p.axes else [int(a) for a in p.axes]
        return form(ctx, inputs[0], axes, bool(p.keepDims))

    return convert


for _layer, _name in {"L1": "l1_norm", "L2": "l2_norm", "Max": "max", "Min": "min", "Sum": "sum", "Prod": "prod",
                      "Mean": "mean", "LogSum": "log_sum", "SumSquare": "sum_square",
                      "LogSumExp": "log_sum_exp"}.items():  # fmt: skip
    layer(f"reduce{_layer}")(_reduced(REDUCTIONS[_name]))


def _arg_layer(form):
    def convert(ctx: Context, inputs, p):
        keep = not p.removeDim or ctx.rank(inputs[0]) == 1
        return relay.cast(form(ctx, inputs[0], p.axis, keep), "float32")

    return convert


layer("argMax")(_arg_layer(argmax))
layer("argMin")(_arg_layer(argmin))


@layer("topK")
def top_k(ctx, inputs, p):
    count = inputs[1] if len(inputs) > 1 else constant(int(p.K), "int32")
    values, places = topk(ctx, inputs[0], ctx.indices(count), p.axis, bool(p.useBottomK))
    return [values, relay.cast(places, "float32")]


@layer("argSort")
def arg_sort(ctx, inputs, p):
    return relay.cast(argsort(ctx, inputs[0], p.axis, not p.descending), "float32")


@layer("cumSum")
def cum_sum(ctx, inputs, p):
    axis = single(ctx, inputs[1], "the axis") if len(inputs) > 1 else p.axis
    return cumsum(ctx, inputs[0], axis, bool(p.excludeFinalSum), bool(p.reverse))


# -- shapes -----------------------------------------------------------------------------------------------------------


@layer("reshapeStatic")
def reshape_static(ctx, inputs, p):
    return reshape(ctx, inputs[0], run_time.number(list(p.targetShape)))


@layer("rankPreservingReshape")
def rank_preserving_reshape(ctx, inputs, p):
    if len(p.targetShape) != ctx.rank(inputs[0]):
        raise TVMError(
            f"{len(p.targetShape)} target dimensions do not match an input of {ctx.rank(inputs[0])} dimensions"
        )
    return reshape(ctx, inputs[0], run_time.number(list(p.targetShape)))


@layer("reshapeLike")
def reshape_like(ctx, inputs, p):
    return reshape(ctx, inputs[0], run_time.shape_of(ctx, inputs[1]))


@layer("reshapeDynamic")
def reshape_dynamic(ctx, inputs, p):
    return reshape(ctx, inputs[0], whole(ctx, inputs[1]))


@layer("flattenTo2D")
def flatten_to_2d(ctx, inputs, p):
    return flatten2d(ctx, inputs[0], p.axis)


@layer("squeeze")
def squeeze_(ctx, inputs, p):
    return squeeze(ctx, inputs[0], None if p.squeezeAll else [int(a) for a in p.axes])


@layer("expandDims")
def expand_dims_(ctx, inputs, p):
    return expand_dims(ctx, inputs[0], [int(a) for a in p.axes])


@layer("transpose")
def transpose_(ctx, inputs, p):
    return transpose(ctx, inputs[0], [int(a) for a in p.axes])


@layer("getShape")
def get_shape(ctx, inputs, p):
    return relay.cast(shape(ctx, inputs[0]), "float32")


@layer("concatND")
def concat_nd(ctx, inputs, p):
    return concat(ctx, inputs, p.axis, bool(p.interleave))


@layer("stack")
def stack_(ctx, inputs, p):
    return stack(ctx, inputs, p.axis)


@layer("splitND")
def split_nd(ctx, inputs, p):
    return split(ctx, inputs[0], p.axis, int(p.numSplits) or ctx.count, [int(v) for v in p.splitSizes] or None)


@layer("tile")
def tile_(ctx, inputs, p):
    return tile(ctx, inputs[0], whole(ctx, inputs[1]) if len(inputs) > 1 else run_time.number(list(p.reps)))


@layer("reverse")
def reverse_(ctx, inputs, p):
    if len(p.reverseDim) != ctx.rank(inputs[0]):
        raise TVMError(f"{len(p.reverseDim)} flags do not match an input of {ctx.rank(inputs[0])} dimensions")
    return reverse(ctx, inputs[0], [a for a, flag in enumerate(p.reverseDim) if flag])


@layer("reverseSeq")
def reverse_seq(ctx, inputs, p):
    return reverse_sequence(ctx, inputs[0], inputs[1], p.sequenceAxis, p.batchAxis)


@layer("sliceStatic")
def slice_static(ctx, inputs, p):
    return slice_by_index(ctx, inputs[0], run_time.number(list(p.beginIds)), run_time.number(list(p.endIds)),
                          [int(s) for s in p.strides] or None, list(p.beginMasks), list(p.endMasks),
                          list(p.squeezeMasks))  # fmt: skip


@layer("sliceDynamic")
def slice_dynamic(ctx, inputs, p):
    """Slice. The inputs after the data are the begins, ends, strides and three masks; missing ones are parameters."""
    begin = whole(ctx, inputs[1])
    end = whole(ctx, inputs[2]) if len(inputs) > 2 else run_time.number(list(p.endIds))
    lists = [list(p.strides), list(p.beginMasks), list(p.endMasks), list(p.squeezeMasks)]
    for i, e in enumerate(inputs[3:7]):
        lists[i] = [int(v) if i == 0 else bool(v) for v in ctx.array(e, "strides and masks of a slice").reshape(-1)]
    return slice_by_index(ctx, inputs[0], begin, end, [int(s) for s in lists[0]] or None, *lists[1:])


@layer("sliceBySize")
def slice_by_size_(ctx, inputs, p):
    axis, rank = axis_of(p.axis, ctx.rank(inputs[0])), ctx.rank(inputs[0])
    begin = whole(ctx, inputs[1])
    zero = run_time.number([0])
    starts = ctx.made(relay.concatenate([begin if a == axis else zero for a in range(rank)], 0)) if rank > 1 else begin
    counts = run_time.number([int(p.size) if a == axis else -1 for a in range(rank)])
    return slice_by_size(ctx, inputs[0], starts, counts)


@layer("slidingWindows")
def sliding_windows_(ctx, inputs, p):
    return sliding_windows(ctx, inputs[0], p.axis, int(p.windowSize), int(p.step) or 1)


@layer("constantPad")
def constant_pad(ctx, inputs, p):
    x = inputs[0]
    amounts = ctx.ints(inputs[1], "the padding") if len(inputs) > 1 else [int(v) for v in p.padAmounts]
    if p.padToGivenOutputSizeMode:
        sizes, wanted = ctx.known_shape(x), amounts
        if len(wanted) != 2 * len(sizes):
            raise TVMError(f"{len(wanted)} padding values do not match {len(sizes)} dimensions; expected two for each")
        amounts = [max(w - sizes[i // 2], 0) if w > 0 else 0 for i, w in enumerate(wanted)]
    return padded(ctx, x, amounts, "constant", const(p.value, "float32"))


# -- constants and fills ----------------------------------------------------------------------------------------------


@layer("loadConstantND")
def load_constant_nd(ctx, inputs, p):
    return constant(weight_of(p.data, tuple(int(d) for d in p.shape), "the data"))


@layer("fillLike")
def fill_like(ctx, inputs, p):
    return fill(ctx, run_time.shape_of(ctx, inputs[0]), constant(p.value, "float32"))


@layer("fillStatic")
def fill_static(ctx, inputs, p):
    return fill(ctx, run_time.number([int(d) for d in p.targetShape]), constant(p.value, "float32"))


@layer("fillDynamic")
def fill_dynamic(ctx, inputs, p):
    return fill(ctx, whole(ctx, inputs[0]), constant(p.value, "float32"))


@layer("broadcastToStatic")
def broadcast_to_static(ctx, inputs, p):
    sizes = [int(d) for d in p.targetShape]
    check_count("the output", sizes)
    return relay.broadcast_to(inputs[0], sizes)


@layer("broadcastToLike")
def broadcast_to_like(ctx, inputs, p):
    return relay.broadcast_to(inputs[0], ctx.known_shape(inputs[1]))


@layer("broadcastToDynamic")
def broadcast_to_dynamic(ctx, inputs, p):
    return run_time.expanded(ctx, inputs[0], whole(ctx, inputs[1]))


def _range(ctx: Context, end, start, step):
    return ctx.cast(ctx.made(range_1d(ctx, end, start, step)), "float32")


@layer("rangeStatic")
def range_static(ctx, inputs, p):
    return _range(ctx, *(constant(v, "float32") for v in (p.endValue, p.startValue, p.stepSizeValue or 1.0)))


@layer("rangeDynamic")
def range_dynamic(ctx, inputs, p):
    rest = [constant(v, "float32") for v in (p.startValue, p.stepSizeValue or 1.0)]
    given = [*inputs, *rest[max(len(inputs) - 1, 0) :]]
    if len(given) != 3:
        raise TVMError(f"expected 1 to 3 inputs (end, start, step), got {len(inputs)}")
    return _range(ctx, *given)


@layer("oneHot")
def one_hot_(ctx, inputs, p):
    count = single(ctx, inputs[1], "the size of the one-hot vector") if len(inputs) > 1 else int(p.oneHotVectorSize)
    values = [constant(v, "float32") for v in (p.onValue, p.offValue)]
    return one_hot(ctx, inputs[0], count, p.axis, *values)


@layer("matrixBandPart")
def matrix_band_part(ctx, inputs, p):
    return band_part(ctx, inputs[0], int(p.numLower), int(p.numUpper))


@layer("lowerTriangular")
def lower_triangular(ctx, inputs, p):
    return relay.trilu(inputs[0], constant(int(p.k), "int32"), False)


@layer("upperTriangular")
def upper_triangular(ctx, inputs, p):
    return relay.trilu(inputs[0], constant(int(p.k), "int32"), True)


# -- indices ----------------------------------------------------------------------------------------------------------

_MODES = ("update", "add", "sub", "mul", "div", "max", "min")


@layer("gather")
def gather_(ctx, inputs, p):
    return gather(ctx, inputs[0], inputs[1], p.axis)


@layer("gatherND")
def gather_nd_(ctx, inputs, p):
    return gather_nd(ctx, inputs[0], ctx.indices(inputs[1]))


@layer("gatherAlongAxis")
def gather_along_axis_(ctx, inputs, p):
    return gather_along_axis(ctx, inputs[0], inputs[1], p.axis)


@layer("scatter")
def scatter_(ctx, inputs, p):
    return scatter(ctx, *inputs[:3], p.axis, numbered(_MODES, p.mode, "the mode"))


@layer("scatterND")
def scatter_nd_(ctx, inputs, p):
    data, places, updates = inputs
    return scatter_nd(ctx, data, ctx.indices(places), updates, numbered(_MODES, p.mode, "the mode"))


@layer("scatterAlongAxis")
def scatter_along_axis_(ctx, inputs, p):
    return scatter_along_axis(ctx, *inputs[:3], p.axis, numbered(_MODES, p.mode, "the mode"))


@layer("whereNonZero")
def where_non_zero(ctx, inputs, p):
    return relay.cast(non_zero(ctx, inputs[0]), "float32")


@layer("NonMaximumSuppression")
def suppression(ctx, inputs, p):
    """Non-maximum suppression. The thresholds and the maximum number of boxes may be constant inputs."""
    settings = [p.iouThreshold, p.scoreThreshold, float(p.maxBoxes)]
    for i, e in enumerate(inputs[2:5]):
        settings[i] = float(ctx.array(e, "a parameter of non-maximum suppression").reshape(-1)[0])
    found = non_maximum_suppression(ctx, inputs[0], inputs[1], settings[0], int(settings[2]), settings[1],
                                    bool(p.perClassSuppression))  # fmt: skip
    return [relay.cast(e, "float32") for e in found]


__all__ = ["whole"]
