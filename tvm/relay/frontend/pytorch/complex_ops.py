"""Complex tensors, and converters of operators with complex inputs or outputs.

No tensor of a module has complex elements: the importer stores the real and the imaginary part separately. Operators
that only move elements are applied to each part; some operators compute with both parts; all others report an error.
Real views of a complex tensor, and complex views of a real one, must not be changed in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import RelayExpr, const
from ..common.fourier import fourier
from .quantized import ASKING
from .table import Complex, Context, op

MOVING = frozenset(
    "view reshape flatten unflatten transpose permute t slice select narrow squeeze unsqueeze contiguous clone detach "
    "alias expand chunk split split_with_sizes unbind flip roll repeat index_select cat concat concatenate stack "
    "neg negative sum cumsum constant_pad_nd pad resolve_conj resolve_neg movedim swapaxes mean".split()
)
# Operators whose output shares memory with their argument, where one of the two is complex.
SEEN_PARTS = frozenset("real imag view_as_real view_as_complex".split())
_ON_COMPLEX: dict[str, Callable[..., Any]] = {}


def _on(*names: str):
    """Register a converter for complex tensors of an operator whose table entry is for real tensors."""

    def add(function):
        _ON_COMPLEX.update(dict.fromkeys(names, function))
        return function

    return add


def _both(*names: str):
    """Register one converter for real and complex tensors."""
    return lambda function: op(*names)(_on(*names)(function))


def holds_complex(value) -> bool:
    """Return whether an argument is a complex tensor or a list that contains one."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(v, Complex) for v in value)
    return isinstance(value, Complex)


def on_complex(ctx: Context, name: str, converter: Callable[..., Any], taken: dict[str, Any]):
    """Convert an operator with complex arguments."""
    if name in _ON_COMPLEX:
        return _ON_COMPLEX[name](ctx, **taken)
    sides = [{k: _side(ctx, v, i) if holds_complex(v) else v for k, v in taken.items()} for i in range(2)]
    if name in ASKING:
        return converter(ctx, **sides[0])
    if name not in MOVING:
        raise TVMError(f"the operator {name} of a complex tensor is not supported")
    re, im = (ctx.infer(converter(ctx, **side)) for side in sides)
    return [Complex(*pair) for pair in zip(re, im)] if isinstance(re, (list, tuple)) else Complex(re, im)


def _side(ctx: Context, value, index: int):
    if isinstance(value, (list, tuple)):
        return [_side(ctx, v, index) for v in value]
    return parts_of(ctx, value).parts[index]


def parts_of(ctx: Context, value) -> Complex:
    """Return the real and imaginary part of a tensor or number."""
    if isinstance(value, Complex):
        return value
    if isinstance(value, complex):
        return Complex(const(value.real), const(value.imag))
    x = ctx.tensor(value)
    return Complex(x, ctx.infer(relay.zeros_like(x)))


# -- parts ----------------------------------------------------------------------------------------------------------


@_both("real")
def real(ctx, self):
    return self.real if isinstance(self, Complex) else self


@_both("imag")
def imag(ctx, self):
    if not isinstance(self, Complex):
        raise TVMError("a real tensor has no imaginary part")
    return self.imag


@_both("conj", "_conj", "conj_physical", "_conj_physical")
def conj(ctx, self):
    return Complex(self.real, relay.negative(self.imag)) if isinstance(self, Complex) else self


@_both("view_as_real", "view_as_real_copy")
def view_as_real(ctx, self):
    if not isinstance(self, Complex):
        raise TVMError("expected a complex tensor, got a real one")
    return relay.stack(list(self.parts), -1)


@op("view_as_complex", "view_as_complex_copy")
def view_as_complex(ctx, self):
    if not ctx.rank(self) or ctx.shape(self)[-1] != 2:
        raise TVMError("view_as_complex requires a tensor whose last axis has size 2")
    return Complex(*(relay.take(self, const(i, "int64"), ctx.rank(self) - 1) for i in range(2)))


@op("complex")
def from_parts(ctx, real, imag):
    return Complex(*ctx.together(real, imag))


@op("polar")
def polar(ctx, abs, angle):
    size, turn = ctx.together(abs, angle)
    return Complex(relay.multiply(size, relay.cos(turn)), relay.multiply(size, relay.sin(turn)))


@_on("is_complex")
def is_complex(ctx, self):
    return True


# -- arithmetic -----------------------------------------------------------------------------------------------------


def _binary(*names: str):
    def add(function):
        def convert(ctx, self, other, alpha=1):
            a, b = parts_of(ctx, self).parts, parts_of(ctx, other).parts
            places = ((0, 0), (1, 1), (0, 1), (1, 0))
            pairs = [tuple(map(ctx.infer, ctx.together(a[i], b[j]))) for i, j in places]
            return function(ctx, *pairs, alpha)

        return _on(*names)(convert)

    return add


