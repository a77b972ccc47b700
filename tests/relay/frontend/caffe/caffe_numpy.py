"""Caffe's layers in NumPy, written after its documentation and sources."""

from __future__ import annotations

import math

import numpy as np


def conv(x, weight, bias, stride=(1, 1), pad=(0, 0), dilation=(1, 1), group=1):
    """A convolution over any number of axes."""
    rank = x.ndim - 2
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), *((p, p) for p in pad)))
    reach = [(k - 1) * d + 1 for k, d in zip(weight.shape[2:], dilation)]
    views = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, rank + 2)))
    views = views[(slice(None), slice(None), *(slice(None, None, s) for s in (*stride, *dilation)))]
    out, depth = [], weight.shape[1]
    for g, part in enumerate(np.split(weight, group)):
        own = views[:, g * depth : (g + 1) * depth]
        axes = [1, *range(rank + 2, 2 * rank + 2)]
        out.append(np.moveaxis(np.tensordot(own, part, (axes, list(range(1, rank + 2)))), -1, 1))
    found = np.concatenate(out, 1)
    return found if bias is None else found + bias.reshape(-1, *(1,) * rank)


def deconv(x, weight, bias, stride=(1, 1), pad=(0, 0), dilation=(1, 1), group=1):
    """Every element spreads its kernel over the result."""
    batch, channels, height, width = x.shape
    outs = weight.shape[1]
    sizes = [(s - 1) * st + (k - 1) * d + 1 for s, st, k, d in zip((height, width), stride, weight.shape[2:], dilation)]
    out = np.zeros((batch, outs * group, *sizes))
    each = channels // group
    for c, i, j, u, v in np.ndindex(channels, height, width, *weight.shape[2:]):
        g = c // each
        y, z = i * stride[0] + u * dilation[0], j * stride[1] + v * dilation[1]
        out[:, g * outs : (g + 1) * outs, y, z] += x[:, c, i, j][:, None] * weight[c, :, u, v]
    out = out[:, :, pad[0] : sizes[0] - pad[0], pad[1] : sizes[1] - pad[1]]
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def pool(x, method, kernel, stride=(1, 1), pad=(0, 0), up=True):
    batch, channels, height, width = x.shape
    counts = []
    for size, k, s, p in zip((height, width), kernel, stride, pad):
        count = (math.ceil if up else math.floor)((size + 2 * p - k) / s) + 1
        counts.append(count - 1 if p and (count - 1) * s >= size + p else count)
    out = np.zeros((batch, channels, *counts))
    for i, j in np.ndindex(*counts):
        top, left = i * stride[0] - pad[0], j * stride[1] - pad[1]
        bottom, right = min(top + kernel[0], height + pad[0]), min(left + kernel[1], width + pad[1])
        share = (bottom - top) * (right - left)
        part = x[:, :, max(top, 0) : min(bottom, height), max(left, 0) : min(right, width)]
        out[:, :, i, j] = part.max((2, 3)) if method == "MAX" else part.sum((2, 3)) / share
    return out


def lrn(x, size, alpha, beta, k):
    out = np.zeros(x.shape)
    for c in range(x.shape[1]):
        part = x[:, max(c - size // 2, 0) : c + size // 2 + 1]
        out[:, c] = x[:, c] / (k + alpha / size * (part * part).sum(1)) ** beta
    return out


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def interp(x, height, width):
    """Bilinear, corners upon corners."""
    out = np.zeros((*x.shape[:2], height, width))
    for i, j in np.ndindex(height, width):
        y = i * (x.shape[2] - 1) / (height - 1) if height > 1 else 0.0
        z = j * (x.shape[3] - 1) / (width - 1) if width > 1 else 0.0
        y0, z0 = int(y), int(z)
        y1, z1 = min(y0 + 1, x.shape[2] - 1), min(z0 + 1, x.shape[3] - 1)
        a, b = y - y0, z - z0
        out[:, :, i, j] = ((1 - a) * ((1 - b) * x[:, :, y0, z0] + b * x[:, :, y0, z1])
                           + a * ((1 - b) * x[:, :, y1, z0] + b * x[:, :, y1, z1]))  # fmt: skip
    return out


def priors(shape, image, sizes, ratios=(), greatest=(), flip=True, step=0.0, offset=0.5, clip=False, variance=(0.1,)):
    kinds = [1.0]
    for ratio in ratios:
        for r in (ratio, 1 / ratio) if flip else (ratio,):
            if all(abs(r - k) >= 1e-6 for k in kinds):
                kinds.append(r)
    rows = []
    for i, j in np.ndindex(*shape):
        y = (i + offset) * (step or image[0] / shape[0])
        x = (j + offset) * (step or image[1] / shape[1])
        for n, size in enumerate(sizes):
            boxes = [(size, size)]
            if greatest:
                boxes.append((math.sqrt(size * greatest[n]),) * 2)
            boxes += [(size * math.sqrt(r), size / math.sqrt(r)) for r in kinds if abs(r - 1) >= 1e-6]
            rows += [
                ((x - w / 2) / image[1], (y - h / 2) / image[0], (x + w / 2) / image[1], (y + h / 2) / image[0])
                for w, h in boxes
            ]
    found = np.clip(rows, 0, 1) if clip else np.array(rows)
    spread = np.tile(variance if len(variance) == 4 else list(variance) * 4, len(rows))
    return np.stack([found.reshape(-1), spread])[None]


def _overlap(a, b):
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    both = max(w, 0) * max(h, 0)
    either = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both
    return both / either if either > 0 else 0.0


def decoded(moves, prior, code, encoded=False):
    boxes, variance = prior[0, 0].reshape(-1, 4), prior[0, 1].reshape(-1, 4)
    out = []
    for m, b, v in zip(moves.reshape(-1, 4), boxes, np.ones_like(variance) if encoded else variance):
        w, h = b[2] - b[0], b[3] - b[1]
        if code == "CORNER":
            out.append(b + v * m)
        elif code == "CORNER_SIZE":
            out.append(b + v * m * [w, h, w, h])
        else:
            x, y = (b[0] + b[2]) / 2 + v[0] * m[0] * w, (b[1] + b[3]) / 2 + v[1] * m[1] * h
            w, h = math.exp(v[2] * m[2]) * w, math.exp(v[3] * m[3]) * h
            out.append(np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2]))
    return out


