"""Broadcasts as operands in memory: AVX-512 multiplies by an element that it loads and spreads over the lanes itself.

LLVM makes a load the operand of an instruction only if nothing else uses it, and adds up addresses in ways that cost
such an instruction its advantage: with an index register it is issued as two. So each use of an element reads it
through a pointer of its own, of which LLVM does not know that it is the same as the others.
"""

from __future__ import annotations

from ...dtype import info
from ...ir.prim import BufferLoad, Var
from ..linear import one_index
from .builder import Builder
from .memory import access_of, pointer_of, read, sum_of

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

    def read(self, b: Builder, node: BufferLoad) -> str | None:
        """The element for one use; None where its address is a number."""
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
        return read(b, data, dtype, b.op(f"getelementptr {unit}, ptr {name}, {b.index} {constant - at}"), size)


__all__ = ["MemoryOperands"]
