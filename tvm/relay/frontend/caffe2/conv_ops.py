"""Converters of convolution and pooling. The data keeps the layout of the file (NCHW or NHWC)."""

from __future__ import annotations

import math
from typing import Any

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr
from .table import Context, numbers, op

# The values of the argument `legacy_pad`.
_NOTSET, _VALID, _SAME, _CAFFE = range(4)
_LETTERS = {1: "W", 2: "HW", 3: "DHW"}


class Window:
    """The window of a convolution or pooling operator: kernel, strides, dilations and padding of each spatial axis."""

    def __init__(self, ctx: Context, x: RelayExpr, args: dict[str, Any], kernel: list[int] | None = None):
        self.ctx, self.last = ctx, ctx.channels_last(args)
        self.rank = ctx.rank(x) - 2
        if self.rank not in _LETTERS:
            raise TVMError(f"a window over a tensor of {self.rank + 2} dimensions is not supported")
        first = 1 if self.last else 2
        self.sizes = ctx.shape(x)[first : first + self.rank]
        self.channels = ctx.known_size(x, self.rank + 1 if self.last else 1)
        self.layout = f"N{_LETTERS[self.rank]}C" if self.last else f"NC{_LETTERS[self.rank]}"
        given = self.spatial(args, "kernel", 0)
        self.kernel = given if any(given) else list(kernel or [])
        self.is_global = bool(args.get("global_pooling", 0))
        if self.is_global:
            self.kernel = [self.known(i) for i in range(self.rank)]
        if len(self.kernel) != self.rank or any(k < 1 for k in self.kernel):
            raise TVMError(f"kernel {self.kernel} over {self.rank} spatial axes is not supported")
        self.strides = self.spatial(args, "stride", 1)
        self.dilations = self.spatial(args, "dilation", 1)
        if any(v < 1 for v in (*self.strides, *self.dilations)):
            raise TVMError(f"strides {self.strides} and dilations {self.dilations} must be positive")
        self.legacy = args.get("legacy_pad", _NOTSET)
        self.padding = self._padding(args)

    def spatial(self, args: dict[str, Any], name: str, default: int) -> list[int]:
        """Return an argument for each spatial axis.

        A file gives a list, one value each for height and width, or one for all axes.
        """
        if f"{name}s" in args:
            found = numbers(args, f"{name}s")
            if len(found) == 1:
                found = found * self.rank
        elif f"{name}_h" in args or f"{name}_w" in args:
            found = [args.get(f"{name}_h", default), args.get(f"{name}_w", default)]
        else:
            found = [args.get(name, default)] * self.rank
        if len(found) != self.rank or any(not isinstance(v, int) for v in found):
            raise TVMError(f"the argument {name} {found} does not match {self.rank} spatial axes")
        return list(found)

    def known(self, axis: int) -> int:
        size = self.sizes[axis]
        if not isinstance(size, int):
            raise TVMError("the image size must be static; pass static input shapes for the model")
        return size

    def reach(self, axis: int) -> int:
        """Return the extent of the dilated window along an axis."""
        return self.dilations[axis] * (self.kernel[axis] - 1) + 1

    def _padding(self, args: dict[str, Any]) -> list[int]:
        """Return the padding of all spatial axes: first the amounts before, then the amounts after."""
        if self.is_global or self.legacy == _VALID:
            return [0] * (2 * self.rank)
        if self.legacy == _SAME:
            totals = []
            for i in range(self.rank):
                steps = -(-self.known(i) // self.strides[i])
                totals.append((steps - 1) * self.strides[i] + self.kernel[i] - self.known(i))
            return [*(int(t / 2) for t in totals), *(t - int(t / 2) for t in totals)]
        found = explicit_padding(args, self.rank)
        if self.legacy == _CAFFE:
            return self._caffe(found)
        if self.legacy != _NOTSET:
            raise TVMError(f"legacy_pad {self.legacy} is not supported")
        return found

    def _caffe(self, found: list[int]) -> list[int]:
        """Compute Caffe's padding.

        A window that begins inside the data counts, so the last ones may extend beyond the padding.
        """
        before, after = found[: self.rank], found[self.rank :]
        if before != after:
            raise TVMError(f"legacy padding needs equal padding before and after, got {found}")
        for i, pad in enumerate(before):
            size, stride = self.known(i), self.strides[i]
            count = math.ceil((size + 2 * pad - self.kernel[i]) / stride) + 1
            if pad and (count - 1) * stride >= size + pad:
                count -= 1
            after[i] = max((count - 1) * stride + self.kernel[i] - size - pad, pad)
        return [*before, *after]


def explicit_padding(args: dict[str, Any], rank: int) -> list[int]:
    """Return the explicit padding of the arguments: first the amounts before, then the amounts after."""
    sides = ("pad_t", "pad_l", "pad_b", "pad_r")
    if "pads" in args:
        found = numbers(args, "pads")
        found = found * (2 * rank) if len(found) == 1 else found
    elif any(s in args for s in sides):
        found = [args.get(s, 0) for s in sides]
    else:
        found = [args.get("pad", 0)] * (2 * rank)
    if len(found) != 2 * rank or any(not isinstance(v, int) for v in found):
        raise TVMError(f"padding {found} does not match {rank} spatial axes")
    return list(found)


def with_bias(ctx: Context, out: RelayExpr, inputs: list, axis: int) -> RelayExpr:
    return relay.nn.bias_add(out, inputs[2], axis) if len(inputs) > 2 else out


# Conv is the operator for any rank; Conv1D, Conv2D and Conv3D fix it.
@op("Conv", "Conv1D", "Conv2D", "Conv3D")
def conv(ctx, inputs, args):
    x, weight = inputs[0], inputs[1]
    shape = ctx.known_shape(weight)
    last = ctx.channels_last(args)
    window = Window(ctx, x, args, list(shape[1:-1] if last else shape[2:]))
    if len(shape) != window.rank + 2:
        raise TVMError(f"expected weights of {window.rank + 2} dimensions, got {len(shape)}")
    groups, letters = args.get("group", 1), _LETTERS[window.rank]
    depth = shape[-1] if last else shape[1]
    if groups < 1 or depth * groups != window.channels or shape[0] % groups:
        raise TVMError(f"weights of shape {shape} in {groups} groups do not match {window.channels} input channels")
    if list(shape[1:-1] if last else shape[2:]) != window.kernel:
        raise TVMError(f"weights of shape {shape} do not match the kernel {window.kernel}")
    build = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}[window.rank]
    layout = f"OI{letters}"
    if last:
        # Move the output channels to the last axis: Relay's kernel layouts are HWIO-like.
        layout = f"{letters}IO"
        weight = relay.transpose(weight, (*range(1, window.rank + 2), 0))
        if groups > 1:
            x, layout, window.layout = (
                relay.transpose(x, (0, window.rank + 1, *range(1, window.rank + 1))),
                f"OI{letters}",
                f"NC{letters}",
            )
            weight = relay.transpose(inputs[1], (0, window.rank + 1, *range(1, window.rank + 1)))
    out = build(
        x,
        weight,
        strides=tuple(window.strides),
        padding=tuple(window.padding),
        dilation=tuple(window.dilations),
        groups=groups,
        channels=shape[0],
        kernel_size=tuple(window.kernel),
        data_layout=window.layout,
        kernel_layout=layout,
    )
    if last and groups > 1:
        out = relay.transpose(out, (0, *range(2, window.rank + 2), 1))
    return with_bias(ctx, out, inputs, window.rank + 1 if last else 1)


