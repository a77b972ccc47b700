"""What operations give, in NumPy, written from the specification of Core ML's operations and layers."""

from __future__ import annotations

import itertools
import math

import numpy as np


def windows(x, kernel, strides, before, after, fill, dilations=None, extra=None):
    """All windows over the last dimensions, in front of the elements inside them."""
    n = len(kernel)
    dilations, extra = dilations or [1] * n, extra or [0] * n
    pads = [(0, 0)] * (x.ndim - n) + [(b, a + e) for b, a, e in zip(before, after, extra)]
    wide = np.pad(x.astype("float64"), pads, constant_values=fill)
    out = [(d - ((k - 1) * l + 1)) // s + 1 for d, k, s, l in zip(wide.shape[-n:], kernel, strides, dilations)]
    made = np.empty((*x.shape[:-n], *out, *kernel))
    for place in itertools.product(*map(range, out)):
        part = tuple(slice(p * s, p * s + (k - 1) * l + 1, l) for p, s, k, l in zip(place, strides, kernel, dilations))
        made[(..., *place, *[slice(None)] * n)] = wide[(..., *part)]
    return made


def conv(x, w, bias=None, strides=None, before=None, after=None, dilations=None, groups=1):
    n = w.ndim - 2
    strides, before, after = strides or [1] * n, before or [0] * n, after or [0] * n
    parts = []
    for part, weights in zip(np.split(x, groups, 1), np.split(w, groups, 0)):
        seen = windows(part, w.shape[2:], strides, before, after, 0, dilations)
        axes = list(range(n + 2, 2 * n + 2))
        parts.append(np.moveaxis(np.tensordot(seen, weights, ([1, *axes], [1, *range(2, n + 2)])), -1, 1))
    out = np.concatenate(parts, 1)
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


def conv_transpose(x, w, bias=None, strides=None, before=None, after=None, groups=1, dilations=None, extra=None):
    n = w.ndim - 2
    strides, before, after = strides or [1] * n, before or [0] * n, after or [0] * n
    dilations, extra = dilations or [1] * n, extra or [0] * n
    size = [
        (d - 1) * s + (k - 1) * l + 1 + e for d, s, k, l, e in zip(x.shape[2:], strides, w.shape[2:], dilations, extra)
    ]
    out = np.zeros((x.shape[0], w.shape[1] * groups, *size))
    ins, outs = x.shape[1] // groups, w.shape[1]
    for g in range(groups):
        for place in itertools.product(*map(range, x.shape[2:])):
            spread = np.tensordot(
                x[(slice(None), slice(g * ins, (g + 1) * ins), *place)], w[g * ins : (g + 1) * ins], ([1], [0])
            )
            part = tuple(
                slice(p * s, p * s + (k - 1) * l + 1, l) for p, s, k, l in zip(place, strides, w.shape[2:], dilations)
            )
            out[(slice(None), slice(g * outs, (g + 1) * outs), *part)] += spread
    cut = tuple(slice(b, d - a) for b, a, d in zip(before, after, size))
    out = out[(slice(None), slice(None), *cut)]
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


def pool(x, kind, kernel, strides, before=None, after=None, exclude=False, ceil=False):
    n = len(kernel)
    before, after = before or [0] * n, after or [0] * n
    extra = [0] * n
    if ceil:
        for i in range(n):
            size = x.shape[i - n]
            out = math.ceil((size + before[i] + after[i] - kernel[i]) / strides[i]) + 1
            if before[i] + after[i] and (out - 1) * strides[i] >= size + before[i]:
                out -= 1
            extra[i] = max((out - 1) * strides[i] + kernel[i] - size - before[i] - after[i], 0)
    axes = tuple(range(-n, 0))
    if kind == "max":
        return windows(x, kernel, strides, before, after, -np.inf, extra=extra).max(axes)
    if kind == "l2":
        return np.sqrt((windows(x, kernel, strides, before, after, 0, extra=extra) ** 2).sum(axes))
    ones = np.ones(x.shape)
    if not exclude:
        ones = np.pad(ones, [(0, 0)] * (x.ndim - n) + list(zip(before, after)), constant_values=1)
        counts = windows(ones, kernel, strides, [0] * n, [0] * n, 0, extra=extra).sum(axes)
    else:
        counts = windows(ones, kernel, strides, before, after, 0, extra=extra).sum(axes)
    return windows(x, kernel, strides, before, after, 0, extra=extra).sum(axes) / counts


def points(mode, size, count):
    """Where points lie on an axis, by the specification's formulas."""
    i = np.arange(count)
    if mode == "ALIGN_CORNERS" and count == 1:
        return np.array([(size - 1) / 2])
    if mode in ("STRICT_ALIGN_CORNERS", "ALIGN_CORNERS"):
        found = i * ((size - 1) / (count - 1) if count > 1 else 0)
    elif mode == "DEFAULT":
        found = i * ((size - size / count) / (count - 1) if count > 1 else 0)
    elif mode == "OFFSET_CORNERS":
        delta = max(1, size - 1) / count
        found = 0.5 * delta + i * delta
    else:
        found = (i + 0.5) * size / count - 0.5
    return np.clip(found, 0, size - 1)


def linear(x, axis, places):
    low = np.floor(places).astype(int)
    high = np.minimum(low + 1, x.shape[axis] - 1)
    share = (places - low).reshape([-1 if a == axis % x.ndim else 1 for a in range(x.ndim)])
    return np.take(x, low, axis) * (1 - share) + np.take(x, high, axis) * share


def resize(x, height, width, mode):
    x = linear(x, x.ndim - 2, points(mode, x.shape[-2], height))
    return linear(x, x.ndim - 1, points(mode, x.shape[-1], width))


def nearest(x, height, width):
    rows, columns = (
        np.floor(np.arange(n) * d / n).astype(int) for n, d in ((height, x.shape[-2]), (width, x.shape[-1]))
    )
    return x[..., rows, :][..., columns]


def crops(x, boxes, height, width, mode):
    """Boxes of corners, height first, in elements."""
    out = np.empty((len(boxes), *x.shape[:2], height, width))
    for n, (top, left, bottom, right) in enumerate(boxes):
        part = x
        for axis, first, last, count in ((2, top, bottom, height), (3, left, right, width)):
            part = linear(part, axis, first + points(mode, last - first + 1, count))
        out[n] = part
    return out


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def erf(x):
    return np.vectorize(math.erf)(x)


def normal(x, axes, epsilon):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def lrn(x, axis, size, alpha, beta, k):
    out = np.empty_like(x, "float64")
    moved, target = np.moveaxis(x, axis, 0), np.moveaxis(out, axis, 0)
    for c in range(len(moved)):
        low, high = max(0, c - size // 2), min(len(moved), c - size // 2 + size)
        target[c] = moved[c] / (k + alpha / size * (moved[low:high] ** 2).sum(0)) ** beta
    return out


def lstm(
    x, h, c, w, r, b=0.0, peephole=None, reverse=False, coupled=False, clip=None, acts=(sigmoid, np.tanh, np.tanh)
):
    """Gates are those of input, forgetting, output and the cell."""
    f, g, out = acts
    p = np.zeros((3, h.shape[1])) if peephole is None else peephole.reshape(3, -1)
    rows = []
    for step in x[::-1] if reverse else x:
        i, forget, o, z = np.split(step @ w.T + h @ r.T + b, 4, 1)
        i = f(i + p[0] * c)
        kept = 1 - i if coupled else f(forget + p[1] * c)
        c = kept * c + i * g(z)
        c = c if clip is None else np.clip(c, -clip, clip)
        h = out(c) * f(o + p[2] * c)
        rows.append(h)
    return np.stack(rows[::-1] if reverse else rows), h, c


def gru(x, h, w, r, b=0.0, reverse=False, after=None):
    """Gates are those of reset, output and update; ``after`` is the bias of a product that is reset afterwards."""
    n, rows = h.shape[1], []
    for step in x[::-1] if reverse else x:
        xr, xo, xz = np.split(step @ w.T + b, 3, 1)
        own = h @ r.T + (0 if after is None else after)
        hr, ho, hz = np.split(own, 3, 1)
        reset, z = sigmoid(xr + hr), sigmoid(xz + hz)
        o = np.tanh(xo + (reset * ho if after is not None else (reset * h) @ r[n : 2 * n].T))
        h = (1 - z) * o + z * h
        rows.append(h)
    return np.stack(rows[::-1] if reverse else rows), h


def rnn(x, h, w, r, b=0.0, act=np.tanh, reverse=False):
    rows = []
    for step in x[::-1] if reverse else x:
        h = act(step @ w.T + h @ r.T + b)
        rows.append(h)
    return np.stack(rows[::-1] if reverse else rows), h


def suppressed(boxes, scores, iou, least, most, per_class):
    """Boxes of centres and sizes, for one image: the places that are kept."""
    best, kind = scores.max(1), scores.argmax(1)
    kept: list[int] = []
    for i in np.argsort(-best, kind="stable"):
        if best[i] < least or len(kept) == most:
            continue
        overlaps = [_overlap(boxes[i], boxes[j]) > iou and (not per_class or kind[i] == kind[j]) for j in kept]
        if not any(overlaps):
            kept.append(int(i))
    return kept


def _overlap(a, b):
    low = np.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2)
    high = np.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2)
    shared = np.prod(np.maximum(high - low, 0))
    return shared / (np.prod(a[2:]) + np.prod(b[2:]) - shared)


def depth_to_space(x, f, order):
    n, c, h, w = x.shape
    if order == "DCR":
        parts = x.reshape(n, f, f, c // f**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // f**2, f, f, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // f**2, h * f, w * f)


def space_to_depth(x, f):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // f, f, w // f, f).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * f * f, h // f, w // f)
