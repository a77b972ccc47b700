"""Dot products of bytes: the instructions of CPUs that add four products of 8-bit integers to each 32-bit lane.

An instruction is a row of the table, and a tensor intrinsic: four elements times a block of filters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ... import te, tir
from ...ir.prim import PrimExpr, Shuffle
from ...target import Target
from ...target.cpu import resolve_cpu
from ...te.tensor import ComputeOp, Tensor
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer

# Products that are added to a lane.
DEPTH = 4
ACCUMULATOR = "int32"


class DotProduct(NamedTuple):
    """An instruction: the architecture and the feature of processors that have it, the types of the data and of the
    weights, its accumulators, its name in LLVM, and whether it takes the data as a lane of a vector. Others take four
    elements in every lane, which are loaded so."""

    arch: str
    feature: str
    data: str
    weight: str
    lanes: int
    name: str
    takes_lane: bool = False


def _arm(arch: str) -> list[DotProduct]:
    names = (("dotprod", "int8", "int8", "sdot"), ("dotprod", "uint8", "uint8", "udot"),
             *((("i8mm", "uint8", "int8", "usdot"),) if arch == "aarch64" else ()))  # fmt: skip
    return [DotProduct(arch, feature, x, w, 4, f"llvm.{arch}.neon.{name}", True) for feature, x, w, name in names]


def _x86(feature: str, *lanes: int) -> list[DotProduct]:
    # The same name of LLVM stands for the encodings of both features.
    return [DotProduct("x86", feature, "uint8", "int8", n, f"llvm.x86.avx512.vpdpbusd.{32 * n}") for n in lanes]


# Of instructions for the same operands the first that fits is taken.
INSTRUCTIONS = (*_arm("aarch64"), *_arm("arm"), *_x86("avx512vnni", 16, 8, 4), *_x86("avxvnni", 8, 4))


def instructions(target: Target | None) -> list[DotProduct]:
    """The instructions that a target has."""
    if target is None or not target.features.has_llvm_intrinsics or not target.features.has_integer_dot_product:
        return []
    cpu = resolve_cpu(target)
    return [i for i in INSTRUCTIONS if i.arch == cpu.arch and cpu.has(i.feature)]


def dot_product(target: Target | None, data: str, weight: str, filters: int = 0) -> DotProduct | None:
    """The instruction of a target for data and weights of these types and a block of filters; None where it has
    none."""
    return next(
        (i for i in instructions(target) if (i.data, i.weight) == (data, weight) and filters % i.lanes == 0), None
    )


def data_type(target: Target | None, data: str, weight: str) -> str | None:
    """The type of bytes that data is brought to for products with weights of a type: its own where there is an
    instruction for it; None where there is none for any."""
    found = [i.data for i in instructions(target) if i.weight == weight]
    return data if data in found else next(iter(found), None)


def lanes(target: Target) -> int:
    """The accumulators of the widest instruction that a target has; 0 where it has none."""
    return max((i.lanes for i in instructions(target)), default=0)


def with_instruction(out: Tensor, data: Tensor, weight: Tensor, target: Target, filters: int) -> Tensor:
    """A sum of products of bytes for blocks of filters, marked with the instruction that computes it where the target
    has one."""
    found = dot_product(target, data.dtype, weight.dtype, filters) if out.dtype == ACCUMULATOR else None
    if found is not None:
        out.op.attrs["instruction"] = found
    return out


def _part(buffer: Buffer, *at: int, lanes: int) -> PrimExpr:
    return buffer.vload(list(at), f"{buffer.dtype}x{lanes}")


def _fours(instruction: DotProduct, data: Buffer, block: int) -> PrimExpr:
    """The four elements of the data, repeated for all lanes. An instruction that takes a lane picks them from the block
    they lie in, which is loaded once for all of its fours; for others a load repeats them, which is an instruction only
    where a lane is to be repeated."""
    if block == DEPTH or not instruction.takes_lane:
        same: PrimExpr = tir.Broadcast(tir.reinterpret("int32", _part(data, 0, lanes=DEPTH)), instruction.lanes)
    else:
        four = tir.indexdiv(tir.indexmod(data.elem_offset, block), DEPTH)
        whole = data.vload([-DEPTH * four], f"{data.dtype}x{block}")
        words = tir.reinterpret(f"int32x{block // DEPTH}", whole)
        same = Shuffle((words,), (four,) * instruction.lanes)
    return tir.reinterpret(f"{data.dtype}x{DEPTH * instruction.lanes}", same)


@functools.cache
def multiply(instruction: DotProduct, filters: int, block: int = DEPTH) -> TensorIntrin:
    """Add the products of four elements with weights (filters, 4) to ``filters`` accumulators. The data is stored in
    blocks of ``block`` elements; for an instruction that takes a lane, which four of a block it is must be known when
    code is written, so loops over them are unrolled."""
    width = instruction.lanes
    data = te.placeholder((DEPTH,), instruction.data, name="data")
    weights = te.placeholder((filters, DEPTH), instruction.weight, name="weights")
    k = te.reduce_axis((0, DEPTH), name="k")

    def term(j):
        return te.sum(data[k].astype(ACCUMULATOR) * weights[j, k].astype(ACCUMULATOR), axis=k)

    out = te.compute((filters,), term, name="out")

    def body(ins, outs):
        x, w = ins
        (sums,) = outs
        start, step = [], []
        for j in range(0, filters, width):
            start.append(sums.vstore([j], tir.Broadcast(tir.const(0, ACCUMULATOR), width)))
            operands = [_part(w, j, 0, lanes=DEPTH * width), _fours(instruction, x, block)]
            if instruction.data != instruction.weight:
                operands.reverse()  # The unsigned operand is the first.
            sum_of = f"{ACCUMULATOR}x{width}"
            total = tir.call_llvm_pure_intrin(sum_of, instruction.name, _part(sums, j, lanes=width), *operands)
            step.append(sums.vstore([j], total))
        return tir.SeqStmt([*start, *step]), tir.SeqStmt(start), tir.SeqStmt(step)

    return _declared(instruction.name.split("neon.")[-1].split("avx512.")[-1], out.op, (data, weights, out), body)


def _declared(name: str, op: ComputeOp, tensors: tuple[Tensor, ...], body: Callable[..., Any]) -> TensorIntrin:
    binds = {
        tensor: tir.decl_buffer(tensor.shape, tensor.dtype, tensor.op.name, offset_factor=1, data_alignment=1)
        for tensor in tensors
    }
    return te.decl_tensor_intrin(op, body, name, binds=binds)


@functools.cache
def multiply_each(instruction: DotProduct, channels: int) -> TensorIntrin:
    """Add the products of four elements of each channel with its own weights, both (channels, 4), to its sum."""
    width = instruction.lanes
    data = te.placeholder((channels, DEPTH), instruction.data, name="data")
    weights = te.placeholder((channels, DEPTH), instruction.weight, name="weights")
    k = te.reduce_axis((0, DEPTH), name="k")
    out = te.compute(
        (channels,), lambda j: te.sum(data[j, k].astype(ACCUMULATOR) * weights[j, k].astype(ACCUMULATOR), axis=k), "out"
    )

    def body(ins, outs):
        (sums,) = outs
        start, step = [], []
        for j in range(0, channels, width):
            start.append(sums.vstore([j], tir.Broadcast(tir.const(0, ACCUMULATOR), width)))
            operands = [_part(buffer, j, 0, lanes=DEPTH * width) for buffer in ins]
            total = tir.call_llvm_pure_intrin(
                f"{ACCUMULATOR}x{width}", instruction.name, _part(sums, j, lanes=width), *operands
            )
            step.append(sums.vstore([j], total))
        return tir.SeqStmt([*start, *step]), tir.SeqStmt(start), tir.SeqStmt(step)

    return _declared("dot_each", out.op, (data, weights, out), body)


@functools.cache
def bring_together(dtype: str, channels: int) -> TensorIntrin:
    """Bytes of four neighbouring pixels (4, channels) as those of each channel (channels, 4)."""
    data = te.placeholder((DEPTH, channels), dtype, name="data")
    out = te.compute((channels, DEPTH), lambda j, k: data[k, j], "out")

    def picked(vector: PrimExpr, order: list[int]) -> PrimExpr:
        return Shuffle((vector,), tuple(tir.const(at, "int32") for at in order))

    def body(ins, outs):
        # Four channels of the four pixels come to one part of 16 bytes, in which bytes are then brought to their
        # places: two instructions, where a shuffle of all bytes would be as many as there are parts.
        words, parts = channels // DEPTH, range(channels // DEPTH)
        whole = tir.reinterpret(f"int32x{channels}", _part(ins[0], 0, 0, lanes=DEPTH * channels))
        whole = picked(whole, [k * words + part for part in parts for k in range(DEPTH)])
        whole = tir.reinterpret(f"{dtype}x{DEPTH * channels}", whole)
        order = [16 * part + DEPTH * k + j for part in parts for j in range(DEPTH) for k in range(DEPTH)]
        return outs[0].vstore([0, 0], picked(whole, order))

    return _declared("bring_together", out.op, (data, out), body)


__all__ = [
    "DEPTH", "INSTRUCTIONS", "DotProduct", "bring_together", "data_type", "dot_product", "instructions", "lanes",
    "multiply", "multiply_each", "with_instruction",
]
