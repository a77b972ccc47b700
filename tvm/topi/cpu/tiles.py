"""Matrix registers of CPUs (AMX tiles): intrinsics that multiply blocks of tiles.

A tile multiplication adds ``(m, k) x (k, n)`` to ``(m, n)`` accumulators. The lhs rows are pixels or rows of a matrix;
they are a stride apart in memory, so no copy is needed. In the rhs the elements that are reduced at once are
contiguous: ``(k / depth, n, depth)``.

One intrinsic covers a block from its first load to the store of its accumulators, because the order of loads and
multiplications determines its speed. A register is loaded for the next step directly after the last multiplication that
reads it, so that loads overlap with multiplications on other registers. Code generation keeps this order.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from ... import te, tir
from ...ir.prim import PrimExpr, Var
from ...ir.type import PointerType, PrimType
from ...target import Target
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer
from ...tir.stmt import Allocate
from ..utils import prod

# The maximum rows of a tile, the bytes of a row, and the accumulators of a row.
ROWS, ROW_BYTES, COLUMNS = 16, 64, 16
# The bytes of an accumulator, and of the elements whose products are added to it at once.
SUM_BYTES = 4
# The number of tile registers of a CPU.
REGISTERS = 8
# The maximum number of unrolled steps.
MAX_UNROLLED = 16
# The maximum number of accumulator rows that a step finishes with unrolled code.
MAX_ROWS_UNROLLED = 4
# The first step of a register block that finishes accumulators of the previous register block, which step 0 stores.
FIRST_TO_FINISH = 2
SCOPES = {"a": "wmma.matrix_a", "b": "wmma.matrix_b", "sums": "wmma.accumulator"}


class Kind(NamedTuple):
    """The types of operands and accumulators, and the number of elements of a lane that are reduced at once."""

    lhs: str
    rhs: str
    sums: str
    depth: int

    @property
    def k(self) -> int:
        """The number of elements in a row of a full tile."""
        return COLUMNS * self.depth


BFLOAT16 = Kind("bfloat16", "bfloat16", "float32", 2)


def kind_of(target: Target | None, lhs: str, rhs: str) -> Kind | None:
    """Return the target's tile multiplication for two operand types, or None."""
    if target is None or not target.features.has_llvm_intrinsics:
        return None
    if lhs == rhs == "bfloat16" and target.features.has_amx_bf16:
        return BFLOAT16
    if {lhs, rhs} <= {"int8", "uint8"} and target.features.has_amx_int8:
        return Kind(lhs, rhs, "int32", 4)
    return None


def _memory(shape: tuple[int, ...], dtype: str, name: str, inner: int) -> Buffer:
    """Return a buffer of a matrix whose rows have a stride. The last ``inner`` dimensions form a row; the dimensions
    before them enumerate rows at equal distances."""
    step = te.var(f"{name}_stride")
    strides: list[Any] = []
    size: Any = 1
    for place, extent in enumerate(reversed(shape)):
        size = step if place == inner else size
        strides.insert(0, size)
        size = size * extent
    return tir.decl_buffer(shape, dtype, name=name, strides=strides, offset_factor=1, data_alignment=1)


def _apart(shape: tuple[int, ...], dtype: str, name: str, inner: tuple[int, ...] = (1,)) -> Buffer:
    """Return a buffer of a part of a tensor in which every dimension except the ``inner`` ones has a separate
    stride."""
    strides = [te.var(f"{name}_stride_{i}") for i in range(len(shape) - len(inner))]
    return tir.decl_buffer(shape, dtype, name=name, strides=[*strides, *inner], offset_factor=1, data_alignment=1)


def _call(name: str, *args: Any) -> PrimExpr:
    return tir.call_intrin("handle", f"tir.{name}", *args)


def layout_of(non_temporal: bool) -> str:
    """Return the memory layout of a tile, which tells code generation whether its cache lines should stay in the L1
    cache."""
    return "row_major_non_temporal" if non_temporal else "row_major"


