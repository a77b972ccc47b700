"""InjectPTXAsyncCopy: make copies from global to shared memory asynchronous.

A store of 4, 8 or 16 aligned bytes that were loaded from global memory becomes ``ptx_cp_async``, which does not block
the thread. If the load has a condition and zero is stored otherwise, the copy has size zero where the condition is
false and fills the destination with zeros. Every barrier first waits for the copies of its thread, so that all threads
see the data after it. At the head of a loop with a prefetch distance of several iterations, the barrier waits only for
the copies of the current iteration.

The pass converts the copies of double buffering on every device that supports it (sm_80 and newer), and other copies if
``tir.use_async_copy`` is set.
"""

from __future__ import annotations

from typing import Any

from ...arith import Analyzer
from ...dtype import element, info
from ...ir.op import Op
from ...ir.prim import Broadcast, BufferLoad, Call, FloatImm, IntImm, PrimExpr, Ramp, Var, const
from ...ir.primop import logical_and
from ...ir.structural import structural_equal
from ...ir.visit import post_order
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, LetStmt, SeqStmt, Stmt, seq
from .inject_double_buffer import PREFETCH_DISTANCE
from .statement import StmtRewriter, int_value, is_call
from .tagged_memory import scope_of

_SIZES = (4, 8, 16)


class AsyncCopies(StmtRewriter):
    def __init__(self, everywhere: bool, body: Stmt):
        self.wanted = everywhere
        self.analyzer = Analyzer()
        self.made = 0
        self.reads: dict[Var, list[PrimExpr]] = {}
        for node in post_order(body):
            if isinstance(node, BufferLoad) and scope_of(node.buffer.data).startswith("shared"):
                self.reads.setdefault(node.buffer.data, []).append(node.indices[0])

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        before = self.wanted
        self.wanted = before or node.attr_key == "double_buffer_write"
        new = self.keep(node)
        self.wanted = before
        if node.attr_key == "double_buffer_write" and int_value(node.value) > 1:
            # Copies for a later iteration form a group that a later barrier waits for.
            return seq(Evaluate(Call("void", Op.get("tir.ptx_commit_group"), ())), new)
        return new

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        return (self.copy(node) if self.wanted else None) or node

    def copy(self, node: BufferStore) -> Stmt | None:
        """Return the asynchronous form of a store, or None if it has none."""
        load, condition = source_of(node.value)
        if load is None or not scope_of(node.buffer.data).startswith("shared"):
            return None
        if scope_of(load.buffer.data) != "global" or load.buffer.dtype != node.buffer.dtype:
            return None
        # A thread that reads its own element has no barrier before the load, so nothing would wait for the copy.
        if any(structural_equal(node.indices[0], index) for index in self.reads.get(node.buffer.data, ())):
            return None
        kind = info(node.value.dtype)
        size = kind.lanes * kind.bytes
        places = [self.place(index, kind.lanes) for index in (node.indices[0], load.indices[0])]
        if size not in _SIZES or info(node.buffer.dtype).lanes > 1 or None in places:
            return None
        self.made += 1
        args = [node.buffer.data, places[0], load.buffer.data, places[1], const(size, "int32")]
        if condition is not None:
            args.append(condition)
        return Evaluate(Call(element(node.value.dtype), Op.get("tir.ptx_cp_async"), tuple(args)))

    def place(self, index: PrimExpr, lanes: int) -> PrimExpr | None:
        """Return the index of the first of adjacent elements; it is a multiple of their number."""
        if lanes == 1:
            return index if info(index.dtype).lanes == 1 else None
        if not (isinstance(index, Ramp) and isinstance(index.stride, IntImm) and index.stride.value == 1):
            return None
        known = self.analyzer.modular_set(index.base)
        return index.base if known.coeff % lanes == 0 and known.base % lanes == 0 else None


class WaitInserter(StmtRewriter):
    """A rewriter that makes every barrier wait for the copies before it."""

    def __init__(self):
        self.heads: dict[int, int] = {}

    def on_For(self, node: For) -> Stmt:
        ahead = (node.annotations or {}).get(PREFETCH_DISTANCE)
        first = node.body
        while isinstance(first, (SeqStmt, AttrStmt, Allocate, LetStmt)):
            first = first.seq[0] if isinstance(first, SeqStmt) else first.body
        if ahead is not None:
            self.heads[id(first)] = ahead - 1
        return self.keep(node)

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        if not is_call(node.value, "tir.tvm_storage_sync"):
            return node
        commit = Call("void", Op.get("tir.ptx_commit_group"), ())
        wait = Call("void", Op.get("tir.ptx_wait_group"), (const(self.heads.get(id(node), 0), "int32"),))
        return seq(Evaluate(commit), Evaluate(wait), node)


def source_of(value: PrimExpr) -> tuple[BufferLoad | None, PrimExpr | None]:
    """Return the load whose value is stored unchanged, and its condition; zero is stored if the condition is false."""
    if isinstance(value, BufferLoad):
        return value, None
    if is_call(value, "tir.if_then_else"):
        condition, yes, no = value.args
        if is_zero(no) and info(condition.dtype).lanes == 1:
            load, further = source_of(yes)
            return load, condition if further is None else logical_and(condition, further)
    return None, None


def is_zero(value: PrimExpr) -> bool:
    if isinstance(value, Broadcast):
        value = value.value
    return isinstance(value, (IntImm, FloatImm)) and value.value == 0


def inject_ptx_async_copy(func: PrimFunc, config: Any = None) -> PrimFunc:
    target = func.attrs.get("target")
    if target is None or not target.features.has_async_copy:
        return func
    copies = AsyncCopies(bool(config), func.body)
    body = copies.stmt(func.body)
    return func.replace(body=WaitInserter().stmt(body)) if copies.made else func
