"""Statements: loops, stores, allocations, and blocks."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ..dtype import info
from ..ir.node import Node, convert_field, convert_fields
from ..ir.prim import IterVar, PrimExpr, Range, StringImm, Var, const, convert

if TYPE_CHECKING:
    from ..ir.span import Span


class Stmt(Node):
    """Base of statements."""

    _followed = True

    if TYPE_CHECKING:

        # Passes are tables by the class of a statement, which narrows no type.
        def __getattr__(self, name: str) -> Any: ...


class ForKind(IntEnum):
    """How the iterations of a loop are carried out."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class LetStmt(Stmt, key="tir.LetStmt"):
    """A statement in which a variable stands for a value.

    Parameters
    ----------
    var : Var
        The variable.
    value : PrimExpr
        The value.
    body : Stmt
        The statement inside.
    """

    _compared = "var! value body"
    var: Var
    value: PrimExpr
    body: Stmt


class AssertStmt(Stmt, key="tir.AssertStmt"):
    """Stops the program with a message unless a condition holds.

    Parameters
    ----------
    condition : PrimExpr
        The condition, a bool.
    message : PrimExpr
        What is said.
    body : Stmt
        The statements after it.
    """

    condition: PrimExpr
    message: PrimExpr
    body: Stmt


class For(Stmt, key="tir.For"):
    """for loop_var in [min, min + extent): body

    Parameters
    ----------
    loop_var : Var
        The variable of the loop.
    min : PrimExpr, optional
        Its first value.
    extent : PrimExpr, optional
        How many values it takes.
    kind : ForKind, optional
        Serial, parallel, vectorized, unrolled, or bound to a hardware thread.
    body : Stmt, optional
        The statement inside.
    thread_binding : IterVar, optional
        The hardware thread of a bound loop.
    annotations : dict, optional
        Notes for passes and back ends, by name.
    min_val : PrimExpr, optional
        The classic name of ``min``.
    """

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
    """A loop that runs as long as a condition holds.

    Parameters
    ----------
    condition : PrimExpr
        The condition, a bool.
    body : Stmt
        What is repeated.
    """

    condition: PrimExpr
    body: Stmt


class BufferStore(Stmt, key="tir.BufferStore"):
    """buffer[indices] = value

    Parameters
    ----------
    buffer : Buffer
        The buffer, or one of an IRBuilder.
    value : PrimExpr
        What is stored.
    indices : tuple of PrimExpr
        The index along each dimension.
    """

    buffer: Any
    value: PrimExpr
    indices: tuple[PrimExpr, ...]

    def __init__(self, buffer: Any, value: Any, indices: Any, span: Span | None = None):
        self.buffer = buffer if isinstance(buffer, Node) else convert(buffer)
        self.value = convert_field(value)
        self.indices = convert_fields(indices)
        self.span = span


class BufferRealize(Stmt, key="tir.BufferRealize"):
    """The buffer exists, over ``bounds``, inside ``body``.

    Parameters
    ----------
    buffer : Buffer
        The buffer.
    bounds : tuple of Range
        The region, a range for each dimension.
    condition : PrimExpr
        The buffer exists only where it holds.
    body : Stmt
        The statement inside.
    """

    _compared = "buffer! bounds condition body"

    buffer: Any
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt


class ProducerStore(Stmt, key="tir.ProducerStore"):
    """producer[indices] = value, before tensors have buffers

    Parameters
    ----------
    producer : Tensor
        The tensor.
    value : PrimExpr
        What is stored.
    indices : tuple of PrimExpr
        The index along each dimension.
    """

    producer: Any
    value: PrimExpr
    indices: tuple[PrimExpr, ...]


class ProducerRealize(Stmt, key="tir.ProducerRealize"):
    """A tensor exists over a region inside of a statement.

    Parameters
    ----------
    producer : Tensor
        The tensor.
    bounds : tuple of Range
        The region, a range for each dimension.
    condition : PrimExpr
        It exists only where this holds.
    body : Stmt
        The statement inside.
    storage_scope : str, optional
        The memory it lies in.
    """

    producer: Any
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    storage_scope: str = ""


class Allocate(Stmt, key="tir.Allocate"):
    """Memory for ``buffer_var`` (its scope is in the variable's pointer type) inside ``body``.

    Parameters
    ----------
    buffer_var : Var
        The pointer to the memory.
    dtype : str
        The type of an element.
    extents : tuple of PrimExpr
        How many elements there are along each dimension.
    condition : PrimExpr
        Memory is allocated only where it holds.
    body : Stmt
        The statement inside.
    annotations : dict, optional
        Notes for passes and back ends, by name.
    """

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
    """Constant data for ``buffer_var`` inside ``body``; ``data`` is an array.

    Parameters
    ----------
    buffer_var : Var
        The pointer to the data.
    dtype : str
        The type of an element.
    extents : tuple of PrimExpr
        How many elements there are along each dimension.
    data_or_idx : NDArray or int
        The data, or its place among the constants of the module.
    body : Stmt
        The statement inside.
    annotations : dict, optional
        Notes for passes and back ends, by name.
    """

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
    """A buffer known inside of a statement; its memory comes from elsewhere.

    Parameters
    ----------
    buffer : Buffer
        The buffer.
    body : Stmt
        The statement inside.
    """

    _compared = "buffer! body"
    buffer: Any
    body: Stmt