class Shape(NamedTuple):
    """The shape of a tile multiplication: rows, columns, and a K dimension of some taps of a window by some channels,
    which are contiguous."""

    rows: int
    columns: int
    taps: int
    channels: int
    kind: Kind

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.rows, self.columns, self.taps * self.channels

    @property
    def groups(self) -> int:
        return self.channels // self.kind.depth


def _fragments(ib: tir.ir_builder.IRBuilder, dtype: str, elements: int, use: str) -> Var:
    """Allocate tile registers for the rest of a program."""
    data = Var(use, PointerType(PrimType(dtype), SCOPES[use]))
    ib.emit(lambda body: Allocate(data, dtype, (tir.const(elements),), tir.const(True, "bool"), body))
    return data


class Window(NamedTuple):
    """The part of a convolution that a block computes: the pixels of ``rows`` rows of ``tiles`` tiles, and ``filters``
    blocks of filters. ``steps`` are the blocks of channels, the rows of the window, and its columns divided by the taps
    of a tile. The rows of a flat image are contiguous, ``width`` pixels apart; other images have a width of 0."""

    rows: int
    tiles: int
    filters: int
    steps: tuple[int, int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    width: int


class Block(NamedTuple):
    """A multiplication of ``m`` row tiles and ``n`` column tiles over ``steps`` tiles of k.

    The lhs is (m, steps, rows, k) if it ``is_packed``, that of a ``window`` if there is one, else (m * rows, steps *
    k). With ``non_temporal`` the cache lines of the lhs do not stay in the L1 cache; those of the rhs stay there for
    the first ``near`` steps. ``prefetch`` is (multiplications, lines): so many multiplications prefetch the next rhs in
    equal shares, and each prefetch loads so many lines. Several ``blocks`` of such rows form a panel, whose
    accumulators are added in memory over the ``parts`` of its steps; the rhs of a part stays in the L1 cache."""

    shape: Shape
    m: int
    n: int
    steps: int
    near: int
    is_packed: bool = False
    non_temporal: bool = False
    prefetch: tuple[int, int] = (0, 1)
    window: Window | None = None
    blocks: int = 1
    parts: int = 1

    @property
    def wide(self) -> int:
        """The number of contiguous columns in the rhs and the accumulators."""
        return self.n * self.shape.columns // (self.window.filters if self.window else 1)

    @property
    def order(self) -> list[tuple[int, int]]:
        """The multiplications of a step. Each operand except the first is used twice in a row."""
        return [(i, self.n - 1 - j if i % 2 else j) for i in range(self.m) for j in range(self.n)]

    @property
    def loops(self) -> tuple[int, int, int]:
        """The loops over the steps: blocks of channels, then the rows and the columns of a window."""
        return self.window.steps if self.window else (self.steps, 1, 1)


def _matmul_sum(block: Block) -> tuple[Any, dict[Any, Buffer]]:
    """Return the computation of a block of a matmul, and the buffers of its operands and accumulators."""
    shape, m, steps, wide, is_packed = block.shape, block.blocks * block.m, block.steps, block.wide, block.is_packed
    kind, rows, depth, k = shape.kind, shape.rows, shape.kind.depth, shape.sizes[2]
    of_lhs = (m, steps, rows, k) if is_packed else (m * rows, steps * k)
    a = te.placeholder(of_lhs, kind.lhs, name="a")
    b = te.placeholder((steps, k // depth, wide, depth), kind.rhs, name="b")
    axes = [te.reduce_axis((0, size), name=name) for size, name in ((steps, "s"), (k // depth, "g"), (depth, "d"))]
    s, g, d = axes

    def term(t, i, j):
        x = a(t, s, i, g * depth + d) if is_packed else a(t * rows + i, s * k + g * depth + d)
        return te.sum(x.astype(kind.sums) * b(s, g, j, d).astype(kind.sums), axis=axes)

    c = te.compute((m, rows, wide), term, name="c")
    return c, {
        a: _memory(of_lhs, kind.lhs, "lhs", 3 if is_packed else 1),
        b: _memory((steps, k // depth, wide, depth), kind.rhs, "rhs", 3),
        c: _memory((m, rows, wide), kind.sums, "sums", 1),
    }


def _matrix_sum(block: Block, window: Window) -> tuple[Any, dict[Any, Buffer]]:
    """Return the computation of a block of a matmul or a convolution with one axis each for rows, columns and
    reduction. Channels are last in the lhs; in the rhs the taps are outside the channels."""
    kind, (rows, _, k), m, wide, is_packed = block.shape.kind, block.shape.sizes, block.m, block.wide, block.is_packed
    (steps, *taps), stride, depth = window.steps, window.strides[1], kind.depth
    taps = taps if prod(taps) > 1 else []
    of_lhs = (*taps[:1], (m * rows - 1) * stride + (taps or [1])[-1], steps * k)
    of_lhs = (m, steps, rows, k) if is_packed else of_lhs
    a = te.placeholder(of_lhs, kind.lhs, name="a")
    b = te.placeholder((*taps, steps * k // depth, wide, depth), kind.rhs, name="b")
    axes = [te.reduce_axis((0, size), name=name) for size, name in zip((steps * k, *taps), "kyx")]
    at, *over = axes

    def term(i, j):
        place = (*over[:1], i * stride + (over[1] if over else 0), at)
        if is_packed:
            place = te.indexdiv(i, rows), te.indexdiv(at, k), te.indexmod(i, rows), te.indexmod(at, k)
        y = b(*over, te.indexdiv(at, depth), j, te.indexmod(at, depth)).astype(kind.sums)
        return te.sum(a(*place).astype(kind.sums) * y, axis=axes)

    c = te.compute((m * rows, wide), term, name="c")
    return c, {
        a: _memory(of_lhs, kind.lhs, "lhs", 3) if is_packed else _apart(of_lhs, kind.lhs, "lhs"),
        b: _memory(b.shape, kind.rhs, "rhs", len(b.shape)),
        c: _memory((m * rows, wide), kind.sums, "sums", 1),
    }


def _window_sum(block: Block, window: Window) -> tuple[Any, dict[Any, Buffer]]:
    """Return the computation of a block of a convolution, and the buffers of its operands and accumulators."""
    shape, kind, depth = block.shape, block.shape.kind, block.shape.kind.depth
    (outer, height, columns), taps = window.steps, shape.taps
    (down, right), (below, beside), width = window.strides, window.dilations, window.width
    # The pixels that are read: rows and columns, or those of a flat image.
    tall = (window.rows - 1) * down + (height - 1) * below + 1
    wide = (window.tiles * shape.rows - 1) * right + (columns * taps - 1) * beside + 1
    of_lhs = (wide + (height - 1) * below * width,) if width else (tall, wide)
    of_rhs = (window.filters, outer, height, columns * taps, shape.groups, block.wide, depth)
    of_sums = (window.filters, window.rows, window.tiles, shape.rows, block.wide)
    a = te.placeholder((outer, *of_lhs, shape.channels), kind.lhs, name="a")
    b = te.placeholder(of_rhs, kind.rhs, name="b")
    sizes = (*window.steps, taps, shape.groups, depth)
    axes = [te.reduce_axis((0, size), name=name) for size, name in zip(sizes, "cywtgd")]
    c, y, w, t, g, d = axes

    def term(o, row, tile, i, j):
        x, line = (tile * shape.rows + i) * right + (w * taps + t) * beside, row * down + y * below
        place = (x + y * below * width,) if width else (line, x)
        value = a(c, *place, g * depth + d).astype(kind.sums)
        return te.sum(value * b(o, c, y, w * taps + t, g, j, d).astype(kind.sums), axis=axes)

    sums = te.compute(of_sums, term, name="c")
    return sums, {
        # The taps of a tile are contiguous.
        a: _apart(a.shape, kind.lhs, "lhs", (shape.channels, 1) if taps > 1 else (1,)),
        b: _memory(of_rhs, kind.rhs, "rhs", 2),
        sums: _apart(of_sums, kind.sums, "sums"),
    }


class _BlockCode:
    """The code generator of a block for operands and accumulators in memory. Each tile is loaded for the next step as
    soon as the current step has used it."""

    def __init__(self, block: Block, ins: Any, outs: Any):
        (self.x, self.y), (self.z,) = ins, outs
        self.block, self.ib = block, tir.ir_builder.create()
        shape, (m, n) = block.shape, block[1:3]
        kind, rows, k = shape.kind, shape.rows, shape.sizes[2]
        self.held = {
            "sums": _fragments(self.ib, kind.sums, m * n * rows * shape.columns, "sums"),
            "a": _fragments(self.ib, kind.lhs, m * rows * k, "a"),
            "b": _fragments(self.ib, kind.rhs, n * k * shape.columns, "b"),
        }
        # The last multiplication of a step that reads each operand.
        self.uses = {(use, pair[at]): place for place, pair in enumerate(block.order) for at, use in enumerate("ab")}

    def write(self, starts: bool) -> Any:
        """Generate code that adds the matmul to the accumulators, or initializes them if ``starts`` is set."""
        self.begin("fill" if starts else "load", (0,) * len(self.block.loops), self.block.near > 0)
        self.nest((), None, self.block.near >= self.block.steps)
        return self.ib.get()

    def begin(self, way: str, step: tuple[Any, ...], is_near: bool) -> None:
        """Fill or load the accumulators, and load the operands of the first step."""
        loaded: set[tuple[str, int]] = set()
        for i, j in self.block.order:
            # Load the operands of the first multiplications first.
            self.sum_tile(way, i, j)
            for use, of in (("a", i), ("b", j)):
                if (use, of) not in loaded:
                    self.load(use, of, step, is_near)
            loaded |= {("a", i), ("b", j)}

    def nest(self, outer: tuple[Any, ...], after: tuple[Any, ...] | None, is_near: bool) -> None:
        """Generate the steps inside the loops whose variables are given; ``after`` is the step that follows them, or
        None. The last iteration of each loop is separate, so that every step has a known successor."""
        loops, depth = self.block.loops, len(outer)
        if depth == len(loops):
            self.multiply(outer, after, is_near)
            return
        last, inside = loops[depth] - 1, prod(loops[depth + 1 :])
        # Unroll the loops of a window, because its tiles are at irregular addresses.
        kind = "unroll" if depth and (last + 1) * inside <= MAX_UNROLLED else "serial"
        middle = 0 if depth else min(max(self.block.near // inside - 1, 0), last)
        for begin, end in ((0, middle), (middle, last)):
            if begin < end:
                with self.ib.for_range(begin, end, name="step", kind=kind) as at:
                    is_near = is_near if depth else begin < middle
                    self.nest((*outer, at), (*outer, at + 1, *(0,) * (len(loops) - depth - 1)), is_near)
        self.nest((*outer, last), after, is_near if depth else self.block.near >= self.block.steps)

    def move(self, way: str, use: str, number: int, place: Any, passes: bool = False) -> None:
        """Load or store a tile, given its buffer, offset and row distance."""
        buffer, at, pitch = place
        pointer = buffer.access_ptr("r" if way == "load" else "w", offset=at)
        fragment = self.held[use], *self.block.shape.sizes, number
        self.ib.emit(_call(f"tvm_{way}_matrix_sync", *fragment, pointer, pitch, layout_of(passes)))

    def load(self, use: str, i: int, step: tuple[Any, ...], is_near: bool) -> None:
        if use == "a":
            self.move("load", use, i, self.lhs(i, step), self.block.non_temporal)
        else:
            self.move("load", use, i, self.rhs(i, step), not is_near)

    def lhs(self, i: Any, step: tuple[Any, ...]) -> tuple[Buffer, Any, Any]:
        """Return the buffer, offset and row distance of an lhs tile of a step."""
        (rows, _, k), x, window, (outer, down, right) = self.block.shape.sizes, self.x, self.block.window, step
        if self.block.is_packed:
            return x, i * x.strides[0] + outer * rows * k, k
        row, pixel = (i * rows * window.strides[1] + right if window else i * rows), x.strides[-2]
        at = row * pixel + outer * k + (down * x.strides[0] if len(x.shape) > 2 else 0)
        return x, at, pixel * window.strides[1] if window else pixel

    def rhs(self, j: int, step: tuple[Any, ...]) -> tuple[Buffer, Any, Any]:
        (_, columns, k), depth, (outer, y, x) = self.block.shape.sizes, self.block.shape.kind.depth, step
        steps, _, width = self.block.loops
        number = (y * width + x) * steps + outer
        return self.y, number * (self.block.wide * k) + j * columns * depth, self.block.wide * depth

    def sums(self, i: int, j: int) -> tuple[Buffer, Any, Any]:
        (rows, columns, _), z = self.block.shape.sizes, self.z
        return z, i * rows * z.strides[-2] + j * columns, z.strides[-2]

    def sum_tile(self, way: str, i: int, j: int) -> None:
        number, shape = i * self.block.n + j, self.block.shape
        if way == "fill":
            zero = tir.const(0, shape.kind.sums)
            self.ib.emit(_call("tvm_fill_fragment", self.held["sums"], *shape.sizes, number, zero))
        else:
            self.move(way, "sums", number, self.sums(i, j))

    def multiply(self, step: tuple[Any, ...], after: tuple[Any, ...] | None, is_near: bool) -> None:
        """Generate the multiplications of a step, the loads of the next, and a share of the prefetches. After the last
        step each accumulator tile is stored while other tiles are multiplied."""
        for place, (i, j) in enumerate(self.block.order):
            self.add_product(i, j)
            if after is None:
                self.sum_tile("store", i, j)
            else:
                self.load_next(place, after, is_near)
        if self.block.prefetch[0]:
            self.prefetch(step[0])

    def add_product(self, i: int, j: int) -> None:
        to = self.held["sums"], i * self.block.n + j
        self.ib.emit(_call("tvm_mma_sync", *to, self.held["a"], i, self.held["b"], j, *to))

    def load_next(self, place: int, after: tuple[Any, ...], is_near: bool) -> None:
        """Load for the step ``after`` the operands whose last use is the multiplication at position ``place``."""
        i, j = self.block.order[place]
        for use, of in (("b", j), ("a", i)):
            if self.uses[use, of] == place:
                self.load(use, of, after, is_near)

    def prefetch(self, step: Any) -> None:
        block, x = self.block, self.x
        # The offset of the rows determines the index of the multiplication that uses the same part of the rhs.
        number = tir.indexdiv(x.elem_offset, block.m * x.strides[0] * (1 if block.is_packed else block.shape.rows))
        self.prefetch_share(tir.indexmod(number, block.prefetch[0]) * block.steps + step)

    def prefetch_share(self, share: Any) -> None:
        block, shape = self.block, self.block.shape
        products, lines = block.prefetch
        fetched = ROW_BYTES * shape.kind.depth // SUM_BYTES * lines
        panel = block.wide * shape.sizes[2]
        count = -(-panel // fetched // products)
        for line in range(count):
            at = self.y.access_ptr("r", offset=block.steps * panel + (share * count + line) * fetched)
            self.ib.emit(tir.call_intrin("void", "tir.prefetch", at, 0, 2, 1))


class _WindowCode(_BlockCode):
    """The code generator of a block of a convolution."""

    def __init__(self, block: Block, window: Window, ins: Any, outs: Any):
        super().__init__(block, ins, outs)
        self.window, self.parts = window, block.n // window.filters

    def lhs(self, i: int, step: tuple[Any, ...]) -> tuple[Buffer, Any, Any]:
        window, (outer, y, x) = self.window, step
        (row, tile), pixel = divmod(i, window.tiles), self.x.strides[-2]
        of_row = pixel * window.width if window.width else self.x.strides[1]
        down = row * window.strides[0] + y * window.dilations[0]
        right = tile * self.block.shape.rows * window.strides[1] + x * (self.block.shape.taps * window.dilations[1])
        return self.x, outer * self.x.strides[0] + down * of_row + right * pixel, pixel * window.strides[1]

    def rhs(self, j: int, step: tuple[Any, ...]) -> tuple[Buffer, Any, Any]:
        shape, pitch, (outer, y, x) = self.block.shape, self.y.strides[4], step
        _, height, width = self.window.steps
        at = ((outer * height + y) * width + x) * (shape.taps * shape.groups) * pitch
        part = j % self.parts * shape.columns * shape.kind.depth
        return self.y, j // self.parts * self.y.strides[0] + at + part, pitch

    def sums(self, i: int, j: int) -> tuple[Buffer, Any, Any]:
        filters, row, tile, pitch, _ = self.z.strides
        at = j // self.parts * filters + i // self.window.tiles * row + i % self.window.tiles * tile
        return self.z, at + j % self.parts * self.block.shape.columns, pitch


class _PanelCode(_BlockCode):
    """The code generator of a panel: all its register blocks over one part of k, then over the next part. Two
    consecutive register blocks are pipelined like steps: the last step of one loads the operands of the next, whose
    first step stores the accumulators of the previous one just before it reinitializes them. They are stored to a
    scratch buffer that stays in the L1 cache. Vector code adds them from there to the results of earlier parts, a few
    rows in each step, so that multiplications do not wait for results. Attributes mark final rows and the overlap of
    consecutive panels (``OverlapEpilogue``).

    A step is identified by the index of the register block over all parts, and its position in the part."""

    def __init__(self, block: Block, ins: Any, outs: Any):
        super().__init__(block, ins, outs)
        self.tall, self.part = block.m * block.shape.rows, block.steps // block.parts
        scratch: Any = self.ib.allocate(block.shape.kind.sums, (self.tall, block.wide), "scratch")
        self.scratch: Buffer = scratch.as_parameter()

    @contextlib.contextmanager
    def attribute(self, key: str, value: Any = 1, node: Any = 0) -> Iterator[None]:
        with self.ib.new_scope():
            self.ib.scope_attr(tir.const(node), key, value)
            yield

    def write(self, starts: bool = True) -> Any:
        blocks, parts = self.block.blocks, self.block.parts
        total = blocks * parts
        with self.attribute("overlap_first"):
            self.begin("fill", (0, 0), True)
        # The accumulators of the previous register block belong to the previous panel, to the first part, to a middle
        # part, or to the last one.
        phases = sorted({0, 1, min(blocks + 1, total), (parts - 1) * blocks + 1, total})
        for begin, end in itertools.pairwise(phases):
            with self.ib.for_range(begin, end, name="number") as number:
                self.register_block(number, (begin or total) - 1, begin == 0, end == total)
        with self.attribute("overlap_last"):
            for i, j in self.block.order:
                self.store_before(i, j)
            self.finish(total, total - 1, 0, self.tall)
        return self.ib.get()

    def register_block(self, number: Any, before: int, is_first: bool, is_last: bool) -> None:
        """Generate the multiplications of a register block over a part of k. The steps finish equal shares of the
        accumulators of the register block ``before`` (or of another one over the same part); the last step finishes the
        remainder. The first register block finishes those of the previous panel, and the last one loads operands of the
        next panel."""
        last = self.part - 1
        first = min(FIRST_TO_FINISH, last)
        share = self.tall // (self.part - first)
        total = self.block.blocks * self.block.parts
        following = tir.indexmod(number + 1, total)
        for begin, end in itertools.pairwise(sorted({0, min(1, last), first, last, self.part})):
            with self.ib.for_range(begin, end, name="step") as at:
                ahead = tir.indexdiv(number + 1, total) if is_last and begin == last else 0
                self.products((number, at), (following, 0) if begin == last else (number, at + 1), ahead, begin == 0)
                with self.attribute("overlap_previous") if is_first else contextlib.nullcontext():
                    if begin == last:
                        self.finish(number, before, share * (last - first), self.tall - share * (last - first))
                    elif begin == first:
                        self.finish(number, before, (at - first) * share, share)

    def products(self, step: tuple[Any, ...], after: tuple[Any, ...], ahead: Any, is_first: bool) -> None:
        """Generate the multiplications of a step, and the loads of the next one, which is ``ahead`` panels further."""
        block, (number, at) = self.block, step
        for place, (i, j) in enumerate(block.order):
            if is_first:
                self.store_before(i, j)
                self.sum_tile("fill", i, j)
            self.add_product(i, j)
            with self.attribute("overlap_next", ahead):
                self.load_next(place, after, True)
        if block.prefetch[0]:
            self.prefetch_share(tir.indexmod(number * self.part + at, block.prefetch[0] * block.steps))

    def lhs(self, i: int, step: tuple[Any, ...]) -> tuple[Buffer, Any, Any]:
        number, at = step
        tile = tir.indexmod(number, self.block.blocks) * self.block.m + i
        return super().lhs(tile, (tir.indexdiv(number, self.block.blocks) * self.part + at, 0, 0))

    def rhs(self, j: int, step: tuple[Any, ...]) -> tuple[Buffer, Any, Any]:
        number, at = step
        return super().rhs(j, (tir.indexdiv(number, self.block.blocks) * self.part + at, 0, 0))

    def store_before(self, i: int, j: int) -> None:
        """Store a tile of the accumulators of the previous register block."""
        (rows, columns, _), wide = self.block.shape.sizes, self.block.wide
        self.move("store", "sums", i * self.block.n + j, (self.scratch, i * rows * wide + j * columns, wide))

    def finish(self, number: Any, before: int, begin: Any, count: int) -> None:
        """Add rows of the previous register block's accumulators to the results in memory, or initialize these.
        ``before`` is the index of a register block over the same part, which determines whether to add."""
        if count <= MAX_ROWS_UNROLLED:
            for row in range(count):
                self.finish_row(number, before, begin + row)
        else:
            with self.ib.for_range(begin, begin + count, name="row") as row:
                self.finish_row(number, before, row)

    def finish_row(self, number: Any, before: int, row: Any) -> None:
        wide, blocks, part = self.block.wide, self.block.blocks, before // self.block.blocks
        vector = f"{self.block.shape.kind.sums}x{wide}" if wide > 1 else None
        # The rows of all tiles are equally spaced, so rows of a register block are counted from its first tile.
        tile = tir.indexmod(number + blocks - 1, blocks) * self.block.m
        place = tile, row, 0
        sums = self.scratch.vload((row, 0), vector)
        value = self.z.vload(place, vector) + sums if part else sums
        is_final = part == self.block.parts - 1
        whole = tile * self.block.shape.rows + row
        with self.attribute("overlap_row", whole, blocks * self.tall) if is_final else contextlib.nullcontext():
            self.ib.emit(self.z.vstore(place, value))


@functools.cache
def block_product(block: Block, name: str | None = None) -> TensorIntrin:
    """Return an intrinsic that stores the result of a block or a panel in memory; the accumulators of a block stay in
    registers meanwhile. A block with a ``name`` has a window, with one axis each for rows, columns and channels, and
    may add to the results in memory."""
    window = block.window
    c, binds = (_matrix_sum if name else _window_sum)(block, window) if window else _matmul_sum(block)

    def bodies(ins: Any, outs: Any) -> Any:
        if name:
            return _BlockCode(block, ins, outs).write(True), None, _BlockCode(block, ins, outs).write(False)
        if window:
            return _WindowCode(block, window, ins, outs).write(True)
        return (_PanelCode if block.blocks * block.parts > 1 else _BlockCode)(block, ins, outs).write(True)

    return te.decl_tensor_intrin(c.op, bodies, name or "block_product", binds=binds)


__all__ = [
    "BFLOAT16",
    "COLUMNS",
    "REGISTERS",
    "ROWS",
    "ROW_BYTES",
    "SCOPES",
    "Block",
    "Kind",
    "Shape",
    "Window",
    "block_product",
    "kind_of",
]
