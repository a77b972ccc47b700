"""VectorizeLoop: replace a loop marked VECTORIZED by vector operations.

The loop variable becomes a ramp. Values that do not depend on it stay scalar until they are combined with a vector. A
statement without a vector form becomes a serial loop over the lanes: a condition that differs between lanes, a call
with effects, or a store of all lanes to the same element. The statements around it stay vectorized.
"""

from __future__ import annotations

from typing import Any

from ...arith.sums import integer_sum, written
from ...dtype import info, with_lanes
from ...error import TVMError
from ...ir import primop
from ...ir.node import Node
from ...ir.prim import (
    LT,
    Add,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    IntImm,
    Let,
    Mul,
    Not,
    PrimExpr,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
    const,
)
from ...ir.subst import substitute, uses_var
from ...ir.visit import post_order, rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
)
from .loop_partition import conjuncts
from .statement import StmtRewriter, has_effect, int_value, is_call


class NoVectorForm(Exception):
    """Raised in an expression that must be computed lane by lane."""


def lanes_of(e: PrimExpr) -> int:
    return info(e.dtype).lanes


def widened(e: PrimExpr, lanes: int) -> PrimExpr:
    """Return ``e`` with a number of lanes; a scalar or a broadcast vector is broadcast."""
    have = lanes_of(e)
    if have == lanes:
        return e
    if have == 1:
        return Broadcast(e, lanes)
    if type(e) is Broadcast and lanes % have == 0 and lanes_of(e.value) == 1:
        return Broadcast(e.value, lanes)
    raise NoVectorForm


class LaneMemory(StmtRewriter):
    """A rewriter for memory allocated inside a vectorized loop: each lane gets its own element."""

    def __init__(self, var: Var, lanes: int):
        self.var = var
        self.lanes = lanes
        self.inside: dict[Var, bool] = {}
        self.buffers: dict[Buffer, Buffer] = {}
        self.memo: dict = {}

    def on_Allocate(self, node: Allocate) -> Stmt:
        self.inside[node.buffer_var] = True
        extents = (*node.extents[:-1], node.extents[-1] * self.lanes)
        return Allocate(node.buffer_var, node.dtype, extents, node.condition, self.stmt(node.body), node.annotations)

    def expr(self, node: Any) -> Any:
        return rewrite(node, self.after, None, self.memo) if self.inside else node

    def buffer(self, buffer: Buffer) -> Buffer:
        got = self.buffers.get(buffer)
        if got is None:
            shape = (*buffer.shape[:-1], buffer.shape[-1] * self.lanes)
            got = self.buffers[buffer] = buffer.replace(shape=shape)
        return got

    def place(self, index: PrimExpr) -> PrimExpr:
        return index * self.lanes + primop.cast(index.dtype, self.var)

    def after(self, node: Any):
        if type(node) is BufferLoad and node.buffer.data in self.inside:
            return BufferLoad(self.buffer(node.buffer), (*node.indices[:-1], self.place(node.indices[-1])))
        if is_call(node, "tir.tvm_access_ptr") and node.args[1] in self.inside:
            raise TVMError(
                f"vectorize: {node.args[1].name} is allocated inside the vectorized loop {self.var.name} and its "
                "address is used, but its lanes are interleaved, so that no pointer to one lane exists; move the "
                "allocation out of the loop"
            )
        return None

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        if node.buffer.data not in self.inside:
            return new
        return BufferStore(self.buffer(node.buffer), new.value, (*new.indices[:-1], self.place(new.indices[-1])))


