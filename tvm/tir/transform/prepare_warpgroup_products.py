"""PrepareWarpgroupProducts: arrange shared memory for warpgroup matmuls (``ptx_wgmma``) and wait for their completion.

The matrix unit reads shared memory in a swizzled layout with rows of 128 bytes: the 16-byte chunk p of row r is stored
at position ``p xor r % 8``. The pass rewrites each store to such memory accordingly. Eight rows then use all banks,
whether the unit reads them along rows or columns. The matmuls are asynchronous; the pass inserts a wait after the last
one, before the accumulators are read.
"""

from __future__ import annotations

from ...arith.sums import Sum, integer_sum, written
from ...dtype import info
from ...error import ScheduleError
from ...ir import primop
from ...ir.op import Op
from ...ir.prim import BufferLoad, Call, IntImm, PrimExpr, Ramp, Var, const
from ...ir.visit import post_order
from ..function import PrimFunc
from ..stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferStore,
    Evaluate,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    seq,
)
from .statement import StmtRewriter, is_call

PRODUCT, WAIT = "tir.ptx_wgmma", "tir.ptx_wgmma_wait"
# The size of a chunk and of a row in bytes, and the number of rows after which the pattern repeats.
PIECE, ROW, ROWS = 16, 128, 8
# Arguments of ptx_wgmma: the index of the accumulator, and the indices of the pointers to the matrices.
ACCUMULATOR, MATRICES = 4, (6, 9)


def operands_of(body: Stmt) -> set[Var]:
    """Return the memory that warpgroup matmuls read."""
    return {
        node.args[at].args[1]
        for node in post_order(body)
        if is_call(node, PRODUCT)
        for at in MATRICES
        if is_call(node.args[at], "tir.tvm_access_ptr")
    }


def swizzled(index: PrimExpr, size: int) -> PrimExpr:
    """Return the swizzled position of the element at ``index``; ``size`` is the size of an element in bytes."""
    piece, row = PIECE // size, ROW // size
    total = integer_sum(index)
    if total is None:
        return _moved(index, piece, row)
    # A multiple of the pattern size does not change the position in the pattern.
    whole = row * ROWS
    high = {a: c for a, c in total.terms.items() if c % whole == 0}
    low = {a: c for a, c in total.terms.items() if c % whole}
    rest = total.constant % whole
    inside = _moved(written(Sum(low, rest), index.dtype), piece, row)
    return written(Sum(high, total.constant - rest), index.dtype) + inside


def _moved(index: PrimExpr, piece: int, row: int) -> PrimExpr:
    pattern = primop.floormod(primop.floordiv(index, row), ROWS)
    place = primop.bitwise_xor(primop.floordiv(index, piece), pattern)
    return place * piece + primop.floormod(index, piece)


class Swizzle(StmtRewriter):
    """A rewriter that swizzles the stores to the operands of warpgroup matmuls."""

    def __init__(self, memory: set[Var]):
        self.memory = memory

    def on_BufferStore(self, node: BufferStore) -> Stmt:
        if node.buffer.data not in self.memory:
            return node
        size, (index,) = info(node.buffer.dtype).bytes, node.indices
        if not isinstance(index, Ramp):
            return node.replace(indices=(swizzled(index, size),))
        if not (isinstance(index.stride, IntImm) and index.stride.value == 1 and PIECE // size % index.lanes == 0):
            raise ScheduleError(
                f"{node.buffer.name} is an operand of ptx_wgmma: the lanes of a vector store to it must be "
                f"contiguous and inside one chunk of 16 bytes; got {index.lanes} elements of {node.buffer.dtype} "
                f"with stride {index.stride}"
            )
        return node.replace(indices=(Ramp(swizzled(index.base, size), index.stride, index.lanes),))


class WaitInserter:
    """A rewriter that inserts a wait after the last warpgroup matmul of a statement, outside all loops."""

    def __init__(self, root: Stmt):
        # The ids of nodes that contain warpgroup matmuls.
        self.busy: set[int] = set()
        for node in post_order(root):
            if is_call(node, PRODUCT) or any(id(child) in self.busy for child in node.children()):
                self.busy.add(id(node))

    def stmt(self, node: Stmt) -> Stmt:
        if id(node) not in self.busy:
            return node
        if isinstance(node, (AttrStmt, Allocate, AssertStmt, LetStmt)):
            return node.replace(body=self.stmt(node.body))
        if isinstance(node, IfThenElse):
            otherwise = None if node.else_case is None else self.stmt(node.else_case)
            return node.replace(then_case=self.stmt(node.then_case), else_case=otherwise)
        if isinstance(node, SeqStmt):
            busy = [*(id(s) in self.busy for s in node.seq), False]
            return seq(*(self.stmt(s) if busy[at] and not busy[at + 1] else s for at, s in enumerate(node.seq)))
        sums = dict.fromkeys(n.args[ACCUMULATOR] for n in post_order(node) if is_call(n, PRODUCT))
        return seq(node, *(Evaluate(Call("void", Op.get(WAIT), (const(0, "int32"), total))) for total in sums))


def prepare_warpgroup_products(func: PrimFunc) -> PrimFunc:
    if not any(is_call(n, PRODUCT) for n in post_order(func.body)):
        return func
    memory = operands_of(func.body)
    read = next((n for n in post_order(func.body) if isinstance(n, BufferLoad) and n.buffer.data in memory), None)
    if read is not None:
        raise ScheduleError(f"{read.buffer.name} is an operand of ptx_wgmma and cannot also be read by element")
    moved = Swizzle(memory).stmt(func.body)
    return func.replace(body=WaitInserter(moved).stmt(moved))