def _sum(ctx, pair, alpha, function=relay.add):
    return function(pair[0], pair[1] if alpha == 1 else relay.multiply(pair[1], ctx.like(alpha, pair[1])))


@_binary("add")
def add(ctx, rr, ii, ri, ir, alpha):
    return Complex(_sum(ctx, rr, alpha), _sum(ctx, ii, alpha))


@_binary("sub", "subtract")
def subtract(ctx, rr, ii, ri, ir, alpha):
    return Complex(_sum(ctx, rr, alpha, relay.subtract), _sum(ctx, ii, alpha, relay.subtract))


@_binary("mul", "multiply")
def multiply(ctx, rr, ii, ri, ir, alpha):
    return Complex(
        relay.subtract(relay.multiply(*rr), relay.multiply(*ii)), relay.add(relay.multiply(*ri), relay.multiply(*ir))
    )


@_binary("div", "divide", "true_divide")
def divide(ctx, rr, ii, ri, ir, alpha):
    size = relay.add(relay.multiply(rr[1], rr[1]), relay.multiply(ii[1], ii[1]))
    return Complex(
        relay.divide(relay.add(relay.multiply(*rr), relay.multiply(*ii)), size),
        relay.divide(relay.subtract(relay.multiply(*ir), relay.multiply(*ri)), size),
    )


@_on("abs", "absolute")
def absolute(ctx, self):
    """Factor out the larger part, so that no square overflows."""
    sizes = [ctx.infer(relay.abs(p)) for p in self.parts]
    most, least = relay.maximum(*sizes), relay.minimum(*sizes)
    share = relay.divide(least, relay.where(relay.equal(most, ctx.like(0, self.real)), ctx.like(1, self.real), most))
    return relay.multiply(most, relay.sqrt(relay.add(relay.multiply(share, share), ctx.like(1, self.real))))


@_both("angle")
def angle(ctx, self):
    if isinstance(self, Complex):
        return ctx.convert("atan2", self.imag, self.real)
    x = ctx.tensor(self) if ctx.is_float(self) else relay.cast(self, ctx.importer.default_dtype)
    x = ctx.infer(x)
    below = relay.where(relay.less(x, ctx.like(0, x)), ctx.like(math.pi, x), ctx.like(0, x))
    return relay.where(relay.isnan(x), x, below)


# -- transforms -----------------------------------------------------------------------------------------------------


def _scaled(value: Complex | RelayExpr, ctx: Context, factor: float):
    if factor == 1:
        return value
    if isinstance(value, Complex):
        return Complex(*(relay.multiply(p, ctx.like(factor, p)) for p in value.parts))
    return relay.multiply(value, ctx.like(factor, value))


def _floats(ctx: Context, x):
    """Return the data of a transform: a complex tensor, or real floats."""
    if isinstance(x, Complex) or ctx.is_float(x):
        return x
    return ctx.infer(relay.cast(x, ctx.importer.default_dtype))


def _along(ctx: Context, x, axis: int, length: int, inverse: bool, onesided: bool):
    if length < 1:
        raise TVMError(f"the length of a transform must be positive, got {length}")
    given = x.parts if isinstance(x, Complex) else (x, None)
    re, im = fourier(ctx, *given, axis, length, inverse, onesided)
    return ctx.infer(re if im is None else Complex(re, im))


def _first(x: Complex | RelayExpr) -> RelayExpr:
    """Return a real tensor with the shape of a real or complex one."""
    return x.real if isinstance(x, Complex) else x


def _transform(ctx: Context, x, sizes: list, axes: list[int], kind: str, inverse: bool, norm: str):
    """Transform along axes. ``kind`` is c2c, r2c (one-sided output of the last axis) or c2r (one-sided input)."""
    x = _floats(ctx, x)
    axes = [ctx.axis(_first(x), a) for a in axes]
    if len(set(axes)) < len(axes) or not ctx.rank(_first(x)) or len(sizes) != len(axes):
        raise TVMError("the axes of a transform must be different, with one length per axis")
    if kind == "r2c" and isinstance(x, Complex):
        raise TVMError("a real-input transform (rfft) requires a real tensor, got a complex one")
    count = 1
    steps = list(zip(axes, sizes))
    for i, (axis, length) in enumerate(reversed(steps) if kind == "r2c" else steps):
        onesided = kind == "r2c" and i == 0 or kind == "c2r" and i == len(steps) - 1
        found = ctx.known_size(_first(x), axis)
        if length is None or length < 0:
            length = 2 * (found - 1) if onesided and inverse else found
        count *= length
        x = _along(ctx, x, axis, length, inverse, onesided)
    divided = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}[norm]
    # Every inverse transform is already divided by the number of elements.
    return _scaled(x, ctx, count ** (divided if inverse else -divided))