class Vectorizer(StmtRewriter):
    """A rewriter of the body of a vectorized loop over ``var`` in [low, low + lanes)."""

    def __init__(self, var: Var, low: PrimExpr, lanes: int, is_open: bool = False):
        self.var = var
        self.lanes = lanes
        self.is_open = is_open
        self.ramp = Ramp(low, const(1, var.dtype), lanes)
        self.low = low
        self.lets: dict[Var, Var] = {}  # Scalar let variables that became vectors
        self.let_values: list[tuple[Var, PrimExpr]] = []
        self.memo: dict = {}

    # Statements -----------------------------------------------------------------------------------------------
    def stmt(self, node: Stmt) -> Stmt:
        try:
            return StmtRewriter.stmt(self, node)
        except NoVectorForm:
            return self.lane_by_lane(node)

    def lane_by_lane(self, node: Stmt, kind: ForKind = ForKind.SERIAL) -> Stmt:
        lane = self.var.copy_with_suffix("_s")
        for var, value in reversed(self.let_values):
            node = LetStmt(var, value, node)
        return For(lane, self.low, self.lanes, kind, substitute(node, {self.var: lane}))

    def varies(self, node: Node) -> bool:
        """Return whether the value differs between lanes."""
        return any(n is self.var or (isinstance(n, Var) and n in self.lets) for n in post_order(node))

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        value = self.expr(node.value)
        indices = tuple(self.expr(i) for i in node.indices)
        lanes = max(lanes_of(i) for i in indices) if indices else 1
        if all(a is b for a, b in zip(indices, node.indices)):
            # All lanes store to the same element: an update must add the value of each lane, otherwise the last value
            # remains.
            if value is not node.value or reads(value, node.buffer.data) or has_effect(value):
                raise NoVectorForm
            return node
        if len([i for i in indices if lanes_of(i) > 1]) > 1:
            raise NoVectorForm
        return BufferStore(node.buffer, widened(value, lanes * info(node.buffer.dtype).lanes), indices)

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        if not self.varies(node.condition):
            return self.keep(node)
        if node.else_case is None and not self.let_values:
            parts = conjuncts(node.condition)
            varying = [c for c in parts if self.varies(c)]
            limit = self.lanes_below(varying[0]) if len(varying) == 1 else None
            if limit is not None:
                return self.guarded([c for c in parts if c is not varying[0]], varying[0], limit, node.then_case)
        raise NoVectorForm

    def guarded(self, shared: list[PrimExpr], bound: PrimExpr, limit: int | PrimExpr, body: Stmt) -> Stmt:
        """Return ``body`` for the lanes below a bound, under conditions that are the same for all lanes."""
        if isinstance(limit, int):
            made = self.first_lanes(body, limit)
        else:
            # In nearly all cases all lanes are below a bound that is marked likely. The other case is unrolled, because
            # memory with an index that is unknown at compile time cannot stay in registers.
            made = IfThenElse(limit, self.stmt(body), self.incomplete_vector(bound, body))
        for condition in reversed(shared):
            made = IfThenElse(condition, made)
        return made

    def lanes_below(self, condition: PrimExpr) -> int | PrimExpr | None:
        """Return the number of lanes for which ``likely(x + lane < y)`` is true, if it is constant; else the condition
        of the last lane, which implies those of all other lanes. Return None for other conditions."""
        if not is_call(condition, "tir.likely") or not isinstance(condition.args[0], LT):
            return None
        low = int_value(self.low)
        got = integer_sum(condition.args[0].b - condition.args[0].a)
        if low is None or got is None:
            return None
        rest = got.without(self.var)
        if got.coefficient(self.var) != -1 or any(self.varies(n) for n in rest.terms):
            return None
        if rest.terms:
            if not isinstance(condition.args[0].b, IntImm):
                # LoopPartition has already split loops with dynamic bounds; other loops are handled here.
                return None
            return substitute(condition, {self.var: const(low + self.lanes - 1, self.var.dtype)})
        return max(min(got.constant - low, self.lanes), 0)

    def incomplete_vector(self, bound: PrimExpr, body: Stmt) -> Stmt:
        """Return ``body`` for the last, incomplete vector. If vectors start at multiples of their length, its number of
        lanes is constant or zero. In kernels with dynamic shapes, which contain a tile for each size class, it becomes
        a shorter vector, because code per lane would be most of the kernel."""
        left, low = integer_sum(bound.args[0].b - bound.args[0].a), int_value(self.low)
        assert left is not None and low is not None, "lanes_below() was asked"
        left = left.without(self.var)
        if not self.is_open or any(step % self.lanes for step in left.terms.values()):
            return self.lane_by_lane(IfThenElse(bound, body), ForKind.UNROLLED)
        count = (left.constant - low) % self.lanes
        return IfThenElse(substitute(bound, {self.var: self.low}), self.first_lanes(body, count))

    def first_lanes(self, body: Stmt, count: int) -> Stmt:
        if count == 0:
            return Evaluate(const(0))
        if count == 1:
            return substitute(body, {self.var: self.low})
        return Vectorizer(self.var, self.low, count, self.is_open).stmt(body)

    def on_For(self, node: For) -> Stmt:
        if self.varies(node.min) or self.varies(node.extent):
            raise NoVectorForm
        return self.keep(node)

    def on_While(self, node: While) -> Stmt:
        if self.varies(node.condition):
            raise NoVectorForm
        return self.keep(node)

    def on_AssertStmt(self, node: AssertStmt) -> Stmt:
        if self.varies(node.condition):
            raise NoVectorForm
        return self.keep(node)

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if self.varies(node.value):
            raise NoVectorForm
        return self.keep(node)

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.expr(node.value)
        if lanes_of(value) == lanes_of(node.value):
            body = self.stmt(node.body)
            return node if value is node.value and body is node.body else LetStmt(node.var, value, body)
        if lanes_of(node.value) != 1:
            raise NoVectorForm
        vector = Var(node.var.name, value.dtype)
        self.lets[node.var] = vector
        self.let_values.append((node.var, node.value))
        body = self.stmt(node.body)
        self.let_values.pop()
        return LetStmt(vector, value, body)

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        # The side effect must happen once per lane.
        if has_effect(node.value) or self.expr(node.value) is not node.value:
            raise NoVectorForm
        return node

    # Expressions ----------------------------------------------------------------------------------------------
    def expr(self, root: Any) -> Any:
        """Rewrite the operands before the node, without recursion. A node is built from all its new operands at once,
        because operands with different numbers of lanes do not fit the original node."""
        memo = self.memo
        stack: list[tuple[Any, int]] = [(root, 0)]
        while stack:
            node, state = stack.pop()
            key = id(node)
            if state == 0:
                if key in memo:
                    continue
                stack.append((node, 1))
                if type(node) is Let:
                    stack.append((node.body, 0))
                    stack.append((node, 2))
                    stack.append((node.value, 0))
                else:
                    stack.extend((child, 0) for child in node.children() if id(child) not in memo)
            elif state == 1:
                memo[key] = (node, self.build(node))
            elif lanes_of(self.new(node.value)) != lanes_of(node.value):
                self.lets[node.var] = Var(node.var.name, self.new(node.value).dtype)
        return memo[id(root)][1]

    def new(self, node: Any) -> Any:
        return self.memo[id(node)][1]

    def build(self, node: Any) -> Any:
        kind = type(node)
        if node is self.var:
            return self.ramp
        if isinstance(node, Var):
            return self.lets.get(node, node)
        if all(self.new(child) is child for child in node.children()):
            return node
        if kind in (Add, Sub, Mul) and info(node.dtype).code in ("int", "uint"):
            got = self.linear(node)
            if got is not None:
                return got
        if kind in primop.BUILD:
            return self.pair(node)
        handler = EXPRESSIONS.get(kind)
        return node.map_children(self.new) if handler is None else handler(self, node)

    def linear(self, node: PrimExpr) -> PrimExpr | None:
        """Return a ramp for a sum in which only the loop variable differs between lanes."""
        total = integer_sum(node)
        if total is None:
            return None
        step = total.coefficient(self.var)
        rest = total.without(self.var)
        if not step or any(self.new(atom) is not atom for atom in rest.terms):
            return None
        base = written(rest, node.dtype)
        if int_value(self.low) != 0:
            base = base + self.low * step
        return Ramp(base, const(step, node.dtype), self.lanes)

    def vector_node(self, node: PrimExpr) -> PrimExpr:
        raise NoVectorForm

    def ramp_node(self, node: Ramp) -> PrimExpr:
        """Merge ramps that continue each other from lane to lane into one ramp."""
        base, step = self.new(node.base), int_value(node.stride)
        if type(base) is Ramp and self.new(node.stride) is node.stride and step is not None:
            if int_value(base.stride) == step * node.lanes:
                return Ramp(base.base, node.stride, node.lanes * base.lanes)
        raise NoVectorForm

    def pair(self, node: PrimExpr) -> PrimExpr:
        a, b = self.new(node.a), self.new(node.b)
        kind: Any = type(node)
        if lanes_of(a) == 1 and lanes_of(b) == 1:
            return kind(a, b)
        if kind in (Add, Sub, Mul):
            got = ramp_arithmetic(kind, a, b)
            if got is not None:
                return got
        lanes = max(lanes_of(a), lanes_of(b))
        return kind(widened(a, lanes), widened(b, lanes))

    def cast_(self, node: Cast) -> PrimExpr:
        value = self.new(node.value)
        if type(value) is Ramp and info(node.dtype).is_int and info(node.dtype).bits >= info(value.dtype).bits:
            return Ramp(primop.cast(node.dtype, value.base), primop.cast(node.dtype, value.stride), value.lanes)
        return Cast(with_lanes(node.dtype, lanes_of(value)), value)

    def not_(self, node: Not) -> PrimExpr:
        return Not(self.new(node.a))

    def select(self, node: Select) -> PrimExpr:
        parts = [self.new(c) for c in node.children()]
        if lanes_of(node.true_value) > 1 and parts[0] is not node.condition and lanes_of(node.condition) == 1:
            raise NoVectorForm
        lanes = max(lanes_of(p) for p in parts)
        return Select(*[widened(p, lanes) for p in parts])

    def load(self, node: BufferLoad) -> PrimExpr:
        indices = tuple(self.new(i) for i in node.indices)
        if len([i for i in indices if lanes_of(i) > 1]) > 1:
            raise NoVectorForm
        return BufferLoad(node.buffer, indices)

    def let(self, node: Let) -> PrimExpr:
        return Let(self.lets.get(node.var, node.var), self.new(node.value), self.new(node.body))

    def call(self, node: Call) -> PrimExpr:
        if is_call(node, "tir.if_then_else"):
            return self.conditional(node)
        args = [self.new(a) for a in node.args]
        if all(lanes_of(a) == lanes_of(b) for a, b in zip(args, node.args)):
            return Call(node.dtype, node.op, tuple(args))
        if not op_attribute(node, "TVectorizable"):
            raise NoVectorForm
        lanes = max(lanes_of(a) for a in args)
        return Call(with_lanes(node.dtype, lanes), node.op, tuple(widened(a, lanes) for a in args))

    def conditional(self, node: Call) -> PrimExpr:
        condition, yes, no = (self.new(a) for a in node.args)
        if lanes_of(condition) > 1:
            if lanes_of(node.args[1]) > 1:
                raise NoVectorForm
            if not (safe_to_evaluate(node.args[1]) and safe_to_evaluate(node.args[2])):
                raise NoVectorForm
            lanes = lanes_of(condition)
            return Select(condition, widened(yes, lanes), widened(no, lanes))
        lanes = max(lanes_of(yes), lanes_of(no))
        return Call(with_lanes(node.dtype, lanes), node.op, (condition, widened(yes, lanes), widened(no, lanes)))


