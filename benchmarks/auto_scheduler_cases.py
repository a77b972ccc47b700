"""The operators of Ansor's single-operator test: ten classes, three shapes each, batch 1 and 16.

As in that test, channels are the last dimension of images and filters. ``auto_scheduler_torch`` has the same operators
in PyTorch, and runs in its own Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tvm import auto_scheduler, te, topi

BATCHES = (1, 16)
# The rows and columns of a capsule.
CAPSULE = 4
# Groups of grouped convolutions.
GROUPS = 4
CLASSES = {
    "C1D": "1-D convolution", "C2D": "2-D convolution", "C3D": "3-D convolution", "GRP": "grouped convolution",
    "DIL": "dilated convolution", "DEP": "depthwise convolution", "T2D": "transposed convolution",
    "CAP": "capsule convolution", "GMM": "batched matmul", "NRM": "matrix norm",
}  # fmt: skip
# The numbers of each shape: length, input channels, output channels, window, stride, padding.
SHAPES: dict[str, list[tuple[int, ...]]] = {
    "C1D": [(256, 64, 128, 3, 2, 1), (128, 128, 256, 1, 2, 0), (64, 256, 256, 5, 1, 2)],
    "C2D": [(224, 3, 64, 7, 2, 3), (56, 64, 64, 1, 1, 0), (14, 256, 512, 3, 2, 1)],
    "C3D": [(16, 112, 3, 64, 7, 2, 3), (16, 56, 64, 64, 1, 1, 0), (16, 14, 256, 256, 3, 2, 1)],
    "GRP": [(56, 64, 128, 3, 2, 1), (28, 128, 256, 3, 1, 1), (14, 256, 512, 3, 2, 1)],
    "DIL": [(56, 64, 64, 3, 1, 2), (28, 128, 256, 3, 2, 2), (14, 256, 512, 3, 2, 2)],
    "DEP": [(112, 32, 32, 3, 1, 1), (56, 128, 128, 3, 2, 1), (14, 512, 512, 3, 1, 1)],
    "T2D": [(4, 512, 256, 4, 2, 1), (8, 256, 128, 4, 2, 1), (16, 128, 64, 4, 2, 1)],
    "CAP": [(16, 32, 32, 3, 2, 1), (8, 32, 32, 3, 1, 1), (16, 16, 16, 3, 2, 1)],
    "GMM": [(128, 128, 128), (512, 32, 512), (512, 512, 512)],
    "NRM": [(256, 256), (512, 512), (1024, 1024)],
}


class Case(NamedTuple):
    """An operator with a shape and a batch size."""

    kind: str
    batch: int
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.kind} b{self.batch} {'x'.join(map(str, self.shape))}"

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of the workload ``operator_of_ansor``."""
        return self.kind, self.batch, *self.shape


def cases(kinds: list[str] | None = None, batches: tuple[int, ...] = BATCHES) -> list[Case]:
    return [Case(kind, batch, shape) for kind in kinds or SHAPES for batch in batches for shape in SHAPES[kind]]


def _inputs(*shapes: tuple[int, ...]) -> list[Any]:
    return [te.placeholder(shape, name=f"in{number}") for number, shape in enumerate(shapes)]


def _conv1d(n, length, ci, co, window, stride, pad):
    x, w = _inputs((n, length, ci), (window, ci, co))
    return [x, w, topi.nn.conv1d_nwc(x, w, stride, pad, 1)]


def _conv2d(n, size, ci, co, window, stride, pad, dilation=1):
    x, w = _inputs((n, size, size, ci), (window, window, ci, co))
    return [x, w, topi.nn.conv2d_nhwc(x, w, stride, pad, dilation)]


def _dilated(*numbers):
    return _conv2d(*numbers, dilation=2)


def _conv3d(n, depth, size, ci, co, window, stride, pad):
    x, w = _inputs((n, depth, size, size, ci), (window, window, window, ci, co))
    return [x, w, topi.nn.conv3d_ndhwc(x, w, stride, pad, 1)]


