"""Dot product instructions of CPUs. They add the products of narrow elements, four int8 or two bfloat16, to each 32-bit
accumulator lane.

Each instruction is a table entry and a tensor intrinsic that multiplies one word of data elements with a block of
filters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from ... import te, tir
from ...dtype import info
from ...ir.prim import PrimExpr, Shuffle
from ...target import Target
from ...target.cpu import resolve_cpu
from ...te.tensor import ComputeOp, Tensor
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer

# The bytes of the elements whose products are added to one lane.
LANE_BYTES = 4
# The number of 32-bit words in 16 bytes, the unit within which instructions of all processors permute words.
WORDS = 4


class DotProduct(NamedTuple):
    """A dot product instruction: the architecture and the required feature, the types of data, weights and
    accumulators, its LLVM name, and whether its data operand is a lane of a vector. Other instructions need the same
    elements in every lane, which a broadcast load provides."""

    arch: str
    feature: str
    data: str
    weight: str
    lanes: int
    name: str
    takes_lane: bool = False

    @property
    def depth(self) -> int:
        """The number of products that are added to a lane."""
        return LANE_BYTES // info(self.data).bytes

    @property
    def sums(self) -> str:
        """The type of the accumulators."""
        return "float32" if self.data == "bfloat16" else "int32"


def _arm(arch: str) -> list[DotProduct]:
    names = (("dotprod", "int8", "int8", "sdot"), ("dotprod", "uint8", "uint8", "udot"),
             *((("i8mm", "uint8", "int8", "usdot"),) if arch == "aarch64" else ()),
             ("bf16", "bfloat16", "bfloat16", "bfdot"))  # fmt: skip
    return [DotProduct(arch, feature, x, w, 4, f"llvm.{arch}.neon.{name}", True) for feature, x, w, name in names]


def _x86(feature: str, types: tuple[str, str], name: str, *lanes: int) -> list[DotProduct]:
    return [DotProduct("x86", feature, *types, n, f"llvm.x86.{name}.{32 * n}") for n in lanes]


# The first instruction that matches the operand types is chosen. An LLVM name covers the encodings of AVX-512 and AVX.
INSTRUCTIONS = (
    *_arm("aarch64"),
    *_arm("arm"),
    *_x86("avx512vnni", ("uint8", "int8"), "avx512.vpdpbusd", 16, 8, 4),
    *_x86("avxvnni", ("uint8", "int8"), "avx512.vpdpbusd", 8, 4),
    *_x86("avx512bf16", ("bfloat16", "bfloat16"), "avx512bf16.dpbf16ps", 16, 8, 4),
)


def instructions(target: Target | None) -> list[DotProduct]:
    """Return the instructions of a target that are profitable."""
    if target is None or not target.features.has_llvm_intrinsics:
        return []
    if not target.features.has_integer_dot_product and not target.features.has_bfloat:
        return []
    cpu = resolve_cpu(target)
    return [i for i in INSTRUCTIONS if i.arch == cpu.arch and cpu.has(i.feature) and not cpu.is_slow(i.feature)]


def dot_product(target: Target | None, data: str, weight: str, filters: int = 0) -> DotProduct | None:
    """Return the target's instruction for data and weights of these types and a block of filters, or None."""
    return next(
        (i for i in instructions(target) if (i.data, i.weight) == (data, weight) and filters % i.lanes == 0), None
    )


def data_type(target: Target | None, data: str, weight: str) -> str | None:
    """Return the int8 type to which data is converted for dot products with weights of a type: its own type if there is
    an instruction for it. Return None if there is no instruction for any type."""
    found = [i.data for i in instructions(target) if i.weight == weight]
    return data if data in found else next(iter(found), None)


def lanes(target: Target | None, weight: str = "int8") -> int:
    """Return the number of accumulator lanes of the target's widest instruction for weights of a type, or 0."""
    return max((i.lanes for i in instructions(target) if i.weight == weight), default=0)


def with_instruction(out: Tensor, data: Tensor, weight: Tensor, target: Target, filters: int) -> Tensor:
    """Return a sum of products for blocks of filters, annotated with the target's instruction if there is one."""
    found = dot_product(target, data.dtype, weight.dtype, filters)
    if found is not None and found.sums == out.dtype:
        out.op.attrs["instruction"] = found
    return out