@op("ConvTranspose")
def conv_transpose(ctx, inputs, args):
    x, weight, last = inputs[0], inputs[1], ctx.channels_last(args)
    window = Window(ctx, x, args)
    rank, groups = window.rank, args.get("group", 1)
    if window.legacy not in (_NOTSET, _VALID):
        raise TVMError(f"legacy_pad {window.legacy} of a transposed convolution is not supported")
    if any(d != 1 for d in window.dilations):
        raise TVMError(f"dilations {window.dilations} of a transposed convolution are not supported")
    adjust = window.spatial(args, "adj", 0)
    if last:
        x = relay.transpose(x, (0, rank + 1, *range(1, rank + 1)))
        weight = relay.transpose(weight, (0, rank + 1, *range(1, rank + 1)))
    shape = ctx.known_shape(ctx.made(weight))
    if len(shape) != rank + 2 or shape[0] != window.channels or list(shape[2:]) != window.kernel:
        raise TVMError(
            f"weights of shape {shape} do not match {window.channels} input channels and the kernel {window.kernel}"
        )
    build = {1: relay.nn.conv1d_transpose, 2: relay.nn.conv2d_transpose, 3: relay.nn.conv3d_transpose}[rank]
    out = build(
        x,
        weight,
        strides=tuple(window.strides),
        padding=tuple(window.padding),
        channels=shape[1] * groups,
        kernel_size=tuple(window.kernel),
        output_padding=tuple(adjust),
        groups=groups,
    )
    out = with_bias(ctx, out, inputs, 1)
    return relay.transpose(out, (0, *range(2, rank + 2), 1)) if last else out


# -- pooling ----------------------------------------------------------------------------------------------------------


def _pool(ctx, inputs, args, greatest: bool):
    x = inputs[0]
    window = Window(ctx, x, args)
    name = f"{'max' if greatest else 'avg'}_pool{window.rank}d"
    options = {}
    if not greatest:
        options["count_include_pad"] = bool(args.get("count_include_pad", 0))
    pads = window.padding
    if any(p >= k for p, k in zip(pads, window.kernel * 2)) and window.legacy == _NOTSET:
        raise TVMError(f"padding {pads} must be smaller than the window {window.kernel}")
    return getattr(relay.nn, name)(
        x,
        pool_size=tuple(window.kernel),
        strides=tuple(window.strides),
        dilation=tuple(window.dilations),
        padding=tuple(pads),
        layout=window.layout,
        **options,
    )


for _rank in ("", "1D", "2D", "3D"):
    op(f"MaxPool{_rank}")(lambda ctx, inputs, args: _pool(ctx, inputs, args, True))
    op(f"AveragePool{_rank}")(lambda ctx, inputs, args: _pool(ctx, inputs, args, False))


@op("LpPool")
def lp_pool(ctx, inputs, args):
    x, p = inputs[0], float(args.get("p", 2.0))
    if p <= 0:
        raise TVMError(f"LpPool: p must be positive, got {p}")
    window = Window(ctx, x, args)
    powers = relay.power(relay.abs(x), ctx.like(p, x))
    mean = getattr(relay.nn, f"avg_pool{window.rank}d")(
        powers,
        pool_size=tuple(window.kernel),
        strides=tuple(window.strides),
        padding=tuple(window.padding),
        layout=window.layout,
        count_include_pad=True,
    )
    total = relay.multiply(mean, ctx.like(float(math.prod(window.kernel)), x))
    return relay.power(total, ctx.like(1.0 / p, x))


__all__ = ["Window", "explicit_padding"]