class AttrStmt(Stmt, key="tir.AttrStmt"):
    """An attribute of everything in ``body``: ``node`` is what it is about, ``attr_key`` the kind, ``value`` the
    value.

    Parameters
    ----------
    node
        What the attribute is about: an axis, a buffer, or a text.
    attr_key : str
        The kind of the attribute.
    value : PrimExpr
        The value.
    body : Stmt
        What it holds for.
    """

    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt


class SeqStmt(Stmt, key="tir.SeqStmt"):
    """Statements one after the other. Nested sequences are flattened by ``seq``.

    Parameters
    ----------
    seq : list of Stmt
        The statements.
    """

    seq: tuple[Stmt, ...]

    def __getitem__(self, i):
        return self.seq[i]

    def __len__(self):
        return len(self.seq)

    @property
    def size(self):
        return len(self.seq)


class IfThenElse(Stmt, key="tir.IfThenElse"):
    """One statement where a condition holds, and perhaps another where it does not.

    Parameters
    ----------
    condition : PrimExpr
        The condition, a bool.
    then_case : Stmt
        What is done where it holds.
    else_case : Stmt, optional
        What is done elsewhere.
    """

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None


class Evaluate(Stmt, key="tir.Evaluate"):
    """An expression evaluated for its effect.

    Parameters
    ----------
    value : PrimExpr
        The expression.
    """

    value: PrimExpr


class Prefetch(Stmt, key="tir.Prefetch"):
    """A hint that a region of a buffer will be read soon.

    Parameters
    ----------
    buffer : Buffer
        The buffer.
    bounds : tuple of Range
        The region, a range for each dimension.
    """

    buffer: Any
    bounds: tuple[Range, ...]


class BufferRegion(Node, key="tir.BufferRegion"):
    """A part of a buffer: a range along each dimension.

    Parameters
    ----------
    buffer : Buffer
        The buffer.
    region : tuple of Range
        The ranges.
    """

    _followed = True
    buffer: Any
    region: tuple[Range, ...]


class MatchBufferRegion(Node, key="tir.MatchBufferRegion"):
    """A region of a buffer under a name of its own.

    Parameters
    ----------
    buffer : Buffer
        The new buffer.
    source : BufferRegion
        The region it stands for.
    """

    _followed = True
    _compared = "buffer! source"
    buffer: Any
    source: BufferRegion


class Block(Stmt, key="tir.Block"):
    """A unit of computation with its own iteration variables.

    Parameters
    ----------
    iter_vars : tuple of IterVar
        Its iteration variables with their domains.
    reads : tuple of BufferRegion
        What it reads.
    writes : tuple of BufferRegion
        What it writes.
    name_hint : str
        Its name.
    body : Stmt
        The statement inside.
    init : Stmt, optional
        Done before the first iteration of a reduction.
    alloc_buffers : tuple of Buffer, optional
        Buffers that live in the block.
    match_buffers : tuple of MatchBufferRegion, optional
        Parts of buffers under names of their own.
    annotations : dict, optional
        Notes for passes and back ends, by name.
    """

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
    """A block at values of its iteration variables, where a predicate holds.

    Parameters
    ----------
    iter_values : tuple of PrimExpr
        The values.
    predicate : PrimExpr
        The block is left out where it is false.
    block : Block
        The block.
    """

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
    """Statements one after the other; expressions are evaluated for their effect.

    Parameters
    ----------
    *args
        The statements.

    Returns
    -------
    Stmt
    """
    return seq(*args)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence, or the one statement in a list.

    Parameters
    ----------
    stmt : Stmt
        A statement.

    Returns
    -------
    list[Stmt]
    """
    return list(stmt.seq) if isinstance(stmt, SeqStmt) else [stmt]


def no_op() -> Stmt:
    return Evaluate(const(0, "int32"))


def is_no_op(stmt: Stmt) -> bool:
    if isinstance(stmt, Evaluate):
        return getattr(stmt.value, "value", None) is not None and not isinstance(stmt.value, StringImm)
    return isinstance(stmt, SeqStmt) and not stmt.seq


def lanes_of(e: PrimExpr) -> int:
    return info(e.dtype).lanes
