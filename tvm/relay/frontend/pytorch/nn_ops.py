"""Converters of matmuls and convolutions."""

from __future__ import annotations

import math

import numpy as np

from ....error import TVMError
from ... import op as relay
from ...expr import const
from ...op.rules import broadcast_dims
from .pad_ops import padded
from .shape_ops import expanded, reshaped
from .table import op

_FLOAT16_TYPES = ("float16", "bfloat16")


def product(ctx, a, b):
    """Return NumPy's matmul; float16 is accumulated in float32."""
    kind = ctx.dtype(a)
    if kind in _FLOAT16_TYPES:
        wide = [ctx.infer(relay.cast(v, "float32")) for v in (a, b)]
        return relay.cast(product(ctx, *wide), kind)
    x, y = ctx.shape(a), ctx.shape(b)
    if len(x) == 1 or len(y) == 1:
        wide = [relay.expand_dims(a, 0) if len(x) == 1 else a, relay.expand_dims(b, 1) if len(y) == 1 else b]
        out = ctx.infer(product(ctx, *(ctx.infer(v) for v in wide)))
        last = ctx.rank(out) - 1
        gone = ([last - 1] if len(x) == 1 else []) + ([last] if len(y) == 1 else [])
        return relay.squeeze(out, gone)
    if len(y) == 2:
        return _linear_rows(ctx, a, relay.transpose(b, (1, 0)))
    batch = tuple(broadcast_dims(x[:-2], y[:-2]))
    if len(batch) == 1 and x[:-2] == y[:-2]:
        return relay.nn.batch_matmul(a, b, transpose_b=False)
    if not all(isinstance(d, int) for d in (*batch, *x, *y)):
        return _dynamic_batches(ctx, a, b)
    count = math.prod(batch)
    a = relay.broadcast_to(a, (*batch, *x[-2:])) if batch != tuple(x[:-2]) else a
    b = relay.broadcast_to(b, (*batch, *y[-2:])) if batch != tuple(y[:-2]) else b
    a, b = relay.reshape(a, (count, *x[-2:]), True), relay.reshape(b, (count, *y[-2:]), True)
    return relay.reshape(relay.nn.batch_matmul(a, b, transpose_b=False), (*batch, x[-2], y[-1]), True)


def _dynamic_batches(ctx, a, b):
    """Return the batched matmul of operands with dynamic shapes. A single matrix is broadcast to all batch elements."""
    rank = max(ctx.rank(a), ctx.rank(b))
    a, b = (ctx.infer(relay.expand_dims(v, 0, rank - ctx.rank(v))) if ctx.rank(v) < rank else v for v in (a, b))
    stack = [_batch_size(ctx, a, b, axis) for axis in range(rank - 2)]
    flat = [_flat_batch(ctx, v, stack) for v in (a, b)]
    out = ctx.infer(relay.nn.batch_matmul(*flat, transpose_b=False))
    return reshaped(ctx, out, [*stack, ctx.size(a, -2), ctx.size(b, -1)])


def _batch_size(ctx, a, b, axis: int):
    """Return a batch dimension of both operands. Two unrelated dynamic dimensions are assumed to be equal, which is
    checked at run time.
    """
    p, q = (ctx.size(v, axis) for v in (a, b))
    return q if isinstance(p, int) and p == 1 or isinstance(q, int) and q != 1 else p


def _flat_batch(ctx, x, stack: list):
    """Reshape an operand to a single batch dimension, and broadcast it where its batch size is 1."""
    sizes = [ctx.size(x, axis) for axis in range(ctx.rank(x))]
    inner = sizes[-2:]
    if any(s != 1 for s in sizes[:-2]):
        if any(isinstance(s, int) != isinstance(t, int) or isinstance(s, int) and s != t for s, t in zip(sizes, stack)):
            x = ctx.infer(expanded(ctx, x, [*stack, *inner]))
        return ctx.infer(reshaped(ctx, x, [-1, *inner]))
    return ctx.infer(reshaped(ctx, x, [1, *inner]))


def _linear_rows(ctx, x, weight):
    """Multiply the rows of a tensor by the transpose of a weight, whose rows are the output features."""
    shape = ctx.shape(x)
    if len(shape) == 2:
        return relay.nn.dense(x, weight)
    if all(isinstance(d, int) for d in shape):
        flat = relay.reshape(x, (math.prod(shape[:-1]), shape[-1]), True)
        units = ctx.shape(ctx.infer(weight))[0]
        return relay.reshape(relay.nn.dense(flat, weight), (*shape[:-1], units), True)
    units, depth = ctx.known_shape(ctx.infer(weight))
    out = ctx.infer(relay.nn.dense(relay.reshape(x, (-1, depth)), weight))
    return reshaped(ctx, out, [*(ctx.size(x, i) for i in range(len(shape) - 1)), units])


