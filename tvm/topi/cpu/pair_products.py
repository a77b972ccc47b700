"""2x2 matmul instructions of Arm CPUs. They multiply two rows with two columns and add the four results to the four
lanes of a vector, over eight int8 elements (``smmla`` and its variants) or four bfloat16 elements (``bfmmla``) of k.

They compute twice as many products as dot product instructions, but need both operands in pairs of rows, and their
accumulators have a layout of their own. A tensor intrinsic therefore covers a whole register tile over some steps of k.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from ... import te, tir
from ...ir.prim import PrimExpr, Shuffle
from ...target import Target
from ...target.cpu import resolve_cpu
from ...te.tensor_intrin import TensorIntrin
from ...tir.buffer import Buffer

# The rows, and columns, of an instruction.
PAIR = 2


class PairProduct(NamedTuple):
    """An instruction: the required processor feature, the types of the operands and accumulators, the elements of k,
    and its LLVM name."""

    feature: str
    lhs: str
    rhs: str
    sums: str
    depth: int
    name: str


INSTRUCTIONS = (
    PairProduct("i8mm", "int8", "int8", "int32", 8, "llvm.aarch64.neon.smmla"),
    PairProduct("i8mm", "uint8", "uint8", "int32", 8, "llvm.aarch64.neon.ummla"),
    PairProduct("i8mm", "uint8", "int8", "int32", 8, "llvm.aarch64.neon.usmmla"),
    PairProduct("bf16", "bfloat16", "bfloat16", "float32", 4, "llvm.aarch64.neon.bfmmla"),
)


def pair_product(target: Target | None, lhs: str, rhs: str) -> PairProduct | None:
    """Return the target's instruction for two operand types, or None."""
    if target is None or not target.features.is_cpu or not target.features.has_llvm_intrinsics:
        return None
    cpu = resolve_cpu(target)
    rows = (i for i in INSTRUCTIONS if cpu.arch == "aarch64" and cpu.has(i.feature) and not cpu.is_slow(i.feature))
    return next((i for i in rows if (i.lhs, i.rhs) == (lhs, rhs)), None)


def _lanes(*at: int) -> tuple[PrimExpr, ...]:
    return tuple(tir.const(i, "int32") for i in at)


@functools.cache
def multiply(instruction: PairProduct, m: int, n: int, steps: int) -> TensorIntrin:
    """Add the matmul of ``lhs`` (steps, m, depth) and ``rhs`` (steps, n, depth), reduced over steps and depth, to
    accumulators (m, n), which stay in registers meanwhile.

    Raises
    ------
    ValueError
        The number of rows or of columns is odd.
    """
    if m % PAIR or n % PAIR or min(m, n, steps) < 1:
        raise ValueError(f"{instruction.name}: rows and columns must come in pairs, got {m} and {n}")
    depth, dtype = instruction.depth, instruction.sums
    lhs = te.placeholder((steps, m, depth), instruction.lhs, name="lhs")
    rhs = te.placeholder((steps, n, depth), instruction.rhs, name="rhs")
    s, d = te.reduce_axis((0, steps), name="s"), te.reduce_axis((0, depth), name="d")
    out = te.compute(
        (m, n), lambda i, j: te.sum(lhs[s, i, d].astype(dtype) * rhs[s, j, d].astype(dtype), axis=[s, d]), name="out"
    )

    def body(ins, outs, starts: bool):
        (x, y), (z,) = ins, outs
        ib = tir.ir_builder.create()
        sums = _Sums(ib, instruction, z)
        sums.load(starts)
        with ib.for_range(0, steps, name="step") as step:
            for i, j in sums.at:
                a = x.vload([step, i, 0], f"{instruction.lhs}x{PAIR * depth}")
                b = y.vload([step, j, 0], f"{instruction.rhs}x{PAIR * depth}")
                sums.add(i, j, a, b)
        sums.store()
        return ib.get()

    return _declared(instruction, out, body, {lhs: _strided(lhs, 2), rhs: _strided(rhs, 2), out: _strided(out, 1)})


