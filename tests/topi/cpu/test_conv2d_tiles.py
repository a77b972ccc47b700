"""Convolutions by products of tiles: exact for register blocks of every shape."""

import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tests.tile_emulator import emulated
from tvm import te
from tvm.topi.cpu import conv2d_tiles
from tvm.topi.cpu.tiles import BFLOAT16, Kind
from tvm.topi.schedule.cpu import schedule_for

BYTES = Kind("uint8", "int8", "int32", 4)


def expected(x, weights, stride, pad):
    """The blocked image of data (n, C/c, h, w, c) and weights (O/o, C/c, kh, kw, c/depth, o, depth)."""
    outer, blocks, kh, kw, groups, o, depth = weights.shape
    by_channel = weights.transpose(0, 1, 2, 3, 4, 6, 5).reshape(outer, blocks, kh, kw, groups * depth, o)
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nihwcab,oiabcp->nohwp", windows, by_channel)


# Channels of a block, blocks of them, filters of a block, blocks of them, height, width, window, stride.
@pytest.mark.parametrize("case", [
    (16, 2, 32, 2, 6, 28, 3, 1),
    (8, 2, 64, 1, 5, 19, 3, 2),
    (16, 1, 16, 2, 8, 14, 3, 1),
    # More tiles of filters than a tile has rows: of pixels, and of pairs or fours of channels.
    (16, 1, 48, 1, 1, 2, 1, 1),
    (4, 1, 48, 1, 14, 7, 1, 1),
    (8, 1, 48, 2, 2, 2, 3, 2),
    # Windows of which a row is unrolled, and none.
    (16, 2, 32, 2, 6, 20, 5, 1),
    (16, 2, 16, 1, 3, 20, 17, 1),
    (16, 2, 32, 1, 6, 7, 5, 1),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("kind", [BFLOAT16, BYTES], ids=["bf16", "int8"])
def test_convolutions_are_exact(kind, case):
    check(kind, case)


@pytest.mark.parametrize(
    "knobs",
    [
        {"block": (2, 1, 1), "rows": 1},
        {"block": (3, 1, 1), "rows": 2},
        {"block": (1, 2, 1), "outer": "rows"},
        {"block": (2, 1, 2), "non_temporal": True},
        {"block": (1, 1, 3), "rows": 3},
        {"block": (1, 2, 2)},
    ],
    ids=str,
)
def test_every_register_block_is_exact(knobs, monkeypatch):
    own = conv2d_tiles.Conv2dTiles.choose
    monkeypatch.setattr(conv2d_tiles.Conv2dTiles, "choose", lambda *args: {**own(*args), **knobs})
    check(BFLOAT16, (16, 2, 16, 6, 6, 28, 3, 1))


def check(kind, case):
    c, blocks, o, outer, h, w, window, stride = case
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (1, blocks, h, w, c))
    weights = rng.integers(-8, 9, (outer, blocks, window, window, c // kind.depth, o, kind.depth))
    tensors = [te.placeholder(v.shape, t, name=n) for v, t, n in ((x, kind.lhs, "data"), (weights, kind.rhs, "kernel"))]
    out = conv2d_tiles.conv2d(*tensors, stride, window // 2, 1, kind)
    with quick_code(), emulated() as target, tvm.target.Target(target) as where:
        built = tvm.build(schedule_for([out], where), [*tensors, out], where)
        given = [tvm.nd.empty(v.shape, t.dtype) for v, t in zip((x, weights), tensors)]
        for array, v in zip(given, (x, weights)):
            array.copyfrom(v.astype(array.numpy().dtype))
        result = tvm.nd.empty([int(d) for d in out.shape], kind.sums)
        built(*given, result)
    np.testing.assert_array_equal(result.numpy(), expected(x, weights, stride, window // 2))