@op("matmul", "__matmul__", "mm", "bmm", "linalg_matmul")
def matmul(ctx, self, other=None, mat2=None):
    return product(ctx, self, other if other is not None else mat2)


@op("mv")
def mv(ctx, self, vec):
    return product(ctx, self, vec)


@op("dot", "vdot", "inner")
def dot(ctx, self, tensor=None, other=None):
    second = tensor if tensor is not None else other
    if ctx.rank(self) > 1:
        return product(ctx, self, ctx.convert("transpose", second, -2, -1) if ctx.rank(second) > 1 else second)
    return relay.sum(relay.multiply(self, second))


@op("outer", "ger")
def outer(ctx, self, vec2):
    x, y = ctx.together(self, vec2)
    return relay.multiply(relay.expand_dims(x, 1), relay.expand_dims(y, 0))


@op("linear")
def linear(ctx, input, weight, bias=None):
    kind = ctx.dtype(input)
    if kind in _FLOAT16_TYPES:
        wide = [None if v is None else ctx.infer(relay.cast(v, "float32")) for v in (input, weight, bias)]
        return relay.cast(linear(ctx, *wide), kind)
    if ctx.rank(weight) == 1:
        out = product(ctx, input, weight)
    elif ctx.rank(input) == 1:
        out = relay.reshape(relay.nn.dense(relay.expand_dims(input, 0), weight), (-1,))
    else:
        out = _linear_rows(ctx, input, weight)
    return out if bias is None else relay.add(out, bias)


@op("_grouped_mm", "transformers::grouped_mm_fallback")
def grouped_mm(ctx, self, mat2=None, weight=None, offs=None, bias=None, out_dtype=None):
    """Multiply groups of rows by one matrix per group; ``offs`` are the end indices of the groups.

    If there are few rows, each row gathers its matrix. Otherwise one matmul with all matrices side by side is used,
    where each row is zero except in the columns of its group.
    """
    other = mat2 if mat2 is not None else weight
    kind = ctx.dtype(self)
    if ctx.rank(self) != 2 or ctx.rank(other) != 3 or offs is None or bias is not None:
        raise TVMError(
            "grouped_mm is supported only for a 2-D tensor of row groups and a 3-D tensor of matrices, with offs and "
            "without bias"
        )
    if kind in _FLOAT16_TYPES:
        wide = [ctx.infer(relay.cast(v, "float32")) for v in (self, other)]
        return relay.cast(grouped_mm(ctx, *wide, offs=offs), kind)
    groups, depth, width = ctx.known_shape(other)
    rows = ctx.size(self, 0)
    places = ctx.infer(relay.expand_dims(ctx.convert("arange", rows), 1))
    ends = ctx.infer(relay.cast(offs, "int64"))
    if isinstance(rows, int) and rows <= groups:
        owner = relay.sum(relay.cast(relay.greater_equal(places, ends), "int64"), axis=1)
        own = relay.take(other, owner, 0, mode="clip")
        return relay.squeeze(relay.nn.batch_matmul(relay.expand_dims(self, 1), own, transpose_b=False), [1])
    begins = relay.concatenate([const([0], "int64"), relay.strided_slice(ends, [0], [groups - 1], [1])], 0)
    mine = relay.logical_and(relay.greater_equal(places, begins), relay.less(places, ends))
    spread = relay.where(relay.expand_dims(mine, 2), relay.expand_dims(self, 1), ctx.like(0, self))
    flat = ctx.infer(relay.reshape(spread, (-1, groups * depth)))
    return product(ctx, flat, ctx.infer(relay.reshape(other, (groups * depth, width))))


def _scaled(ctx, x, factor):
    return x if factor == 1 else relay.multiply(x, ctx.like(factor, x))


@op("addmm", "baddbmm", "addbmm", "addmv")
def addmm(ctx, self, mat1=None, mat2=None, batch1=None, batch2=None, mat=None, vec=None, beta=1, alpha=1):
    a = next(v for v in (mat1, batch1, mat) if v is not None)
    b = next(v for v in (mat2, batch2, vec) if v is not None)
    out = _scaled(ctx, ctx.infer(product(ctx, a, b)), alpha)
    out = relay.sum(out, axis=0) if ctx.name == "addbmm" else out
    return out if beta == 0 else relay.add(_scaled(ctx, self, beta), out)


