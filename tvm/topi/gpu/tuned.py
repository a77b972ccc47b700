"""The connection between the GPU templates and the tuner.

The knobs of a template depend on the parameters of the computation (such as the dimensions of a matmul) and a machine.
A workload is the name of a task and the operator's logical arguments: shapes as in the model, regardless of the layout
of its weights for the threads. ``tasks`` creates computations from workloads.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...target import Target
from ...te.tensor import Tensor
from ..template import Knobs
from ..tuned import decide, is_known, tensor
from .machine import Machine

# The minimum m of a dense layer whose task name contains "large_batch".
LARGE_BATCH = 32
# Task names of convolutions, by operator and data layout.
CONVOLUTIONS = {
    ("conv1d", "NCW"): "conv1d_ncw.cuda",
    ("conv1d", "NWC"): "conv1d_nwc.cuda",
    ("conv2d", "NCHW"): "conv2d_nchw.cuda",
    ("conv2d", "NHWC"): "conv2d_nhwc.gpu",
    ("conv2d", "HWCN"): "conv2d_hwcn.cuda",
    ("conv3d", "NCDHW"): "conv3d_ncdhw.cuda",
    ("conv3d", "NDHWC"): "conv3d_ndhwc.cuda",
    ("group_conv2d", "NCHW"): "group_conv2d_nchw.cuda",
    ("group_conv2d", "NHWC"): "group_conv2d_nhwc.cuda",
}
DEPTHWISE = {"NCHW": "depthwise_conv2d_nchw.cuda", "NHWC": "depthwise_conv2d_nhwc.cuda"}
WINOGRAD = "conv2d_nchw_winograd.cuda"
TRANSPOSED = {
    "conv1d_transpose": "conv1d_transpose_ncw.cuda",
    "conv2d_transpose": "conv2d_transpose_nchw.cuda",
    "conv3d_transpose": "conv3d_transpose_ncdhw.cuda",
}


def cheapest(
    table: dict[str, list[Any]], is_valid: Callable[[dict[str, Any]], bool], cost: Callable[[dict[str, Any]], float]
) -> dict[str, Any]:
    """Return the valid configuration of a space with the lowest cost; among equals, the first."""
    configurations = (dict(zip(table, values)) for values in itertools.product(*table.values()))
    return min(filter(is_valid, configurations), key=cost)


def cheapest_of_columns(
    table: dict[str, list[Any]], fits: Callable[[dict[str, Any]], Any], cost: Callable[[dict[str, Any]], Any]
) -> dict[str, Any] | None:
    """Return the cheapest configuration with functions that take whole columns of knobs, or None if no configuration is
    valid. A knob of pairs is two columns; a knob with one value is that value."""
    rows = list(itertools.product(*table.values()))
    columns = {name: _column(values) for name, values in zip(table, zip(*rows))}
    left = np.flatnonzero(np.broadcast_to(fits(columns), len(rows)))
    if not len(left):
        return None
    taken = {name: tuple(x[left] for x in c) if isinstance(c, tuple) else c[left] if isinstance(c, np.ndarray) else c
             for name, c in columns.items()}  # fmt: skip
    return dict(zip(table, rows[left[np.argmin(cost(taken))]]))


def _column(values: Sequence[Any]) -> Any:
    if len(set(values)) == 1 and not isinstance(values[0], tuple):
        return values[0]
    array = np.array(values)
    return tuple(array.T) if array.ndim == 2 else array


def configuration(template: Knobs, sizes: Any, machine: Machine, workload: tuple[Any, ...] | None) -> dict[str, Any]:
    """Return the knobs of an operator: those of a valid tuning record, else the template's analytic choice."""

    def usable(values: dict[str, Any]) -> bool:
        return bool(template.valid(sizes, machine, values))

    def keep(columns: dict[str, Any]) -> list[bool]:
        rows = zip(*(column.tolist() for column in columns.values()))
        return [usable(dict(zip(columns, row))) for row in rows]

    picked = dict(_picked(template.choose, sizes, machine.target))
    return decide(picked, workload, machine.target, lambda: template.space(sizes, machine), keep, usable)


@functools.lru_cache(maxsize=4096)
def _picked(choose: Callable[[Any, Machine], dict[str, Any]], sizes: Any, target: Target) -> dict[str, Any]:
    """Return the analytic choice of a template, cached because a tuner requests that of the same dimensions in every
    trial."""
    return choose(sizes, Machine(target))


def kernel_layout(data_layout: str) -> str:
    """Return the layout of a convolution's filters in workloads."""
    spatial = "".join(c for c in data_layout if c not in "NC")
    return f"OI{spatial}" if data_layout.startswith("NC") else f"{spatial}IO"