def _part(buffer: Buffer, *at: int, lanes: int) -> PrimExpr:
    return buffer.vload(list(at), f"{buffer.dtype}x{lanes}")


def _word(instruction: DotProduct, data: Buffer, block: int) -> PrimExpr:
    """Return the data elements that are multiplied at once, repeated for all lanes. An instruction with a lane operand
    selects them from their block, which is loaded once for all its words. For other instructions a broadcast load
    repeats them."""
    depth = instruction.depth
    if block == depth or not instruction.takes_lane:
        same: PrimExpr = tir.Broadcast(tir.reinterpret("int32", _part(data, 0, lanes=depth)), instruction.lanes)
    else:
        at = tir.indexdiv(tir.indexmod(data.elem_offset, block), depth)
        whole = data.vload([-depth * at], f"{data.dtype}x{block}")
        words = tir.reinterpret(f"int32x{block // depth}", whole)
        same = Shuffle((words,), (at,) * instruction.lanes)
    return tir.reinterpret(f"{data.dtype}x{depth * instruction.lanes}", same)


@functools.cache
def multiply(instruction: DotProduct, filters: int, block: int = LANE_BYTES) -> TensorIntrin:
    """Add the products of the elements of a lane with weights (filters, depth) to ``filters`` accumulators. The data is
    stored in blocks of ``block`` elements. For an instruction with a lane operand, the lane index must be a
    compile-time constant, so loops over lanes are unrolled."""
    width, depth, sums_in = instruction.lanes, instruction.depth, instruction.sums
    data = te.placeholder((depth,), instruction.data, name="data")
    weights = te.placeholder((filters, depth), instruction.weight, name="weights")
    k = te.reduce_axis((0, depth), name="k")

    def term(j):
        return te.sum(data[k].astype(sums_in) * weights[j, k].astype(sums_in), axis=k)

    out = te.compute((filters,), term, name="out")

    def body(ins, outs):
        x, w = ins
        (sums,) = outs
        start, step = [], []
        for j in range(0, filters, width):
            start.append(sums.vstore([j], tir.Broadcast(tir.const(0, sums_in), width)))
            operands = [_part(w, j, 0, lanes=depth * width), _word(instruction, x, block)]
            if instruction.data != instruction.weight:
                operands.reverse()  # The unsigned operand is the first.
            sum_of = f"{sums_in}x{width}"
            total = tir.call_llvm_pure_intrin(sum_of, instruction.name, _part(sums, j, lanes=width), *operands)
            step.append(sums.vstore([j], total))
        return tir.SeqStmt([*start, *step]), tir.SeqStmt(start), tir.SeqStmt(step)

    return _declared(instruction.name.split(".")[3], out.op, (data, weights, out), body)


@functools.cache
def multiply_unpacked(instruction: DotProduct, name: str, by_filter: bool) -> TensorIntrin:
    """Add the products of the elements of a lane with weights to the accumulators of one vector, without packing the
    weights. The weights are rows of a matrix with any row stride: a row contains the weights of one filter
    (``by_filter``), or one weight of every filter."""
    width, depth = instruction.lanes, instruction.depth
    shape = (width, depth) if by_filter else (depth, width)
    data = te.placeholder((depth,), instruction.data, name="data")
    weights = te.placeholder(shape, instruction.weight, name="weights")
    k = te.reduce_axis((0, depth), name="k")

    def term(j):
        weight = weights[j, k] if by_filter else weights[k, j]
        return te.sum(data[k].astype(instruction.sums) * weight.astype(instruction.sums), axis=k)

    out = te.compute((width,), term, name="out")

    def contiguous_weights(rows: Buffer) -> PrimExpr:
        """Return the weights with the elements of each filter contiguous, as the instruction expects them."""
        if by_filter:
            words = tuple(tir.reinterpret("int32", _part(rows, j, 0, lanes=depth)) for j in range(width))
            whole = Shuffle(words, tuple(tir.const(j, "int32") for j in range(width)))
            return tir.reinterpret(f"{rows.dtype}x{depth * width}", whole)
        parts = tuple(_part(rows, term, 0, lanes=width) for term in range(depth))
        if width == depth:
            words = tuple(tir.reinterpret("int32", part) for part in parts)
            whole = Shuffle(words, tuple(tir.const(term, "int32") for term in range(depth)))
            parts = (tir.reinterpret(f"{rows.dtype}x{depth * width}", whole),)
        order = (term * width + j for j in range(width) for term in range(depth))
        return Shuffle(parts, tuple(tir.const(at, "int32") for at in order))

    def body(ins, outs):
        x, rows = ins
        (sums,) = outs
        start = sums.vstore([0], tir.Broadcast(tir.const(0, instruction.sums), width))
        operands = [contiguous_weights(rows), _word(instruction, x, depth)]
        if instruction.data != instruction.weight:
            operands.reverse()  # The unsigned operand is the first.
        total = tir.call_llvm_pure_intrin(
            f"{instruction.sums}x{width}", instruction.name, _part(sums, 0, lanes=width), *operands
        )
        step = sums.vstore([0], total)
        return tir.SeqStmt([start, step]), start, step

    return _declared(name, out.op, (data, weights, out), body, {weights: [tir.Var("row", "int32"), 1]})


