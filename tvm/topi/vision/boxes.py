"""Shared parts of the box operators: overlap, greedy suppression, and parameters that may be tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ... import te, tir
from ...error import ExprValueError
from ...ir import primop
from ...ir.prim import IterVar, PrimExpr, StringImm, const, convert
from ...target import Target
from ...tir.ir_builder import BufferVar, IRBuilder
from ..loops import INDEPENDENT
from ..utils import equal_const_int

# The number of threads of a block that process boxes together.
_THREADS = 256


class Numbers:
    """Parameters of an operator that are Python scalars, or tensors of one element that are read at run time."""

    def __init__(self, values: dict[str, tuple[Any, str]], what: str):
        self.values = values
        self.tensors = {}
        for name, (value, _) in values.items():
            if isinstance(value, te.Tensor):
                if any(not equal_const_int(dim, 1) for dim in value.shape):
                    raise ExprValueError(
                        f"{what}: {name} must be a scalar or a tensor of one element, got {list(value.shape)}"
                    )
                self.tensors[name] = value

    def read(self, ib: IRBuilder, buffers: Sequence) -> dict[str, PrimExpr]:
        """Return each parameter as an expression; ``buffers`` are those of ``tensors``, in the same order."""
        given = dict(zip(self.tensors, buffers))
        out = {}
        for name, (value, dtype) in self.values.items():
            if name in given:
                value = ib.buffer_ptr(given[name])[tuple([0] * len(given[name].shape))]
            out[name] = primop.cast(dtype, convert(value))
        return out


def overlap(a: Sequence[PrimExpr], b: Sequence[PrimExpr], extra: float = 0.0) -> PrimExpr:
    """Return the intersection over union of two boxes given by opposite corners in any order; 0 if both are empty.
    ``extra`` is 1 if a box includes its last row and column."""
    dtype = a[0].dtype
    zero, more = const(0, dtype), const(extra, dtype)

    def sides(box):
        return (
            te.min(box[0], box[2]), te.min(box[1], box[3]), te.max(box[0], box[2]), te.max(box[1], box[3]),
        )  # fmt: skip

    first, second = sides(a), sides(b)
    width = te.max(te.min(first[2], second[2]) - te.max(first[0], second[0]) + more, zero)
    height = te.max(te.min(first[3], second[3]) - te.max(first[1], second[1]) + more, zero)

    def area(box):
        return (box[2] - box[0] + more) * (box[3] - box[1] + more)

    common = width * height
    union = area(first) + area(second) - common
    return tir.Select(union <= zero, zero, common / tir.Select(union <= zero, const(1, dtype), union))


class Crew:
    """The threads that process one item, such as an image: one thread, or on GPUs a thread block. All threads of a
    block run the same program; the iterations of ``each`` are divided among them, and code in ``one`` runs once."""

    def __init__(self, ib: IRBuilder, items: Any, thread: IterVar | None, count: int):
        self.ib, self.items, self.thread, self.count = ib, items, thread, count

    @contextmanager
    def item(self) -> Iterator[PrimExpr]:
        """Open the loop over items; a block processes one item."""
        if self.thread is None:
            with self.ib.for_range(0, self.items, name="b", annotations={INDEPENDENT: 1}) as b:
                yield b
            return
        block = te.thread_axis("blockIdx.x")
        self.ib.scope_attr(block, "thread_extent", self.items)
        self.ib.scope_attr(self.thread, "thread_extent", self.count)
        yield block.var

    @contextmanager
    def each(self, n: Any, name: str) -> Iterator[PrimExpr]:
        """Open a loop whose iterations may run in parallel."""
        if self.thread is None:
            with self.ib.for_range(0, n, name=name) as i:
                yield i
            return
        with self.ib.for_range(0, te.ceildiv(n, self.count), name=name) as turn:
            i = turn * self.count + self.thread.var
            with self.ib.if_scope(i < n):
                yield i

    @contextmanager
    def one(self) -> Iterator[None]:
        if self.thread is None:
            yield
            return
        with self.ib.if_scope(self.thread.var < 1):
            yield

    def wait(self) -> None:
        """Wait until all threads have finished writing."""
        if self.thread is not None:
            self.ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", StringImm("global")))


def alone(ib: IRBuilder, items: Any = 1) -> Crew:
    """Return a crew of one thread for each item."""
    return Crew(ib, items, None, 1)


def crew(ib: IRBuilder, items: Any, gpu: Target | None) -> Crew:
    """Return a crew of one thread block for each item on a GPU, one thread elsewhere."""
    if gpu is None:
        return alone(ib, items)
    return Crew(ib, items, te.thread_axis("threadIdx.x"), min(_THREADS, gpu.features.max_threads or _THREADS))


def suppress(
    ib: IRBuilder,
    n: PrimExpr,
    alive: BufferVar,
    limit: PrimExpr | None,
    overlaps: Callable,
    on_keep: Callable,
    workers: Crew | None = None,
    row: tuple = (),
) -> BufferVar:
    """Greedily select, from ``n`` candidates in order, those that are ``alive`` (those of ``row``) and ``overlaps`` no
    selected one before: at most ``limit`` (all if negative or None). ``on_keep(candidate, number)`` is called for each
    selected candidate; the return value is their number. All workers make the same decisions, because each decision
    waits until all have finished writing."""
    workers = workers or alone(ib)
    kept = ib.allocate("int32", (1,), name="kept", scope="local")
    kept[0] = 0
    with ib.for_range(0, n, name="candidate") as i:
        wanted = primop.not_equal(alive[(*row, i)], 0)
        room = None if limit is None else tir.any(limit < 0, kept[0] < limit)
        with ib.if_scope(wanted if room is None else tir.all(wanted, room)):
            with workers.one():
                on_keep(i, kept[0])
            kept[0] = kept[0] + 1
            with workers.each(n - i - 1, "later") as step:
                j = i + 1 + step
                # Test two conditions separately, because the second one is expensive.
                with ib.if_scope(primop.not_equal(alive[(*row, j)], 0)), ib.if_scope(overlaps(i, j)):
                    alive[(*row, j)] = 0
            workers.wait()
    return kept
