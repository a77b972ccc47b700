"""Tensor intrinsics: a compute that says what a block of hardware or hand-written code does, and how to call it."""

from __future__ import annotations

from typing import Any

from ..error import ScheduleError
from ..ir.prim import PrimExpr, Range, Reduce, convert
from ..tir.buffer import Buffer, decl_buffer
from ..tir.stmt import Evaluate, Stmt
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor


class TensorIntrin:
    """``op`` is the meaning; ``body`` does all of it, or ``reduce_init`` and ``reduce_update`` do it in two parts."""

    def __init__(self, name: str, op: ComputeOp, inputs: list[Tensor], buffers: list[Buffer], body, reduce_init,
                 reduce_update, scalar_params=()):
        self.name = name
        self.op = op
        self.inputs = inputs
        self.buffers = buffers
        self.body: Stmt | None = body
        self.reduce_init: Stmt | None = reduce_init
        self.reduce_update: Stmt | None = reduce_update
        self.scalar_params = list(scalar_params)

    def __repr__(self) -> str:
        return f"TensorIntrin({self.name})"

    def __call__(self, *args, **kwargs):
        raise ScheduleError(
            f"tensor intrinsic {self.name}: it is used with stage.tensorize(axis, intrinsic), not called in a compute"
        )


def _get_region(slices) -> list[Range]:
    return [Range(s.start, s.stop) if isinstance(s, slice) else Range.from_min_extent(s, 1) for s in slices]


def _statement(value, name: str) -> Stmt | None:
    if value is None or isinstance(value, Stmt):
        return value
    value = convert(value)
    if isinstance(value, PrimExpr):
        return Evaluate(value)
    raise ValueError(f"tensor intrinsic {name}: a statement or a call is wanted, got {type(value).__name__}")


def decl_tensor_intrin(
    op: Operation, fcompute, name="tensor_intrin", binds=None, scalar_params=None, default_buffer_params=None
) -> TensorIntrin:
    """Declare an intrinsic. ``fcompute(inputs, outputs)`` gives a body, or (body, reset, update)."""
    if not isinstance(op, ComputeOp):
        raise TypeError(f"decl_tensor_intrin: the meaning is a compute operation, got {type(op).__name__}")
    inputs = _inputs(op)
    tensors = inputs + op.outputs
    defaults = dict(default_buffer_params or {})
    buffers = []
    for tensor in tensors:
        buffer = (binds or {}).get(tensor)
        if buffer is None:
            buffer = decl_buffer(tensor.shape, tensor.dtype, tensor.op.name, **{"data_alignment": 64, **defaults})
        buffers.append(buffer)
    for tensor in inputs:
        if not isinstance(tensor.op, PlaceholderOp):
            raise ValueError(f"tensor intrinsic {name}: input {tensor.name} must be a placeholder")
    ins, outs = buffers[: len(inputs)], buffers[len(inputs) :]
    got: Any = fcompute(ins, outs) if not scalar_params else fcompute(ins, outs, scalar_params)
    if not isinstance(got, (tuple, list)):
        got = (got,)
    if len(got) not in (1, 2, 3):
        raise ValueError(f"tensor intrinsic {name}: give body, or body, reset and update; got {len(got)} values")
    got = [_statement(g, name) for g in got] + [None] * (3 - len(got))
    return TensorIntrin(name, op, inputs, buffers, got[0], got[1], got[2], scalar_params or ())


def _inputs(op: ComputeOp) -> list[Tensor]:
    seen: dict[Tensor, None] = {}
    for body in op.body:
        for e in body.source if isinstance(body, Reduce) else (body,):
            from .tensor import tensors_in

            for t in tensors_in(e):
                seen[t] = None
    return list(seen)


__all__ = ["TensorIntrin", "decl_tensor_intrin"]