@functools.cache
def multiply_rows(instruction: PairProduct, m: int, n: int, blocks: int, steps: int) -> TensorIntrin:
    """Add the matmul of ``lhs`` (m, k) and ``rhs`` (blocks, steps, n, depth), whose rows have any stride, to
    accumulators (m, n), which stay in registers for all of k. A block is the part of k that one vector of a row
    contains; ``steps`` is 1 or 2. The last row of an odd number of rows is multiplied twice.

    Raises
    ------
    ValueError
        The number of columns is odd, or a block is longer than a vector.
    """
    _check(instruction, n, steps, m, blocks)
    depth, dtype = instruction.depth, instruction.sums
    block = steps * depth
    lhs = te.placeholder((m, blocks * block), instruction.lhs, name="lhs")
    rhs = te.placeholder((blocks, steps, n, depth), instruction.rhs, name="rhs")
    axes = [te.reduce_axis((0, size), name=name) for size, name in ((blocks, "o"), (steps, "s"), (depth, "d"))]
    o, s, d = axes

    def term(i, j):
        return te.sum(lhs[i, (o * steps + s) * depth + d].astype(dtype) * rhs[o, s, j, d].astype(dtype), axis=axes)

    out = te.compute((m, n), term, name="out")

    def body(ins, outs, starts: bool):
        (x, y), (z,) = ins, outs
        ib = tir.ir_builder.create()
        sums = _Sums(ib, instruction, z)
        sums.load(starts)
        with ib.for_range(0, blocks, name="block") as at:
            sums.add_rows(
                steps,
                lambda i: x.vload([i, at * block], f"{x.dtype}x{block}"),
                lambda step, j: y.vload([at, step, j, 0], f"{y.dtype}x{PAIR * depth}"),
            )
        sums.store()
        return ib.get()

    return _declared(instruction, out, body, {lhs: _strided(lhs, 1), rhs: _strided(rhs, 4), out: _strided(out, 1)})


class Window(NamedTuple):
    """The taps of a convolution (rows, columns), and its strides and dilations."""

    taps: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]


@functools.cache
def convolve(
    instruction: PairProduct, tile: tuple[int, int], filters: int, blocks: int, steps: int, window: Window
) -> TensorIntrin:
    """Add the convolution of ``data`` (blocks, h, w, steps * depth) and ``weights`` (blocks, rows and columns of taps,
    steps, filters, depth) to the accumulators of a tile of pixels (h, w, filters), which stay in registers meanwhile.
    The last pixel of an odd number is multiplied twice.

    Raises
    ------
    ValueError
        The number of filters is odd.
    """
    _check(instruction, filters, 1, blocks, steps, *tile)
    depth, dtype = instruction.depth, instruction.sums
    taps, strides, dilations = window
    size = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(tile, strides, taps, dilations)]
    data = te.placeholder((blocks, *size, steps * depth), instruction.lhs, name="data")
    weights = te.placeholder((blocks, *taps, steps, filters, depth), instruction.rhs, name="weights")
    axes = [te.reduce_axis((0, n), name=x) for n, x in zip((blocks, *taps, steps, depth), ("o", "kh", "kw", "s", "d"))]
    o, kh, kw, s, d = axes

    def pixel(y, x, row, column):
        return y * strides[0] + row * dilations[0], x * strides[1] + column * dilations[1]

    def term(y, x, j):
        value = data(o, *pixel(y, x, kh, kw), s * depth + d).astype(dtype)
        return te.sum(value * weights[o, kh, kw, s, j, d].astype(dtype), axis=axes)

    out = te.compute((*tile, filters), term, name="out")

    def body(ins, outs, starts: bool):
        (x, y), (z,) = ins, outs
        ib = tir.ir_builder.create()
        sums = _Sums(ib, instruction, z)
        sums.load(starts)
        with ib.for_range(0, blocks, name="block") as at, ib.for_range(0, taps[0], name="row") as row, \
                ib.for_range(0, taps[1], name="column") as column:  # fmt: skip
            for first in range(0, steps, PAIR):
                words = min(steps - first, PAIR)

                def load(h, w, start=first * depth, count=words * depth):
                    return x.vload([at, *pixel(h, w, row, column), start], f"{x.dtype}x{count}")

                def load_filters(step, j, start=first):
                    return y.vload([at, row, column, start + step, j, 0], f"{y.dtype}x{PAIR * depth}")

                sums.add_rows(words, load, load_filters)
        sums.store()
        return ib.get()

    return _declared(instruction, out, body, {t: _strided(t, 2 if t is weights else 1) for t in (data, weights, out)})


def _strided(tensor: Any, whole: int) -> Buffer:
    """Return a buffer with any strides, except that the last ``whole`` dimensions are contiguous."""
    shape = [int(d) for d in tensor.shape]
    own = [prod(shape[at + 1 :]) for at in range(len(shape) - whole, len(shape))]
    strides = [te.var(f"{tensor.op.name}_stride{i}") for i in range(len(shape) - whole)] + own
    return tir.decl_buffer(shape, tensor.dtype, tensor.op.name, strides=strides, offset_factor=1, data_alignment=1)