def _grouped(n, size, ci, co, window, stride, pad):
    x, w = _inputs((n, size, size, ci), (window, window, ci // GROUPS, co))
    return [x, w, topi.nn.group_conv2d_nhwc(x, w, stride, pad, 1, GROUPS)]


def _depthwise(n, size, ci, co, window, stride, pad):
    x, w = _inputs((n, size, size, ci), (window, window, ci, 1))
    return [x, w, topi.nn.depthwise_conv2d_nhwc(x, w, stride, pad, 1)]


def _transposed(n, size, ci, co, window, stride, pad):
    """Return a transposed convolution. An output element is the sum over the window positions that meet an input
    element: every ``stride``-th one, so the window is a multiple of the stride."""
    x, w = _inputs((n, size, size, ci), (window, window, ci, co))
    taps, out = window // stride, (size - 1) * stride - 2 * pad + window
    edge = (0, taps - 1, taps - 1, 0)
    padded = topi.nn.pad(x, edge, edge, name="padded")
    rh, rw = (te.reduce_axis((0, taps), name=name) for name in ("rh", "rw"))
    c = te.reduce_axis((0, ci), name="c")

    def element(b, h, v, o):
        row, column = (te.indexdiv(at + pad, stride) for at in (h, v))
        first_row, first_column = (te.indexmod(at + pad, stride) for at in (h, v))
        inputs = padded[b, row - rh + taps - 1, column - rw + taps - 1, c]
        return te.sum(inputs * w[rh * stride + first_row, rw * stride + first_column, c, o], axis=[rh, rw, c])

    return [x, w, te.compute((n, out, out, co), element, name="conv2d_transpose")]


def _capsule(n, size, ci, co, window, stride, pad):
    """Return a convolution whose elements are matrices."""
    x, w = _inputs((n, size, size, ci, CAPSULE, CAPSULE), (window, window, ci, co, CAPSULE, CAPSULE))
    padded = topi.nn.pad(x, (0, pad, pad, 0, 0, 0), (0, pad, pad, 0, 0, 0), name="padded")
    out = (size + 2 * pad - window) // stride + 1
    rh, rw = (te.reduce_axis((0, window), name=name) for name in ("rh", "rw"))
    c, k = te.reduce_axis((0, ci), name="c"), te.reduce_axis((0, CAPSULE), name="k")
    y = te.compute(
        (n, out, out, co, CAPSULE, CAPSULE),
        lambda b, h, v, o, i, j: te.sum(
            padded[b, h * stride + rh, v * stride + rw, c, i, k] * w[rh, rw, c, o, k, j], axis=[rh, rw, c, k]
        ),
        name="capsule_conv2d",
    )
    return [x, w, y]


def _matmul(n, rows, columns, terms):
    a, b = _inputs((n, rows, terms), (n, terms, columns))
    return [a, b, topi.nn.batch_matmul(a, b, transpose_b=False)]


def _norm(n, rows, columns):
    (x,) = _inputs((n, rows, columns))
    i, j = te.reduce_axis((0, rows), name="i"), te.reduce_axis((0, columns), name="j")
    squares = te.compute((n,), lambda b: te.sum(x[b, i, j] * x[b, i, j], axis=[i, j]), name="squares")
    return [x, te.compute((n,), lambda b: te.sqrt(squares[b]), name="norm")]


COMPUTES: dict[str, Callable[..., list[Any]]] = {
    "C1D": _conv1d, "C2D": _conv2d, "C3D": _conv3d, "GRP": _grouped, "DIL": _dilated, "DEP": _depthwise,
    "T2D": _transposed, "CAP": _capsule, "GMM": _matmul, "NRM": _norm,
}  # fmt: skip


@auto_scheduler.register_workload
def operator_of_ansor(kind: str, *numbers: int) -> list[Any]:
    """Return the inputs and the output of an operator."""
    return COMPUTES[kind](*numbers)
