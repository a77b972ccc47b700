"""Tiles: the matrix registers of CPUs (AMX), as intrinsics that multiply blocks of them.

A product of tiles adds ``(m, k) x (k, n)`` to ``(m, n)`` sums. The rows of the lhs are pixels or rows of a matrix; they
lie in memory a stride apart, so no copy is made. In the rhs the elements that are summed at once lie side by side:
``(k / depth, n, depth)``.

A block is one intrinsic from its first load to the store of its sums, as the order of loads and products decides on its
speed: a register is loaded for the next step right behind the last product that reads it, so that loads are done while
the products of other registers are. Code generation keeps that order.
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

# The most rows of a tile, the bytes of a row, and the elements of a row of sums.
ROWS, ROW_BYTES, COLUMNS = 16, 64, 16
# Bytes of a sum, and of the elements whose products it takes at once.
SUM_BYTES = 4
# Tiles that a CPU holds.
REGISTERS = 8
# The most steps that are unrolled.
MAX_UNROLLED = 16
# The most rows of sums that a step finishes by code of their own.
MAX_ROWS_UNROLLED = 4
# The first step of a register block that finishes sums of the one before, which its step 0 stores.
FIRST_TO_FINISH = 2
SCOPES = {"a": "wmma.matrix_a", "b": "wmma.matrix_b", "sums": "wmma.accumulator"}


class Kind(NamedTuple):
    """The types of operands and sums, and the elements of a lane that are summed at once."""

    lhs: str
    rhs: str
    sums: str
    depth: int

    @property
    def k(self) -> int:
        """Elements of a row of a full tile."""
        return COLUMNS * self.depth


BFLOAT16 = Kind("bfloat16", "bfloat16", "float32", 2)


def kind_of(target: Target | None, lhs: str, rhs: str) -> Kind | None:
    """The products of tiles that a target has for operands of two types."""
    if target is None or not target.features.has_llvm_intrinsics:
        return None
    if lhs == rhs == "bfloat16" and target.features.has_amx_bf16:
        return BFLOAT16
    if {lhs, rhs} <= {"int8", "uint8"} and target.features.has_amx_int8:
        return Kind(lhs, rhs, "int32", 4)
    return None


def _memory(shape: tuple[int, ...], dtype: str, name: str, inner: int) -> Buffer:
    """A matrix in memory whose rows have a stride: the last ``inner`` dimensions are a row, those before count rows,
    which are the same distance apart throughout."""
    step = te.var(f"{name}_stride")
    strides: list[Any] = []
    size: Any = 1
    for place, extent in enumerate(reversed(shape)):
        size = step if place == inner else size
        strides.insert(0, size)
        size = size * extent
    return tir.decl_buffer(shape, dtype, name=name, strides=strides, offset_factor=1, data_alignment=1)


def _apart(shape: tuple[int, ...], dtype: str, name: str, inner: tuple[int, ...] = (1,)) -> Buffer:
    """A part of a tensor in memory, every dimension of which has a stride of its own but for the ``inner`` ones."""
    strides = [te.var(f"{name}_stride_{i}") for i in range(len(shape) - len(inner))]
    return tir.decl_buffer(shape, dtype, name=name, strides=[*strides, *inner], offset_factor=1, data_alignment=1)


def _call(name: str, *args: Any) -> PrimExpr:
    return tir.call_intrin("handle", f"tir.{name}", *args)


def layout_of(non_temporal: bool) -> str:
    """The layout of a tile in memory, as code generation is told whether its lines are to stay in the L1 cache."""
    return "row_major_non_temporal" if non_temporal else "row_major"


class Shape(NamedTuple):
    """A product of tiles: rows, columns, and a k of some taps of a window by some channels, which lie side by side."""

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
    """Registers for the rest of a program."""
    data = Var(use, PointerType(PrimType(dtype), SCOPES[use]))
    ib.emit(lambda body: Allocate(data, dtype, (tir.const(elements),), tir.const(True, "bool"), body))
    return data


class Window(NamedTuple):
    """The part of a convolution that a block computes: the pixels of ``rows`` rows of ``tiles`` tiles, and ``filters``
    blocks of filters. ``steps`` are blocks of channels, rows of the window and columns of it, the last by the taps of a
    tile. The rows of a flat image follow each other, ``width`` pixels apart; others have a width of 0."""

    rows: int
    tiles: int
    filters: int
    steps: tuple[int, int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    width: int


class Block(NamedTuple):
    """A product of ``m`` tiles of rows and ``n`` of columns over ``steps`` tiles of k. The lhs is (m, steps, rows, k)
    where it ``is_packed``, that of a ``window`` if there is one, else (m * rows, steps * k); with ``non_temporal`` its
    lines do not stay in the L1 cache; those of the rhs do for the first ``near`` steps. ``prefetch`` is (products,
    lines): the rhs that follows is fetched by so many products, a share by each of them, and a prefetch brings so many
    lines. Several ``blocks`` of such rows are a panel, whose sums are added up in memory over the ``parts`` of its
    steps; the rhs of a part stays in the L1 cache."""

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
        """The columns that lie side by side in the rhs and the sums."""
        return self.n * self.shape.columns // (self.window.filters if self.window else 1)

    @property
    def order(self) -> list[tuple[int, int]]:
        """The products of a step: each operand but the first is used twice in a row."""
        return [(i, self.n - 1 - j if i % 2 else j) for i in range(self.m) for j in range(self.n)]

    @property
    def loops(self) -> tuple[int, int, int]:
        """The loops over the steps: blocks of channels, then the rows and the columns of a window."""
        return self.window.steps if self.window else (self.steps, 1, 1)


def _matmul_sum(block: Block) -> tuple[Any, dict[Any, Buffer]]:
    """What a block of a matmul computes, and where its operands and sums lie."""
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
    """What a block of a matmul or a convolution computes whose rows, columns and terms are one axis each: channels are
    last in the lhs, and in the rhs its taps are around them."""
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
    """What a block of a convolution computes, and where its operands and sums lie."""
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
        # The taps of a tile lie side by side.
        a: _apart(a.shape, kind.lhs, "lhs", (shape.channels, 1) if taps > 1 else (1,)),
        b: _memory(of_rhs, kind.rhs, "rhs", 2),
        sums: _apart(of_sums, kind.sums, "sums"),
    }


class _BlockCode:
    """The code of a block for its operands and sums in memory. A tile is loaded for the next step as soon as it has
    been used for this one."""

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
        # The last product of a step that reads each operand.
        self.uses = {(use, pair[at]): place for place, pair in enumerate(block.order) for at, use in enumerate("ab")}

    def write(self, starts: bool) -> Any:
        """Add the product to the sums, or set them where it ``starts``."""
        self.begin("fill" if starts else "load", (0,) * len(self.block.loops), self.block.near > 0)
        self.nest((), None, self.block.near >= self.block.steps)
        return self.ib.get()

    def begin(self, way: str, step: tuple[Any, ...], is_near: bool) -> None:
        """Fill or load the sums, and load the operands of the first step."""
        loaded: set[tuple[str, int]] = set()
        for i, j in self.block.order:
            # What the first products wait for comes first.
            self.sum_tile(way, i, j)
            for use, of in (("a", i), ("b", j)):
                if (use, of) not in loaded:
                    self.load(use, of, step, is_near)
            loaded |= {("a", i), ("b", j)}

    def nest(self, outer: tuple[Any, ...], after: tuple[Any, ...] | None, is_near: bool) -> None:
        """The steps inside the loops whose variables are given; ``after`` them comes another step, or none. The last
        round of each loop is apart from the others, so that every step knows the one that follows."""
        loops, depth = self.block.loops, len(outer)
        if depth == len(loops):
            self.multiply(outer, after, is_near)
            return
        last, inside = loops[depth] - 1, prod(loops[depth + 1 :])
        # The loops of a window are unrolled, as its tiles are unevenly apart in memory.
        kind = "unroll" if depth and (last + 1) * inside <= MAX_UNROLLED else "serial"
        middle = 0 if depth else min(max(self.block.near // inside - 1, 0), last)
        for begin, end in ((0, middle), (middle, last)):
            if begin < end:
                with self.ib.for_range(begin, end, name="step", kind=kind) as at:
                    is_near = is_near if depth else begin < middle
                    self.nest((*outer, at), (*outer, at + 1, *(0,) * (len(loops) - depth - 1)), is_near)
        self.nest((*outer, last), after, is_near if depth else self.block.near >= self.block.steps)

    def move(self, way: str, use: str, number: int, place: Any, passes: bool = False) -> None:
        """Load or store a tile whose buffer, place and distance of rows are given."""
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
        """Where a tile of a step lies, and the distance of its rows."""
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
        """The products of a step, the loads of the next, and a share of the prefetches. Behind the last step each sum
        is stored while the products of others are computed."""
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
        """Load what the product at a place of a step was the last to read, for the step that comes ``after``."""
        i, j = self.block.order[place]
        for use, of in (("b", j), ("a", i)):
            if self.uses[use, of] == place:
                self.load(use, of, after, is_near)

    def prefetch(self, step: Any) -> None:
        block, x = self.block, self.x
        # The place of the rows says which of the products over a part of the rhs it is.
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
    """The code of a block of a convolution."""

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
    """The code of a panel: all its register blocks over a part of k, then over the next. The products of two of them
    follow each other as steps do: the last step of one loads the operands of the other, whose first step stores the
    sums of the one before, each right before it begins anew. They go to a scratch that stays in the L1 cache, from
    which vectors add them to those of the parts before, a few rows in each step, so that products wait for no sums.
    Attributes say which rows are final and how panels may follow each other in the same way (``OverlapEpilogue``).

    A step is the number of a register block, of all over all parts, and the place in its part."""

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
        # The sums of the register block before are those of the panel before, of the first part, of a part between, or
        # of the last one.
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
        """The products of a register block over a part. Steps finish equal shares of the sums of the one ``before``, or
        of another over the same part, and the last one all that is left. The first register block finishes those of
        the panel before, the last one loads operands of the panel that follows."""
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
        """The products of a step, and the loads of the one after it, so many panels ``ahead``."""
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
        """Store a tile of the sums of the register block before."""
        (rows, columns, _), wide = self.block.shape.sizes, self.block.wide
        self.move("store", "sums", i * self.block.n + j, (self.scratch, i * rows * wide + j * columns, wide))

    def finish(self, number: Any, before: int, begin: Any, count: int) -> None:
        """Add rows of the sums of the register block before one to those in memory, or set those. The number of one
        over the same part, ``before``, tells which."""
        if count <= MAX_ROWS_UNROLLED:
            for row in range(count):
                self.finish_row(number, before, begin + row)
        else:
            with self.ib.for_range(begin, begin + count, name="row") as row:
                self.finish_row(number, before, row)

    def finish_row(self, number: Any, before: int, row: Any) -> None:
        wide, blocks, part = self.block.wide, self.block.blocks, before // self.block.blocks
        vector = f"{self.block.shape.kind.sums}x{wide}" if wide > 1 else None
        # Rows of all tiles are equally apart: those of a register block are counted from its first tile on.
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
    """Set sums in memory to the product of a block or a panel; those of a block are in registers meanwhile. A block
    with a ``name`` has a window, and a single axis of rows, of columns and of channels, and may add to the sums."""
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
    "BFLOAT16", "COLUMNS", "REGISTERS", "ROWS", "ROW_BYTES", "SCOPES", "Block", "Kind", "Shape", "Window",
    "block_product", "kind_of",
]
