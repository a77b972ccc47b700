"""Schedules of 8-bit convolutions and dense layers for processors without wide vectors.

The loops are the output pixels, then groups of filters. The patch of a pixel is copied once for all filters. A C
function computes the sums of a group of filters, and the epilogue stores them, so that no plane of 32-bit sums exists.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ... import te, tir
from ...target import Target
from ...te.schedule import Stage
from ...te.tensor import ComputeOp, Tensor
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer
from .. import access, nn
from ..template import CPUTemplate
from . import byte_functions
from .byte_functions import ByteKernels, byte_kernels

if TYPE_CHECKING:
    from ..schedule.cpu import Planner


def _for_target(out: Tensor, target: Target) -> Tensor:
    out.op.attrs["byte_kernels"] = byte_kernels(target)
    return out


def conv2d_NHWC_int8(*args: Any, target: Target) -> Tensor:
    """Return ``topi.nn.conv2d_NHWC_int8``, computed with the C functions of the target."""
    return _for_target(nn.conv2d_NHWC_int8(*args), target)


def depthwise_conv2d_NHWC_int8(*args: Any, target: Target) -> Tensor:
    """Return ``topi.nn.depthwise_conv2d_NHWC_int8``, computed with the C functions of the target."""
    return _for_target(nn.depthwise_conv2d_NHWC_int8(*args), target)


def dense_int8(data: Tensor, weight: Tensor, target: Target) -> Tensor:
    """Return ``topi.nn.dense_int8``, computed with the C functions of the target."""
    return _for_target(nn.dense_int8(data, weight), target)


def _call(function: byte_functions.Function, sums: Buffer, *args: Any) -> Any:
    """Return a statement that calls a C function and imports its definition."""
    call = tir.call_extern("int32", function.name, *args, tir.address_of(sums.vload([0], "int32")))
    statement: Any = tir.Evaluate(call)
    for text in (function.text, function.parts):
        if text:
            statement = tir.AttrStmt(sums.data, "pragma_import_c", tir.StringImm(text), statement)
    return statement


def _start(buffer: Buffer) -> Any:
    return tir.address_of(buffer.vload([0] * len(buffer.shape), buffer.dtype))


def _declare(name: str, out: Tensor, inputs: tuple[Tensor, ...], strides: dict[Tensor, list[Any]], body: Any) -> Any:
    binds = {
        t: tir.decl_buffer(t.shape, t.dtype, t.op.name, offset_factor=1, data_alignment=1, strides=strides.get(t))
        for t in (*inputs, out)
    }
    return te.decl_tensor_intrin(out.op, body, name, binds=binds)


@functools.cache
def dots(kernels: ByteKernels, dtype: str, blocks: int, filters: int, block: int) -> TensorIntrin:
    """Declare the dot products of a row of data with ``filters`` filters."""
    function = byte_functions.dots(kernels, filters, block, dtype)
    data = te.placeholder((blocks * block,), dtype, name="data")
    weights = te.placeholder((blocks, 1, filters, block), "int8", name="weights")
    outer, inner = te.reduce_axis((0, blocks), name="block"), te.reduce_axis((0, block), name="term")

    def term(j: Any) -> Any:
        x = data[outer * block + inner]
        return te.sum(x.astype("int32") * weights[outer, 0, j, inner].astype("int32"), axis=[outer, inner])

    out = te.compute((filters,), term, name="sums")

    def body(ins: Any, outs: Any) -> Any:
        return _call(function, outs[0], _start(ins[0]), _start(ins[1]), tir.const(blocks, "int32"))

    return _declare(function.name, out, (data, weights), {}, body)


@functools.cache
def taps(kernels: ByteKernels, dtype: str, count: int, filters: int) -> TensorIntrin:
    """Declare the sums over the taps of a window for ``filters`` channels."""
    function = byte_functions.taps(kernels, filters, dtype)
    data = te.placeholder((count, filters), dtype, name="data")
    weights = te.placeholder((count, filters), "int8", name="weights")
    tap = te.reduce_axis((0, count), name="tap")
    out = te.compute(
        (filters,),
        lambda j: te.sum(data[tap, j].astype("int32") * weights[tap, j].astype("int32"), axis=[tap]),
        name="sums",
    )
    stride = tir.Var("stride", "int32")

    def body(ins: Any, outs: Any) -> Any:
        return _call(function, outs[0], _start(ins[0]), stride, _start(ins[1]), tir.const(count, "int32"))

    return _declare(function.name, out, (data, weights), {data: [stride, 1]}, body)


class ByteWindows(CPUTemplate):
    """An 8-bit convolution in NHWC or a dense layer."""

    tags = ("byte_dots", "byte_taps")

    def applies(self, op: ComputeOp) -> bool:
        """Return whether the target has C functions for it."""
        return op.attrs.get("byte_kernels") is not None

    def space(self, op: ComputeOp, machine: Any) -> dict[str, list[Any]]:
        """Return no knobs."""
        return {}

    def choose(self, op: ComputeOp, machine: Any) -> dict[str, Any]:
        """Return the only configuration."""
        return {}

    def apply(self, planner: Planner, stage: Stage, host: Stage, config: dict[str, Any]) -> None:
        """Compute the sums of a group of filters inside the loops of ``host``, which stores the output."""
        op = stage.op
        data, weight = op.input_tensors
        shape = [int(d) for d in weight.shape]
        kernels = op.attrs["byte_kernels"]
        if op.tag == "byte_dots":
            filters = shape[3]
            intrinsic = dots(kernels, data.dtype, shape[1], filters, shape[4])
        else:
            filters = shape[2]
            intrinsic = taps(kernels, data.dtype, shape[1], filters)
        *pixels, channel = host.op.axis
        group, _ = host.split(channel, factor=filters)
        stage.compute_at(host, group)
        stage.set_scope("local")
        stage.tensorize(stage.op.axis[-1], intrinsic)
        patch = planner.s[data.op] if isinstance(data.op, ComputeOp) and "patch" in (data.op.tag or "") else None
        if patch is not None:
            planner.placed.add(patch)
            _place(patch, host, pixels)
        if len(pixels) > 1 and access.work(op) >= planner.parallel_points:
            host.parallel(pixels[0] if (access.extent_of(pixels[0]) or 2) > 1 else pixels[1])


def _place(patch: Stage, host: Stage, pixels: list[Any]) -> None:
    """Copy the patch of a pixel before the loops over filters, one tap at a time."""
    if pixels:
        patch.compute_at(host, pixels[-1])
    run, columns = (patch.op.attrs.get(name) for name in ("run", "columns"))
    tap = patch.op.axis[3] if len(patch.op.axis) == 5 else None
    if run is not None:
        tap, _ = patch.split(patch.op.axis[-1], factor=run)
    if columns is not None and patch.op.attrs["is_whole"]:
        patch.split(tap, factor=columns)


TEMPLATE = ByteWindows()

__all__ = ["TEMPLATE", "conv2d_NHWC_int8", "dense_int8", "depthwise_conv2d_NHWC_int8"]
