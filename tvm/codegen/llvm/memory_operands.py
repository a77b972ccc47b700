"""Broadcast operands of FMA instructions: from memory on AVX-512, from a lane of a register on NEON.

LLVM folds a load into an instruction only if the load has no other use. It also combines addresses into forms with an
index register, for which the processor issues two micro-operations. Each use of an element therefore reads it through a
separate pointer that LLVM cannot identify with the others.
"""

from __future__ import annotations

from ...dtype import info
from ...ir.prim import BufferLoad, Var
from ..linear import linear_form, one_index
from .builder import Builder
from .memory import access_of, pointer_of, read, sum_of
from .value import splat

# An 8-bit compressed displacement reaches this many bytes below a pointer, and about as many above it.
_REACH = 512


class MemoryOperands:
    """The elements that are each broadcast to ``uses`` FMA instructions. One in ``uses`` elements is loaded by the FMA
    instructions themselves, which saves the broadcast instruction; with more of them, loads would become the
    bottleneck."""

    def __init__(self, uses: int):
        self.uses = uses
        self.block = ""
        # (buffer, variable part of the index) -> (constant part of the pointers, the pointers).
        self.pointers: dict[tuple[Var, str], tuple[int, list[str]]] = {}
        # (pointer, constant part of the index) -> [position of the element in the block, number of reads so far].
        self.reads: dict[tuple[str, int], list[int]] = {}

    def broadcast(self, b: Builder, node: BufferLoad, lanes: int) -> str | None:
        """Return the broadcast element for one use, or None if its address is constant."""
        if self.block != b.block:
            self.block, self.pointers, self.reads = b.block, {}, {}
        data, dtype = node.buffer.data, node.buffer.dtype
        access = access_of(b, one_index(node.buffer, node.indices))
        total, constant = (None, 0) if access.base is None else sum_of(b, access.base)
        if total is None:
            return None
        unit, size = b.types.element(dtype), info(dtype).bytes
        if (data, total) not in self.pointers:
            at = constant + _REACH // size
            place = b.op(f"getelementptr {unit}, ptr {pointer_of(b, data)}, {b.index} {total}")
            place = b.op(f"getelementptr {unit}, ptr {place}, {b.index} {at}")
            # The different constants prevent LLVM from merging the pointers. The assembly text is empty because LLVM
            # only parses assembly for the host.
            names = [b.effect(f'call ptr asm "", "=r,0,i"(ptr {place}, i32 {k})') for k in range(self.uses)]
            self.pointers[data, total] = at, names
        at, names = self.pointers[data, total]
        seen = self.reads.setdefault((names[0], constant), [len(self.reads), 0])
        name = names[0] if seen[0] % self.uses else names[seen[1] % self.uses]
        seen[1] += 1
        element = read(b, data, dtype, b.op(f"getelementptr {unit}, ptr {name}, {b.index} {constant - at}"), size)
        return splat(b, dtype, element, lanes)


class LaneOperands:
    """Elements in the same vector are loaded together; an FMA instruction reads its element as a lane of the
    register."""

    def __init__(self, lanes: int):
        self.lanes = lanes

    def broadcast(self, b: Builder, node: BufferLoad, lanes: int) -> str | None:
        """Return the broadcast element, or None if its lane is not constant or the vector may exceed the buffer."""
        data, dtype, last = node.buffer.data, node.buffer.dtype, linear_form(node.buffer.shape[-1])
        form = access_of(b, one_index(node.buffer, node.indices)).base
        if form is None or node.buffer.strides or any(n % self.lanes for n in (last.constant, *last.terms.values())):
            return None
        if any(scale % self.lanes for atom, scale in form.terms.items() if b.constants.get(atom) is None):
            return None
        total, constant = sum_of(b, form)
        first, lane = constant - constant % self.lanes, constant % self.lanes
        unit, kind, place = b.types.element(dtype), f"{dtype}x{self.lanes}", pointer_of(b, data)
        if total is not None:
            place = b.op(f"getelementptr {unit}, ptr {place}, {b.index} {total}")
        place = b.op(f"getelementptr {unit}, ptr {place}, {b.index} {first}")
        vector, text = read(b, data, kind, place, info(dtype).bytes), b.types[kind]
        return b.op(f"shufflevector {text} {vector}, {text} poison, <{lanes} x i32> splat (i32 {lane})")


__all__ = ["LaneOperands", "MemoryOperands"]
