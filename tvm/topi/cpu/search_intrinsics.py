"""CPU tensor intrinsics for schedule search: int8 dot products, and blocks of matrix registers."""

from __future__ import annotations

import functools

from ...auto_scheduler.intrinsics import BlockLengths, Blocks, SearchIntrinsic
from ...error import TVMError
from ...target import Target
from ...te.tensor_intrin import TensorIntrin
from . import tiles
from .dot_products import INSTRUCTIONS, DotProduct, instructions, multiply_rows, multiply_unpacked
from .matmul_tiles import k_block, row_tiles
from .tiles import BFLOAT16, COLUMNS, REGISTERS, ROWS, Kind

# The maximum number of k tiles whose part of a panel stays in the L1 cache.
NEAR = 16


def _intrinsics(instruction: DotProduct) -> list[SearchIntrinsic]:
    """Return the intrinsics for the two weight layouts: one row of reduction elements per filter (dense layers), or one
    row of filters per channel (channels-last convolutions). Rows of a filter are read four words at a time if its
    reduction is a multiple of four words."""
    by_filter, by_channel = f"{instruction.name}.by_filter", f"{instruction.name}.by_channel"
    rows = f"{instruction.name}.by_rows"

    def fits(target: Target) -> bool:
        return any((one.name, one.data) == (instruction.name, instruction.data) for one in instructions(target))

    return [
        SearchIntrinsic(rows, fits, lambda: multiply_rows(instruction, rows), replaces=by_filter),
        SearchIntrinsic(by_filter, fits, lambda: multiply_unpacked(instruction, by_filter, True)),
        SearchIntrinsic(by_channel, fits, lambda: multiply_unpacked(instruction, by_channel, False)),
    ]


def _block_lengths(kind: Kind, m: int, n: int, k: int, window: tuple[int, int, int]) -> list[BlockLengths]:
    """Return register blocks of a matmul. With pairs of tiles they are two tiles by two, with accumulators in registers
    for all of k or for a part of k whose panel stays in the L1 cache."""
    (count, rows), columns, terms = row_tiles(m), min(n, COLUMNS), k_block(k, kind)
    steps = -(-k // terms)
    near = max(d for d in range(1, max(NEAR // (window[0] * window[1]), 1) + 1) if steps % d == 0)
    wide = 2 if -(-n // columns) % 2 == 0 else 1
    return [BlockLengths(2 - count % 2, rows, wide, columns, each, terms, *window) for each in sorted({near, steps})]


def _tiles(kind: Kind, is_packed: bool) -> SearchIntrinsic:
    name = f"tiles.{kind.lhs}.{kind.rhs}" + ".packed" * is_packed

    def make(lengths: BlockLengths) -> TensorIntrin:
        m, rows, n, columns, steps, terms, height, width, stride = lengths
        fits = rows <= ROWS and columns <= COLUMNS and terms <= kind.k and terms % kind.depth == 0
        if not fits or min(lengths) < 1 or m * n + m + n > REGISTERS or is_packed and height * width * stride > 1:
            raise TVMError(f"matrix registers cannot hold the blocks of {lengths.named(name)}")
        shape = tiles.Shape(rows, columns, 1, terms, kind)
        window = tiles.Window(1, m, 1, (steps, height, width), (1, stride), (1, 1), 0)
        block = tiles.Block(shape, m, n, steps * height * width, NEAR, is_packed, window=window)
        return tiles.block_product(block, lengths.named(name))

    blocks = Blocks((kind.lhs, kind.rhs, kind.sums), kind.depth, functools.partial(_block_lengths, kind), is_packed)
    return SearchIntrinsic(name, lambda target: tiles.kind_of(target, *kind[:2]) is not None, make, blocks=blocks)


@functools.cache
def search_intrinsics() -> dict[str, SearchIntrinsic]:
    """Return the intrinsics by name."""
    # Integer reductions are exact in any order. Dot products of bfloat16 are excluded because they round differently
    # from scalar loops. Matrix registers add exact products to float32 accumulators, as scalar loops do, but in another
    # order.
    exact = [instruction for instruction in INSTRUCTIONS if instruction.sums == "int32"]
    made = [one for instruction in exact for one in _intrinsics(instruction)]
    bytes_ = [Kind(lhs, rhs, "int32", 4) for lhs in ("int8", "uint8") for rhs in ("int8", "uint8")]
    made += [_tiles(kind, is_packed) for kind in (*bytes_, BFLOAT16) for is_packed in (False, True)]
    return {one.name: one for one in reversed(made)}


__all__ = ["search_intrinsics"]
