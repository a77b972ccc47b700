"""The operators of ``auto_scheduler_cases`` in PyTorch, for a Python that has PyTorch and need not have anything
else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence

# The case, as JSON: class, numbers after the batch, and the shapes of the inputs.
CASE = "TVM_BENCH_CASE"
# Minimum seconds of a round: one call of a small operator is too short for a timer.
ROUND_SECONDS = 0.02


def rounds_of(call: Callable[[], object]) -> Callable[[], float]:
    """Return a function that runs one round and returns the mean seconds of a call."""
    start = time.perf_counter()
    call()
    number = max(int(ROUND_SECONDS / max(time.perf_counter() - start, 1e-7)), 1)

    def run() -> float:
        begin = time.perf_counter()
        for _ in range(number):
            call()
        return (time.perf_counter() - begin) / number

    return run


def operator(kind: str, numbers: Sequence[int]):
    """Return the function of tensors that computes a case."""
    import torch
    from torch.nn import functional

    stride, pad = numbers[-2:]
    if kind == "CAP":
        return lambda x, w: _capsule(torch, x, w, stride, pad)
    return {
        "C1D": lambda x, w: functional.conv1d(x, w, None, stride, pad),
        "C2D": lambda x, w: functional.conv2d(x, w, None, stride, pad),
        "C3D": lambda x, w: functional.conv3d(x, w, None, stride, pad),
        "GRP": lambda x, w: functional.conv2d(x, w, None, stride, pad, 1, x.shape[1] // w.shape[1]),
        "DIL": lambda x, w: functional.conv2d(x, w, None, stride, pad, 2),
        "DEP": lambda x, w: functional.conv2d(x, w, None, stride, pad, 1, x.shape[1]),
        "T2D": lambda x, w: functional.conv_transpose2d(x, w, None, stride, pad),
        "GMM": torch.matmul,
        "NRM": lambda x: torch.linalg.norm(x, dim=(1, 2)),
    }[kind]


def _capsule(torch, x, w, stride: int, pad: int):
    """Return a capsule convolution: matrices of the windows times matrices of the filter, as one batched matmul."""
    window = w.shape[0]
    padded = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, 0, pad, pad, pad, pad))
    windows = padded.unfold(1, window, stride).unfold(2, window, stride)
    return torch.einsum("nhwcikrs,rscokj->nhwoij", windows, w)


# For each class, the permutation of filter dimensions from channels last to PyTorch's order.
_FILTERS = {"C1D": (2, 1, 0), "C3D": (4, 3, 0, 1, 2), "DEP": (2, 3, 0, 1), "T2D": (2, 3, 0, 1), "C2D": (3, 2, 0, 1),
            "GRP": (3, 2, 0, 1), "DIL": (3, 2, 0, 1)}  # fmt: skip


def shapes_in_torch(kind: str, shapes: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the shapes of the inputs in PyTorch's dimension order: channels before the image."""
    if kind not in _FILTERS:
        return [list(shape) for shape in shapes]
    image, filters = shapes
    return [[image[0], image[-1], *image[1:-1]], [filters[at] for at in _FILTERS[kind]]]


def _made(compiled: bool, channels_last: bool = False) -> Callable[[], float]:
    import torch

    case = json.loads(os.environ[CASE])
    torch.set_num_threads(int(os.environ.get("TVM_NUM_THREADS") or os.cpu_count() or 1))
    function = operator(case["kind"], case["numbers"])
    function = torch.compile(function) if compiled else function
    inputs = [torch.rand(shape) for shape in shapes_in_torch(case["kind"], case["inputs"])]
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if channels_last and case["kind"] in _FILTERS:
        inputs = [one.to(memory_format=formats[one.ndim]) if one.ndim in formats else one for one in inputs]
    with torch.inference_mode():
        for _ in range(3):
            function(*inputs)

    def call() -> object:
        with torch.inference_mode():
            return function(*inputs)

    return rounds_of(call)


def eager() -> Callable[[], float]:
    return _made(False)


def channels_last() -> Callable[[], float]:
    """Return an eager round with images and filters in the same memory layout as ours."""
    return _made(False, channels_last=True)


def compiled() -> Callable[[], float]:
    return _made(True)
