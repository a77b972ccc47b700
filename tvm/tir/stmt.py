"""Statements: loops, stores, allocations, and blocks."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ..dtype import info
from ..ir.node import Node
from ..ir.prim import IterVar, PrimExpr, Range, StringImm, Var, const, convert


class Stmt(Node):
    """Base of statements."""

    _followed = True


class ForKind(IntEnum):
    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class LetStmt(Stmt, key="tir.LetStmt"):
    _compared = "var! value body"
    var: Var
    value: PrimExpr
    body: Stmt


class AssertStmt(Stmt, key="tir.AssertStmt"):
    condition: PrimExpr
    message: PrimExpr
    body: Stmt


class For(Stmt, key="tir.For"):
    """for loop_var in [min, min + extent): body"""

    _compared = "loop_var! min extent kind body thread_binding annotations"

    loop_var: Var
    min: PrimExpr
    extent: PrimExpr
    kind: ForKind
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: Any = None

    def __init__(
        self, loop_var, min=None, extent=None, kind=0, body=None, thread_binding=None, annotations=None, span=None,
        min_val=None,
    ):
        self.loop_var = loop_var
        self.min = _index(min if min is not None else min_val, loop_var.dtype)
        self.extent = _index(extent, loop_var.dtype)
        self.kind = ForKind(kind)
        self.body = body  # pyright: ignore[reportAttributeAccessIssue]
        self.thread_binding = thread_binding
        self.annotations = annotations or {}
        self.span = span


def _index(value: Any, dtype: str) -> PrimExpr:
    return const(value, dtype) if isinstance(value, int) else convert(value)


class While(Stmt, key="tir.While"):
    condition: PrimExpr
    body: Stmt


class BufferStore(Stmt, key="tir.BufferStore"):
    """buffer[indices] = value"""

    buffer: Any
    value: PrimExpr
    indices: tuple[PrimExpr, ...]


class BufferRealize(Stmt, key="tir.BufferRealize"):
    """The buffer exists, over ``bounds``, inside ``body``."""

    _compared = "buffer! bounds condition body"

    buffer: Any
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt


class ProducerStore(Stmt, key="tir.ProducerStore"):
    """producer[indices] = value, before tensors have buffers"""

    producer: Any
    value: PrimExpr
    indices: tuple[PrimExpr, ...]


class ProducerRealize(Stmt, key="tir.ProducerRealize"):
    producer: Any
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    storage_scope: str = ""


class Allocate(Stmt, key="tir.Allocate"):
    """Memory for ``buffer_var`` (its scope is in the variable's pointer type) inside ``body``."""

    _compared = "buffer_var! dtype extents condition body annotations"

    buffer_var: Var
    dtype: str
    extents: tuple[PrimExpr, ...]
    condition: PrimExpr
    body: Stmt
    annotations: Any = None

    def __init__(self, buffer_var, dtype, extents, condition, body, annotations=None, span=None):
        self.buffer_var = buffer_var
        self.dtype = dtype
        self.extents = tuple(convert(e) for e in extents)
        self.condition = convert(condition)
        self.body = body
        self.annotations = annotations or {}
        self.span = span


class AllocateConst(Stmt, key="tir.AllocateConst"):
    """Constant data for ``buffer_var`` inside ``body``; ``data`` is an array."""

    _compared = "buffer_var! dtype extents data_or_idx body annotations"

    buffer_var: Var
    dtype: str
    extents: tuple[PrimExpr, ...]
    data_or_idx: Any
    body: Stmt
    annotations: Any = None

    @property
    def data(self):
        return self.data_or_idx


class DeclBuffer(Stmt, key="tir.DeclBuffer"):
    _compared = "buffer! body"
    buffer: Any
    body: Stmt


class AttrStmt(Stmt, key="tir.AttrStmt"):
    """An attribute of everything in ``body``: ``node`` is what it is about, ``attr_key`` the kind, ``value`` the
    value."""

    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt


class SeqStmt(Stmt, key="tir.SeqStmt"):
    """Statements one after the other. Nested sequences are flattened by ``seq``."""

    seq: tuple[Stmt, ...]

    def __getitem__(self, i):
        return self.seq[i]

    def __len__(self):
        return len(self.seq)

    @property
    def size(self):
        return len(self.seq)


class IfThenElse(Stmt, key="tir.IfThenElse"):
    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None


class Evaluate(Stmt, key="tir.Evaluate"):
    """An expression evaluated for its effect."""

    value: PrimExpr


class Prefetch(Stmt, key="tir.Prefetch"):
    buffer: Any
    bounds: tuple[Range, ...]


class BufferRegion(Node, key="tir.BufferRegion"):
    _followed = True
    buffer: Any
    region: tuple[Range, ...]


class MatchBufferRegion(Node, key="tir.MatchBufferRegion"):
    _followed = True
    _compared = "buffer! source"
    buffer: Any
    source: BufferRegion


class Block(Stmt, key="tir.Block"):
    """A unit of computation with its own iteration variables."""

    _followed = True
    _compared = "iter_vars! alloc_buffers! match_buffers! reads writes body init annotations"

    iter_vars: tuple[IterVar, ...]
    reads: tuple[BufferRegion, ...]
    writes: tuple[BufferRegion, ...]
    name_hint: str
    body: Stmt
    init: Stmt | None = None
    alloc_buffers: tuple = ()
    match_buffers: tuple[MatchBufferRegion, ...] = ()
    annotations: Any = None

    def __init__(
        self, iter_vars, reads, writes, name_hint, body, init=None, alloc_buffers=None, match_buffers=None,
        annotations=None, span=None,
    ):
        self.iter_vars = tuple(iter_vars)
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.name_hint = str(name_hint)
        self.body = body
        self.init = init
        self.alloc_buffers = tuple(alloc_buffers or ())
        self.match_buffers = tuple(match_buffers or ())
        self.annotations = annotations or {}
        self.span = span


class BlockRealize(Stmt, key="tir.BlockRealize"):
    iter_values: tuple[PrimExpr, ...]
    predicate: PrimExpr
    block: Block

    def __init__(self, iter_values, predicate, block, span=None):
        self.iter_values = tuple(convert(v) for v in iter_values)
        self.predicate = const(predicate, "bool") if isinstance(predicate, bool) else convert(predicate)
        self.block = block
        self.span = span


def seq(*stmts: Stmt | None) -> Stmt:
    """One statement from several: nested sequences flattened, empty ones dropped."""
    out: list[Stmt] = []
    for stmt in stmts:
        if stmt is None:
            continue
        if isinstance(stmt, (list, tuple)):
            stmt = seq(*stmt)
        if isinstance(stmt, SeqStmt):
            out.extend(stmt.seq)
        elif not is_no_op(stmt):
            out.append(stmt)
    if not out:
        return no_op()
    return out[0] if len(out) == 1 else SeqStmt(tuple(out))


def stmt_seq(*args) -> Stmt:
    return seq(*args)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    return list(stmt.seq) if isinstance(stmt, SeqStmt) else [stmt]


def no_op() -> Stmt:
    return Evaluate(const(0, "int32"))


def is_no_op(stmt: Stmt) -> bool:
    if isinstance(stmt, Evaluate):
        return getattr(stmt.value, "value", None) is not None and not isinstance(stmt.value, StringImm)
    return isinstance(stmt, SeqStmt) and not stmt.seq


def lanes_of(e: PrimExpr) -> int:
    return info(e.dtype).lanes
