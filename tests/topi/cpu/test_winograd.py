"""Winograd convolution against a convolution in float64, on sizes that leave tiles cut off at the edges."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.cpus import OLDER
from tests.quick_code import quick_code
from tvm import te, topi
from tvm.error import TVMError
from tvm.topi.cpu import winograd
from tvm.topi.nn.winograd import conv2d_winograd_NCHWc, transform_filters
from tvm.topi.schedule import cpu, schedule_for

# Largest error of a result, as a part of the largest result, by the size of a tile.
ALLOWED = {2: 5e-6, 4: 5e-5}


def reference(data, weight, pad):
    x = np.pad(data.astype("float64"), ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3])))
    height, width = x.shape[2] - 2, x.shape[3] - 2
    out = np.zeros((data.shape[0], weight.shape[0], height, width))
    for r in range(3):
        for c in range(3):
            window = x[:, :, r : r + height, c : c + width]
            out += np.einsum("nihw,oi->nohw", window, weight[:, :, r, c].astype("float64"))
    return out


def blocked(array, block):
    n, c, h, w = array.shape
    return np.ascontiguousarray(array.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))


def run(rng, shape, filters, tile, vectors, pad=(1, 1, 1, 1), block=16, follow="relu", target="llvm"):
    n, channels, height, width = shape
    data = rng.standard_normal(shape).astype("float32")
    weight = (rng.standard_normal((filters, channels, 3, 3)) / np.sqrt(9 * channels)).astype("float32")
    bias = rng.standard_normal((filters // block, 1, 1, block)).astype("float32")
    packed = transform_filters(weight, tile, block, block, vectors)
    x = te.placeholder((n, channels // block, height, width, block), name="x")
    w = te.placeholder(packed.shape, name="w")
    b = te.placeholder(bias.shape, name="b")
    out = conv2d_winograd_NCHWc(x, w, pad)
    want = blocked(reference(data, weight, pad), block)
    if follow == "relu":
        results, wanted = [topi.nn.relu(topi.add(out, b))], [np.maximum(want + bias, 0)]
    elif follow == "swish":
        gate = topi.add(out, b)
        results, wanted = [topi.multiply(gate, topi.sigmoid(gate))], [(want + bias) / (1 + np.exp(-want - bias))]
    elif follow == "transpose":
        results, wanted = [topi.transpose(out, (0, 1, 4, 2, 3))], [want.transpose(0, 1, 4, 2, 3)]
    elif follow == "both":
        results, wanted = [out, topi.nn.relu(out)], [want, np.maximum(want, 0)]
    else:
        results, wanted = [out], [want]
    target = tvm.target.Target(target)
    with target, quick_code():
        function = tvm.build(schedule_for(results, target), [x, w, b, *results], target)
    got = [tvm.nd.array(np.full(a.shape, np.nan, "float32")) for a in wanted]
    function(*(tvm.nd.array(a) for a in (blocked(data, block), packed, bias)), *got)
    for have, right in zip(got, wanted):
        np.testing.assert_allclose(have.numpy(), right, rtol=0, atol=ALLOWED[tile] * (np.abs(right).max() + 1))


CASES = {
    "one tile": {"shape": (1, 16, 4, 4), "filters": 16, "tile": 4, "vectors": 1},
    "one pixel": {"shape": (1, 16, 1, 1), "filters": 16, "tile": 4, "vectors": 1},
    "smaller than a tile": {"shape": (1, 16, 3, 2), "filters": 32, "tile": 4, "vectors": 2},
    "prime sizes": {"shape": (1, 32, 13, 17), "filters": 32, "tile": 4, "vectors": 2},
    "prime sizes, small tiles": {"shape": (1, 32, 13, 17), "filters": 48, "tile": 2, "vectors": 1},
    "no padding": {"shape": (2, 16, 9, 11), "filters": 64, "tile": 4, "vectors": 4, "pad": (0, 0, 0, 0)},
    "uneven padding": {"shape": (1, 16, 7, 7), "filters": 32, "tile": 2, "vectors": 2, "pad": (1, 0, 2, 3)},
    "batch": {"shape": (4, 32, 7, 7), "filters": 32, "tile": 2, "vectors": 2},
    "many tiles in a row": {"shape": (1, 16, 6, 75), "filters": 16, "tile": 2, "vectors": 1},
    "small blocks": {"shape": (1, 24, 10, 9), "filters": 40, "tile": 4, "vectors": 1, "block": 8},
    "enough for threads": {"shape": (1, 32, 28, 28), "filters": 64, "tile": 4, "vectors": 2},
    "nothing follows": {"shape": (1, 16, 10, 10), "filters": 32, "tile": 4, "vectors": 2, "follow": ""},
    "read twice": {"shape": (1, 16, 10, 10), "filters": 32, "tile": 4, "vectors": 2, "follow": "swish"},
    "also a result": {"shape": (1, 16, 9, 10), "filters": 32, "tile": 2, "vectors": 2, "follow": "both"},
    "read elsewhere": {"shape": (1, 16, 9, 10), "filters": 32, "tile": 4, "vectors": 2, "follow": "transpose"},
    "short vectors": {"shape": (1, 16, 9, 10), "filters": 32, "tile": 4, "vectors": 2, "target": f"llvm -mcpu={OLDER}"},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_chosen_schedule_computes_the_convolution(case, rng):
    run(rng, **case)


@pytest.mark.parametrize("number", range(6))
def test_any_configuration_of_the_space_computes_the_convolution(number, rng, monkeypatch):
    def draw(op, machine):
        config = {name: rng.choice(values).item() for name, values in winograd.TEMPLATE.space(op, machine).items()}
        print("configuration", config)
        return config

    monkeypatch.setattr(winograd.TEMPLATE, "choose", draw)
    run(rng, (2, 16, 9, 13), 64, 2 + 2 * (number % 2), 2)


@pytest.mark.parametrize("name", ["prime sizes", "no padding", "uneven padding", "batch", "read twice"])
def test_data_that_is_transformed_once_for_all_tasks_gives_the_same(name, rng, monkeypatch):
    def draw(op, machine):
        p = winograd.problem_of(op)
        config = {key: rng.choice(values).item() for key, values in winograd.TEMPLATE.space(op, machine).items()}
        # Blocks that end with the image, and those that reach past it.
        config |= {"data": "once", "tiles": 1, "rows": int(rng.integers(1, p.rows + 1))}
        print("configuration", config)
        return config

    monkeypatch.setattr(winograd.TEMPLATE, "choose", draw)
    run(rng, **CASES[name])


@pytest.mark.parametrize("tile", [2, 4])
def test_transformed_filters_give_the_matrices_of_every_block(tile, rng):
    weight = rng.standard_normal((16, 8, 3, 3)).astype("float32")
    got = transform_filters(weight, tile, 4, 4, 2)
    assert got.shape == (2, tile + 2, tile + 2, 2, 4, 2, 4) and got.dtype == np.float32
    # The node at infinity keeps the last number of the window, the node 0 a multiple of the first.
    filter_of, channel = 1 * 8 + 1 * 4 + 3, 1 * 4 + 2
    window = weight[filter_of, channel]
    at = got[1, :, :, 1, 2, 1, 3]
    first = 1.0 if tile == 2 else 0.25
    assert at[-1, -1] == window[2, 2] and at[-1, 0] == pytest.approx(first * window[2, 0])
    assert at[0, -1] == pytest.approx(first * window[0, 2]) and at[0, 0] == pytest.approx(first * first * window[0, 0])


def test_blocks_that_do_not_fit_are_refused():
    with pytest.raises(TVMError, match="do not fit"):
        transform_filters(np.zeros((24, 16, 3, 3), "float32"), 2, 16, 16, 1)
    with pytest.raises(TVMError, match="7 dimensions"):
        conv2d_winograd_NCHWc(te.placeholder((1, 1, 4, 4, 16)), te.placeholder((1, 1, 3, 3, 16, 16)), 1)


def machine(options="-mcpu=skylake-avx512 -num-cores=2"):
    return cpu.Machine(tvm.target.Target(f"llvm -mtriple=x86_64-linux-gnu {options}"))


def test_the_estimate_prefers_what_multiplies_less_until_filters_cost_more_to_load(usual_machine):
    plan = winograd.plan
    assert plan(1, 64, 64, 56, 56, (16, 16), machine())[0] == 4
    assert plan(1, 256, 256, 56, 56, (16, 16), machine())[0] == 4
    # Filters for tiles of four are four times as large as plain ones, which few pixels do not make good.
    assert plan(1, 512, 512, 14, 14, (16, 16), machine())[0] == 2
    assert plan(1, 512, 512, 7, 7, (16, 16), machine()) is None
    assert plan(32, 512, 512, 8, 8, (16, 16), machine())[0] == 4
    # With few pixels, loading and transforming cost more than the products that are saved.
    assert plan(1, 128, 32, 7, 7, (16, 16), machine()) is None


@pytest.mark.parametrize("options", ["-mcpu=skylake-avx512 -num-cores=2", "-mcpu=haswell -num-cores=4"])
def test_the_choice_keeps_sums_in_registers_and_data_in_the_second_cache(options):
    m = machine(options)
    lanes = m.lanes("float32")
    p = winograd.Problem(1, 14, 14, 4, 128 // lanes, lanes, 128 // lanes // 2, 2, lanes)
    config = winograd.best(p, m)[1]
    block = config["images"] * config["rows"] * config["columns"]
    assert config["tiles"] * 2 + 2 + 1 <= m.registers and block % config["tiles"] == 0
    assert winograd.held_bytes(p, block) <= m.l2_bytes


@pytest.mark.parametrize("sizes, wanted", [
    ((4, 512, 512, 16), True), ((16, 512, 512, 8), True),
    # Fewer filters, for which tasks that transform their own data wait less; those of all tiles read them once anyway.
    ((1, 128, 128, 28), False), ((1, 64, 64, 56), False), ((4, 256, 256, 16), False), ((1, 512, 512, 14), False),
], ids=str)  # fmt: skip
def test_data_is_transformed_once_for_all_tasks_where_filters_are_waited_for(sizes, wanted):
    machine = cpu.Machine(tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=2"))
    machine.l1_bytes, machine.l2_bytes = 3 << 14, 1 << 21
    batch, channels, filters, side = sizes
    problem = winograd.Problem(batch, -(-side // 4), -(-side // 4), 4, channels // 16, 16, filters // 32, 2, 16)
    config = winograd.best(problem, machine)[1]
    assert (config["data"] == "once") == wanted
    tiles = config["images"] * config["rows"] * config["columns"]
    if wanted:
        assert tiles == batch * problem.rows * problem.columns
        assert winograd.matrix_bytes(problem, tiles, config["groups"]) <= machine.l2_bytes
    assert tiles % config["tiles"] == 0
