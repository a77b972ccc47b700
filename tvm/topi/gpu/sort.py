"""Merge sort on a GPU: blocks sort short runs of each row in shared memory, then runs are merged pairwise through
global memory until one run of each row remains.

A merge is divided along its diagonals (merge path): bisection finds the origin of the first ``d`` elements of a merged
run, so that blocks and threads write slices of equal size for any data. Both phases are stable. If only the first
``count`` elements of a row are requested (top-k), no run keeps more than that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ... import te, tir
from ...dtype import info
from ...ir import primop
from ...ir.prim import IntImm, PrimExpr, StringImm, const, convert
from ...target import Target
from ...tir.ir_builder import BufferVar, IRBuilder
from .machine import Machine

# The elements of a thread: an odd number, so that adjacent threads start in different banks of shared memory.
_THREAD_ELEMENTS = 7
_THREADS = 256
# Rows of dynamic length are merged until runs have half as many elements as 32-bit indices can address.
_BITS = 31


@dataclass
class Lines:
    """The data to sort: ``number`` rows of ``n`` elements each. ``read(line, i)`` returns an element; ``write(line, i,
    key, index)`` stores the i-th sorted element and its original index (None without ``with_indices``), for the first
    ``count`` elements. Only the first ``length(line)`` elements are sorted, the others stay in place; None means all.
    ``before(a, b)`` returns whether ``a`` must precede ``b``."""

    number: Any
    n: Any
    count: Any
    dtype: str
    before: Callable[[PrimExpr, PrimExpr], PrimExpr]
    read: Callable[[PrimExpr, PrimExpr], PrimExpr]
    write: Callable[[PrimExpr, PrimExpr, PrimExpr, Any], None]
    length: Callable[[PrimExpr], PrimExpr] | None = None
    with_indices: bool = True


def sort_lines(ib: IRBuilder, lines: Lines, target: Target) -> None:
    """Generate the kernels that sort the rows."""
    _Sort(ib, lines, target).emit()


def _int(value: Any) -> PrimExpr:
    return primop.cast("int32", convert(value))


def _ceildiv(a: Any, b: Any) -> PrimExpr:
    return primop.floordiv(a + b - 1, convert(b))


def _clip(value: PrimExpr, most: Any) -> PrimExpr:
    return te.max(te.min(value, _int(most)), const(0, "int32"))


class _Sort:
    def __init__(self, ib: IRBuilder, lines: Lines, target: Target):
        self.ib, self.lines = ib, lines
        machine = Machine(target)
        element = info(lines.dtype).bytes + (4 if lines.with_indices else 0)
        most = min(_THREADS, machine.max_threads)
        while most > 2 and most * _THREAD_ELEMENTS * element + 64 > machine.shared_bytes:
            most //= 2
        self.n, self.number, self.count = _int(lines.n), _int(lines.number), _int(lines.count)
        self.most = self.crew = most
        if isinstance(lines.n, IntImm):
            while self.crew > 1 and self.crew // 2 * _THREAD_ELEMENTS >= lines.n.value:
                self.crew //= 2
        # ``crew`` threads sort a run; a block sorts as many short runs as it has threads for.
        self.runs = most // self.crew
        if isinstance(lines.number, IntImm):
            self.runs = max(min(self.runs, lines.number.value), 1)
        self.run = self.crew * _THREAD_ELEMENTS
        self.single = isinstance(lines.n, IntImm) and lines.n.value <= self.run
        self.tiles = const(1, "int32") if self.single else _ceildiv(self.n, self.run)
        # The elements of a thread are in registers only if no loop iterates over them.
        self.unrolled = not target.features.has_unrolling_compiler
        self.scratch: list[BufferVar] = []
        self.room: PrimExpr = const(0, "int32")

    def emit(self) -> None:
        if self.single:
            self.sort_runs()
            return
        # Runs move between the two halves of the memory, where they need no additional space.
        self.room = self.tiles * te.min(self.count, _int(self.run))
        kinds = [(self.lines.dtype, "sorted_keys"), *([("int32", "sorted_places")] if self.lines.with_indices else [])]
        self.scratch = [self.ib.allocate(dtype, (2, self.number * self.room), name=name) for dtype, name in kinds]
        self.sort_runs()
        known = self.lines.n.value if isinstance(self.lines.n, IntImm) else None
        levels = _BITS - self.run.bit_length() if known is None else (-(-known // self.run) - 1).bit_length()
        with self.ib.for_range(0, levels, name="level") as level:
            if known is not None:
                self.merge_runs(level)
                return
            # A row that is not longer than a run is merged once, with an empty run, to copy it to its destination.
            with self.ib.if_scope(tir.any(level < 1, self.covered(level) < self.n)):
                self.merge_runs(level)

    def covered(self, level: Any) -> PrimExpr:
        """Return the number of row elements that a run covers."""
        return const(self.run, "int32") << level

    # -- kernels -------------------------------------------------------------------------------------------------------

    def threads(self, blocks: PrimExpr, count: int) -> tuple[PrimExpr, PrimExpr]:
        block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        self.ib.scope_attr(block, "thread_extent", blocks)
        self.ib.scope_attr(thread, "thread_extent", count)
        return block.var, thread.var

    def wait(self) -> None:
        self.ib.emit(tir.call_intrin("int32", "tir.tvm_storage_sync", StringImm("shared")))

    def shared(self, size: int) -> list[BufferVar]:
        kinds = [(self.lines.dtype, "keys"), *([("int32", "places")] if self.lines.with_indices else [])]
        return [self.ib.allocate(dtype, (size,), name=name, scope="shared") for dtype, name in kinds]

    def own(self) -> list[BufferVar]:
        kinds = [(self.lines.dtype, "own_keys"), *([("int32", "own_places")] if self.lines.with_indices else [])]
        return [self.ib.allocate(dtype, (_THREAD_ELEMENTS,), name=name, scope="local") for dtype, name in kinds]

    def length(self, line: PrimExpr) -> PrimExpr:
        return self.n if self.lines.length is None else self.ib.let("length", _clip(self.lines.length(line), self.n))

    def put(self, line: PrimExpr, i: PrimExpr, values: list[PrimExpr]) -> None:
        self.lines.write(line, i, values[0], values[1] if self.lines.with_indices else None)

    # -- sorting runs --------------------------------------------------------------------------------------------------

    def sort_runs(self) -> None:
        ib, lines, threads = self.ib, self.lines, self.crew * self.runs
        units = self.number * self.tiles
        kept = self.count if self.single else te.min(self.count, _int(self.run))
        with ib.new_scope():
            block, thread = self.threads(_ceildiv(units, self.runs), threads)
            memory, own = self.shared(threads * _THREAD_ELEMENTS), self.own()

            def each(body: Callable) -> None:
                """Call ``body(slot, line, run of the line, position in the run)`` for all elements; adjacent threads
                handle adjacent elements."""
                with ib.for_range(0, _THREAD_ELEMENTS, name="turn") as turn:
                    slot = ib.let("slot", turn * threads + thread)
                    unit = ib.let("unit", block * self.runs + slot // self.run)
                    body(slot, unit, unit // self.tiles, unit % self.tiles, slot % self.run)

            def fill(slot, unit, line, tile, place):
                index = ib.let("index", tile * self.run + place)
                with ib.if_scope(tir.all(unit < units, index < self.n)):
                    memory[0][slot] = lines.read(line, index)
                    if lines.with_indices:
                        memory[1][slot] = index

            each(fill)
            self.wait()
            unit = ib.let("own_unit", te.min(block * self.runs + thread // self.crew, units - 1))
            length = self.length(unit // self.tiles)
            begin = thread // self.crew * self.run
            size = ib.let("size", _clip(length - unit % self.tiles * self.run, self.run))
            self.sort_own(memory, own, thread, ib.let("present", size - thread % self.crew * _THREAD_ELEMENTS))
            with ib.for_range(0, self.crew.bit_length() - 1, name="level") as level:
                self.wait()
                width = ib.let("width", const(_THREAD_ELEMENTS, "int32") << level)
                first = ib.let("first", ((thread % self.crew) >> (level + 1)) * (width * 2))
                left, right = (ib.let("size", _clip(size - first - more, width)) for more in (0, width))
                at = ib.let("at", te.min(thread % self.crew * _THREAD_ELEMENTS - first, left + right))
                self.merge(memory, own, begin + first, left, begin + first + width, right, at)
            self.wait()

            def out(slot, unit, line, tile, place):
                with ib.if_scope(tir.all(unit < units, place < kept, tile * self.run + place < self.n)):
                    if self.single:
                        self.put(line, place, [m[slot] for m in memory])
                    else:
                        for target, source in zip(self.scratch, memory):
                            target[0, unit * kept + place] = source[slot]

            each(out)

    def sort_own(self, memory: list, own: list, thread: PrimExpr, present: PrimExpr) -> None:
        """Sort the elements of a thread by comparing neighbours; elements beyond ``present`` stay in place."""
        ib = self.ib
        first = thread * _THREAD_ELEMENTS
        held = [ib.allocate(mine.dtype, (1,), name="held", scope="local") for mine in own]

        def take(i):
            with ib.if_scope(present > i):
                for mine, all_of in zip(own, memory):
                    mine[i] = all_of[first + i]

        def swap(turn, pair):
            i = turn % 2 + pair * 2
            with ib.if_scope(present > i + 1):
                with ib.if_scope(self.lines.before(own[0][i + 1], own[0][i])):
                    for mine, other in zip(own, held):
                        other[0], mine[i] = mine[i], mine[i + 1]
                        mine[i + 1] = other[0]

        self.each_of(_THREAD_ELEMENTS, take)
        self.each_of(_THREAD_ELEMENTS, lambda turn: self.each_of(_THREAD_ELEMENTS // 2, lambda pair: swap(turn, pair)))
        self.each_of(_THREAD_ELEMENTS, lambda i: self.give(memory, own, first, present, i))

    def give(self, memory: list, own: list, first: PrimExpr, present: PrimExpr, i: Any) -> None:
        with self.ib.if_scope(present > i):
            for mine, all_of in zip(own, memory):
                all_of[first + i] = mine[i]

    def each_of(self, count: int, body: Callable) -> None:
        if self.unrolled:
            for i in range(count):
                body(i)
            return
        with self.ib.for_range(0, count, name="e") as i:
            body(i)

    # -- merging -------------------------------------------------------------------------------------------------------

    def split(self, key: Callable, left: PrimExpr, right: PrimExpr, at: PrimExpr, name: str) -> BufferVar:
        """Return how many of the first ``at`` elements of a merge come from its left run, which has ``left`` elements
        (the right one has ``right``). ``key(is_right, position)`` reads an element."""
        ib = self.ib
        low, high = (ib.allocate("int32", (1,), name=f"{name}_{side}", scope="local") for side in ("low", "high"))
        low[0], high[0] = te.max(at - right, const(0, "int32")), te.min(at, left)
        with ib.while_loop(low[0] < high[0]):
            middle = ib.let("middle", (low[0] + high[0]) >> 1)
            with ib.if_scope(self.lines.before(key(True, at - 1 - middle), key(False, middle))):
                high[0] = middle
            with ib.else_scope():
                low[0] = middle + 1
        return low

    def merge(
        self, memory: list, own: list, left: PrimExpr, left_size: PrimExpr, right: PrimExpr, right_size: PrimExpr,
        at: PrimExpr,
    ) -> None:  # fmt: skip
        """Merge a thread's part, starting at ``at``, of two runs in shared memory; the result replaces the runs."""
        ib = self.ib
        keys = memory[0]
        low = self.split(lambda of_right, i: keys[(right if of_right else left) + i], left_size, right_size, at, "own")
        here, there = (ib.allocate("int32", (1,), name=name, scope="local") for name in ("here", "there"))
        here[0], there[0] = left + low[0], right + at - low[0]
        left_end, right_end = ib.let("left_end", left + left_size), ib.let("right_end", right + right_size)
        present = ib.let("present", left_size + right_size - at)

        def step(i):
            with ib.if_scope(present > i):
                right_first = te.if_then_else(
                    here[0] >= left_end,
                    const(True, "bool"),
                    te.if_then_else(
                        there[0] >= right_end, const(False, "bool"), self.lines.before(keys[there[0]], keys[here[0]])
                    ),
                )
                with ib.if_scope(right_first):
                    for mine, all_of in zip(own, memory):
                        mine[i] = all_of[there[0]]
                    there[0] = there[0] + 1
                with ib.else_scope():
                    for mine, all_of in zip(own, memory):
                        mine[i] = all_of[here[0]]
                    here[0] = here[0] + 1

        self.each_of(_THREAD_ELEMENTS, step)
        self.wait()
        self.each_of(_THREAD_ELEMENTS, lambda i: self.give(memory, own, left + at, present, i))

    def merge_runs(self, level: PrimExpr) -> None:
        """Merge pairs of runs of a row: each block writes as many elements as its shared memory holds."""
        ib, threads, part = self.ib, self.most, self.most * _THREAD_ELEMENTS
        source = primop.bitwise_and(level, const(1, "int32"))
        covered = self.covered(level)
        kept, wide = te.min(covered, self.count), te.min(covered * 2, self.count)
        runs = _ceildiv(self.n, covered)
        pairs, parts = (runs + 1) >> 1, _ceildiv(wide, part)
        with ib.new_scope():
            block, thread = self.threads(self.number * pairs * parts, threads)
            memory, own = self.shared(part), self.own()
            ends = ib.allocate("int32", (2,), name="ends", scope="shared")
            unit = ib.let("unit", block // parts)
            line, pair = ib.let("line", unit // pairs), ib.let("pair", unit % pairs)
            length = self.length(line)
            left, right = (ib.let("size", _clip(length - (pair * 2 + k) * covered, kept)) for k in (0, 1))
            total = ib.let("total", te.min(left + right, wide))
            first = [ib.let("first", line * self.room + (pair * 2 + k) * kept) for k in (0, 1)]
            start = ib.let("start", block % parts * part)
            begin, end = (ib.let("at", te.min(start + more, total)) for more in (0, part))
            with ib.if_scope(thread < 2):
                at = ib.let("border", tir.Select(thread < 1, begin, end))
                found = self.split(
                    lambda of_right, i: self.scratch[0][source, first[of_right] + i], left, right, at, "part"
                )
                ends[thread] = found[0]
            self.wait()
            here, there = ib.let("here", ends[0]), ib.let("there", begin - ends[0])
            left, right = ib.let("left", ends[1] - here), ib.let("right", end - ends[1] - there)
            with ib.for_range(0, _THREAD_ELEMENTS, name="turn") as turn:
                slot = ib.let("slot", turn * threads + thread)
                with ib.if_scope(slot < left + right):
                    place = tir.Select(slot < left, first[0] + here + slot, first[1] + there + slot - left)
                    for target, taken in zip(memory, self.scratch):
                        target[slot] = taken[source, place]
            self.wait()
            at = ib.let("at", te.min(thread * _THREAD_ELEMENTS, left + right))
            self.merge(memory, own, const(0, "int32"), left, left, right, at)
            self.wait()
            with ib.for_range(0, _THREAD_ELEMENTS, name="turn") as turn:
                slot = ib.let("slot", turn * threads + thread)
                self.merged(memory, source, line, length, pair, wide, pairs, total, start + slot, slot)

    def merged(self, memory, source, line, length, pair, wide, pairs, total, place, slot) -> None:
        """Store an element of a merged run in the other half of the memory; an element of the last run is an output."""
        ib = self.ib
        with ib.if_scope(pairs > 1):
            with ib.if_scope(place < total):
                for target, taken in zip(self.scratch, memory):
                    target[1 - source, line * self.room + pair * wide + place] = taken[slot]
        with ib.else_scope():
            with ib.if_scope(place < self.count):
                if self.lines.length is None:
                    self.put(line, place, [m[slot] for m in memory])
                    return
                with ib.if_scope(place < length):
                    self.put(line, place, [m[slot] for m in memory])
                with ib.else_scope():
                    self.put(line, place, [self.lines.read(line, place), place])


__all__ = ["Lines", "sort_lines"]
