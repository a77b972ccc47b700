"""Reference region pooling and the reorg layer, computed element by element."""

from __future__ import annotations

import math

import numpy as np


def _sample(image, y, x):
    """Return the four weighted neighbours of a position in (channels, height, width)."""
    height, width = image.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return [np.zeros(image.shape[0])] * 4
    y, x = max(y, 0.0), max(x, 0.0)
    top, left = int(y), int(x)
    if top >= height - 1:
        top, y = height - 1, float(height - 1)
    if left >= width - 1:
        left, x = width - 1, float(width - 1)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, over = y - top, x - left
    return [
        image[:, top, left] * (1 - down) * (1 - over), image[:, top, right] * (1 - down) * over,
        image[:, bottom, left] * down * (1 - over), image[:, bottom, right] * down * over,
    ]  # fmt: skip


def roi_align_nchw_python(
    a_np, rois_np, pooled_size, spatial_scale, sample_ratio, mode=b"avg", aligned=False, weighted_max=False
):
    average = mode in (b"avg", "avg", 0)
    rows, columns = (pooled_size, pooled_size) if isinstance(pooled_size, int) else pooled_size
    out = np.zeros((len(rois_np), a_np.shape[1], rows, columns), "float64")
    for r, roi in enumerate(rois_np):
        image = a_np[int(roi[0])].astype("float64")
        x1, y1, x2, y2 = (float(v) * spatial_scale - (0.5 if aligned else 0.0) for v in roi[1:])
        lengths = [y2 - y1, x2 - x1] if aligned else [max(y2 - y1, 1.0), max(x2 - x1, 1.0)]
        bins = [lengths[0] / rows, lengths[1] / columns]
        grid = [sample_ratio if sample_ratio > 0 else math.ceil(size) for size in bins]
        for p, q in np.ndindex(rows, columns):
            values = []
            for i, j in np.ndindex(*[max(n, 0) for n in grid]):
                parts = _sample(
                    image, y1 + bins[0] * (p + (i + 0.5) / grid[0]), x1 + bins[1] * (q + (j + 0.5) / grid[1])
                )
                values.append(np.max(parts, 0) if weighted_max and not average else np.sum(parts, 0))
            if values:
                out[r, :, p, q] = np.mean(values, 0) if average else np.max(values, 0)
    return out.astype(a_np.dtype)


def roi_align_nhwc_python(a_np, rois_np, pooled_size, spatial_scale, sample_ratio, mode=b"avg"):
    moved = a_np.transpose(0, 3, 1, 2)
    return roi_align_nchw_python(moved, rois_np, pooled_size, spatial_scale, sample_ratio, mode).transpose(0, 2, 3, 1)


def _away(x: float) -> int:
    return math.floor(x + 0.5) if x >= 0 else -math.floor(-x + 0.5)


def roi_pool_nchw_python(a_np, rois_np, pooled_size, spatial_scale):
    rows, columns = (pooled_size, pooled_size) if isinstance(pooled_size, int) else pooled_size
    height, width = a_np.shape[2:]
    out = np.zeros((len(rois_np), a_np.shape[1], rows, columns), a_np.dtype)
    for r, roi in enumerate(rois_np):
        x1, y1, x2, y2 = (_away(float(v) * spatial_scale) for v in roi[1:])
        bins = [max(y2 - y1 + 1, 1) / rows, max(x2 - x1 + 1, 1) / columns]
        for p, q in np.ndindex(rows, columns):
            edges = []
            for n, start, size, limit in ((p, y1, bins[0], height), (q, x1, bins[1], width)):
                low, high = math.floor(round(n * size, 6)) + start, math.ceil(round((n + 1) * size, 6)) + start
                edges.append((min(max(low, 0), limit), min(max(high, 0), limit)))
            part = a_np[int(roi[0]), :, slice(*edges[0]), slice(*edges[1])]
            if part.shape[1] and part.shape[2]:
                out[r, :, p, q] = part.max((1, 2))
    return out


def reorg_python(a_np, stride):
    batch, channels, height, width = a_np.shape
    groups = channels // (stride * stride)
    wide = a_np.reshape(batch, groups, height * stride, width * stride)
    out = np.empty_like(a_np)
    for b, c, y, x in np.ndindex(*a_np.shape):
        place = c // groups
        out[b, c, y, x] = wide[b, c % groups, y * stride + place // stride, x * stride + place % stride]
    return out.reshape(batch, channels * stride * stride, height // stride, width // stride)