def _norm(norm) -> str:
    if norm not in (None, "backward", "ortho", "forward"):
        raise TVMError(f"unknown norm '{norm}'; use 'forward', 'backward' or 'ortho'")
    return norm or "backward"


def _one_axis(name: str, kind: str, inverse: bool) -> None:
    @_both(name)
    def convert(ctx, self, n=None, dim=-1, norm=None):
        length = None if n is None else ctx.known_int(n, "the length")
        return _transform(ctx, self, [length], [ctx.known_int(dim, "the axis")], kind, inverse, _norm(norm))


def _many_axes(name: str, kind: str, inverse: bool, last: bool) -> None:
    @_both(name)
    def convert(ctx, self, s=None, dim=(-2, -1) if last else None, norm=None):
        rank = ctx.rank(_first(self))
        sizes = None if s is None else ctx.known_ints(s, "the lengths")
        if dim is None:
            dim = list(range(rank - len(sizes), rank)) if sizes is not None else list(range(rank))
        axes = ctx.known_ints(dim, "the axes")
        return _transform(ctx, self, sizes or [None] * len(axes), axes, kind, inverse, _norm(norm))


for _inverse, _kind, _base in ((False, "c2c", "fft"), (True, "c2c", "ifft"), (False, "r2c", "rfft"),
                               (True, "c2r", "irfft")):  # fmt: skip
    _one_axis(f"fft_{_base}", _kind, _inverse)
    _many_axes(f"fft_{_base}2", _kind, _inverse, True)
    _many_axes(f"fft_{_base}n", _kind, _inverse, False)
# PyTorch's codes for the normalization: none, by the square root of the number of elements, by the number of elements.
_DIVIDED = {False: ("backward", "ortho", "forward"), True: ("forward", "ortho", "backward")}


def _normalized(number, inverse: bool) -> str:
    if number not in (0, 1, 2):
        raise TVMError(f"unknown normalization code {number}")
    return _DIVIDED[inverse][number]


@_both("_fft_c2c")
def fft_c2c(ctx, self, dim, normalization, forward):
    return _transform(
        ctx, self, [None] * len(dim), list(dim), "c2c", not forward, _normalized(normalization, not forward)
    )


@op("_fft_r2c")
def fft_r2c(ctx, self, dim, normalization, onesided):
    kind = "r2c" if onesided else "c2c"
    return _transform(ctx, self, [None] * len(dim), list(dim), kind, False, _normalized(normalization, False))


@_both("_fft_c2r")
def fft_c2r(ctx, self, dim, normalization, last_dim_size):
    sizes = [*[None] * (len(dim) - 1), ctx.known_int(last_dim_size, "the length")]
    return _transform(ctx, self, sizes, list(dim), "c2r", True, _normalized(normalization, True))


@op("stft")
def stft(ctx, self, n_fft, hop_length=None, win_length=None, window=None, center=False, normalized=False,
         onesided=None, return_complex=None):  # fmt: skip
    """Transform the frames of a signal. The caller of the operator has already padded the signal."""
    if center:
        raise TVMError("center=True is not supported; pad the signal before calling the operator")
    length = ctx.known_int(n_fft, "n_fft")
    step = length // 4 if hop_length is None else ctx.known_int(hop_length, "hop_length")
    width = length if win_length is None else ctx.known_int(win_length, "win_length")
    size = ctx.known_shape(self)[-1]
    if not 0 < length <= size or step < 1 or not 0 < width <= length:
        raise TVMError(
            f"stft of {size} samples with frame length {length}, hop length {step} and window length {width} is not "
            "supported"
        )
    places = np.arange(1 + (size - length) // step)[:, None] * step + np.arange(length)
    frames = relay.take(self, const(places), ctx.rank(self) - 1)
    if window is not None or width < length:
        shape = relay.ones((width,), ctx.dtype(self)) if window is None else window
        before = (length - width) // 2
        shape = relay.nn.pad(shape, ((before, length - width - before),)) if width < length else shape
        frames = relay.multiply(frames, shape)
    frames = ctx.infer(frames)
    kind = "c2c" if onesided is False else "r2c"
    norm = "ortho" if normalized else "backward"
    made = _transform(ctx, frames, [None], [-1], kind, False, norm)
    turned = Complex(*(ctx.convert("transpose", p, -1, -2) for p in made.parts))
    return turned if return_complex else view_as_real(ctx, turned)


__all__ = ["SEEN_PARTS", "holds_complex", "on_complex"]
