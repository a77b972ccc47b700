"""SplitOddVectors: split a vector whose number of lanes is not a power of two into several vectors.

No register has such a size, and LLVM passes such a vector between basic blocks lane by lane: an accumulator of 48 lanes
fits in three registers as vectors of 32 and 16 lanes, but becomes 48 scalars otherwise.
"""

from __future__ import annotations

from typing import Any

from ...dtype import info, with_lanes
from ...ir import primop
from ...ir.prim import Broadcast, BufferLoad, Call, Cast, Not, PrimExpr, Ramp, Select, const
from ...ir.structural import structural_equal
from ...ir.visit import post_order
from ..function import PrimFunc
from ..stmt import BufferStore, Stmt, seq
from .statement import StmtRewriter, is_call
from .vectorize_loop import lanes_of, op_attribute


class NoSlice(Exception):
    """Raised if the lanes of a value cannot be computed separately."""


class Slice:
    """A slice of vector expressions with ``whole`` lanes: ``count`` lanes from lane ``first``."""

    def __init__(self, whole: int, first: int, count: int):
        self.whole, self.first, self.count = whole, first, count
        self.made: dict[int, tuple[PrimExpr, PrimExpr]] = {}

    def __call__(self, root: PrimExpr) -> PrimExpr:
        for node in post_order(root):
            if id(node) not in self.made and lanes_of(node) == self.whole:
                self.made[id(node)] = node, self.build(node)
        return self.of(root)

    def of(self, node: Any) -> Any:
        return self.made[id(node)][1] if id(node) in self.made else node

    def build(self, node: Any) -> PrimExpr:
        kind = type(node)
        if kind is Ramp:
            base = node.base + node.stride * const(self.first, node.stride.dtype) if self.first else node.base
            return base if self.count == 1 else Ramp(base, node.stride, self.count)
        if kind is Broadcast and lanes_of(node.value) == 1:
            return node.value if self.count == 1 else Broadcast(node.value, self.count)
        if kind is BufferLoad and info(node.buffer.dtype).lanes == 1:
            return BufferLoad(node.buffer, tuple(self.of(index) for index in node.indices))
        if kind in primop.BUILD:
            return kind(self.of(node.a), self.of(node.b))
        if kind in (Select, Not):
            return kind(*(self.of(child) for child in node.children()))
        if kind is Cast:
            return Cast(with_lanes(node.dtype, self.count), self.of(node.value))
        if kind is Call and (is_call(node, "tir.if_then_else") or op_attribute(node, "TVectorizable")):
            return Call(with_lanes(node.dtype, self.count), node.op, tuple(self.of(arg) for arg in node.args))
        raise NoSlice


def powers_of(lanes: int) -> list[int]:
    """Return the powers of two whose sum is a number, largest first."""
    return [1 << bit for bit in reversed(range(lanes.bit_length())) if lanes >> bit & 1]


def overlaps(store: BufferStore) -> bool:
    """Return whether the value reads other lanes of the memory that it is stored to."""
    return any(
        type(node) is BufferLoad
        and node.buffer.data is store.buffer.data
        and not all(structural_equal(a, b) for a, b in zip(node.indices, store.indices))
        for node in post_order(store.value)
    )


class OddVectors(StmtRewriter):
    def on_BufferStore(self, node: BufferStore) -> Stmt:
        lanes = lanes_of(node.value)
        if lanes & (lanes - 1) == 0 or info(node.buffer.dtype).lanes != 1 or overlaps(node):
            return node
        first, stores = 0, []
        try:
            for count in powers_of(lanes):
                part = Slice(lanes, first, count)
                stores.append(BufferStore(node.buffer, part(node.value), tuple(part(index) for index in node.indices)))
                first += count
        except NoSlice:
            return node
        return seq(*stores)


def split_odd_vectors(func: PrimFunc) -> PrimFunc:
    return func.replace(body=OddVectors().stmt(func.body))


__all__ = ["split_odd_vectors"]
