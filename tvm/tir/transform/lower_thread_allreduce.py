"""LowerThreadAllreduce: lower a reduction over threads to warp shuffles or to a tree reduction in shared memory.

Tree: each thread writes its value to shared memory; in every round the first half of the active threads combine their
value with one of the second half. All threads read the final value. The threads of other dimensions form groups that
reduce independently.

Shuffles are used on targets with warps if only threadIdx.x is reduced and its extent divides the warp size or is a
multiple of it. The threads of a warp exchange values. The values of several warps are stored in shared memory, and
every warp reduces them once more.
"""

from __future__ import annotations

from ...dtype import info
from ...error import TVMError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, CommReducer, IntImm, IterVar, PrimExpr, StringImm, Var, const
from ..buffer import Buffer, decl_buffer
from ..function import PrimFunc
from ..stmt import Allocate, AttrStmt, BufferStore, Evaluate, IfThenElse, LetStmt, Stmt, seq
from .lower_warp_memory import warp_size_of
from .statement import StmtRewriter, is_call

SCOPE = "reduce_scope"
ALL_LANES = 0xFFFFFFFF


class AllreduceLowerer(StmtRewriter):
    def __init__(self, warp_size: int = 1):
        self.warp_size = warp_size
        self.threads: list[tuple[IterVar, PrimExpr]] = []
        self.buffers: list[Buffer] = []  # Shared memory that the current kernel needs

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "thread_extent":
            return self.thread(node)
        if node.attr_key == SCOPE and isinstance(node.node, CommReducer):
            call = node.body.value if isinstance(node.body, Evaluate) else None
            if not is_call(call, "tir.tvm_thread_allreduce"):
                raise TVMError("reduce_scope must contain exactly one tvm_thread_allreduce")
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
            raise TVMError(f"a reduction over threads needs a constant extent; the extent of {tag} is {value}")
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
        if self.by_shuffles(inner, values):
            return self.shuffled(combiner, guarded(combiner, condition, values), results, place, width, row, rows)
        shared = [decl_buffer((rows * width,), v.dtype, f"red_buf{i}", scope="shared") for i, v in enumerate(values)]
        self.buffers.extend(shared)
        values = guarded(combiner, condition, values)
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
        # The memory may be reused only after every thread has read it.
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

    # Shuffles ----------------------------------------------------------------------------------------------------

    def by_shuffles(self, inner: list[tuple[IterVar, int]], values: list[PrimExpr]) -> bool:
        if self.warp_size <= 1 or [axis.thread_tag for axis, _ in inner] != ["threadIdx.x"]:
            return False
        width = inner[0][1]
        if any(info(v.dtype).lanes > 1 for v in values) or width == 1 or width > self.warp_size**2:
            return False
        return self.warp_size % width == 0 or width % self.warp_size == 0

    def shuffled(self, combiner: CommReducer, values, results, place, width: int, row, rows: int) -> Stmt:
        outputs = [decl_buffer((1,), v.dtype, r.name, data=r) for v, r in zip(values, results)]
        zero = (const(0, "int32"),)
        steps: list[Stmt] = [BufferStore(o, v, zero) for o, v in zip(outputs, values)]
        if width <= self.warp_size:
            return seq(*steps, *self.exchange(combiner, outputs, place, width))
        steps += self.exchange(combiner, outputs, place, self.warp_size)
        warps = width // self.warp_size
        lane = primop.floormod(place, self.warp_size)
        shared = [decl_buffer((rows * warps,), o.dtype, f"red_buf{i}", scope="shared") for i, o in enumerate(outputs)]
        self.buffers.extend(shared)
        at = row * warps + primop.floordiv(place, self.warp_size)
        stores = [BufferStore(b, BufferLoad(o, zero), (at,)) for b, o in zip(shared, outputs)]
        steps += [IfThenElse(primop.equal(lane, const(0, lane.dtype)), seq(*stores)), barrier()]
        # Every warp reads the values of all warps and reduces them.
        choose = Op.get("tir.if_then_else")
        for output, memory, identity in zip(outputs, shared, combiner.identity_element):
            found = BufferLoad(memory, (row * warps + lane,))
            steps.append(BufferStore(output, Call(found.dtype, choose, (lane < warps, found, identity)), zero))
        power = 1
        while power < warps:
            power *= 2
        # If there are fewer warps than threads in a warp, only the first threads have a value. All threads take part;
        # the others contribute the identity element.
        steps += self.exchange(combiner, outputs, place, self.warp_size, power)
        # The memory may be reused only after every warp has read it.
        return seq(*steps, barrier())

    def exchange(self, combiner: CommReducer, outputs: list[Buffer], place, width: int, count: int = 0) -> list[Stmt]:
        """Combine the values of ``width`` adjacent threads, of which the first ``count`` are valid; all threads get the
        final value."""
        count = count or width
        lane = primop.floormod(place, width)
        zero = (const(0, "int32"),)
        steps: list[Stmt] = []
        # Reductions of tuples may prefer the first of equal values, so all threads must combine in the same order.
        each_for_itself = len(outputs) == 1
        step = count // 2
        while step >= 1:
            mine = [BufferLoad(o, zero) for o in outputs]
            other = [Var(f"{o.name}_other", o.dtype) for o in outputs]
            combined = combiner(tuple(mine), tuple(other))
            body = self.together(outputs, combined, const(0, "int32"))
            if each_for_itself:
                partner = primop.bitwise_xor(lane, const(step, lane.dtype))
            else:
                partner = primop.floormod(lane + step, width)
            for name, load in reversed(list(zip(other, mine))):
                body = LetStmt(name, shuffle(load, partner, width, self.warp_size), body)
            steps.append(body)
            step //= 2
        if each_for_itself and count == width:
            return steps
        names = [Var(f"{o.name}_first", o.dtype) for o in outputs]
        body = seq(*[BufferStore(o, n, zero) for o, n in zip(outputs, names)])
        for name, output in reversed(list(zip(names, outputs))):
            load = BufferLoad(output, zero)
            body = LetStmt(name, shuffle(load, const(0, lane.dtype), width, self.warp_size), body)
        return [*steps, body]

    def together(self, shared: list[Buffer], combined, at) -> Stmt:
        """Compute several outputs that depend on each other before any of them is stored."""
        names = [Var(f"{b.name}_new", b.dtype) for b in shared]
        body = seq(*[BufferStore(b, n, (at,)) for b, n in zip(shared, names)])
        for name, value in reversed(list(zip(names, combined))):
            body = LetStmt(name, value, body)
        return body


