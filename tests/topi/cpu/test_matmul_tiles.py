"""Matmuls by products of tiles: exact with every knob, and the blocks that are chosen."""

import numpy as np
import pytest

import tvm
from tests.tile_emulator import emulated
from tvm import te
from tvm.topi.cpu import matmul_tiles
from tvm.topi.cpu.machine import Machine
from tvm.topi.cpu.tiles import BFLOAT16, Kind
from tvm.topi.schedule.cpu import schedule_for

BYTES = Kind("uint8", "int8", "int32", 4)
AMX = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=1"


def declared(m, n, k, kind):
    block = matmul_tiles.k_block(k, kind)
    lhs = te.placeholder((m, k), kind.lhs, name="lhs")
    shape = (-(-n // 32), -(-k // block), block // kind.depth, 32, kind.depth)
    rhs = te.placeholder(shape, kind.rhs, name="rhs")
    return lhs, rhs, matmul_tiles.products(lhs, rhs, n, kind)


def check(m, n, k, kind, target):
    rng = np.random.default_rng(m + n + k)
    x, w = rng.integers(0, 9, (m, k)), rng.integers(-8, 9, (n, k))
    lhs, rhs, out = declared(m, n, k, kind)
    panels, blocks, groups, width, depth = (int(d) for d in rhs.shape)
    whole = np.pad(w, ((0, panels * width - n), (0, blocks * groups * depth - k)))
    packed = whole.reshape(panels, width, blocks, groups, depth).transpose(0, 2, 3, 1, 4)
    with tvm.target.Target(target) as where:
        built = tvm.build(schedule_for([out], where), [lhs, rhs, out], where)
    given = [tvm.nd.empty(v.shape, t.dtype) for v, t in ((x, lhs), (packed, rhs))]
    for array, v in zip(given, (x, packed)):
        array.copyfrom(np.ascontiguousarray(v).astype(array.numpy().dtype))
    result = tvm.nd.empty((m, n), kind.sums)
    built(*given, result)
    np.testing.assert_array_equal(result.numpy(), x @ w.T)


@pytest.mark.parametrize("kind, knobs", [
    (BFLOAT16, {}), (BYTES, {}), (BFLOAT16, {"steps": 2, "rows": 2}),
    (BYTES, {"streams": True, "prefetch_distance": 5}),
    (BYTES, {"steps": 4, "rows": 4, "near": 4, "prefetch_distance": 1, "non_temporal": True,
             "sums_pass": True}),
    (BYTES, {"steps": 32, "rows": 4, "near": 5, "prefetch_lines": 1, "non_temporal": True}),
    (BFLOAT16, {"near": 0, "rows": 4, "non_temporal": True}), (BFLOAT16, {"steps": 8, "near": 1, "non_temporal": True}),
    (BFLOAT16, {"steps": 1, "rows": 2, "streams": True, "non_temporal": True}),
], ids=str)
def test_every_blocking_of_packed_rows_is_exact(kind, knobs, monkeypatch):
    own = matmul_tiles.MatmulTiles.choose
    monkeypatch.setattr(matmul_tiles.MatmulTiles, "choose", lambda *args: {**own(*args), **knobs})
    with emulated() as target:
        # Rows of 2048 bytes are packed, in each block of them or before; the last panel is not whole.
        check(128, 40, 16 * kind.k * 2, kind, target + " -num-cores=1")


@pytest.mark.parametrize("shape", [(64, 64, 256), (33, 40, 96), (50, 70, 100), (17, 33, 7), (1, 64, 4096)])
@pytest.mark.parametrize("kind", [BFLOAT16, BYTES], ids=["bf16", "int8"])
def test_sizes_that_tiles_do_not_divide_are_exact(kind, shape):
    with emulated() as target:
        check(*shape, kind, target)


def test_rows_are_divided_into_pairs_of_tiles():
    for m in range(1, 600):
        count, rows = matmul_tiles.row_tiles(m)
        assert rows <= 16 and (count == 1 or count % 2 == 0)
        # Less than a row of each tile is computed in vain.
        assert 0 <= count * rows - m < count
    found = [matmul_tiles.row_tiles(m) for m in (16, 48, 128, 144, 197, 225)]
    assert found == [(1, 16), (4, 12), (8, 16), (12, 12), (14, 15), (16, 15)]


@pytest.mark.parametrize("kind", [BFLOAT16, BYTES], ids=["bf16", "int8"])
def test_a_panel_stays_in_the_l1_cache_in_part_and_a_block_of_rows_in_the_l2_cache(kind):
    machine = Machine(tvm.target.Target(AMX))
    for m, n, steps in ((2048, 2048, 64), (2048, 64, 1024), (128, 768, 96)):
        held = declared(m, n, steps * kind.k, kind)[2].op.input_tensors[0]
        config = matmul_tiles.TEMPLATE.choose(held.op.input_tensors[0].op, machine)
        # Sums are held for all of k if the panel takes little of the L2 cache, else for as much as the L1 cache holds.
        near = min(config["near"], config["steps"])
        assert near * 2048 <= machine.l1_bytes < 4 * near * 2048
        assert config["steps"] == (steps if steps * 2048 * 8 <= machine.l2_bytes else near)
        assert config["rows"] == 2 or config["rows"] * steps * 1024 <= machine.l2_bytes * 3 // 4
        assert config["non_temporal"] and config["streams"] == (n == 2048)
