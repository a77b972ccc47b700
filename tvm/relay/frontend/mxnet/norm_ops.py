"""Converters of normalization and softmax operators."""

from __future__ import annotations

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from .table import Context, axis_of, op

NORM = (
    "eps:float=0.001 fix_gamma:bool=True use_global_stats:bool=False output_mean_var:bool=False axis:int=1"
    " min_calib_range:float?=None max_calib_range:float?=None"
)


def _channels(ctx, known, attrs) -> dict:
    axis = axis_of(getattr(attrs, "axis", 1), ctx.rank(known[0]))
    return {i: (ctx.known_size(known[0], axis),) for i in range(1, 5)}


def _channel_shapes(ctx, known, attrs) -> dict:
    return {i: (ctx.known_size(known[0], 1),) for i in (1, 2)}


def batch_normalized(ctx: Context, inputs: list, attrs, axis: int) -> list:
    """Apply batch normalization. Return the output, the mean and the variance. ``fix_gamma`` sets the factor to 1."""
    x, gamma, beta, mean, var = inputs
    axis = axis_of(axis, ctx.rank(x))
    if ctx.dtype(gamma) != ctx.dtype(x):
        wide = ctx.made(relay.cast(x, ctx.dtype(gamma)))
        out = batch_normalized(ctx, [wide, gamma, beta, mean, var], attrs, axis)
        return [relay.cast(out[0], ctx.dtype(x)), *out[1:]]
    if attrs.fix_gamma:
        gamma = relay.ones_like(gamma)
    out = relay.nn.batch_norm(x, gamma, beta, mean, var, axis=axis, epsilon=attrs.eps)[0]
    return [out, mean, var]


@op("BatchNorm", NORM, shapes=_channels)
def batch_norm(ctx, inputs, attrs):
    return batch_normalized(ctx, inputs, attrs, attrs.axis)


@op("_contrib_BatchNormWithReLU", NORM, shapes=_channels)
def batch_norm_relu(ctx, inputs, attrs):
    out, *rest = batch_normalized(ctx, inputs, attrs, attrs.axis)
    return [relay.nn.relu(out), *rest]


@op(
    "BatchNorm_v1",
    "eps:float=0.001 fix_gamma:bool=True use_global_stats:bool=False output_mean_var:bool=False",
    shapes=_channels,
)
def batch_norm_v1(ctx, inputs, attrs):
    return batch_normalized(ctx, inputs, attrs, 1)


@op(
    "_contrib_SyncBatchNorm",
    "eps:float=0.001 fix_gamma:bool=True use_global_stats:bool=False output_mean_var:bool=False ndev:int=1 key:str=",
    shapes=_channels,
)
def sync_batch_norm(ctx, inputs, attrs):
    return batch_normalized(ctx, inputs, attrs, 1)


def _mean_and_deviation(ctx: Context, x: RelayExpr, axes: list[int], eps: float) -> list[RelayExpr]:
    """Return the mean and the standard deviation along axes."""
    mean = relay.mean(x, axes)
    return [mean, relay.sqrt(relay.add(relay.variance(x, axes), ctx.like(eps, x)))]


@op(
    "LayerNorm",
    "axis:int=-1 eps:float=1e-5 output_mean_var:bool=False",
    shapes=lambda ctx, known, attrs: {
        i: (ctx.known_size(known[0], axis_of(attrs.axis, ctx.rank(known[0]))),) for i in (1, 2)
    },
)
def layer_norm(ctx, inputs, attrs):
    x, gamma, beta = inputs
    axis = axis_of(attrs.axis, ctx.rank(x))
    out = relay.nn.layer_norm(x, gamma, beta, axis=axis, epsilon=attrs.eps)
    if not attrs.output_mean_var:
        return out
    return [out, *(relay.expand_dims(v, axis) for v in _mean_and_deviation(ctx, x, [axis], attrs.eps))]


@op("InstanceNorm", "eps:float=0.001", shapes=_channel_shapes)
def instance_norm(ctx, inputs, attrs):
    return relay.nn.instance_norm(inputs[0], inputs[1], inputs[2], axis=1, epsilon=attrs.eps)


