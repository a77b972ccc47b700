"""LowerWarpMemory: distribute memory of scope ``warp`` over the registers of the threads of a warp.

A thread stores only elements that it holds: an element at index ``width * m * y + m * thread + x`` with ``x < m``
becomes element ``m * y + x`` of its local memory. A load may read any element: a shuffle gets it from the thread that
holds it.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...arith.sums import integer_sum
from ...error import TVMError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, IntImm, IterVar, PrimExpr, Range, Var, const
from ...ir.type import PointerType
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, For, Stmt
from .statement import StmtRewriter, statements_in
from .tagged_memory import scope_of


class WarpLowerer(StmtRewriter):
    def __init__(self, warp_size: int, body: Stmt):
        self.warp_size = warp_size
        self.thread: IterVar | None = None
        self.width = warp_size
        self.analyzer = Analyzer()
        # The memory may be allocated outside the loop that binds its threads, so the loop is found first.
        for node in post_order(body):
            if isinstance(node, AttrStmt) and node.attr_key == "thread_extent":
                self.meet(node)
        self.factor: dict[Var, int] = {}  # Number of consecutive elements of one thread
        self.local: dict[Var, Var] = {}
        self.buffers: dict[Buffer, Buffer] = {}

    def meet(self, node: AttrStmt) -> None:
        var = node.node.var
        self.analyzer.bind(var, Range.from_min_extent(const(0, var.dtype), primop.cast(var.dtype, node.value)))
        if node.node.thread_tag == "threadIdx.x":
            self.thread = node.node
            known = node.value.value if isinstance(node.value, IntImm) else self.warp_size
            self.width = min(known, self.warp_size)

    def on_For(self, node: For) -> Stmt:
        self.analyzer.bind(node.loop_var, Range.from_min_extent(node.min, node.extent))
        return self.keep(node)

    def on_Allocate(self, node: Allocate) -> Stmt:
        if scope_of(node.buffer_var) != "warp":
            return self.keep(node)
        var = node.buffer_var
        if self.thread is None:
            raise TVMError(f"{var.name}: memory of scope 'warp' needs a loop bound to threadIdx.x")
        if self.warp_size <= 1:
            raise TVMError(f"{var.name}: the target has no warps; use scope 'shared' or 'local'")
        self.factor[var] = self.elements_per_thread(var, node.body)
        kind = var.type_annotation
        self.local[var] = Var(var.name, PointerType(kind.element_type, "local"))
        total = 1
        for extent in node.extents:
            if not isinstance(extent, IntImm):
                raise TVMError(f"{var.name}: memory of scope 'warp' needs a constant size, got {extent}")
            total *= extent.value
        group = self.width * self.factor[var]
        if total % group:
            raise TVMError(
                f"{var.name}: {total} elements cannot be divided evenly among the {self.width} threads of a warp"
            )
        size = const(total // self.width, "int32")
        return Allocate(self.local[var], node.dtype, (size,), node.condition, self.stmt(node.body), node.annotations)

    def elements_per_thread(self, var: Var, body: Stmt) -> int:
        """Return the coefficient of the thread index in the indices of stores, which must be the same in all stores."""
        found: set[int] = set()
        for n in post_order(body):
            if isinstance(n, BufferStore) and n.buffer.data is var:
                total = integer_sum(self.analyzer.simplify(n.indices[0]))
                found.add(abs(total.coefficient(self.thread.var)) if total is not None else 0)
        if len(found) != 1 or 0 in found:
            raise TVMError(
                f"{var.name}: each thread of a warp must store its own elements, at an index that contains threadIdx.x "
                "with a positive coefficient"
            )
        return found.pop()

    def buffer(self, buffer: Buffer) -> Buffer:
        got = self.buffers.get(buffer)
        if got is None:
            size = primop.floordiv(buffer.shape[0], const(self.width, buffer.shape[0].dtype))
            got = self.buffers[buffer] = buffer.replace(data=self.local[buffer.data], shape=(size,))
        return got

    def split(self, data: Var, index: PrimExpr) -> tuple[PrimExpr, PrimExpr]:
        """Return the index in the local memory of the holding thread, and the index of that thread."""
        factor = self.factor[data]
        group = factor * self.width
        row = primop.floordiv(index, group) * factor + primop.floormod(index, factor)
        lane = primop.floordiv(primop.floormod(index, group), factor)
        return self.analyzer.simplify(row), self.analyzer.simplify(lane)

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after) if self.local else node

    def after(self, node: Any):
        if type(node) is not BufferLoad or node.buffer.data not in self.local:
            return None
        row, lane = self.split(node.buffer.data, node.indices[0])
        if any(n is self.thread.var for n in post_order(row)):
            raise TVMError(
                f"{node.buffer.name}: the index in the memory of another thread must not depend on the reading thread"
            )
        load = BufferLoad(self.buffer(node.buffer), (row,))
        own = self.analyzer.simplify(primop.floormod(primop.cast(lane.dtype, self.thread.var), self.width))
        if self.analyzer.can_prove(primop.equal(lane, own)):
            return load
        mask = Call("uint32", Op.get("tir.tvm_warp_activemask"), ())
        sizes = (const(self.width, "int32"), const(self.warp_size, "int32"))
        return Call(load.dtype, Op.get("tir.tvm_warp_shuffle"), (mask, load, primop.cast("int32", lane), *sizes))

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        if node.buffer.data not in self.local:
            return new
        row, _ = self.split(node.buffer.data, new.indices[0])
        return BufferStore(self.buffer(node.buffer), new.value, (row,))


def warp_size_of(func: PrimFunc) -> int:
    target = func.attrs.get("target")
    attrs = getattr(target, "attrs", None) or {}
    return int(attrs.get("thread_warp_size", 1) or 1)


def lower_warp_memory(func: PrimFunc) -> PrimFunc:
    if not any(isinstance(n, Allocate) and scope_of(n.buffer_var) == "warp" for n in statements_in(func.body)):
        return func
    return func.replace(body=WarpLowerer(warp_size_of(func), func.body).stmt(func.body))