def detections(moves, scores, prior, classes, code="CORNER", background=0, least=-1e30, overlap=0.3, first=-1, kept=-1,
               encoded=False):  # fmt: skip
    """Rows of the detections that are kept, picture by picture."""
    out = []
    for n in range(len(moves)):
        boxes, table, found = decoded(moves[n], prior, code, encoded), scores[n].reshape(-1, classes), []
        for c in range(classes):
            if c == background:
                continue
            order = sorted((i for i in range(len(boxes)) if table[i, c] > least), key=lambda i: -table[i, c])
            good: list[int] = []
            for i in order[: first if first > 0 else None]:
                if all(_overlap(boxes[i], boxes[j]) <= overlap for j in good):
                    good.append(i)
            found += [(n, c, table[i, c], *boxes[i]) for i in good]
        if 0 < kept < len(found):
            found = sorted(found, key=lambda r: -r[2])[:kept]
            found.sort(key=lambda r: (r[1], -r[2]))
        out += found
    return np.array(out)


def lstm(x, going, weight, bias, own):
    steps, batch = x.shape[:2]
    size = own.shape[1]
    h = c = np.zeros((batch, size))
    out = []
    for t in range(steps):
        keep = going[t][:, None]
        gates = x[t].reshape(batch, -1) @ weight.T + bias + (h * keep) @ own.T
        i, f, o, g = np.split(gates, 4, 1)
        c = sigmoid(f) * (c * keep) + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out)


def rnn(x, going, weight, bias, own, last, last_bias):
    steps, batch = x.shape[:2]
    h, out = np.zeros((batch, own.shape[0])), []
    for t in range(steps):
        h = np.tanh(x[t].reshape(batch, -1) @ weight.T + bias + (h * going[t][:, None]) @ own.T)
        out.append(np.tanh(h @ last.T + last_bias))
    return np.stack(out)


def proposals(scores, moves, image, stride, base, ratios, scales, before, after, overlap, least):
    """The regions of Faster R-CNN, box by box: scores and corners, with rows of zeros behind those it finds."""
    count = len(ratios) * len(scales)
    found = []
    for row, column, k in np.ndindex(*scores.shape[2:], count):
        ratio, scale = ratios[k // len(scales)], scales[k % len(scales)]
        side = round(math.sqrt(base * base / ratio))
        w, h = side * scale, round(side * ratio) * scale
        x, y = (base - 1) / 2 + column * stride + 0.5, (base - 1) / 2 + row * stride + 0.5
        dx, dy, dw, dh = moves[0, 4 * k : 4 * k + 4, row, column].astype("float64")
        x, y, w, h = x + dx * w, y + dy * h, w * math.exp(dw), h * math.exp(dh)
        ends = np.clip([x - w / 2, y - h / 2, x + w / 2, y + h / 2], 0, [image[1] - 1, image[0] - 1] * 2)
        if (ends[2:] - ends[:2] + 1 >= least * image[2]).all():
            found.append((float(scores[0, count + k, row, column]), ends))
    found.sort(key=lambda pair: -pair[0])
    kept = []
    for score, box in found[:before]:

        def shared(other, box=box):
            near, far = np.maximum(box[:2], other[:2]), np.minimum(box[2:], other[2:])
            both = np.maximum(far - near + 1, 0).prod()
            return both / ((box[2:] - box[:2] + 1).prod() + (other[2:] - other[:2] + 1).prod() - both)

        if all(shared(other) <= overlap for _, other in kept):
            kept.append((score, box))
    out = np.zeros((after, 5))
    for row, (score, box) in zip(out, kept):
        row[:] = [score, *box]
    return out[:, :1], np.concatenate([np.zeros((after, 1)), out[:, 1:]], 1)