@op("einsum")
def einsum(ctx, equation, tensors, path=None):
    equation = equation.replace(" ", "")
    parts = ctx.together(*tensors)
    if len(parts) == 2 and "." not in equation and "->" in equation:
        made = _contraction(ctx, equation, parts)
        if made is not None:
            return made
    return relay.einsum(parts, equation)


def _contraction(ctx, equation: str, parts):
    """Return an einsum of two operands as one batched matmul, or None if that is not possible.

    Indices of both operands that are in the output are batch axes, indices only of both operands are reduction axes,
    and the others are rows and columns. Indices must not be repeated in an operand, or occur in one operand only.
    """
    left, out = equation.split("->")
    a, b = left.split(",")
    if any(len(set(s)) != len(s) for s in (a, b, out)) or not set(out) <= set(a) | set(b):
        return None
    batch = [c for c in a if c in b and c in out]
    summed = [c for c in a if c in b and c not in out]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    if any(c not in out for c in (*rows, *columns)):
        return None
    sizes = {c: d for s, v in ((a, parts[0]), (b, parts[1])) for c, d in zip(s, ctx.known_shape(v))}
    count = [math.prod(sizes[c] for c in group) for group in (batch, rows, summed, columns)]
    x = relay.transpose(parts[0], [a.index(c) for c in (*batch, *rows, *summed)])
    y = relay.transpose(parts[1], [b.index(c) for c in (*batch, *summed, *columns)])
    x = relay.reshape(x, (count[0], count[1], count[2]), True)
    y = relay.reshape(y, (count[0], count[2], count[3]), True)
    made = relay.nn.batch_matmul(x, y, transpose_b=False)
    order = [*batch, *rows, *columns]
    made = relay.reshape(made, [sizes[c] for c in order], True)
    return relay.transpose(made, [order.index(c) for c in out]) if order != list(out) else made


@op("bilinear")
def bilinear(ctx, input1, input2, weight, bias=None):
    n, i = ctx.known_shape(input1)[-2:]
    o, _, j = ctx.known_shape(weight)
    first = product(ctx, input1, ctx.infer(relay.reshape(relay.transpose(weight, (1, 0, 2)), (i, o * j))))
    out = relay.sum(relay.multiply(relay.reshape(first, (n, o, j)), relay.expand_dims(input2, 1)), axis=2)
    return out if bias is None else relay.add(out, bias)


@op("cdist", "_cdist_forward", "_euclidean_dist")
def cdist(ctx, x1, x2, p=2.0, compute_mode=None):
    rank = ctx.rank(x1)
    apart = ctx.infer(relay.subtract(relay.expand_dims(x1, rank - 1), relay.expand_dims(x2, rank - 2)))
    return ctx.convert("norm", apart, p, dim=[rank])


@op("_pdist_forward", "pdist")
def pdist(ctx, self, p=2.0):
    n = ctx.known_size(self, 0)
    rows, columns = np.triu_indices(n, 1)
    first, second = (relay.take(self, const(v.astype("int64")), 0) for v in (rows, columns))
    return ctx.convert("norm", ctx.infer(relay.subtract(first, second)), p, dim=[1])


# -- convolutions -------------------------------------------------------------------------------------------------

_CONV = {1: relay.nn.conv1d, 2: relay.nn.conv2d, 3: relay.nn.conv3d}
_TRANSPOSED = {1: relay.nn.conv1d_transpose, 2: relay.nn.conv2d_transpose, 3: relay.nn.conv3d_transpose}


def _biased(out, bias):
    return out if bias is None else relay.nn.bias_add(out, bias)


