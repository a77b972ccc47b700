"""2x2 matmul instructions of Arm CPUs. They multiply two rows with two columns and add the four results to the four
lanes of a vector, over eight int8 elements (``smmla`` and its variants) or four bfloat16 elements (``bfmmla``) of k.

They compute twice as many products as dot product instructions, but need both operands in pairs of rows, and their
accumulators have a layout of their own. A tensor intrinsic therefore covers a whole register tile over some steps of k.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ... import te, tir
from ...ir.prim import PrimExpr, Shuffle
from ...target import Target
from ...target.cpu import resolve_cpu
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer

# The rows, and columns, of an instruction.
PAIR = 2


class PairProduct(NamedTuple):
    """An instruction: the required processor feature, the types of the operands and accumulators, the elements of k,
    and its LLVM name."""

    feature: str
    lhs: str
    rhs: str
    sums: str
    depth: int
    name: str


INSTRUCTIONS = (
    PairProduct("i8mm", "int8", "int8", "int32", 8, "llvm.aarch64.neon.smmla"),
    PairProduct("i8mm", "uint8", "uint8", "int32", 8, "llvm.aarch64.neon.ummla"),
    PairProduct("i8mm", "uint8", "int8", "int32", 8, "llvm.aarch64.neon.usmmla"),
    PairProduct("bf16", "bfloat16", "bfloat16", "float32", 4, "llvm.aarch64.neon.bfmmla"),
)


def pair_product(target: Target | None, lhs: str, rhs: str) -> PairProduct | None:
    """Return the target's instruction for two operand types, or None."""
    if target is None or not target.features.is_cpu or not target.features.has_llvm_intrinsics:
        return None
    cpu = resolve_cpu(target)
    rows = (i for i in INSTRUCTIONS if cpu.arch == "aarch64" and cpu.has(i.feature))
    return next((i for i in rows if (i.lhs, i.rhs) == (lhs, rhs)), None)


def _buffer(tensor: Any, name: str) -> Buffer:
    """Return a buffer whose rows may have any stride; each row is contiguous."""
    shape = [int(d) for d in tensor.shape]
    strides = [te.var(f"{name}_stride")] + ([shape[-1]] if len(shape) == 3 else []) + [1]
    return tir.decl_buffer(shape, tensor.dtype, name, strides=strides, offset_factor=1, data_alignment=1)


def _lanes(*at: int) -> tuple[PrimExpr, ...]:
    return tuple(tir.const(i, "int32") for i in at)


@functools.cache
def multiply(instruction: PairProduct, m: int, n: int, steps: int) -> TensorIntrin:
    """Add the matmul of ``lhs`` (steps, m, depth) and ``rhs`` (steps, n, depth), reduced over steps and depth, to
    accumulators (m, n), which stay in registers meanwhile.

    Raises
    ------
    ValueError
        The number of rows or of columns is odd.
    """
    if m % PAIR or n % PAIR or min(m, n, steps) < 1:
        raise ValueError(f"{instruction.name}: rows and columns must come in pairs, got {m} and {n}")
    depth, dtype = instruction.depth, instruction.sums
    lhs = te.placeholder((steps, m, depth), instruction.lhs, name="lhs")
    rhs = te.placeholder((steps, n, depth), instruction.rhs, name="rhs")
    s, d = te.reduce_axis((0, steps), name="s"), te.reduce_axis((0, depth), name="d")
    out = te.compute(
        (m, n), lambda i, j: te.sum(lhs[s, i, d].astype(dtype) * rhs[s, j, d].astype(dtype), axis=[s, d]), name="out"
    )
    places = [(i, j) for i in range(0, m, PAIR) for j in range(0, n, PAIR)]

    def body(ins, outs, starts: bool):
        (x, y), (z,) = ins, outs
        ib = tir.ir_builder.create()
        held = ib.allocate(dtype, (m * n,), name="sums", scope="local")._buffer
        at = {place: 2 * PAIR * number for number, place in enumerate(places)}
        for i, j in places:
            first, second = (z.vload([i + row, j], f"{dtype}x{PAIR}") for row in range(PAIR))
            zero = tir.Broadcast(tir.const(0, dtype), 2 * PAIR)
            ib.emit(held.vstore([at[i, j]], zero if starts else Shuffle((first, second), _lanes(0, 1, 2, 3))))
        with ib.for_range(0, steps, name="step") as step:
            for i, j in places:
                a = x.vload([step, i, 0], f"{instruction.lhs}x{PAIR * depth}")
                b = y.vload([step, j, 0], f"{instruction.rhs}x{PAIR * depth}")
                sums = held.vload([at[i, j]], f"{dtype}x{2 * PAIR}")
                total = tir.call_llvm_pure_intrin(f"{dtype}x{2 * PAIR}", instruction.name, sums, a, b)
                ib.emit(held.vstore([at[i, j]], total))
        for i, j in places:
            sums = held.vload([at[i, j]], f"{dtype}x{2 * PAIR}")
            for row in range(PAIR):
                ib.emit(z.vstore([i + row, j], Shuffle((sums,), _lanes(PAIR * row, PAIR * row + 1))))
        return ib.get()

    def bodies(ins, outs):
        return body(ins, outs, True), None, body(ins, outs, False)

    binds = {tensor: _buffer(tensor, tensor.op.name) for tensor in (lhs, rhs, out)}
    return te.decl_tensor_intrin(out.op, bodies, instruction.name.rpartition(".")[2], binds=binds)


__all__ = ["INSTRUCTIONS", "PAIR", "PairProduct", "multiply", "pair_product"]