def _check(instruction: PairProduct, columns: int, steps: int, *others: int) -> None:
    if columns % PAIR or steps > PAIR or min(columns, steps, *others) < 1:
        raise ValueError(
            f"{instruction.name}: columns must come in pairs and words of k in one or two, got {columns} and {steps}"
        )


class _Sums:
    """The accumulators of a register tile, a vector for each pair of rows and of columns. The last dimension of the
    tile is columns, the others are rows. ``at`` maps the first row and column of a vector to its first element."""

    def __init__(self, ib: Any, instruction: PairProduct, tile: Buffer):
        self.ib, self.instruction, self.tile = ib, instruction, tile
        *rows, columns = (int(d) for d in tile.shape)
        self.rows = list(itertools.product(*map(range, rows)))
        pairs = [(i, j) for j in range(0, columns, PAIR) for i in range(0, len(self.rows), PAIR)]
        self.at = {pair: 2 * PAIR * number for number, pair in enumerate(pairs)}
        self.held = ib.allocate(instruction.sums, (2 * PAIR * len(pairs),), name="sums", scope="local")._buffer

    def _places(self, i: int, j: int) -> list[list[int]]:
        """Return the indices of the first column in each row of a pair."""
        return [[*row, j] for row in self.rows[i : i + PAIR]]

    def _vector(self, i: int, j: int) -> PrimExpr:
        return self.held.vload([self.at[i, j]], f"{self.instruction.sums}x{2 * PAIR}")

    def _keep(self, i: int, j: int, vector: PrimExpr) -> None:
        self.ib.emit(self.held.vstore([self.at[i, j]], vector))

    def load(self, starts: bool) -> None:
        """Set the accumulators to zero if ``starts``, else to the values of the tile."""
        dtype = self.instruction.sums
        for i, j in self.at:
            if starts:
                self._keep(i, j, tir.Broadcast(tir.const(0, dtype), 2 * PAIR))
                continue
            parts = [self.tile.vload(place, f"{dtype}x{PAIR}") for place in self._places(i, j)]
            self._keep(i, j, Shuffle((parts[0], parts[-1]), _lanes(0, 1, 2, 3)))

    def add_rows(self, steps: int, row: Callable[..., PrimExpr], columns: Callable[[int, int], PrimExpr]) -> None:
        """Add the products of a block of k. ``row`` loads the block of a row, which is ``steps`` words of 8 bytes;
        ``columns`` loads a word of two columns, given the step and the first column. The last row of an odd number is
        paired with itself."""
        dtype, depth, last = self.instruction.lhs, self.instruction.depth, len(self.rows) - 1
        words = [tir.reinterpret(f"int64x{steps}" if steps > 1 else "int64", row(*at)) for at in self.rows]
        # Each vector of columns is used for all rows before the next one, so that few of them occupy registers.
        for step in range(steps):
            for i, j in self.at:
                pair = Shuffle((words[i], words[min(i + 1, last)]), _lanes(step, steps + step))
                self.add(i, j, tir.reinterpret(f"{dtype}x{PAIR * depth}", pair), columns(step, j))

    def add(self, i: int, j: int, a: PrimExpr, b: PrimExpr) -> None:
        """Add the products of two rows and two columns."""
        total = tir.call_llvm_pure_intrin(
            f"{self.instruction.sums}x{2 * PAIR}", self.instruction.name, self._vector(i, j), a, b
        )
        self._keep(i, j, total)

    def store(self) -> None:
        """Store the accumulators in the tile."""
        for i, j in self.at:
            for row, place in enumerate(self._places(i, j)):
                part = Shuffle((self._vector(i, j),), _lanes(PAIR * row, PAIR * row + 1))
                self.ib.emit(self.tile.vstore(place, part))


def _declared(instruction: PairProduct, out: Any, body: Callable[..., Any], binds: dict[Any, Buffer]) -> TensorIntrin:
    """Return an intrinsic; ``body`` takes whether its accumulators start at zero."""

    def bodies(ins, outs):
        return body(ins, outs, True), None, body(ins, outs, False)

    return te.decl_tensor_intrin(out.op, bodies, instruction.name.rpartition(".")[2], binds=binds)


__all__ = ["INSTRUCTIONS", "PAIR", "PairProduct", "Window", "convolve", "multiply", "multiply_rows", "pair_product"]