@op("convolution", "_convolution", "convolution_overrideable")
def convolution(
    ctx,
    input,
    weight,
    bias,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    benchmark=None,
    deterministic=None,
    cudnn_enabled=None,
    allow_tf32=None,
):
    n = ctx.rank(weight) - 2
    if ctx.rank(input) == n + 1:
        wide = ctx.infer(relay.expand_dims(input, 0))
        made = convolution(ctx, wide, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
        return relay.squeeze(made, [0])
    if ctx.dtype(input) in _FLOAT16_TYPES:
        kind = ctx.dtype(input)
        wide = [None if v is None else ctx.infer(relay.cast(v, "float32")) for v in (input, weight, bias)]
        made = convolution(ctx, *wide, stride, padding, dilation, transposed, output_padding, groups)
        return relay.cast(made, kind)
    if n not in _CONV:
        raise TVMError(f"convolutions with {n} spatial dimensions are not supported")
    shape = ctx.known_shape(weight)
    window = {
        "strides": tuple(ctx.known_ints(stride, "the strides", n)),
        "dilation": tuple(ctx.known_ints(dilation, "the dilation", n)),
        "groups": int(groups),
        "kernel_size": shape[2:],
    }
    pads = ctx.known_ints(padding, "the padding", n)
    if transposed:
        return _transposed(ctx, input, weight, bias, window, pads, ctx.known_ints(output_padding, "the padding", n))
    out = _CONV[n](input, weight, padding=tuple(pads + pads), channels=shape[0], **window)
    return _biased(out, bias)


def _transposed(ctx, x, weight, bias, window: dict, pads: list[int], extra: list[int]):
    shape = ctx.known_shape(weight)
    n = len(shape) - 2
    dilation = window.pop("dilation")
    if set(dilation) != {1}:
        weight = relay.nn.dilate(weight, (1, 1, *dilation))
        window["kernel_size"] = tuple((k - 1) * d + 1 for k, d in zip(shape[2:], dilation))
    out = _TRANSPOSED[n](
        x,
        weight,
        padding=tuple(pads + pads),
        output_padding=tuple(extra),
        channels=shape[1] * window["groups"],
        **window,
    )
    return _biased(out, bias)


def _conv(ctx, input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    n = ctx.rank(weight) - 2
    if isinstance(padding, str):
        input, padding = _same_padded(ctx, input, weight, padding, dilation, n)
    return convolution(ctx, input, weight, bias, stride, padding, dilation, False, [0] * n, groups)


def _same_padded(ctx, x, weight, padding: str, dilation, n: int):
    """Apply the padding "same": equal padding at both ends, or one more element at the end."""
    if padding == "valid":
        return x, [0] * n
    dilation = ctx.known_ints(dilation, "the dilation", n)
    totals = [d * (k - 1) for d, k in zip(dilation, ctx.known_shape(weight)[2:])]
    uneven = [v for t in reversed(totals) for v in (0, t % 2)]
    x = ctx.infer(padded(ctx, x, uneven)) if any(uneven) else x
    return x, [t // 2 for t in totals]


op("conv1d", "conv2d", "conv3d", "_convolution_mode")(_conv)


@op("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(ctx, input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return convolution(ctx, input, weight, bias, stride, padding, dilation, True, output_padding, groups)


# -- windows ------------------------------------------------------------------------------------------------------


@op("im2col")
def im2col(ctx, self, kernel_size, dilation, padding, stride):
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (
        ctx.known_ints(v, "the window", 2) for v in (kernel_size, dilation, padding, stride)
    )
    x = ctx.infer(padded(ctx, self, [pw, pw, ph, ph])) if ph or pw else self
    n, c, h, w = ctx.known_shape(x)
    rows = np.arange((h - dh * (kh - 1) - 1) // sh + 1)[None, :] * sh + np.arange(kh)[:, None] * dh
    columns = np.arange((w - dw * (kw - 1) - 1) // sw + 1)[None, :] * sw + np.arange(kw)[:, None] * dw
    places = rows[:, None, :, None] * w + columns[None, :, None, :]
    taken = relay.take(relay.reshape(x, (n, c, h * w)), const(places.reshape(-1).astype("int64")), 2)
    return relay.reshape(taken, (n, c * kh * kw, rows.shape[1] * columns.shape[1]))


@op("col2im")
def col2im(ctx, self, output_size, kernel_size, dilation, padding, stride):
    """Add the windows into an image: each window element is added to its position."""
    (h, w), (kh, kw), (dh, dw), (ph, pw), (sh, sw) = (
        ctx.known_ints(v, "the window", 2) for v in (output_size, kernel_size, dilation, padding, stride)
    )
    n, ck, length = ctx.known_shape(self)
    c, hp, wp = ck // (kh * kw), h + 2 * ph, w + 2 * pw
    rows = np.arange((hp - dh * (kh - 1) - 1) // sh + 1)[None, :] * sh + np.arange(kh)[:, None] * dh
    columns = np.arange((wp - dw * (kw - 1) - 1) // sw + 1)[None, :] * sw + np.arange(kw)[:, None] * dw
    places = (rows[:, None, :, None] * wp + columns[None, :, None, :]).reshape(1, -1).astype("int64")
    flat = relay.reshape(self, (n * c, kh * kw * length))
    where = const(np.broadcast_to(places, (n * c, places.shape[1])).copy())
    out = relay.scatter_elements(relay.zeros((n * c, hp * wp), ctx.dtype(self)), where, flat, 1, "add")
    out = relay.reshape(out, (n, c, hp, wp))
    return relay.strided_slice(out, [ph, pw], [ph + h, pw + w], [1, 1], [2, 3]) if ph or pw else out
