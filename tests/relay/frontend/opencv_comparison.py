"""Compares networks of DarkNet and Caffe with the outputs of OpenCV."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

# OpenCV writes 0 for products of objectness and class of a layer [yolo] at or below this.
LEAST = 0.2


def imported(kind: str, text: str, weights: bytes):
    """The module of a network that gives what OpenCV gives."""
    if kind == "caffe":
        from tvm.relay.frontend import from_caffe

        return from_caffe(weights, text.encode())[0]
    from tvm.relay.frontend import from_darknet

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.cfg"
        path.write_text(text)
        path.with_suffix(".weights").write_bytes(weights)
        return from_darknet(path, boxes="[yolo]" in text or "[region]" in text)[0]


def _by_score(rows: np.ndarray) -> np.ndarray:
    """Detections, the most probable first: OpenCV does not sort them by class."""
    found = rows[rows[:, 0] >= 0]
    return found[np.argsort(-found[:, 2], kind="stable")]


def above(rows: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Rows of boxes without the products that OpenCV leaves out; one near the threshold may fall on either side."""
    kinds, wanted = rows[:, 5:], want[:, 5:]
    if ((wanted > 0) & (wanted < LEAST)).any():
        # Of a layer [region] it suppresses boxes that overlap better ones, too.
        return np.concatenate([rows[:, :5], np.where(wanted == 0, 0, kinds)], 1)
    near = np.abs(np.maximum(kinds, wanted) - LEAST) < 1e-4
    return np.concatenate([rows[:, :5], np.where(near, wanted, np.where(kinds <= LEAST, 0, kinds))], 1)


def aligned(value: np.ndarray, want: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An output and what OpenCV gave, without what only one of them has."""
    if want.shape[-1] == 7 and want.ndim == 4:
        # Detections: OpenCV gives only those that it found.
        return _by_score(value.reshape(-1, 7)), _by_score(want.reshape(-1, 7))
    if value.ndim == 3 and want.ndim == 2 and want.shape[1] > 5:
        value = above(value[0], want)
    return (value.reshape(want.shape) if value.size == want.size else value), want


def off_by(got: list, expected: list) -> float:
    """The largest difference as a part of the largest output."""
    pairs = [aligned(value, want) for value, want in zip(got, expected)]
    return max(float(np.abs(v - w).max() / np.abs(w).max()) if v.shape == w.shape else np.inf for v, w in pairs)


def difference(got: list, expected: list) -> str:
    """What is wrong with the outputs of a network; empty if nothing is."""
    if len(got) != len(expected):
        return f"{len(expected)} outputs are wanted, got {len(got)}"
    for value, want in (aligned(*pair) for pair in zip(got, expected)):
        if not len(want):
            return "OpenCV found nothing: the network shows nothing"
        if value.shape != want.shape:
            return f"shape {want.shape} is wanted, got {value.shape}"
        if not np.allclose(value, want, rtol=1e-3, atol=1e-4):
            return f"off by {np.abs(value - want).max()}"
        if want.std() < 1e-4:
            return "the outputs do not differ: the network shows nothing"
    return ""
