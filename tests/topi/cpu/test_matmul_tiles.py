"""Matmuls by products of tiles: exact with every knob, and the blocks that are chosen."""

import re

import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tests.tile_emulator import emulated
from tvm import te
from tvm.topi.cpu import matmul_tiles, tiles
from tvm.topi.cpu.machine import Machine
from tvm.topi.cpu.tiles import BFLOAT16, Kind
from tvm.topi.schedule.cpu import schedule_for

BYTES = Kind("uint8", "int8", "int32", 4)
AMX = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=1"


def declared(m, n, k, kind, batch=()):
    block, width = matmul_tiles.k_block(k, kind), matmul_tiles.panel_width(n)
    lhs = te.placeholder((*batch, m, k), kind.lhs, name="lhs")
    shape = (*batch, -(-n // width), -(-k // block), block // kind.depth, width, kind.depth)
    rhs = te.placeholder(shape, kind.rhs, name="rhs")
    return lhs, rhs, matmul_tiles.products(lhs, rhs, n, kind, bool(batch))


def check(m, n, k, kind, target, batch=(), has_bias=False):
    """Compile and compare with NumPy; the lowered program as text."""
    rng = np.random.default_rng(m + n + k)
    x, w = rng.integers(0, 9, (*batch, m, k)), rng.integers(-8, 9, (*batch, n, k))
    lhs, rhs, out = declared(m, n, k, kind, batch)
    panels, blocks, groups, width, depth = (int(d) for d in rhs.shape[-5:])
    whole = np.pad(w, [(0, 0)] * len(batch) + [(0, panels * width - n), (0, blocks * groups * depth - k)])
    packed = np.moveaxis(whole.reshape(*batch, panels, width, blocks, groups, depth), -4, -2)
    given, expected = [(lhs, x), (rhs, packed)], x @ w.swapaxes(-1, -2)
    if has_bias:
        bias, sums = te.placeholder((n,), kind.sums, name="bias"), out
        out = te.compute((m, n), lambda i, j: te.max(sums[i, j] + bias[j], 0), name="relu", tag="elemwise")
        given.append((bias, rng.integers(-99, 99, n)))
        expected = np.maximum(expected + given[-1][1], 0)
    with quick_code(), tvm.target.Target(target) as where:
        schedule, arguments = schedule_for([out], where), [*(t for t, _ in given), out]
        text, built = str(tvm.lower(schedule, arguments)), tvm.build(schedule, arguments, where)
    arrays = [tvm.nd.empty(v.shape, t.dtype) for t, v in given]
    for array, (_, v) in zip(arrays, given):
        array.copyfrom(np.ascontiguousarray(v).astype(array.numpy().dtype))
    result = tvm.nd.empty((*batch, m, n), kind.sums)
    built(*arrays, result)
    np.testing.assert_array_equal(result.numpy(), expected)
    return text


def with_knobs(monkeypatch, knobs):
    own = matmul_tiles.MatmulTiles.choose
    monkeypatch.setattr(matmul_tiles.MatmulTiles, "choose", lambda *args: {**own(*args), **knobs})


@pytest.mark.slow("compiles kernels of many unrolled tile instructions")
@pytest.mark.parametrize(
    "kind, knobs",
    [
        (BFLOAT16, {}),
        (BYTES, {}),
        (BFLOAT16, {"steps": 2, "rows": 2}),
        (BYTES, {"streams": True, "prefetch_distance": 5}),
        (BYTES, {"steps": 4, "rows": 4, "prefetch_distance": 1, "non_temporal": True}),
        (BYTES, {"steps": 32, "rows": 4, "near": 5, "prefetch_lines": 1, "non_temporal": True}),
        (BFLOAT16, {"near": 0, "rows": 4, "non_temporal": True}),
        (BFLOAT16, {"steps": 8, "near": 1, "non_temporal": True}),
        (BFLOAT16, {"steps": 1, "rows": 2, "streams": True, "non_temporal": True}),
    ],
    ids=str,
)
def test_every_blocking_of_packed_rows_is_exact(kind, knobs, monkeypatch):
    with_knobs(monkeypatch, knobs)
    with emulated() as target:
        # Rows of 2048 bytes are packed, in each block of them or before; the last panel is not whole.
        check(128, 104, 16 * kind.k * 2, kind, target + " -num-cores=1")


@pytest.mark.parametrize("kind, knobs", [
    (BFLOAT16, {"steps": 16, "rows": 4, "streams": True}), (BFLOAT16, {"steps": 8, "rows": 2}),
    (BYTES, {"steps": 4, "rows": 4, "streams": True}),
], ids=str)  # fmt: skip
def test_rows_of_a_panel_are_written_with_the_last_part_and_panels_follow_each_other(kind, knobs, monkeypatch):
    with_knobs(monkeypatch, knobs)
    with emulated() as target:
        text = check(128, 104, 32 * kind.k, kind, target + " -num-cores=1", has_bias=True)
    before, panels = text.split("for j_outer", 1)
    # Three whole panels follow each other: sums begin as zero once, and no other loop writes the rows of the result.
    assert before.count("T.tvm_fill_fragment(") == 4
    panels = panels[: panels.index("T.allocate(")]
    products, rows = ([m.start() for m in re.finditer(x, panels)] for x in (r"T\.tvm_mma_sync\(", r"T\.max\(row_sums"))
    # The first ones belong to the panel before, the last ones to the last register block, behind all products.
    assert products[7] < panels.index("if 0 < j_outer") < rows[0] < products[15] and rows[-1] > products[-1]
    assert panels.count("T.max(") == len(rows)
    assert "overlap" not in text


@pytest.mark.parametrize("m, steps, knobs", [
    # Pairs of tiles of 16, 12 and 15 rows, and single tiles; an odd number of register blocks.
    (96, 12, {"steps": 6}), (96, 6, {"steps": 3}), (96, 6, {"steps": 3, "rows": 2}), (48, 8, {"steps": 4}),
    (90, 8, {"steps": 4}), (16, 10, {"steps": 5}),
    # Parts of few steps, whose last one finishes most of the sums; prefetches for a part of the products.
    (96, 4, {"steps": 2, "prefetch_distance": 3}), (96, 3, {"steps": 1, "prefetch_distance": 2}),
    # The last tiles of rows and of k are cut off.
    (77, 6, {"steps": 3}), (197, 12, {"steps": 4, "streams": True}),
    # The last of 26 tiles of 16 rows is empty; one block of rows, and several.
    (391, 4, {"steps": 2, "rows": 26}), (391, 4, {"steps": 2, "rows": 2}),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", [BFLOAT16, BYTES], ids=["bf16", "int8"])
def test_panels_of_parts_are_exact(kind, m, steps, knobs, monkeypatch):
    with_knobs(monkeypatch, knobs)
    with emulated() as target:
        # The last of several panels is cut off; a single one is as narrow as the matrix.
        check(m, 12 if m == 48 else 72, steps * kind.k, kind, target + " -num-cores=1", batch=(2,) if m == 96 else ())


@pytest.mark.parametrize("parts, blocks", [(1, 3), (3, 1), (2, 2)])
def test_a_panel_has_any_number_of_parts_and_of_register_blocks(parts, blocks):
    shape = tiles.Shape(16, 16, 1, 64, BYTES)
    block = tiles.Block(shape, 2, 2, 3 * parts, 0, blocks=blocks, parts=parts)
    a = te.placeholder((blocks * 32, 3 * parts * 64), BYTES.lhs, name="a")
    b = te.placeholder((3 * parts, 16, 32, 4), BYTES.rhs, name="b")
    s, g, d = axes = [te.reduce_axis((0, size), name=name) for size, name in ((3 * parts, "s"), (16, "g"), (4, "d"))]

    def term(t, i, j):
        return te.sum(a(t * 16 + i, s * 64 + g * 4 + d).astype("int32") * b(s, g, j, d).astype("int32"), axis=axes)

    c = te.compute((2 * blocks, 16, 32), term, name="c")
    schedule = te.create_schedule(c.op)
    schedule[c].tensorize(c.op.axis[0], tiles.block_product(block))
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (blocks * 32, 3 * parts * 64)), rng.integers(-128, 128, (3 * parts, 16, 32, 4))
    out = tvm.nd.empty((2 * blocks, 16, 32), "int32")
    with emulated() as target:
        tvm.build(schedule, [a, b, c], target)(tvm.nd.array(x.astype("uint8")), tvm.nd.array(y.astype("int8")), out)
    flat = y.transpose(0, 1, 3, 2).reshape(-1, 32)
    np.testing.assert_array_equal(out.numpy().reshape(-1, 32), x @ flat)


@pytest.mark.parametrize("shape", [(64, 64, 256), (33, 40, 96), (50, 70, 100), (17, 33, 7), (1, 64, 4096)])
@pytest.mark.parametrize("kind", [BFLOAT16, BYTES], ids=["bf16", "int8"])
def test_sizes_that_tiles_do_not_divide_are_exact(kind, shape):
    with emulated() as target:
        check(*shape, kind, target)


def test_data_that_is_read_once_is_computed_before_tiles_are_loaded():
    x, w = te.placeholder((32, 64), "uint8", name="x"), te.placeholder((1, 1, 16, 1, 4), "int8", name="w")
    data = te.compute(x.shape, lambda *at: te.min(x(*at), te.const(200, "uint8")), name="data", tag="elemwise")
    sums = matmul_tiles.products(data, w, 1, BYTES)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (32, 64)).astype("uint8"), rng.integers(-128, 128, (1, 1, 16, 1, 4)).astype("int8")
    out = tvm.nd.empty((32, 1), "int32")
    with emulated() as target, tvm.target.Target(target) as where:
        tvm.build(schedule_for([sums], where), [x, w, sums], where)(tvm.nd.array(a), tvm.nd.array(b), out)
    np.testing.assert_array_equal(out.numpy(), np.minimum(a, 200).astype("int64") @ b.reshape(64, 1))


def test_rows_are_divided_into_pairs_of_tiles():
    for m in range(1, 600):
        count, rows = matmul_tiles.row_tiles(m)
        assert rows <= 16 and (count == 1 or count % 2 == 0)
        # Less than a row of each tile is computed in vain.
        assert 0 <= count * rows - m < count
    found = [matmul_tiles.row_tiles(m) for m in (16, 48, 128, 144, 197, 225)]
    assert found == [(1, 16), (4, 12), (8, 16), (12, 12), (14, 15), (16, 15)]


@pytest.mark.parametrize("kind", [BFLOAT16, BYTES], ids=["bf16", "int8"])
def test_parts_stay_in_the_l1_cache_and_blocks_of_rows_in_the_l2_cache(kind):
    machine = Machine(tvm.target.Target(AMX))
    machine.l1_bytes, machine.l2_bytes = 48 << 10, 2 << 20

    def chosen(m, n, steps):
        held = declared(m, n, steps * kind.k, kind)[2].op.input_tensors[0]
        return matmul_tiles.TEMPLATE.choose(held.op.input_tensors[0].op, machine)

    # A tile of rows takes a KB for each step, a panel two.
    found = ((2048, 64, 16, 16), (2048, 32, 16, 32), (128, 96, 16, 8), (197, 96, 16, 14))
    for m, steps, part, rows in found:
        config = chosen(m, 2048, steps)
        assert (config["steps"], config["rows"]) == (part, rows)
        assert config["streams"] == (m == 2048) and (config["non_temporal"] or m < 2048)
    # One part holds its sums, as do few rows, whether they are all or the L2 cache has no place for more, and a single
    # block of rows beside panels of up to twice the L1 cache, where no epilogue overlaps with products.
    held = ((128, 12), (32, 96), (2048, 1024), (128, 24), (512, 32))
    assert [chosen(m, 64, steps)["steps"] for m, steps in held] == [12, 96, 1024, 24, 32]