@op(
    "GroupNorm",
    "num_groups:int=1 eps:float=1e-5 output_mean_var:bool=False",
    shapes=lambda ctx, known, attrs: {1: (attrs.num_groups,), 2: (attrs.num_groups,)},
)
def group_norm(ctx, inputs, attrs):
    """Apply group normalization with a factor and an offset for each group or for each channel."""
    x, gamma, beta = inputs
    channels = ctx.known_size(x, 1)
    if attrs.num_groups < 1 or channels % attrs.num_groups:
        raise TVMError(f"{channels} channels are not divisible into num_groups={attrs.num_groups} groups")
    if ctx.known_shape(gamma) == (attrs.num_groups,):
        gamma, beta = (ctx.made(relay.repeat(v, channels // attrs.num_groups, 0)) for v in (gamma, beta))
    out = relay.nn.group_norm(x, gamma, beta, num_groups=attrs.num_groups, axis=1, epsilon=attrs.eps)
    if not attrs.output_mean_var:
        return out
    batch = ctx.known_size(x, 0)
    rows = ctx.made(relay.reshape(x, (batch, attrs.num_groups, -1)))
    return [out, *_mean_and_deviation(ctx, rows, [2], attrs.eps)]


@op("L2Normalization", "eps:float=1e-10 mode:channel|instance|spatial=instance")
def l2_normalization(ctx, inputs, attrs):
    x, rank = inputs[0], ctx.rank(inputs[0])
    axes = {"instance": range(1, rank), "channel": [1], "spatial": range(2, rank)}[attrs.mode]
    if rank < 2 or attrs.mode != "instance" and rank < 3:
        raise TVMError(f"mode={attrs.mode} is not supported for data of {rank} dimensions")
    total = relay.sum(relay.multiply(x, x), list(axes), keepdims=True)
    return relay.divide(x, relay.sqrt(relay.add(total, ctx.like(attrs.eps, x))))


@op("LRN", "alpha:float=1e-4 beta:float=0.75 knorm:float=2 nsize:int")
def lrn(ctx, inputs, attrs):
    if attrs.nsize < 1 or attrs.nsize % 2 == 0 or attrs.nsize > 1 << 16:
        raise TVMError(f"the attribute nsize={attrs.nsize} is not supported; it must be odd and positive")
    return relay.nn.lrn(inputs[0], attrs.nsize, 1, attrs.knorm, attrs.alpha, attrs.beta)


# -- softmax ----------------------------------------------------------------------------------------------------------

SOFTMAX = "axis:int=-1 temperature:float?=None dtype:dtype?=None use_length:bool?=False"


def _masked(ctx: Context, inputs: list, axis: int, attrs) -> tuple[RelayExpr, RelayExpr | None]:
    """Return the data with large negative values beyond the length of each row, and the mask of valid elements."""
    x = inputs[0]
    if not attrs.use_length:
        return x, None
    if len(inputs) < 2:
        raise TVMError("use_length is set, but the input with the lengths is missing")
    size = ctx.known_size(x, axis)
    places = relay.reshape(
        relay.arange(const(size, "int32"), dtype="int32"), [size if i == axis else 1 for i in range(ctx.rank(x))]
    )
    length = relay.expand_dims(ctx.cast(inputs[1], "int32"), axis)
    inside = ctx.made(relay.less(places, length))
    return ctx.made(relay.where(inside, x, ctx.like(-1e30 if ctx.dtype(x) != "float16" else -6e4, x))), inside


def _soft(sign: float, logarithm: bool):
    def convert(ctx, inputs, attrs):
        axis = axis_of(attrs.axis, ctx.rank(inputs[0]))
        if attrs.dtype is not None:
            inputs = [ctx.made(ctx.cast(inputs[0], attrs.dtype)), *inputs[1:]]
        x, inside = _masked(ctx, inputs, axis, attrs)
        if attrs.temperature == 0:
            raise TVMError("the attribute temperature must not be 0")
        scale = sign / (1 if attrs.temperature is None else attrs.temperature)
        x = x if scale == 1 else relay.multiply(x, ctx.like(scale, x))
        out = relay.nn.log_softmax(x, axis=axis) if logarithm else relay.nn.softmax(x, axis=axis)
        return out if inside is None else relay.where(inside, out, relay.zeros_like(out))

    return convert


op("softmax", SOFTMAX)(_soft(1, False))
op("log_softmax", SOFTMAX)(_soft(1, True))
op("softmin", SOFTMAX)(_soft(-1, False))


@op("SoftmaxActivation", "mode:channel|instance=instance")
def softmax_activation(ctx, inputs, attrs):
    return relay.nn.softmax(inputs[0], axis=1 if attrs.mode == "channel" else -1)


def _softmax_rows(ctx: Context, x: RelayExpr, channels: bool) -> RelayExpr:
    """Apply softmax along the channels, or over all elements of each row."""
    rank = ctx.rank(x)
    if rank < 2:
        raise TVMError(f"data of {rank} dimensions is not supported; expected at least 2")
    if channels or rank == 2:
        return relay.nn.softmax(x, axis=1)
    return relay.reshape(relay.nn.softmax(relay.nn.batch_flatten(x), axis=1), ctx.known_shape(x))


@op(
    "SoftmaxOutput",
    "ignore_label:float=-1 multi_output:bool=False use_ignore:bool=False preserve_shape:bool=False"
    " normalization:batch|null|valid=null out_grad:bool=False smooth_alpha:float=0",
    takes=1,
)
def softmax_output(ctx, inputs, attrs):
    if attrs.preserve_shape and not attrs.multi_output:
        return relay.nn.softmax(inputs[0], axis=-1)
    return _softmax_rows(ctx, inputs[0], attrs.multi_output)


__all__ = ["NORM", "batch_normalized"]