def _interleave(a: PrimExpr, b: PrimExpr, run: int, half: int) -> PrimExpr:
    """Interleave runs of words from two vectors, taken from the lower or the upper half of each group of four words.
    This is one instruction, because all processors permute words within groups of four."""
    count = info(a.dtype).lanes
    order = [
        four + 2 * half + start + word + side * count
        for four in range(0, count, WORDS)
        for start in range(0, 2, run)
        for side in (0, 1)
        for word in range(run)
    ]
    return Shuffle((a, b), tuple(tir.const(at, "int32") for at in order))


def _joined(vectors: list[PrimExpr]) -> PrimExpr:
    """Concatenate vectors into one."""
    while len(vectors) > 1:
        every = range(2 * info(vectors[0].dtype).lanes)
        vectors = [Shuffle(pair, tuple(tir.const(at, "int32") for at in every))
                   for pair in zip(vectors[::2], vectors[1::2])]  # fmt: skip
    return vectors[0]


def _words_by_filter(rows: Buffer, filters: int, depth: int) -> list[PrimExpr]:
    """Return the first words of all filters, the second words, and so on, from rows of four words. The 4x4 blocks are
    transposed all at once."""
    words = [tir.reinterpret(f"int32x{WORDS}", _part(rows, j, 0, lanes=WORDS * depth)) for j in range(filters)]
    a, b, c, d = (_joined(words[j::WORDS]) for j in range(WORDS))
    pairs = [(_interleave(a, b, 1, half), _interleave(c, d, 1, half)) for half in (0, 1)]
    return [_interleave(*pair, 2, half) for pair in pairs for half in (0, 1)]


@functools.cache
def multiply_rows(instruction: DotProduct, name: str) -> TensorIntrin:
    """Add the products of four words of data with weights to the accumulators of one vector. Each row of the weight
    matrix belongs to one filter. Rows are loaded whole and transposed in registers. All data rows in the same loop body
    share the transposed weights, which cost two instructions per vector; loading them word by word would take one
    instruction per word."""
    width, depth = instruction.lanes, instruction.depth
    data = te.placeholder((WORDS * depth,), instruction.data, name="data")
    weights = te.placeholder((width, WORDS * depth), instruction.weight, name="weights")
    k = te.reduce_axis((0, WORDS * depth), name="k")
    out = te.compute(
        (width,),
        lambda j: te.sum(data[k].astype(instruction.sums) * weights[j, k].astype(instruction.sums), axis=k),
        name="out",
    )

    def same(x: Buffer, word: int) -> PrimExpr:
        """Return one word of the data in all lanes."""
        if instruction.takes_lane:
            whole = tir.reinterpret(f"int32x{WORDS}", _part(x, 0, lanes=WORDS * depth))
            return Shuffle((whole,), (tir.const(word, "int32"),) * width)
        return tir.Broadcast(tir.reinterpret("int32", _part(x, word * depth, lanes=depth)), width)

    def body(ins, outs):
        x, rows = ins
        (sums,) = outs
        start = sums.vstore([0], tir.Broadcast(tir.const(0, instruction.sums), width))
        total = _part(sums, 0, lanes=width)
        for word, own in enumerate(_words_by_filter(rows, width, depth)):
            operands = [
                tir.reinterpret(f"{instruction.weight}x{depth * width}", own),
                tir.reinterpret(f"{instruction.data}x{depth * width}", same(x, word)),
            ]
            if instruction.data != instruction.weight:
                operands.reverse()  # The unsigned operand is the first.
            total = tir.call_llvm_pure_intrin(f"{instruction.sums}x{width}", instruction.name, total, *operands)
        step = sums.vstore([0], total)
        return tir.SeqStmt([start, step]), start, step

    return _declared(name, out.op, (data, weights, out), body, {weights: [tir.Var("row", "int32"), 1]})


