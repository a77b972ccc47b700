"""Dot products of bytes: the instructions of CPUs that add four products of 8-bit integers to each 32-bit lane.

An instruction is a row of the table, and a tensor intrinsic: four elements times a block of filters.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from ... import te, tir
from ...ir.prim import PrimExpr, Shuffle
from ...target import Target
from ...target.cpu import resolve_cpu
from ...te.tensor import Tensor
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer

# Products that are added to a lane.
DEPTH = 4
ACCUMULATOR = "int32"
# Accumulators of an instruction, all of them of 128 bits.
LANES = 4


class DotProduct(NamedTuple):
    """An instruction: the architecture and the feature of processors that have it, the type of its operands, and its
    name in LLVM."""

    arch: str
    feature: str
    dtype: str
    name: str


INSTRUCTIONS = (
    DotProduct("aarch64", "dotprod", "int8", "llvm.aarch64.neon.sdot"),
    DotProduct("aarch64", "dotprod", "uint8", "llvm.aarch64.neon.udot"),
    DotProduct("arm", "dotprod", "int8", "llvm.arm.neon.sdot"),
    DotProduct("arm", "dotprod", "uint8", "llvm.arm.neon.udot"),
)


def dot_product(target: Target | None, dtype: str) -> DotProduct | None:
    """The instruction of a target for two operands of a type; None where it has none."""
    if target is None or not target.features.has_llvm_intrinsics:
        return None
    rows = [i for i in INSTRUCTIONS if i.dtype == dtype]
    if not rows or not target.features.has_integer_dot_product:
        return None
    cpu = resolve_cpu(target)
    return next((i for i in rows if i.arch == cpu.arch and cpu.has(i.feature)), None)


def with_instruction(out: Tensor, data: Tensor, weight: Tensor, target: Target) -> Tensor:
    """A sum of products of bytes, marked with the instruction that computes it where the target has one."""
    found = dot_product(target, data.dtype) if data.dtype == weight.dtype and out.dtype == ACCUMULATOR else None
    if found is not None:
        out.op.attrs["instruction"] = found
    return out


def _part(buffer: Buffer, *at: int, lanes: int) -> PrimExpr:
    return buffer.vload(list(at), f"{buffer.dtype}x{lanes}")


def _fours(data: Buffer, block: int) -> PrimExpr:
    """The four elements of the data, repeated for all lanes. They are picked from the block they lie in, which is
    loaded once for all of its fours: processors take a lane as an operand, and need another instruction to repeat it.
    """
    if block == DEPTH:
        same: PrimExpr = tir.Broadcast(tir.reinterpret("int32", _part(data, 0, lanes=DEPTH)), LANES)
    else:
        four = tir.indexdiv(tir.indexmod(data.elem_offset, block), DEPTH)
        whole = data.vload([-DEPTH * four], f"{data.dtype}x{block}")
        words = tir.reinterpret(f"int32x{block // DEPTH}", whole)
        same = Shuffle((words,), (four,) * LANES)
    return tir.reinterpret(f"{data.dtype}x{DEPTH * LANES}", same)


@functools.cache
def multiply(instruction: DotProduct, filters: int, block: int = DEPTH) -> TensorIntrin:
    """Add the products of four elements with weights (filters, 4) to ``filters`` accumulators. The data is stored in
    blocks of ``block`` elements; which four of a block it is must be known when code is written, so loops over them
    are unrolled."""
    dtype = instruction.dtype
    data = te.placeholder((DEPTH,), dtype, name="data")
    weights = te.placeholder((filters, DEPTH), dtype, name="weights")
    k = te.reduce_axis((0, DEPTH), name="k")

    def term(j):
        return te.sum(data[k].astype(ACCUMULATOR) * weights[j, k].astype(ACCUMULATOR), axis=k)

    out = te.compute((filters,), term, name="out")
    binds = {
        tensor: tir.decl_buffer(tensor.shape, tensor.dtype, tensor.op.name, offset_factor=1, data_alignment=1)
        for tensor in (data, weights, out)
    }

    def body(ins, outs):
        x, w = ins
        (sums,) = outs
        start, step = [], []
        for j in range(0, filters, LANES):
            start.append(sums.vstore([j], tir.Broadcast(tir.const(0, ACCUMULATOR), LANES)))
            operands = _part(sums, j, lanes=LANES), _part(w, j, 0, lanes=DEPTH * LANES), _fours(x, block)
            total = tir.call_llvm_pure_intrin(f"{ACCUMULATOR}x{LANES}", instruction.name, *operands)
            step.append(sums.vstore([j], total))
        return tir.SeqStmt([*start, *step]), tir.SeqStmt(start), tir.SeqStmt(step)

    return te.decl_tensor_intrin(out.op, body, instruction.name.split(".")[-1], binds=binds)


__all__ = ["DEPTH", "INSTRUCTIONS", "LANES", "DotProduct", "dot_product", "multiply", "with_instruction"]
