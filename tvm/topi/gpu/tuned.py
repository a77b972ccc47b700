"""The link between the templates of GPUs and the tuner.

The knobs of a template follow from the sizes of the computation (those of a matmul, say) and a machine. A workload is
the name of a task and the operator's logical arguments: shapes as a model has them, however its weights are laid out
for the threads. ``tasks`` makes computations of workloads again.
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

# The least m of a dense layer that is called one of a large batch.
LARGE_BATCH = 32
# Convolutions by the operator and the layout of its data.
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
    """The valid configuration of a space with the least cost, the first of equal ones."""
    configurations = (dict(zip(table, values)) for values in itertools.product(*table.values()))
    return min(filter(is_valid, configurations), key=cost)


def cheapest_of_columns(
    table: dict[str, list[Any]], fits: Callable[[dict[str, Any]], Any], cost: Callable[[dict[str, Any]], Any]
) -> dict[str, Any] | None:
    """Like ``cheapest``, by functions of whole columns of knobs; None where nothing fits. A knob of pairs is two
    columns, one with a single value that value."""
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


def configuration(
    template: Knobs, sizes: Any, machine: Machine, workload: tuple[Any, ...] | None
) -> dict[str, Any]:
    """The knobs of an operator: those of a tuning record where they are valid, else the template's analytic choice."""

    def usable(values: dict[str, Any]) -> bool:
        return bool(template.valid(sizes, machine, values))

    def keep(columns: dict[str, Any]) -> list[bool]:
        rows = zip(*(column.tolist() for column in columns.values()))
        return [usable(dict(zip(columns, row))) for row in rows]

    picked = dict(_picked(template.choose, sizes, machine.target))
    return decide(picked, workload, machine.target, lambda: template.space(sizes, machine), keep, usable)


@functools.lru_cache(maxsize=4096)
def _picked(choose: Callable[[Any, Machine], dict[str, Any]], sizes: Any, target: Target) -> dict[str, Any]:
    """The analytic choice of a template; a tuner asks for that of the same sizes with every trial."""
    return choose(sizes, Machine(target))


def kernel_layout(data_layout: str) -> str:
    """The layout of a convolution's filters as workloads have it."""
    spatial = "".join(c for c in data_layout if c not in "NC")
    return f"OI{spatial}" if data_layout.startswith("NC") else f"{spatial}IO"


def conv_workload(
    name: str, data: Tensor, filt: Tensor, layouts: tuple[str, str], strides: Sequence[int], padding: Sequence[int],
    dilations: Sequence[int], groups: int, dtype: str,
) -> tuple[Any, ...] | None:
    """The workload of a convolution; ``layouts`` are those of the data and of the filters. None where no task is for
    it, or sizes are not known."""
    task = CONVOLUTIONS.get((name, layouts[0]))
    if task is None or not is_known(data.shape, filt.shape):
        return None
    shape = [filt.shape[layouts[1].index(c)] for c in kernel_layout(layouts[0])]
    inputs = tensor(data.shape, data.dtype), tensor(shape, filt.dtype)
    attributes = tuple(tuple(int(x) for x in values) for values in (strides, padding, dilations))
    return (task, *inputs, *attributes, *((groups,) if has_groups(task) else ()), dtype)


def has_groups(task: str) -> bool:
    """Whether the number of groups is an argument of the task."""
    return task.startswith(("group_", "conv3d"))


def depthwise_workload(
    data: Tensor, layout: str, window: Sequence[int], multiplier: int, strides: Sequence[int], padding: Sequence[int],
    dilations: Sequence[int], dtype: str,
) -> tuple[Any, ...]:
    """The workload of a depthwise convolution; the filters are (channels, multiplier) and the window."""
    image = tensor(data.shape, data.dtype)
    of_channels = image[1][layout.index("C")], multiplier
    shape = (*of_channels, *window) if layout == "NCHW" else (*window, *of_channels)
    attributes = tuple(tuple(int(x) for x in values) for values in (strides, padding, dilations))
    return (DEPTHWISE[layout], image, tensor(shape, data.dtype), *attributes, dtype)


def winograd_workload(
    data: Tensor, filters: int, kind: str, padding: Sequence[int], tile: int, dtype: str
) -> tuple[Any, ...]:
    """The workload of a convolution 3x3 by Winograd's algorithm with tiles of a size."""
    image = tensor(data.shape, data.dtype)
    return (WINOGRAD, image, tensor((filters, image[1][1], 3, 3), kind), tuple(int(x) for x in padding), tile, dtype)


def transposed_workload(
    name: str, data: Tensor, filt: Tensor, layouts: tuple[str, str], strides: Sequence[int], padding: Sequence[int],
    dilations: Sequence[int], groups: int, dtype: str, output_padding: Sequence[int],
) -> tuple[Any, ...] | None:
    """The workload of a transposed convolution with channels first; None where no task is for it."""
    is_usual = layouts[0].startswith("NC") and layouts[1].startswith("IO") and groups == 1 and set(dilations) == {1}
    if name not in TRANSPOSED or not is_usual or not is_known(data.shape, filt.shape):
        return None
    inputs = tensor(data.shape, data.dtype), tensor(filt.shape, filt.dtype)
    steps, around, extra = (tuple(int(x) for x in values) for values in (strides, padding, output_padding))
    return (TRANSPOSED[name], *inputs, steps, around, dtype, extra)


def matmul_workload(
    a: Tensor, b: Tensor, dtype: str, transpose_a: bool, transpose_b: bool
) -> tuple[Any, ...] | None:
    """The workload of a matmul. One whose rhs is not transposed, as constant weights are laid out for GPUs, is the
    dense layer with the (units, features) weights of the model. None where sizes are not known."""
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
    """The workload of a batched matmul; None where sizes are not known."""
    if not is_known(a.shape, b.shape):
        return None
    inputs = tensor(a.shape, a.dtype), tensor(b.shape, b.dtype)
    return ("batch_matmul.cuda", *inputs, None, dtype, bool(transpose_a), bool(transpose_b))


__all__ = [
    "batch_matmul_workload", "configuration", "conv_workload", "depthwise_workload", "has_groups", "kernel_layout",
    "matmul_workload", "transposed_workload", "winograd_workload",
]
