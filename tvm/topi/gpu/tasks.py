"""Tuning tasks of the GPU templates: convert the logical arguments of a record to a computation and its schedule."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from ... import te
from ...autotvm.task.task import get_config, register_customized
from ...error import TVMError
from ...target import Target
from ...te.tensor import Tensor
from ..schedule.gpu import schedule_for
from .conv_transpose import conv_transpose
from .convolution import conv, depthwise_conv2d_nchw, depthwise_conv2d_nhwc
from .matmul import batch_matmul as batch_matmul_compute
from .matmul import matmul as matmul_compute
from .tuned import CONVOLUTIONS, DEPTHWISE, TRANSPOSED, WINOGRAD, has_groups, kernel_layout
from .winograd import conv2d_winograd_nchw

Scheduled = tuple[Any, list[Tensor]]


def _shape(t: Tensor) -> list[int]:
    return [int(d) for d in t.shape]


def _scheduled(target: Target, out: Tensor, inputs: list[Tensor], flop: int) -> Scheduled:
    get_config().add_flop(flop)
    return schedule_for([out], target), [*inputs, out]


def _convolution(task: str, name: str, layout: str) -> Callable[..., Scheduled]:
    """Return a function that creates the task of a convolution. The filters of a conv2d have the layout of constant
    filters in a model: output channels, which adjacent threads read, are the last axis."""

    def convolution(
        target: Target, data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, *rest: Any
    ) -> Scheduled:
        groups, dtype = rest if has_groups(task) else (1, *rest)
        logical = kernel_layout(layout)
        stored = "HWIO" if name == "conv2d" else logical
        sizes = dict(zip(logical, _shape(kernel)))
        filt = te.placeholder([sizes[c] for c in stored], kernel.dtype, name="kernel")
        out = conv(data, filt, strides, padding, dilation, groups, layout, stored, dtype, name, target=target)
        reduction = prod(sizes[c] for c in logical if c != "O")
        return _scheduled(target, out, [data, filt], 2 * prod(_shape(out)) * reduction)

    return convolution


def _depthwise(layout: str) -> Callable[..., Scheduled]:
    compute = {"NCHW": depthwise_conv2d_nchw, "NHWC": depthwise_conv2d_nhwc}[layout]

    def depthwise(
        target: Target, data: Tensor, kernel: Tensor, strides: Any, padding: Any, dilation: Any, dtype: str
    ) -> Scheduled:
        """Create the task of a depthwise convolution."""
        out = compute(data, kernel, strides, padding, dilation, out_dtype=dtype, target=target)
        window = _shape(kernel)[2:] if layout == "NCHW" else _shape(kernel)[:2]
        return _scheduled(target, out, [data, kernel], 2 * prod(_shape(out)) * prod(window))

    return depthwise


def winograd(target: Target, data: Tensor, kernel: Tensor, padding: Any, tile: int, dtype: str) -> Scheduled:
    """Create the task of a 3x3 convolution with Winograd's algorithm. The operations are counted as those of direct
    convolution."""
    filters, channels = _shape(kernel)[:2]
    transformed = te.placeholder((tile + 2, tile + 2, channels, filters), kernel.dtype, name="kernel")
    out = conv2d_winograd_nchw(data, transformed, padding, dtype, target=target)
    return _scheduled(target, out, [data, transformed], 2 * prod(_shape(out)) * channels * 9)


def _transposed(name: str) -> Callable[..., Scheduled]:
    def transposed(
        target: Target, data: Tensor, kernel: Tensor, strides: Any, padding: Any, dtype: str, output_padding: Any
    ) -> Scheduled:
        """Create the task of a transposed convolution. Operations on the zeros between the data do not count."""
        spatial = {3: "W", 4: "HW", 5: "DHW"}[len(data.shape)]
        out = conv_transpose(
            data,
            kernel,
            strides,
            padding,
            1,
            1,
            f"NC{spatial}",
            f"IO{spatial}",
            output_padding,
            dtype,
            name,
            target=target,
        )
        return _scheduled(target, out, [data, kernel], 2 * prod(_shape(data)) * prod(_shape(kernel)[1:]))

    return transposed


def dense(target: Target, data: Tensor, weight: Tensor, bias: Any, dtype: str) -> Scheduled:
    """Create the task of a matmul with constant weights whose last axis is the units."""
    units, features = _shape(weight)
    rhs = te.placeholder((features, units), weight.dtype, name="weight")
    out = matmul_compute(data, rhs, None, dtype, False, False, target=target)
    return _scheduled(target, out, [data, rhs], 2 * prod(_shape(out)) * features)


def matmul(
    target: Target, a: Tensor, b: Tensor, bias: Any, dtype: str, transpose_a: bool, transpose_b: bool
) -> Scheduled:
    """Create the task of a matmul of operands in the given layouts."""
    out = matmul_compute(a, b, None, dtype, transpose_a, transpose_b, target=target)
    return _scheduled(target, out, [a, b], 2 * prod(_shape(out)) * _shape(b)[1 if transpose_b else 0])


def batch_matmul(
    target: Target, a: Tensor, b: Tensor, shape: Any, dtype: str, transpose_a: bool = False, transpose_b: bool = True
) -> Scheduled:
    """Create the task of a batched matmul."""
    out = batch_matmul_compute(a, b, shape, dtype, transpose_a, transpose_b, target=target)
    return _scheduled(target, out, [a, b], 2 * prod(_shape(out)) * _shape(b)[2 if transpose_b else 1])


def _register(name: str, function: Callable[..., Scheduled]) -> None:
    """Register a task for AutoTVM, which calls it with the arguments of a record and the target of the task. The target
    must be a GPU."""

    def task(*args: Any, **named: Any) -> Scheduled:
        target = Target.current(allow_none=True)
        if target is None or not target.features.is_gpu:
            where = "no target is set" if target is None else f"the target is {str(target).strip()}"
            raise TVMError(
                f"{name}: this task needs a GPU target, but {where}; create it for a target such as cuda or opencl"
            )
        return function(target, *args, **named)

    register_customized(name, task)


for (_operator, _layout), _task in CONVOLUTIONS.items():
    _register(_task, _convolution(_task, _operator, _layout))
for _layout, _task in DEPTHWISE.items():
    _register(_task, _depthwise(_layout))
for _operator, _task in TRANSPOSED.items():
    _register(_task, _transposed(_operator))
_register(WINOGRAD, winograd)
for _task in ("dense_large_batch.gpu", "dense_small_batch.gpu"):
    _register(_task, dense)
_register("matmul_default.gpu", matmul)
_register("batch_matmul.cuda", batch_matmul)