def _declared(
    name: str,
    op: ComputeOp,
    tensors: tuple[Tensor, ...],
    body: Callable[..., Any],
    strides: dict[Tensor, list[Any]] | None = None,
) -> TensorIntrin:
    binds = {
        tensor: tir.decl_buffer(
            tensor.shape,
            tensor.dtype,
            tensor.op.name,
            offset_factor=1,
            data_alignment=1,
            strides=(strides or {}).get(tensor),
        )
        for tensor in tensors
    }
    return te.decl_tensor_intrin(op, body, name, binds=binds)


@functools.cache
def multiply_each(instruction: DotProduct, channels: int) -> TensorIntrin:
    """Add the products of the elements of a lane of each channel with the channel's own weights, both (channels,
    depth), to the channel's accumulator."""
    width, depth, sums_in = instruction.lanes, instruction.depth, instruction.sums
    data = te.placeholder((channels, depth), instruction.data, name="data")
    weights = te.placeholder((channels, depth), instruction.weight, name="weights")
    k = te.reduce_axis((0, depth), name="k")
    out = te.compute(
        (channels,), lambda j: te.sum(data[j, k].astype(sums_in) * weights[j, k].astype(sums_in), axis=k), "out"
    )

    def body(ins, outs):
        (sums,) = outs
        start, step = [], []
        for j in range(0, channels, width):
            start.append(sums.vstore([j], tir.Broadcast(tir.const(0, sums_in), width)))
            operands = [_part(buffer, j, 0, lanes=depth * width) for buffer in ins]
            total = tir.call_llvm_pure_intrin(
                f"{sums_in}x{width}", instruction.name, _part(sums, j, lanes=width), *operands
            )
            step.append(sums.vstore([j], total))
        return tir.SeqStmt([*start, *step]), tir.SeqStmt(start), tir.SeqStmt(step)

    return _declared("dot_each", out.op, (data, weights, out), body)


@functools.cache
def interleave_pixels(dtype: str, channels: int) -> TensorIntrin:
    """Transpose the int8 elements of four adjacent pixels (4, channels) to (channels, 4)."""
    fours = LANE_BYTES
    data = te.placeholder((fours, channels), dtype, name="data")
    out = te.compute((channels, fours), lambda j, k: data[k, j], "out")

    def picked(vector: PrimExpr, order: list[int]) -> PrimExpr:
        return Shuffle((vector,), tuple(tir.const(at, "int32") for at in order))

    def body(ins, outs):
        # First collect four channels of the four pixels in one 16-byte part, then permute the bytes within each part.
        # This takes two instructions; a full byte shuffle would take one for each part.
        words, parts = channels // fours, range(channels // fours)
        whole = tir.reinterpret(f"int32x{channels}", _part(ins[0], 0, 0, lanes=fours * channels))
        whole = picked(whole, [k * words + part for part in parts for k in range(fours)])
        whole = tir.reinterpret(f"{dtype}x{fours * channels}", whole)
        order = [16 * part + fours * k + j for part in parts for j in range(fours) for k in range(fours)]
        return outs[0].vstore([0, 0], picked(whole, order))

    return _declared("bring_together", out.op, (data, out), body)


__all__ = [
    "INSTRUCTIONS",
    "LANE_BYTES",
    "DotProduct",
    "data_type",
    "dot_product",
    "instructions",
    "interleave_pixels",
    "lanes",
    "multiply",
    "multiply_each",
    "multiply_rows",
    "multiply_unpacked",
    "with_instruction",
]