EXPRESSIONS = {
    Ramp: Vectorizer.ramp_node,
    Broadcast: Vectorizer.vector_node,
    Shuffle: Vectorizer.vector_node,
    Cast: Vectorizer.cast_,
    Not: Vectorizer.not_,
    Select: Vectorizer.select,
    BufferLoad: Vectorizer.load,
    Let: Vectorizer.let,
    Call: Vectorizer.call,
}


def reads(e: PrimExpr, data: Var) -> bool:
    return any(type(n) is BufferLoad and n.buffer.data is data for n in post_order(e))


def op_attribute(call: Call, key: str) -> Any:
    attrs = getattr(call.op, "attrs", None)
    return attrs.get(key) if attrs else None


def ramp_arithmetic(kind: type, a: PrimExpr, b: PrimExpr) -> PrimExpr | None:
    """Return the ramp for a ramp plus, minus or times a scalar."""
    if type(a) is Ramp and lanes_of(b) == 1:
        if kind is Mul:
            return Ramp(a.base * b, a.stride * b, a.lanes)
        return Ramp(primop.BUILD[kind](a.base, b), a.stride, a.lanes)
    if type(b) is Ramp and lanes_of(a) == 1:
        if kind is Add:
            return Ramp(a + b.base, b.stride, b.lanes)
        if kind is Mul:
            return Ramp(a * b.base, a * b.stride, b.lanes)
        return Ramp(a - b.base, primop.negative(b.stride), b.lanes)
    return None