def guarded(combiner: CommReducer, condition: PrimExpr, values: list[PrimExpr]) -> list[PrimExpr]:
    """Return the value of each active thread and the identity element for the other threads."""
    if primop.is_literal(condition, 1):
        return values
    choose = Op.get("tir.if_then_else")
    return [Call(v.dtype, choose, (condition, v, e)) for v, e in zip(values, combiner.identity_element)]


def shuffle(value: PrimExpr, lane: PrimExpr, width: int, warp_size: int) -> PrimExpr:
    sizes = (const(width, "int32"), const(warp_size, "int32"))
    mask = const(ALL_LANES, "uint32")
    return Call(value.dtype, Op.get("tir.tvm_warp_shuffle"), (mask, value, primop.cast("int32", lane), *sizes))


def barrier() -> Stmt:
    return Evaluate(Call("int32", Op.get("tir.tvm_storage_sync"), (StringImm("shared"),)))


def flat_index(threads: list[tuple[IterVar, int]]) -> tuple[PrimExpr, int]:
    """Return the flat index of a thread among these axes (x varies fastest) and the number of threads."""
    index: PrimExpr = const(0, "int32")
    count = 1
    for axis, extent in sorted(threads, key=lambda t: t[0].thread_tag):
        index = index + primop.cast("int32", axis.var) * count
        count *= extent
    return index, count


def lower_thread_allreduce(func: PrimFunc) -> PrimFunc:
    target = func.attrs.get("target")
    warps = warp_size_of(func) if target is not None and target.features.has_warp_shuffle else 1
    return func.replace(body=AllreduceLowerer(warps).stmt(func.body))