def conv_workload(
    name: str,
    data: Tensor,
    filt: Tensor,
    layouts: tuple[str, str],
    strides: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    dtype: str,
) -> tuple[Any, ...] | None:
    """Return the workload of a convolution; ``layouts`` are those of the data and of the filters. Return None if there
    is no task for it or a dimension is dynamic."""
    task = CONVOLUTIONS.get((name, layouts[0]))
    if task is None or not is_known(data.shape, filt.shape):
        return None
    shape = [filt.shape[layouts[1].index(c)] for c in kernel_layout(layouts[0])]
    inputs = tensor(data.shape, data.dtype), tensor(shape, filt.dtype)
    attributes = tuple(tuple(int(x) for x in values) for values in (strides, padding, dilations))
    return (task, *inputs, *attributes, *((groups,) if has_groups(task) else ()), dtype)


def has_groups(task: str) -> bool:
    """Return whether the number of groups is an argument of the task."""
    return task.startswith(("group_", "conv3d"))


def depthwise_workload(
    data: Tensor,
    layout: str,
    window: Sequence[int],
    multiplier: int,
    strides: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
    dtype: str,
) -> tuple[Any, ...]:
    """Return the workload of a depthwise convolution; the filters are (channels, multiplier) and the window."""
    image = tensor(data.shape, data.dtype)
    of_channels = image[1][layout.index("C")], multiplier
    shape = (*of_channels, *window) if layout == "NCHW" else (*window, *of_channels)
    attributes = tuple(tuple(int(x) for x in values) for values in (strides, padding, dilations))
    return (DEPTHWISE[layout], image, tensor(shape, data.dtype), *attributes, dtype)


def winograd_workload(
    data: Tensor, filters: int, kind: str, padding: Sequence[int], tile: int, dtype: str
) -> tuple[Any, ...]:
    """Return the workload of a 3x3 convolution with Winograd's algorithm for a tile size."""
    image = tensor(data.shape, data.dtype)
    return (WINOGRAD, image, tensor((filters, image[1][1], 3, 3), kind), tuple(int(x) for x in padding), tile, dtype)


def transposed_workload(
    name: str,
    data: Tensor,
    filt: Tensor,
    layouts: tuple[str, str],
    strides: Sequence[int],
    padding: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    dtype: str,
    output_padding: Sequence[int],
) -> tuple[Any, ...] | None:
    """Return the workload of a transposed convolution in a channels-first layout, or None if there is no task for
    it."""
    is_usual = layouts[0].startswith("NC") and layouts[1].startswith("IO") and groups == 1 and set(dilations) == {1}
    if name not in TRANSPOSED or not is_usual or not is_known(data.shape, filt.shape):
        return None
    inputs = tensor(data.shape, data.dtype), tensor(filt.shape, filt.dtype)
    steps, around, extra = (tuple(int(x) for x in values) for values in (strides, padding, output_padding))
    return (TRANSPOSED[name], *inputs, steps, around, dtype, extra)


def matmul_workload(a: Tensor, b: Tensor, dtype: str, transpose_a: bool, transpose_b: bool) -> tuple[Any, ...] | None:
    """Return the workload of a matmul, or None if a dimension is dynamic. A matmul whose rhs is not transposed, the
    layout of constant weights for GPUs, is the dense layer with the model's (units, features) weights."""
    if not is_known(a.shape, b.shape):
        return None
    lhs, rhs = tensor(a.shape, a.dtype), tensor(b.shape, b.dtype)
    if transpose_a or transpose_b:
        return ("matmul_default.gpu", lhs, rhs, None, dtype, bool(transpose_a), bool(transpose_b))
    rows = 1
    for d in lhs[1][:-1]:
        rows *= d
    name = "dense_large_batch.gpu" if rows >= LARGE_BATCH else "dense_small_batch.gpu"
    return (name, lhs, tensor(rhs[1][::-1], b.dtype), None, dtype)


def batch_matmul_workload(
    a: Tensor, b: Tensor, dtype: str, transpose_a: bool, transpose_b: bool
) -> tuple[Any, ...] | None:
    """Return the workload of a batched matmul, or None if a dimension is dynamic."""
    if not is_known(a.shape, b.shape):
        return None
    inputs = tensor(a.shape, a.dtype), tensor(b.shape, b.dtype)
    return ("batch_matmul.cuda", *inputs, None, dtype, bool(transpose_a), bool(transpose_b))


__all__ = [
    "batch_matmul_workload",
    "configuration",
    "conv_workload",
    "depthwise_workload",
    "has_groups",
    "kernel_layout",
    "matmul_workload",
    "transposed_workload",
    "winograd_workload",
]
