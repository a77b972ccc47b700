"""Statements: loops, stores, allocations and blocks."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from ..dtype import info
from ..ir.node import Node, convert_field, convert_fields
from ..ir.prim import IterVar, PrimExpr, Range, StringImm, Var, const, convert

if TYPE_CHECKING:
    from ..ir.span import Span


class Stmt(Node):
    """The base class of statements."""

    _followed = True

    if TYPE_CHECKING:
        # Passes dispatch on the class of a statement through tables, which type checkers cannot follow.
        def __getattr__(self, name: str) -> Any: ...


class ForKind(IntEnum):
    """How the iterations of a loop are executed."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


class LetStmt(Stmt, key="tir.LetStmt"):
    """A statement in which a variable has a value.

    Parameters
    ----------
    var : Var
        The variable.
    value : PrimExpr
        The value.
    body : Stmt
        The statement in which the variable is visible.
    """

    _compared = "var! value body"
    var: Var
    value: PrimExpr
    body: Stmt


class AssertStmt(Stmt, key="tir.AssertStmt"):
    """An assertion: the program stops with a message unless a condition is true.

    Parameters
    ----------
    condition : PrimExpr
        The condition, a bool.
    message : PrimExpr
        The message.
    body : Stmt
        The statements after the assertion.
    """

    condition: PrimExpr
    message: PrimExpr
    body: Stmt


class For(Stmt, key="tir.For"):
    """A loop: ``for loop_var in [min, min + extent): body``.

    Parameters
    ----------
    loop_var : Var
        The loop variable.
    min : PrimExpr, optional
        The first value of the loop variable.
    extent : PrimExpr, optional
        The number of iterations.
    kind : ForKind, optional
        Serial, parallel, vectorized, unrolled, or bound to a hardware thread.
    body : Stmt, optional
        The statement that is repeated.
    thread_binding : IterVar, optional
        The hardware thread of a loop that is bound to threads.
    annotations : dict, optional
        Annotations for passes and back ends, by name.
    min_val : PrimExpr, optional
        An alias of ``min``, as in Apache TVM.
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
        self,
        loop_var,
        min=None,
        extent=None,
        kind=0,
        body=None,
        thread_binding=None,
        annotations=None,
        span=None,
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
    """A loop that runs while a condition is true.

    Parameters
    ----------
    condition : PrimExpr
        The condition, a bool.
    body : Stmt
        The statement that is repeated.
    """

    condition: PrimExpr
    body: Stmt


class BufferStore(Stmt, key="tir.BufferStore"):
    """A store to an element: ``buffer[indices] = value``.

    Parameters
    ----------
    buffer : Buffer
        The buffer, or a BufferVar of an IRBuilder.
    value : PrimExpr
        The value to store.
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
    """A statement in which a buffer exists over the region ``bounds``.

    Parameters
    ----------
    buffer : Buffer
        The buffer.
    bounds : tuple of Range
        The region, a range for each dimension.
    condition : PrimExpr
        The buffer exists only if this condition is true.
    body : Stmt
        The statement in which the buffer is visible.
    """

    _compared = "buffer! bounds condition body"

    buffer: Any
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt


class ProducerStore(Stmt, key="tir.ProducerStore"):
    """A store to an element of a tensor that has no buffer yet: ``producer[indices] = value``.

    Parameters
    ----------
    producer : Tensor
        The tensor.
    value : PrimExpr
        The value to store.
    indices : tuple of PrimExpr
        The index along each dimension.
    """

    producer: Any
    value: PrimExpr
    indices: tuple[PrimExpr, ...]


class ProducerRealize(Stmt, key="tir.ProducerRealize"):
    """A statement in which a tensor exists over a region.

    Parameters
    ----------
    producer : Tensor
        The tensor.
    bounds : tuple of Range
        The region, a range for each dimension.
    condition : PrimExpr
        The tensor exists only if this condition is true.
    body : Stmt
        The statement in which the tensor is visible.
    storage_scope : str, optional
        The storage scope of the tensor.
    """

    producer: Any
    bounds: tuple[Range, ...]
    condition: PrimExpr
    body: Stmt
    storage_scope: str = ""


