"""InjectRollingBuffer: keep elements that the next loop iteration reads again in a circular buffer instead of
recomputing them.

A buffer under ``rolling_buffer_scope`` is computed inside loops and contains a window that moves with them. The pass
moves its allocation outside the outermost loop over which it can roll. The dimension that moves with this loop becomes
circular: element x is stored at x modulo the window size. Dimensions that move with inner loops are large enough for
all their windows. An element is computed in the first iteration of its loop, or if the previous window did not contain
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ...arith import Analyzer
from ...error import TVMError
from ...ir import primop
from ...ir.prim import Add, BufferLoad, FloorDiv, IntImm, Max, Min, Mul, PrimExpr, Range, Sub, Var, const
from ...ir.subst import substitute, uses_var
from ...ir.visit import rewrite
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import AttrStmt, BufferRealize, BufferStore, For, ForKind, IfThenElse, Stmt
from .statement import RangeRewriter, int_value, statements_in, uses_any

SCOPE = "rolling_buffer_scope"
_THREADS = ("thread_extent", "virtual_thread", "pipeline_exec_scope", "coproc_scope")


@dataclass(slots=True)
class Roll:
    """The parameters of a rolling buffer: the loop around its allocation, the circular dimension with its size, and for
    each moving dimension the loop and the first element after the previous window."""

    outermost: For
    circular: int
    size: PrimExpr
    moving: dict[int, tuple[For, PrimExpr]]


class RollingBuffers(RangeRewriter):
    def __init__(self, buffers: set[Buffer]):
        self.analyzer = Analyzer()
        self.buffers = buffers
        # The enclosing statements: loops, and None for a statement that no allocation may move out of.
        self.around: list[For | None] = []
        self.rolls: dict[Buffer, Roll] = {}
        self.alignment: dict[Buffer, list[AttrStmt]] = {}
        # The realizations to place around a loop, by loop variable.
        self.moved: dict[Var, list[BufferRealize]] = {}

    def on_For(self, node: For) -> Stmt:
        self.around.append(node)
        new: Stmt = super().on_For(node)
        self.around.pop()
        for realize in self.moved.pop(node.loop_var, ()):
            new = self.aligned(realize.replace(body=new))
        return new

    def aligned(self, realize: BufferRealize) -> Stmt:
        """Return a realization inside the stride alignment attributes of its buffer."""
        new: Stmt = realize
        for attr in self.alignment.get(realize.buffer, ()):
            new = attr.replace(body=new)
        return new

    def on_IfThenElse(self, node: IfThenElse) -> Stmt:
        self.around.append(None)
        new = self.keep(node)
        self.around.pop()
        return new

    def on_AttrStmt(self, node: AttrStmt) -> Stmt:
        if isinstance(node.node, Buffer) and node.node in self.buffers:
            if node.attr_key == SCOPE:
                return self.stmt(node.body)
            if node.attr_key == "buffer_dim_align":
                self.alignment.setdefault(node.node, []).append(node)
                return self.stmt(node.body)
        if node.attr_key == "buffer_bind_scope" and node.node[1] in self.buffers:
            _refuse(node.node[1], "an intrinsic or extern accesses it as contiguous memory")
        if node.attr_key not in _THREADS:
            return super().on_AttrStmt(node)
        self.around.append(None)
        new = super().on_AttrStmt(node)
        self.around.pop()
        return new

    def on_BufferRealize(self, node: BufferRealize) -> Stmt:
        if node.buffer not in self.buffers:
            return self.keep(node)
        roll = self.roll(node)
        if roll is None:
            self.buffers.remove(node.buffer)
            return self.aligned(node.replace(body=self.stmt(node.body)))
        self.rolls[node.buffer] = roll
        bounds = list(node.bounds)
        for dim, (loop, _) in roll.moving.items():
            if dim == roll.circular:
                bounds[dim] = Range(min=const(0, roll.size.dtype), extent=roll.size)
            else:
                bounds[dim] = self._whole(node, dim, loop)
        new = node.replace(bounds=tuple(bounds))
        self.moved.setdefault(roll.outermost.loop_var, []).append(new)
        return self.stmt(node.body)

    def roll(self, node: BufferRealize) -> Roll | None:
        """Return the outermost loop over which a buffer can roll, or None if no loop moves its window. That loop and
        the loops inside it must be serial, and each must move at most one dimension that no other loop moves."""
        loops: list[For] = []
        for loop in reversed(self.around):
            if loop is None or loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
                break
            loops.append(loop)
        if loops and not any(uses_var(r.min, {a.loop_var for a in loops}.__contains__) for r in node.bounds):
            return None
        found: Roll | None = None
        moving: dict[int, tuple[For, PrimExpr]] = {}
        for loop in loops:
            dims = [d for d, r in enumerate(node.bounds) if uses_var(r.min, {loop.loop_var}.__contains__)]
            if not dims:
                continue
            if len(dims) > 1 or dims[0] in moving or not _can_move(node.bounds[dims[0]], loop.loop_var):
                break
            r, before = node.bounds[dims[0]], {loop.loop_var: loop.loop_var - 1}
            moving = {**moving, dims[0]: (loop, self.analyzer.simplify(substitute(r.min, before) + r.extent))}
            found = Roll(loop, dims[0], r.extent, moving)
        if found is None:
            _refuse(node.buffer, "no serial loop around it moves one of its dimensions forward; compute it inside "
                                 "such a loop")  # fmt: skip
        return found

    def _whole(self, node: BufferRealize, dim: int, loop: For) -> Range:
        """Return the range of a dimension over all iterations of its loop."""
        r, last = node.bounds[dim], loop.min + loop.extent - 1
        low = self.analyzer.simplify(substitute(r.min, {loop.loop_var: loop.min}))
        end = substitute(r.min, {loop.loop_var: last}) + r.extent
        return Range(min=low, extent=self.analyzer.simplify(end - low))

    def indices(self, buffer: Buffer, indices: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
        roll, new = self.rolls[buffer], list(indices)
        new[roll.circular] = primop.floormod(new[roll.circular], roll.size.astype(new[roll.circular].dtype))
        return tuple(new)

    def expr(self, node: Any) -> Any:
        return rewrite(node, self._load)

    def _load(self, node: Any):
        if type(node) is BufferLoad and node.buffer in self.buffers:
            return BufferLoad(node.buffer, self.indices(node.buffer, node.indices))
        return None

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        if node.buffer not in self.buffers:
            return self.keep(node)
        at = [self.expr(i) for i in node.indices]
        stmt: Stmt = BufferStore(node.buffer, self.expr(node.value), self.indices(node.buffer, at))
        for dim, (loop, end) in self.rolls[node.buffer].moving.items():
            is_new = primop.logical_or(primop.equal(loop.loop_var, loop.min), primop.greater_equal(at[dim], end))
            stmt = IfThenElse(is_new, stmt)
        return stmt


def _can_move(r: Range, var: Var) -> bool:
    return int_value(r.extent) is not None and _is_non_decreasing(r.min, var)


def _is_non_decreasing(e: PrimExpr, var: Var) -> bool:
    """Return whether a value is monotonically non-decreasing in a variable."""
    if e is var or not uses_var(e, {var}.__contains__):
        return True
    if isinstance(e, (Add, Min, Max)):
        return _is_non_decreasing(e.a, var) and _is_non_decreasing(e.b, var)
    if isinstance(e, Sub):
        return _is_non_decreasing(e.a, var) and not uses_var(e.b, {var}.__contains__)
    if isinstance(e, (Mul, FloorDiv)):
        return isinstance(e.b, IntImm) and e.b.value > 0 and _is_non_decreasing(e.a, var)
    return False


def _refuse(buffer: Buffer, why: str) -> NoReturn:
    raise TVMError(f"rolling_buffer of {buffer.name}: {why}")


def inject_rolling_buffer(func: PrimFunc) -> PrimFunc:
    found = {n.node for n in statements_in(func.body) if isinstance(n, AttrStmt) and n.attr_key == SCOPE}
    if not found:
        return func
    for buffer in found:
        if uses_any(func.body, [buffer.data]):
            _refuse(buffer, "its pointer is used directly; only element accesses can be made circular")
    return func.replace(body=RollingBuffers(found).stmt(func.body))
