"""LowerThreadAllreduce: a reduction over threads becomes a tree over shared memory.

Each thread writes its value into shared memory; in every round the lower half of the threads that are left combine
their value with one of the upper half. All threads read the result. Threads of other dimensions form groups that reduce
independently.
"""

from __future__ import annotations

from ...error import TVMError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, CommReducer, IntImm, IterVar, PrimExpr, StringImm, Var, const
from ..buffer import Buffer, decl_buffer
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, Evaluate, IfThenElse, LetStmt, Stmt, seq
from .statement import StmtRewriter, is_call

SCOPE = "reduce_scope"


class AllreduceLowerer(StmtRewriter):
    def __init__(self):
        self.threads: list[tuple[IterVar, PrimExpr]] = []
        self.buffers: list[Buffer] = []  # shared memory needed by the kernel being visited

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "thread_extent":
            return self.thread(node)
        if node.attr_key == SCOPE and isinstance(node.node, CommReducer):
            call = node.body.value if isinstance(node.body, Evaluate) else None
            if not is_call(call, "tir.tvm_thread_allreduce"):
                raise TVMError("reduce_scope must stand around one tvm_thread_allreduce")
            return self.reduction(node.node, call)
        return self.keep(node)

    def thread(self, node: AttrStmt) -> Stmt:
        known = any(axis.var is node.node.var for axis, _ in self.threads)
        if not known:
            self.threads.append((node.node, node.value))
        outermost = len(self.threads) == 1 and not known
        body = self.stmt(node.body)
        if not known:
            self.threads.pop()
        if outermost:
            for buffer in self.buffers:
                body = Allocate(buffer.data, buffer.dtype, buffer.shape, const(True, "bool"), body)
            self.buffers = []
        return node if body is node.body else node.replace(body=body)

    def extent(self, value: PrimExpr, tag: str) -> int:
        if not isinstance(value, IntImm):
            raise TVMError(f"a reduction over threads needs a constant number of them; {tag} has {value}")
        return value.value

    def reduction(self, combiner: CommReducer, call: Call) -> Stmt:
        count = int(call.args[0])
        values = list(call.args[1 : 1 + count])
        condition = call.args[1 + count]
        results = list(call.args[2 + count : 2 + 2 * count])
        reduced = {id(v) for v in call.args[2 + 2 * count :]}
        inner = [(a, self.extent(e, a.thread_tag)) for a, e in self.threads if id(a.var) in reduced]
        group = [
            (a, self.extent(e, a.thread_tag))
            for a, e in self.threads
            if id(a.var) not in reduced and a.thread_tag.startswith("threadIdx")
        ]
        place, width = flat_index(inner)
        row, rows = flat_index(group)
        shared = [
            decl_buffer((rows * width,), v.dtype, f"red_buf{i}", scope="shared") for i, v in enumerate(values)
        ]
        self.buffers.extend(shared)
        if not primop.is_literal(condition, 1):
            choose = Op.get("tir.if_then_else")
            pairs = zip(values, combiner.identity_element)
            values = [Call(v.dtype, choose, (condition, v, identity)) for v, identity in pairs]
        at = row * width + place
        steps: list[Stmt] = [BufferStore(b, v, (at,)) for b, v in zip(shared, values)]
        steps.append(barrier())
        left = width
        while left > 1:
            half = (left + 1) // 2
            steps.append(self.round(combiner, shared, place, at, half, left))
            steps.append(barrier())
            left = half
        outputs = [decl_buffer((1,), b.dtype, r.name, data=r) for b, r in zip(shared, results)]
        zero = (const(0, "int32"),)
        steps.extend(BufferStore(o, BufferLoad(b, (row * width,)), zero) for o, b in zip(outputs, shared))
        # The memory is free again only when every thread has read it.
        steps.append(barrier())
        return seq(*steps)

    def round(self, combiner: CommReducer, shared: list[Buffer], place, at, half: int, left: int) -> Stmt:
        mine = [BufferLoad(b, (at,)) for b in shared]
        other = [BufferLoad(b, (at + half,)) for b in shared]
        combined = combiner(tuple(mine), tuple(other))
        if len(shared) == 1:
            stores: Stmt = BufferStore(shared[0], combined[0], (at,))
        else:
            stores = self.together(shared, combined, at)
        return IfThenElse(place < left - half, stores)

    def together(self, shared: list[Buffer], combined, at) -> Stmt:
        """Several results that depend on each other: all are computed before any is stored."""
        names = [Var(f"{b.name}_new", b.dtype) for b in shared]
        body = seq(*[BufferStore(b, n, (at,)) for b, n in zip(shared, names)])
        for name, value in reversed(list(zip(names, combined))):
            body = LetStmt(name, value, body)
        return body


def barrier() -> Stmt:
    return Evaluate(Call("int32", Op.get("tir.tvm_storage_sync"), (StringImm("shared"),)))


def flat_index(threads: list[tuple[IterVar, int]]) -> tuple[PrimExpr, int]:
    """The number of a thread among these axes (x varies fastest) and how many there are."""
    index: PrimExpr = const(0, "int32")
    count = 1
    for axis, extent in sorted(threads, key=lambda t: t[0].thread_tag):
        index = index + primop.cast("int32", axis.var) * count
        count *= extent
    return index, count


def lower_thread_allreduce(func: PrimFunc) -> PrimFunc:
    return func.replace(body=AllreduceLowerer().stmt(func.body))