def safe_to_evaluate(e: PrimExpr) -> bool:
    """Return whether ``e`` may be computed if its condition is false: it has no loads, divisions or calls with
    effects."""
    for node in post_order(e):
        if type(node) is BufferLoad:
            return False
        if type(node) is Call and not op_attribute(node, "TVectorizable"):
            return False
        if type(node).__name__ in ("Div", "Mod", "FloorDiv", "FloorMod") and info(node.dtype).is_integer:
            if primop.literal(node.b) in (None, 0):
                return False
    return True


class LoopVectorizer(StmtRewriter):
    """A rewriter that finds the loops to vectorize, innermost first, because a vector cannot be vectorized again."""

    def __init__(self, is_open: bool):
        self.is_open = is_open

    def on_For(self, node: For) -> Stmt:
        if node.kind is not ForKind.VECTORIZED:
            return self.keep(node)
        lanes = int_value(node.extent)
        if lanes is None:
            raise TVMError(
                f"vectorizing a symbolic extent: the extent of loop {node.loop_var.name} is {node.extent}; "
                "split it by a constant factor and vectorize the inner loop"
            )
        if lanes < 1:
            return node.replace(kind=ForKind.SERIAL)
        body = node.body
        if lanes == 1:
            return self.stmt(substitute(body, {node.loop_var: node.min}))
        inside = list(post_order(body))
        differ = {node.loop_var}
        for let in (n for n in reversed(inside) if isinstance(n, LetStmt)):
            if uses_var(let.value, differ):
                differ.add(let.var)
        allocated = [n for n in inside if isinstance(n, Allocate)]
        if any(uses_var(e, differ) for n in allocated for e in (*n.extents, n.condition)):
            # Lanes are contiguous only if each has the same amount of memory.
            return self.keep(node.replace(kind=ForKind.SERIAL))
        # Of nested vectorized loops, only the outermost is vectorized.
        body = SerialLoops().stmt(body)
        if allocated:
            body = LaneMemory(node.loop_var, lanes).stmt(body)
        return Vectorizer(node.loop_var, node.min, lanes, self.is_open).stmt(body)


class SerialLoops(StmtRewriter):
    def on_For(self, node: For) -> Stmt:
        new = self.keep(node)
        return new.replace(kind=ForKind.SERIAL) if node.kind is ForKind.VECTORIZED else new


def vectorize_loop(func: PrimFunc, enable_vectorize: bool = True) -> PrimFunc:
    is_open = any(not isinstance(d, IntImm) for buffer in (func.buffer_map or {}).values() for d in buffer.shape)
    rewriter = LoopVectorizer(is_open) if enable_vectorize else SerialLoops()
    return func.replace(body=rewriter.stmt(func.body))
