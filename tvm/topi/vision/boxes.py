"""What the operators on boxes share: overlap, greedy suppression, numbers that may be tensors."""

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

# Threads of a block that look at boxes together.
_THREADS = 256


class Numbers:
    """Parameters of an operator that are plain numbers, or tensors of one element read when the program runs."""

    def __init__(self, values: dict[str, tuple[Any, str]], what: str):
        self.values = values
        self.tensors = {}
        for name, (value, _) in values.items():
            if isinstance(value, te.Tensor):
                if any(not equal_const_int(dim, 1) for dim in value.shape):
                    raise ExprValueError(
                        f"{what}: {name} is a number or a tensor of one element, got {list(value.shape)}"
                    )
                self.tensors[name] = value

    def read(self, ib: IRBuilder, buffers: Sequence) -> dict[str, PrimExpr]:
        """Each as an expression; ``buffers`` are those of ``tensors``, in their order."""
        given = dict(zip(self.tensors, buffers))
        out = {}
        for name, (value, dtype) in self.values.items():
            if name in given:
                value = ib.buffer_ptr(given[name])[tuple([0] * len(given[name].shape))]
            out[name] = primop.cast(dtype, convert(value))
        return out


def overlap(a: Sequence[PrimExpr], b: Sequence[PrimExpr], extra: float = 0.0) -> PrimExpr:
    """Intersection over union of two boxes given by opposite corners, in any order; 0 where both are empty. ``extra``
    is 1 where a box includes its last row and column."""
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
    """Who does the work of one item (an image, say): one thread, or on GPUs a block of them. All threads of a block go
    through the same program; what is written in ``each`` is divided among them, what is in ``one`` is done once."""

    def __init__(self, ib: IRBuilder, items: Any, thread: IterVar | None, count: int):
        self.ib, self.items, self.thread, self.count = ib, items, thread, count

    @contextmanager
    def item(self) -> Iterator[PrimExpr]:
        """The loop over items; a block has one of its own."""
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
        """A loop whose iterations may run at once."""
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
        """Until all have written what they have to."""
        if self.thread is not None:
            self.ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", StringImm("global")))


def alone(ib: IRBuilder, items: Any = 1) -> Crew:
    """One thread for an item."""
    return Crew(ib, items, None, 1)


def crew(ib: IRBuilder, items: Any, gpu: Target | None) -> Crew:
    """A block for each of the items on a GPU, a thread elsewhere."""
    if gpu is None:
        return alone(ib, items)
    return Crew(ib, items, te.thread_axis("threadIdx.x"), min(_THREADS, gpu.features.max_threads or _THREADS))


def suppress(
    ib: IRBuilder, n: PrimExpr, alive: BufferVar, limit: PrimExpr | None, overlaps: Callable, on_keep: Callable,
    workers: Crew | None = None, row: tuple = (),
) -> BufferVar:
    """Of ``n`` candidates in order, keep those that are ``alive`` (those of ``row``) and that no kept one before
    ``overlaps``: greedily, at most ``limit`` (all if negative or None). ``on_keep(candidate, number)`` is told; the
    number kept is returned. All workers come to the same decisions: none is made before all have written."""
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
                # Two conditions, because the second is costly.
                with ib.if_scope(primop.not_equal(alive[(*row, j)], 0)), ib.if_scope(overlaps(i, j)):
                    alive[(*row, j)] = 0
            workers.wait()
    return kept
