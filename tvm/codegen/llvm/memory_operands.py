"""Broadcasts as operands of products, which spread an element over the lanes themselves: from memory on AVX-512, from a
lane of a register on NEON.

LLVM makes a load the operand of an instruction only if nothing else uses it, and adds up addresses in ways that cost
such an instruction its advantage: with an index register it is issued as two. So each use of an element reads it
through a pointer of its own, of which LLVM does not know that it is the same as the others.
"""

from __future__ import annotations

from ...dtype import info
from ...ir.prim import BufferLoad, Var
from ..linear import linear_form, one_index
from .builder import Builder
from .memory import access_of, pointer_of, read, sum_of
from .value import splat

# Offsets of one byte reach so many bytes below a pointer, and about as many above it.
_REACH = 512


class MemoryOperands:
    """The elements of a block of instructions that are broadcast to ``uses`` products each. One of every ``uses`` is
    loaded by the products themselves, which saves its own instruction; more would make loads the bottleneck."""

    def __init__(self, uses: int):
        self.uses = uses
        self.block = ""
        # By buffer and the part of the index that is not known: the known part at which the pointers are, and they.
        self.pointers: dict[tuple[Var, str], tuple[int, list[str]]] = {}
        # By pointer and the known part of the index: the place of the element in the block, and how often it was read.
        self.reads: dict[tuple[str, int], list[int]] = {}

    def broadcast(self, b: Builder, node: BufferLoad, lanes: int) -> str | None:
        """The element over the lanes for one use; None where its address is a number."""
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
            # Numbers that differ keep LLVM from taking one of the results for another. The text is empty because
            # LLVM parses texts for the host alone.
            names = [b.effect(f'call ptr asm "", "=r,0,i"(ptr {place}, i32 {k})') for k in range(self.uses)]
            self.pointers[data, total] = at, names
        at, names = self.pointers[data, total]
        seen = self.reads.setdefault((names[0], constant), [len(self.reads), 0])
        name = names[0] if seen[0] % self.uses else names[seen[1] % self.uses]
        seen[1] += 1
        element = read(b, data, dtype, b.op(f"getelementptr {unit}, ptr {name}, {b.index} {constant - at}"), size)
        return splat(b, dtype, element, lanes)


class LaneOperands:
    """Elements that lie in one vector are loaded together, where each is the operand of a product by its lane."""

    def __init__(self, lanes: int):
        self.lanes = lanes

    def broadcast(self, b: Builder, node: BufferLoad, lanes: int) -> str | None:
        """The element over the lanes; None where its lane is not known, or the vector may reach beyond the buffer."""
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