class Allocate(Stmt, key="tir.Allocate"):
    """A statement with allocated memory. The pointer type of ``buffer_var`` contains the storage scope.

    Parameters
    ----------
    buffer_var : Var
        The pointer to the memory.
    dtype : str
        The type of an element.
    extents : tuple of PrimExpr
        The number of elements along each dimension.
    condition : PrimExpr
        Memory is allocated only if this condition is true.
    body : Stmt
        The statement in which the memory is visible.
    annotations : dict, optional
        Annotations for passes and back ends, by name.
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
    """A statement with constant data, an array that ``buffer_var`` points to.

    Parameters
    ----------
    buffer_var : Var
        The pointer to the data.
    dtype : str
        The type of an element.
    extents : tuple of PrimExpr
        The number of elements along each dimension.
    data_or_idx : NDArray or int
        The data, or its index among the constants of the module.
    body : Stmt
        The statement in which the data is visible.
    annotations : dict, optional
        Annotations for passes and back ends, by name.
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
    """A statement in which a buffer is declared for existing memory.

    Parameters
    ----------
    buffer : Buffer
        The buffer.
    body : Stmt
        The statement in which the buffer is visible.
    """

    _compared = "buffer! body"
    buffer: Any
    body: Stmt


class AttrStmt(Stmt, key="tir.AttrStmt"):
    """A statement with an attribute: ``attr_key`` is its name, ``node`` the object it describes, and ``value`` its
    value.

    Parameters
    ----------
    node
        The object that the attribute describes: an axis, a buffer or a string.
    attr_key : str
        The name of the attribute.
    value : PrimExpr
        The value of the attribute.
    body : Stmt
        The statement that the attribute applies to.
    """

    node: Any
    attr_key: str
    value: PrimExpr
    body: Stmt


class SeqStmt(Stmt, key="tir.SeqStmt"):
    """A sequence of statements. The function ``seq`` flattens nested sequences.

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
    """A conditional statement with an optional else branch.

    Parameters
    ----------
    condition : PrimExpr
        The condition, a bool.
    then_case : Stmt
        The statement that runs if the condition is true.
    else_case : Stmt, optional
        The statement that runs if the condition is false.
    """

    condition: PrimExpr
    then_case: Stmt
    else_case: Stmt | None = None


class Evaluate(Stmt, key="tir.Evaluate"):
    """An expression that is evaluated for its side effect.

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
    """A region of a buffer: a range along each dimension.

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
    """A region of a buffer that is declared as another buffer.

    Parameters
    ----------
    buffer : Buffer
        The new buffer.
    source : BufferRegion
        The region that the new buffer refers to.
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
        The iteration variables with their domains.
    reads : tuple of BufferRegion
        The regions that the block reads.
    writes : tuple of BufferRegion
        The regions that the block writes.
    name_hint : str
        The name of the block.
    body : Stmt
        The statement that the block executes.
    init : Stmt, optional
        The statement that initializes a reduction before its first iteration.
    alloc_buffers : tuple of Buffer, optional
        The buffers that the block allocates.
    match_buffers : tuple of MatchBufferRegion, optional
        Regions of buffers that the block declares as buffers.
    annotations : dict, optional
        Annotations for passes and back ends, by name.
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
        self,
        iter_vars,
        reads,
        writes,
        name_hint,
        body,
        init=None,
        alloc_buffers=None,
        match_buffers=None,
        annotations=None,
        span=None,
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
    """The execution of a block for values of its iteration variables, if a predicate is true.

    Parameters
    ----------
    iter_values : tuple of PrimExpr
        The value of each iteration variable.
    predicate : PrimExpr
        The block is skipped if the predicate is false.
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
    """Combine statements into one statement: nested sequences are flattened and empty ones removed."""
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
    """A sequence of statements; expressions are evaluated for their side effects.

    Parameters
    ----------
    *args
        The statements and expressions.

    Returns
    -------
    Stmt
    """
    return seq(*args)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence; any other statement is returned in a list of one.

    Parameters
    ----------
    stmt : Stmt
        The statement.

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
