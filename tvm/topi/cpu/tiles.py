"""Tiles: the matrix registers of CPUs (AMX), as intrinsics that load, multiply and store them.

A product of tiles adds ``(m, k) x (k, n)`` to ``(m, n)`` sums. The rows of the lhs are pixels or rows of a matrix; they
lie in memory a stride apart, so no copy is made. In the rhs the elements that are summed at once lie side by side:
``(k / depth, n, depth)``.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ... import te, tir
from ...ir.prim import PrimExpr, Var
from ...ir.type import PointerType, PrimType
from ...target import Target
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer
from ...tir.stmt import Allocate

# The most rows of a tile, the bytes of a row, and the elements of a row of sums.
ROWS, ROW_BYTES, COLUMNS = 16, 64, 16
# Bytes of a sum, and of the elements whose products it takes at once.
SUM_BYTES = 4
# Tiles that a CPU holds.
REGISTERS = 8
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


def _held(shape: tuple[int, ...], dtype: str, name: str, use: str, inner: int) -> Buffer:
    buffer = _memory(shape, dtype, name, inner)
    return tir.decl_buffer(shape, dtype, name=name, strides=buffer.strides, offset_factor=1, scope=SCOPES[use])


def _number(buffer: Buffer, rows: int, row: int, pitch: Any) -> PrimExpr:
    """Which tile of the buffer it is that begins here, whose rows are ``pitch`` apart; tiles are counted row by row."""
    at = buffer.elem_offset
    return tir.indexdiv(at, rows * pitch) * tir.indexdiv(pitch, row) + tir.indexdiv(tir.indexmod(at, pitch), row)


def _call(name: str, *args: Any) -> PrimExpr:
    return tir.call_intrin("handle", f"tir.{name}", *args)


def layout_of(non_temporal: bool) -> str:
    """The layout of a tile in memory, as code generation is told whether its lines are to stay in the L1 cache."""
    return "row_major_non_temporal" if non_temporal else "row_major"


def _copy(shape: tuple[int, ...], dtype: str):
    x = te.placeholder(shape, dtype, name="x")
    return x, te.compute(shape, lambda *at: x(*at), name="y")


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

    def lhs(self) -> Buffer:
        shape = (self.rows, self.taps, self.channels)
        return _held(shape, self.kind.lhs, "lhs", "a", 2)

    def rhs(self) -> Buffer:
        shape = (self.taps, self.groups, self.columns, self.kind.depth)
        return _held(shape, self.kind.rhs, "rhs", "b", 2)

    def sums(self) -> Buffer:
        return _held((self.rows, self.columns), self.kind.sums, "sums", "sums", 1)

    def lhs_number(self, buffer: Buffer) -> PrimExpr:
        return _number(buffer, self.rows, self.taps * self.channels, buffer.strides[0])

    def rhs_number(self, buffer: Buffer) -> PrimExpr:
        return _number(buffer, self.taps * self.groups, self.columns * self.kind.depth, buffer.strides[1])

    def sums_number(self, buffer: Buffer) -> PrimExpr:
        return _number(buffer, self.rows, self.columns, buffer.strides[0])


@functools.cache
def load_lhs(shape: Shape, step: int = 1) -> TensorIntrin:
    """Load rows of pixels: each begins ``step`` pixels after the one before, and has the channels of some pixels."""
    rows, taps, channels = shape.rows, shape.taps, shape.channels
    in_memory = ((rows - 1) * step + taps, channels)
    x = te.placeholder(in_memory, shape.kind.lhs, name="x")
    y = te.compute((rows, taps, channels), lambda i, t, j: x(i * step + t, j), name="y")
    stride = channels if taps > 1 else te.var("pixel_stride")
    source = tir.decl_buffer(
        in_memory, shape.kind.lhs, "source", strides=[stride, 1], offset_factor=1, data_alignment=1
    )

    def body(ins, outs):
        fragment = outs[0].data, *shape.sizes, shape.lhs_number(outs[0])
        return _call("tvm_load_matrix_sync", *fragment, ins[0].access_ptr("r"), ins[0].strides[0] * step, "row_major")

    return te.decl_tensor_intrin(y.op, body, "load_lhs", binds={x: source, y: shape.lhs()})


@functools.cache
def load_rhs(shape: Shape, non_temporal: bool = False) -> TensorIntrin:
    """Load (taps, channels / depth, columns, depth) elements. With ``non_temporal`` their lines do not stay in the
    L1 cache: they would be replaced there before they are read again."""
    sizes = (shape.taps, shape.groups, shape.columns, shape.kind.depth)
    x, y = _copy(sizes, shape.kind.rhs)

    def body(ins, outs):
        fragment = outs[0].data, *shape.sizes, shape.rhs_number(outs[0])
        source, pitch = ins[0].access_ptr("r"), ins[0].strides[1]
        return _call("tvm_load_matrix_sync", *fragment, source, pitch, layout_of(non_temporal))

    binds = {x: _memory(sizes, shape.kind.rhs, "source", 2), y: shape.rhs()}
    return te.decl_tensor_intrin(y.op, body, "load_rhs", binds=binds)


@functools.cache
def multiply(shape: Shape) -> TensorIntrin:
    """Add the product of two tiles to a third."""
    kind, depth = shape.kind, shape.kind.depth
    a = te.placeholder((shape.rows, shape.taps, shape.channels), kind.lhs, name="a")
    b = te.placeholder((shape.taps, shape.groups, shape.columns, depth), kind.rhs, name="b")
    sizes = (shape.taps, shape.groups, depth)
    axes = [te.reduce_axis((0, size), name=name) for size, name in zip(sizes, ("tap", "group", "inner"))]
    tap, group, inner = axes

    def term(i, j):
        x = a(i, tap, group * depth + inner).astype(kind.sums)
        return te.sum(x * b(tap, group, j, inner).astype(kind.sums), axis=axes)

    c = te.compute((shape.rows, shape.columns), term, name="c")

    def body(ins, outs):
        (lhs, rhs), (sums,) = ins, outs
        place = sums.data, shape.sums_number(sums)
        zero = _call("tvm_fill_fragment", sums.data, *shape.sizes, place[1], tir.const(0, kind.sums))
        operands = lhs.data, shape.lhs_number(lhs), rhs.data, shape.rhs_number(rhs)
        step = _call("tvm_mma_sync", *place, *operands, *place)
        return tir.SeqStmt([tir.Evaluate(zero), tir.Evaluate(step)]), tir.Evaluate(zero), tir.Evaluate(step)

    binds = {a: shape.lhs(), b: shape.rhs(), c: shape.sums()}
    return te.decl_tensor_intrin(c.op, body, "multiply_tiles", binds=binds)


def _fragments(ib: tir.ir_builder.IRBuilder, dtype: str, elements: int, use: str) -> Var:
    """Registers for the rest of a program."""
    data = Var(use, PointerType(PrimType(dtype), SCOPES[use]))
    ib.emit(lambda body: Allocate(data, dtype, (tir.const(elements),), tir.const(True, "bool"), body))
    return data


def _block_sum(shape: Shape, m: int, wide: int, steps: int, is_packed: bool) -> tuple[Any, dict[Any, Buffer]]:
    """What ``block_product`` computes, and where its operands and sums lie."""
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


class Block(NamedTuple):
    """A product of ``m`` tiles of rows and ``n`` of columns over ``steps`` tiles of k. The lhs is (m, steps, rows, k)
    where it ``is_packed``, else (m * rows, steps * k); with ``non_temporal`` its lines do not stay in the L1 cache;
    those of the rhs do for the first ``near`` steps. ``prefetch`` is (products, lines): the rhs that follows is fetched
    by so many products, a share by each of them, and a prefetch brings so many lines."""

    shape: Shape
    m: int
    n: int
    steps: int
    near: int
    is_packed: bool
    non_temporal: bool = False
    prefetch: tuple[int, int] = (0, 1)

    @property
    def wide(self) -> int:
        """The columns of all tiles."""
        return self.n * self.shape.columns

    @property
    def order(self) -> list[tuple[int, int]]:
        """The products of a step: each operand but the first is used twice in a row."""
        return [(i, self.n - 1 - j if i % 2 else j) for i in range(self.m) for j in range(self.n)]


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
        block = self.block
        self.each_sum("fill" if starts else "load")
        for use, i in self.uses:
            self.load(use, i, 0, block.near > 0)
        middle = min(max(block.near - 1, 0), block.steps - 1)
        for begin, end in ((0, middle), (middle, block.steps - 1)):
            if begin < end:
                with self.ib.for_range(begin, end, name="step") as step:
                    self.multiply(step, begin < middle)
        self.multiply(block.steps - 1, True, False)
        self.each_sum("store")
        return self.ib.get()

    def move(self, way: str, use: str, number: int, buffer: Buffer, at: Any, pitch: Any, passes: bool = False) -> None:
        place = buffer.access_ptr("r" if way == "load" else "w", offset=at)
        fragment = self.held[use], *self.block.shape.sizes, number
        self.ib.emit(_call(f"tvm_{way}_matrix_sync", *fragment, place, pitch, layout_of(passes)))

    def load(self, use: str, i: int, step: Any, is_near: bool) -> None:
        block, shape, x = self.block, self.block.shape, self.x
        rows, k, depth, passes = shape.rows, shape.sizes[2], shape.kind.depth, block.non_temporal
        if use == "b":
            at = step * (block.wide * k) + i * shape.columns * depth
            self.move("load", use, i, self.y, at, block.wide * depth, not is_near)
        elif block.is_packed:
            self.move("load", use, i, x, i * x.strides[0] + step * rows * k, k, passes)
        else:
            self.move("load", use, i, x, i * rows * x.strides[0] + step * k, x.strides[0], passes)

    def each_sum(self, way: str) -> None:
        shape, n, z = self.block.shape, self.block.n, self.z
        for i in range(self.block.m * n):
            if way == "fill":
                zero = tir.const(0, shape.kind.sums)
                self.ib.emit(_call("tvm_fill_fragment", self.held["sums"], *shape.sizes, i, zero))
            else:
                self.move(way, "sums", i, z, i // n * shape.rows * z.strides[1] + i % n * shape.columns, z.strides[1])

    def multiply(self, step: Any, is_near: bool, has_next: bool = True) -> None:
        """The products of a step, the loads of the next, and a share of the prefetches."""
        for place, (i, j) in enumerate(self.block.order):
            to = self.held["sums"], i * self.block.n + j
            self.ib.emit(_call("tvm_mma_sync", *to, self.held["a"], i, self.held["b"], j, *to))
            for use, of in (("b", j), ("a", i)):
                if has_next and self.uses[use, of] == place:
                    self.load(use, of, step + 1, is_near)
        self.prefetch(step)

    def prefetch(self, step: Any) -> None:
        block, shape, x = self.block, self.block.shape, self.x
        products, lines = block.prefetch
        if not products:
            return
        fetched = ROW_BYTES * shape.kind.depth // SUM_BYTES * lines
        panel = block.wide * shape.sizes[2]
        count = -(-panel // fetched // products)
        # The place of the rows says which of the products over a part of the rhs it is.
        number = tir.indexdiv(x.elem_offset, block.m * x.strides[0] * (1 if block.is_packed else shape.rows))
        share = tir.indexmod(number, products) * block.steps + step
        for line in range(count):
            at = self.y.access_ptr("r", offset=block.steps * panel + (share * count + line) * fetched)
            self.ib.emit(tir.call_intrin("void", "tir.prefetch", at, 0, 2, 1))


@functools.cache
def block_product(block: Block) -> TensorIntrin:
    """Add the product of a block to sums in memory, which are in registers meanwhile."""
    c, binds = _block_sum(block.shape, block.m, block.wide, block.steps, block.is_packed)

    def bodies(ins, outs):
        return _BlockCode(block, ins, outs).write(True), None, _BlockCode(block, ins, outs).write(False)

    return te.decl_tensor_intrin(c.op, bodies, "block_product", binds=binds)


@functools.cache
def store(shape: Shape) -> TensorIntrin:
    """Write a tile of sums to memory."""
    sizes = (shape.rows, shape.columns)
    x, y = _copy(sizes, shape.kind.sums)

    def body(ins, outs):
        fragment = ins[0].data, *shape.sizes, shape.sums_number(ins[0])
        return _call("tvm_store_matrix_sync", *fragment, outs[0].access_ptr("w"), outs[0].strides[0], "row_major")

    binds = {x: shape.sums(), y: _memory(sizes, shape.kind.sums, "target", 1)}
    return te.decl_tensor_intrin(y.op, body, "store_tile", binds=binds)


__all__ = [
    "BFLOAT16", "COLUMNS", "REGISTERS", "ROWS", "ROW_BYTES", "SCOPES", "Kind", "Shape", "kind_of", "load_lhs",
    "load_rhs", "multiply", "store",
]
