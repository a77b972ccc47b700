"""Convolutions whose sums are done in parts: against NumPy, and where they are chosen."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.topi.cpu.test_convolution_templates import machine_of, run
from tvm import te, tir, topi
from tvm.tir.stmt_functor import post_order_visit
from tvm.topi.cpu import channel_blocking, conv2d
from tvm.topi.cpu.machine import Machine
from tvm.topi.schedule import schedule_for

CASES = {
    "pointwise": {"shape": (1, 48, 7, 11), "filters": 64, "kernel": (1, 1)},
    "pointwise, stride": {"shape": (2, 40, 9, 13), "filters": 24, "kernel": (1, 1), "stride": 2, "block": 8},
    "pointwise, padding": {"shape": (1, 24, 5, 9), "filters": 16, "kernel": (1, 1), "pad": (1, 2, 3, 0), "block": 8},
    "window": {"shape": (1, 48, 11, 7), "filters": 32, "kernel": (3, 3), "pad": (1, 1, 1, 1)},
    "wide window": {"shape": (1, 20, 6, 17), "filters": 12, "kernel": (1, 7), "pad": (0, 3, 0, 3), "block": 4},
    "window, stride": {"shape": (2, 32, 13, 12), "filters": 48, "kernel": (3, 3), "stride": 2, "pad": (0, 1, 2, 1)},
    "dilation": {"shape": (1, 64, 9, 10), "filters": 16, "kernel": (3, 3), "pad": (2, 2, 2, 2), "dilation": 2},
    "far taps": {"shape": (1, 48, 12, 13), "filters": 32, "kernel": (3, 3), "pad": (8, 8, 8, 8), "dilation": 8},
    "odd channels": {"shape": (1, 35, 6, 5), "filters": 21, "kernel": (3, 2), "pad": (1, 0, 1, 1), "block": 7},
    "no epilogue": {"shape": (3, 32, 8, 8), "filters": 32, "kernel": (3, 3), "pad": (1, 1, 1, 1), "epilogue": False},
}


@pytest.mark.parametrize("draw", range(2))
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_sums_in_parts_are_those_of_the_whole(case, draw, rng, monkeypatch):
    def choose(op, machine):
        space = conv2d.TEMPLATE.space(op, machine)
        assert "parts" in space["outer"]
        config = {name: values[rng.integers(len(values))] for name, values in space.items()} | {"outer": "parts"}
        print("configuration", config)
        return config

    monkeypatch.setattr(channel_blocking, "MIN_STEPS", int(rng.integers(1, 64)))
    monkeypatch.setattr(conv2d.TEMPLATE, "choose", choose)
    run("llvm", **case)


def convolution(channels, filters, size, kernel, dilation=1):
    x = te.placeholder((1, channels // 16, size, size, 16), name="x")
    w = te.placeholder((filters // 16, channels // 16, kernel, kernel, 16, 16), name="w")
    pad = dilation * (kernel // 2)
    return x, w, topi.nn.conv2d_NCHWc(x, w, 1, pad, dilation, "NCHW16c", "NCHW16c", "float32")


@pytest.mark.parametrize("sizes, wanted", [
    ((2048, 512, 32, 1), True), ((512, 512, 32, 3, 2), True), ((2048, 256, 32, 3, 12), True),
    # Few pixels use the weights; all of the data stays in the second cache, or all of the weights and some rows.
    ((4096, 1024, 14, 1), False),
    ((1024, 512, 14, 1), False), ((512, 512, 7, 3), False), ((256, 256, 56, 1), False),
    # Planes of 64 KB: the channels of a pixel meet in every 32nd line. Planes of other sizes do not.
    ((1024, 256, 32, 1), True), ((1024, 256, 31, 1), False),
], ids=str)  # fmt: skip
def test_sums_are_done_in_parts_where_the_second_cache_is_too_small(sizes, wanted):
    machine = machine_of(l2_bytes=1 << 21, loads_pairs=False)
    assert (conv2d.TEMPLATE.choose(convolution(*sizes)[-1].op, machine)["outer"] == "parts") == wanted


@pytest.mark.parametrize("sizes", [(2048, 512, 32, 1), (512, 2048, 32, 1), (512, 512, 32, 3), (2048, 256, 33, 3, 12)])
def test_what_a_channel_block_reads_and_its_sums_fit_the_caches(sizes):
    machine = machine_of(l2_bytes=1 << 20, loads_pairs=False)
    x = conv2d.extents(convolution(*sizes)[-1].op)
    tile, size = (1, 11, 2), sizes[2]
    rows, filters = channel_blocking.rows_and_filters(x, tile, 1, machine)
    block = channel_blocking.block_channels(x)
    steps = block * 16 * sizes[3] ** 2
    tasks = -(-size // rows) * (x["oc"] // 2 // filters)
    assert tasks >= 4 * machine.threads
    assert channel_blocking.MIN_STEPS <= steps <= 2 * channel_blocking.MIN_STEPS
    assert rows * size * filters * 32 * 4 <= machine.l2_bytes // 4
    # The weights of a tile, and the data of a task that is copied.
    assert steps * 32 * 4 <= machine.l1_bytes // 2
    assert sizes[3] > 1 or rows * size * block * 16 * 4 <= machine.l2_bytes // 4


def test_sums_of_a_channel_block_stay_in_registers_and_the_rows_of_a_task_are_copied():
    x, w, out = convolution(2048, 512, 32, 1)
    target = tvm.target.Target("llvm")
    rows = conv2d.TEMPLATE.choose(out.op, Machine(target))["rows"]
    with target:
        func = tvm.lower(schedule_for([out], target), [x, w, out])["main"]
    found = []
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, tir.Allocate) else None)
    sizes = {n.buffer_var.name: int(np.prod([int(e) for e in n.extents])) for n in found}
    block = channel_blocking.block_channels(conv2d.extents(out.op))
    assert sizes["x.global"] == block * 16 * rows * 32
    scopes = {n.buffer_var.name: n.buffer_var.type_annotation.storage_scope for n in found}
    assert {scopes[name] for name in scopes if ".rf" in name} == {"local"}


@pytest.mark.parametrize("sizes, wanted", [((2048, 512, 32, 1), (1, 6, 4)), ((2048, 256, 32, 3, 24), (1, 4, 4))])
def test_tiles_of_a_channel_block_have_few_instructions(sizes, wanted):
    machine = machine_of(l2_bytes=1 << 21, loads_pairs=False)
    config = conv2d.TEMPLATE.choose(convolution(*sizes)[-1].op, machine)
    assert config["outer"] == "parts" and config["tile"] == wanted
