"""UnrollLoop: select the loops to unroll, and optionally expand them.

Lowering for code generation only marks loops (``ForKind.UNROLLED``): the code generator expands them last, so that no
pass processes an unrolled body. If it is called directly, or with ``explicit_unroll``, the pass expands the loops
itself.
"""

from __future__ import annotations

from ...arith import Analyzer
from ...error import TVMError
from ...ir.node import Node
from ...ir.pass_config import UnrollLoopConfig
from ...ir.prim import BufferLoad, Var, const
from ...ir.visit import post_order, rewrite
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    seq,
)
from .statement import StmtRewriter, int_value, statements_in, substitute_folding


class Unroller(StmtRewriter):
    def __init__(self, config: UnrollLoopConfig, mark_only: bool):
        self.max_step = config.auto_max_step
        self.max_depth = config.auto_max_depth
        self.max_extent = config.auto_max_extent
        self.explicit = config.explicit_unroll
        self.local_access = config.unroll_local_access
        self.mark_only = mark_only
        self.analyzer = Analyzer()
        self.steps = 0  # Number of stores and calls with effects in the last statement
        self.serial_loops = 0  # Number of its loops that are not unrolled
        self.unrolled_depth = 0

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if node.attr_key == "pragma_auto_unroll_max_step":
            old, self.max_step = self.max_step, int(node.value)
            body = self.stmt(node.body)
            self.max_step = old
            return body
        if node.attr_key == "pragma_unroll_explicit":
            old_explicit, self.explicit = self.explicit, bool(int(node.value))
            body = self.stmt(node.body)
            self.explicit = old_explicit
            return body
        return self.keep(node)

    def on_For(self, node: For) -> Stmt:
        self.steps, self.serial_loops, self.unrolled_depth = 0, 0, 0
        body = self.stmt(node.body)
        extent = int_value(node.extent)
        if extent is None:
            extent = int_value(self.analyzer.simplify(node.extent))
        if node.kind is ForKind.UNROLLED:
            if extent is None:
                raise TVMError(
                    f"unroll: the extent of loop {node.loop_var.name} is {node.extent}, not a constant; "
                    "split it by a constant factor and unroll the inner loop"
                )
            chosen = True
        else:
            chosen = node.kind is ForKind.SERIAL and extent is not None and self.worthwhile(node, extent)
        new = node if body is node.body else node.replace(body=body)
        if self.max_extent == 1 and extent is not None and extent <= 1 and not self.mark_only:
            return expand(new, extent)
        if not chosen:
            self.serial_loops += 1
            return new
        self.steps *= max(extent or 0, 1)
        self.unrolled_depth += 1
        if self.mark_only or not (self.explicit or extent <= 0):
            return new.replace(kind=ForKind.UNROLLED)
        return expand(new, extent)

    def worthwhile(self, node: For, extent: int) -> bool:
        if self.serial_loops or self.unrolled_depth >= self.max_depth:
            return False
        if extent * self.steps <= self.max_step or extent <= self.max_extent:
            return True
        return self.local_access and indexes_local(node)

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        self.steps += 1
        return node

    def on_Evaluate(self, node: Evaluate) -> Stmt:
        self.steps += 1
        return node

    def on_SeqStmt(self, node) -> Stmt:
        return self.parts(node, list(node.seq), lambda new: seq(*new))

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        cases = [node.then_case] if node.else_case is None else [node.then_case, node.else_case]
        return self.parts(node, cases, lambda new: IfThenElse(node.condition, *new))

    def parts(self, node: Stmt, cases: list[Stmt], build) -> Stmt:
        """Combine statements: steps and loops are added, the depth is the maximum."""
        steps, loops, depth, new = 0, 0, 0, []
        for case in cases:
            self.steps, self.serial_loops, self.unrolled_depth = 0, 0, 0
            new.append(self.stmt(case))
            steps += self.steps
            loops += self.serial_loops
            depth = max(depth, self.unrolled_depth)
        self.steps, self.serial_loops, self.unrolled_depth = steps, loops, depth
        return node if all(a is b for a, b in zip(new, cases)) else build(new)


def indexes_local(node: For) -> bool:
    for n in post_order(node.body):
        if isinstance(n, (BufferStore, BufferLoad)) and n.buffer.scope() == "local":
            if any(v is node.loop_var for i in n.indices for v in post_order(i)):
                return True
    return False


def expand(node: For, count: int) -> Stmt:
    """Return the body once per iteration, in order; variables bound in it are renamed for each copy."""
    copies = []
    for i in range(count):
        body = substitute_folding(node.body, {node.loop_var: node.min + const(i, node.loop_var.dtype)})
        copies.append(body if i == 0 else rename_bound(body))
    return seq(*copies)


class Renamer(StmtRewriter):
    """A rewriter with new variables for every loop, let and allocation, so that no variable is defined twice."""

    def __init__(self):
        self.variables: dict[Var, Var] = {}
        self.buffers: dict = {}

    def fresh(self, var: Var) -> Var:
        new = type(var)(var.name, var.dtype, var.type_annotation)
        self.variables[var] = new
        return new

    def expr(self, node):
        return substitute_all(node, self.variables, self.buffers)

    def on_For(self, node: For) -> Stmt:
        return self.keep(node.replace(loop_var=self.fresh(node.loop_var)))

    def on_LetStmt(self, node: LetStmt) -> Stmt:
        value = self.expr(node.value)
        return LetStmt(self.fresh(node.var), value, self.stmt(node.body))

    def on_Allocate(self, node: Allocate) -> Stmt:
        return self.keep(node.replace(buffer_var=self.fresh(node.buffer_var)))

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if isinstance(node.node, Var) and node.attr_key.startswith(("double_buffer", "storage", "volatile")):
            # Such an attribute is outside the allocation that it describes.
            if node.node not in self.variables and allocates(node.body, node.node):
                new = self.fresh(node.node)
                body = self.stmt(node.body)
                return AttrStmt(self.variables.get(node.node, new), node.attr_key, self.expr(node.value), body)
        new = self.keep(node)
        if isinstance(node.node, Var) and node.node in self.variables:
            return new.replace(node=self.variables[node.node])
        return new

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        new = self.keep(node)
        buffer = renamed_buffer(node.buffer, self.variables, self.buffers)
        return new if buffer is node.buffer else new.replace(buffer=buffer)


def allocates(body: Node, var: Var) -> bool:
    return any(isinstance(n, Allocate) and n.buffer_var is var for n in statements_in(body))


def renamed_buffer(buffer, variables, buffers):
    data = variables.get(buffer.data)
    if data is None:
        return buffer
    got = buffers.get((buffer, data))
    if got is None:
        got = buffers[(buffer, data)] = buffer.replace(data=data)
    return got


def substitute_all(node, variables, buffers):
    """Replace variables, including the pointers of accessed buffers."""

    def post(n):
        if isinstance(n, Var):
            return variables.get(n)
        if type(n) is BufferLoad:
            buffer = renamed_buffer(n.buffer, variables, buffers)
            return None if buffer is n.buffer else BufferLoad(buffer, n.indices)
        return None

    return rewrite(node, post) if variables else node


def rename_bound(body: Stmt) -> Stmt:
    if not any(isinstance(n, (For, LetStmt, Allocate)) for n in statements_in(body)):
        return body
    return Renamer().stmt(body)


def unroll_loop(func: PrimFunc, config: UnrollLoopConfig | None = None, mark_only: bool = False) -> PrimFunc:
    body = Unroller(config or UnrollLoopConfig(), mark_only).stmt(func.body)
    return func.replace(body=body)
