"""The convolution templates against NumPy, on sizes that leave tails and on every kind of window."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tests.cpus import OLDER
from tests.quick_code import quick_code
from tvm import te, tir, topi
from tvm.tir.stmt_functor import post_order_visit
from tvm.topi.cpu import conv2d, cycles, depthwise
from tvm.topi.schedule import cpu, schedule_for

TARGETS = ["llvm", f"llvm -mcpu={OLDER}"]


def reference(data, weight, stride, pad, dilation, groups):
    """NCHW convolution, position by position of the window, in float64."""
    x = np.pad(data.astype("float64"), ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3])))
    filters, inside, kh, kw = weight.shape
    height = (x.shape[2] - (kh - 1) * dilation - 1) // stride + 1
    width = (x.shape[3] - (kw - 1) * dilation - 1) // stride + 1
    out = np.zeros((data.shape[0], filters, height, width))
    each = filters // groups
    for g in range(groups):
        part = x[:, g * inside : (g + 1) * inside]
        for r in range(kh):
            for c in range(kw):
                rows = part[:, :, r * dilation : r * dilation + (height - 1) * stride + 1 : stride]
                window = rows[:, :, :, c * dilation : c * dilation + (width - 1) * stride + 1 : stride]
                kernel = weight[g * each : (g + 1) * each, :, r, c].astype("float64")
                out[:, g * each : (g + 1) * each] += np.einsum("nihw,oi->nohw", window, kernel)
    return out


def blocked(array, block):
    n, c, h, w = array.shape
    return np.ascontiguousarray(array.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))


def run(target, shape, filters, kernel, stride=1, pad=(0, 0, 0, 0), dilation=1, block=16, epilogue=True, config=None):
    n, channels, height, width = shape
    in_block = block if channels % block == 0 else channels
    rng = np.random.default_rng(height * 131 + width * 17 + filters)
    data = rng.standard_normal(shape).astype("float32")
    is_depthwise = filters == -1
    filters = channels if is_depthwise else filters
    weight = rng.standard_normal((filters, 1 if is_depthwise else channels, *kernel)).astype("float32")
    bias = rng.standard_normal((filters // block, 1, 1, block)).astype("float32")
    x = te.placeholder((n, channels // in_block, height, width, in_block), name="x")
    if is_depthwise:
        packed = weight.reshape(filters // block, block, 1, 1, *kernel).transpose(0, 2, 4, 5, 3, 1)
        w = te.placeholder(packed.shape, name="w")
        out = topi.nn.depthwise_conv2d_NCHWc(x, w, stride, pad, dilation, f"NCHW{block}c", f"NCHW{block}c", "float32")
    else:
        packed = weight.reshape(filters // block, block, channels // in_block, in_block, *kernel)
        packed = packed.transpose(0, 2, 4, 5, 3, 1)
        w = te.placeholder(packed.shape, name="w")
        out = topi.nn.conv2d_NCHWc(x, w, stride, pad, dilation, f"NCHW{in_block}c", f"NCHW{block}c", "float32")
    b = te.placeholder(bias.shape, name="b")
    result = topi.nn.relu(topi.add(out, b)) if epilogue else out
    target = tvm.target.Target(target)
    with target, quick_code():
        function = tvm.build(schedule_for([result], target), [x, w, b, result], target)
    got = tvm.nd.empty([int(d) for d in result.shape])
    function(*(tvm.nd.array(np.ascontiguousarray(a)) for a in (blocked(data, in_block), packed, bias)), got)
    want = blocked(reference(data, weight, stride, pad, dilation, channels if is_depthwise else 1), block)
    want = np.maximum(want + bias, 0) if epilogue else want
    scale = np.abs(want).max() + 1
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5 * scale)


CASES = {
    "one pixel": {"shape": (1, 16, 1, 1), "filters": 32, "kernel": (1, 1)},
    "prime width": {"shape": (1, 16, 5, 17), "filters": 32, "kernel": (1, 1)},
    "wide prime": {"shape": (1, 16, 3, 37), "filters": 16, "kernel": (3, 3), "pad": (1, 1, 1, 1)},
    "tails both ways": {"shape": (1, 32, 7, 7), "filters": 64, "kernel": (3, 3), "pad": (1, 1, 1, 1)},
    "stride": {"shape": (1, 16, 15, 15), "filters": 32, "kernel": (3, 3), "stride": 2, "pad": (1, 1, 1, 1)},
    "uneven padding": {"shape": (1, 16, 9, 11), "filters": 48, "kernel": (3, 3), "stride": 2, "pad": (0, 1, 2, 1)},
    "dilation": {"shape": (1, 16, 13, 13), "filters": 16, "kernel": (3, 3), "pad": (2, 2, 2, 2), "dilation": 2},
    "far taps": {"shape": (1, 16, 11, 13), "filters": 32, "kernel": (3, 3), "pad": (8, 8, 8, 8), "dilation": 8},
    "far taps, stride": {
        "shape": (2, 32, 12, 9),
        "filters": 16,
        "kernel": (3, 5),
        "stride": 2,
        "pad": (7, 12, 5, 14),
        "dilation": 6,
    },
    "taps far outside": {"shape": (1, 16, 5, 6), "filters": 16, "kernel": (3, 3), "pad": (9, 9, 9, 9), "dilation": 9},
    "few channels": {"shape": (1, 3, 31, 29), "filters": 32, "kernel": (7, 7), "stride": 2, "pad": (3, 3, 3, 3)},
    "operands in memory": {"shape": (1, 144, 5, 28), "filters": 32, "kernel": (1, 1)},
    "operands in memory, stride": {"shape": (2, 128, 15, 28), "filters": 96, "kernel": (1, 1), "stride": 2},
    "operands in memory, streamed weights": {"shape": (1, 272, 7, 7), "filters": 320, "kernel": (1, 1)},
    "batch": {"shape": (3, 16, 14, 14), "filters": 32, "kernel": (1, 3), "pad": (0, 1, 0, 1)},
    "small blocks": {"shape": (2, 24, 10, 10), "filters": 40, "kernel": (3, 3), "pad": (1, 1, 1, 1), "block": 8},
    "enough for threads": {"shape": (1, 32, 29, 31), "filters": 64, "kernel": (3, 3), "pad": (1, 1, 1, 1)},
    "no epilogue": {"shape": (1, 16, 12, 13), "filters": 32, "kernel": (5, 5), "pad": (2, 2, 2, 2), "epilogue": False},
    "depthwise": {"shape": (1, 32, 14, 14), "filters": -1, "kernel": (3, 3), "pad": (1, 1, 1, 1)},
    "depthwise, prime": {"shape": (2, 16, 17, 19), "filters": -1, "kernel": (3, 3), "stride": 2, "pad": (1, 1, 1, 1)},
    "depthwise, padded at the end": {
        "shape": (1, 32, 30, 44),
        "filters": -1,
        "kernel": (3, 3),
        "stride": 2,
        "pad": (0, 0, 1, 1),
    },
    "depthwise, several tiles": {"shape": (1, 16, 9, 60), "filters": -1, "kernel": (5, 5), "pad": (2, 2, 2, 2)},
    "depthwise, window over the whole image": {
        "shape": (1, 16, 3, 2),
        "filters": -1,
        "kernel": (5, 5),
        "pad": (2, 2, 2, 2),
    },
    "depthwise, window beyond padding": {"shape": (2, 16, 8, 33), "filters": -1, "kernel": (3, 3), "pad": (3, 0, 1, 4)},
    "depthwise, dilation": {
        "shape": (1, 16, 19, 21),
        "filters": -1,
        "kernel": (3, 3),
        "pad": (2, 2, 2, 2),
        "dilation": 2,
    },
    "depthwise, wide window": {"shape": (1, 16, 12, 23), "filters": -1, "kernel": (7, 7), "pad": (3, 3, 3, 3)},
    "depthwise, far taps": {
        "shape": (1, 32, 13, 14),
        "filters": -1,
        "kernel": (3, 3),
        "pad": (9, 9, 9, 9),
        "dilation": 9,
    },
    "depthwise, far taps, stride": {
        "shape": (1, 16, 17, 9),
        "filters": -1,
        "kernel": (5, 3),
        "stride": 2,
        "pad": (12, 6, 13, 5),
        "dilation": 6,
    },
    "depthwise, one row": {"shape": (1, 16, 1, 40), "filters": -1, "kernel": (1, 5), "pad": (0, 2, 0, 2)},
    "depthwise, no epilogue": {
        "shape": (1, 48, 9, 9),
        "filters": -1,
        "kernel": (5, 5),
        "pad": (2, 2, 2, 2),
        "epilogue": False,
    },
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_chosen_schedule_computes_the_convolution(case, target):
    run(target, **case)


@pytest.mark.parametrize("seed", range(12))
def test_any_configuration_of_the_space_computes_the_convolution(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    template = (conv2d, depthwise)[seed % 2].TEMPLATE

    def draw(op, machine):
        config = {name: values[rng.integers(len(values))] for name, values in template.space(op, machine).items()}
        print("seed", seed, "configuration", config)
        return config

    monkeypatch.setattr(template, "choose", draw)
    pad = 1 + seed // 4 % 3 * 3
    run("llvm", (1, 32, 9, 13), -1 if seed % 2 else 64, (3, 3), 1 + seed // 2 % 2, (pad,) * 4, pad)


def test_the_choice_keeps_the_tile_in_registers():
    machine = cpu.Machine(tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell"))
    x = te.placeholder((1, 8, 56, 56, 8))
    w = te.placeholder((8, 8, 3, 3, 8, 8))
    out = topi.nn.conv2d_NCHWc(x, w, 1, 1, 1, "NCHW8c", "NCHW8c", "float32")
    config = conv2d.TEMPLATE.choose(out.op, machine)
    rows, columns, vectors = config["tile"]
    assert cycles.CHAINS <= rows * columns * vectors <= machine.registers - vectors - 1


@pytest.mark.parametrize("each, per", [(16, 16), (32, 32), (16, 32), (32, 16)], ids=lambda n: str(n))
def test_groups_of_whole_blocks_read_their_own_channels(each, per):
    groups, block = 3, 16
    rng = np.random.default_rng(each + per)
    data = rng.standard_normal((1, groups * each, 9, 9)).astype("float32")
    weight = rng.standard_normal((groups * per, each, 3, 3)).astype("float32")
    packed = weight.reshape(groups * per // block, block, each // block, block, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    x, w = te.placeholder(blocked(data, block).shape), te.placeholder(packed.shape)
    out = topi.nn.conv2d_NCHWc(x, w, 1, 1, 1, "NCHW16c", "NCHW16c", "float32")
    target = tvm.target.Target("llvm")
    with target:
        function = tvm.build(schedule_for([out], target), [x, w, out], target)
    got = tvm.nd.empty([int(d) for d in out.shape])
    function(tvm.nd.array(blocked(data, block)), tvm.nd.array(np.ascontiguousarray(packed)), got)
    want = blocked(reference(data, weight, 1, (1, 1, 1, 1), 1, groups), block)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-3)


def packed_convolution(channels, filters, size, kernel, groups=1, stride=1):
    x = te.placeholder((1, channels // 16, size, size, 16))
    w = te.placeholder((filters // 16, channels // 16 // groups, kernel, kernel, 16, 16))
    return topi.nn.conv2d_NCHWc(x, w, stride, kernel // 2, 1, "NCHW16c", "NCHW16c", "float32")


def test_columns_of_the_window_share_numbers_where_their_filters_fit_the_registers():
    machine = cpu.Machine(tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"))
    config = conv2d.TEMPLATE.choose(packed_convolution(128, 128, 56, 3, groups=8).op, machine)
    rows, columns, vectors = config["tile"]
    assert config["share"]
    assert rows * columns * vectors + 3 * vectors + 1 <= machine.registers
    assert not conv2d.TEMPLATE.choose(packed_convolution(64, 64, 56, 1).op, machine)["share"]


def test_wide_tiles_of_pointwise_convolutions_go_over_rows_that_stay_in_the_second_cache():
    machine = cpu.Machine(tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"))
    machine.threads, machine.l2_bytes = 2, 1 << 21
    config = conv2d.TEMPLATE.choose(packed_convolution(64, 256, 56, 1).op, machine)
    assert config["outer"] == "rows" and config["tile"][2] >= conv2d.MIN_VECTORS_OF_ROWS
    assert config["rows"] * 56 * 64 * 4 <= machine.l2_bytes // 4
    machine.has_memory_operands = False
    config = conv2d.TEMPLATE.choose(packed_convolution(256, 256, 56, 1).op, machine)
    assert config["outer"] == "rows" and config["tile"][2] >= conv2d.MIN_VECTORS_OF_ROWS
    assert config["rows"] * 56 * 256 * 4 <= machine.l2_bytes // 4


def pointwise_loop(mcpu: str, channels: int, size: int) -> tuple[list[str], int]:
    """The instructions of the loop over channels of a pointwise convolution to as many filters, and the products that
    each channel takes in it."""
    target = tvm.target.Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={mcpu} -num-cores=2")
    out = packed_convolution(channels, channels, size, 1)
    config = conv2d.TEMPLATE.choose(out.op, cpu.Machine(target))
    with target:
        function = tvm.build(schedule_for([out], target), [*out.op.input_tensors, out], target)
    # Comments are left out, also those that mark where pointers are made.
    lines = [line.split("#")[0].strip() for line in function.get_source("asm").splitlines()]
    blocks = re.split(r"^\.L\w+:$", "\n".join(filter(None, lines)), flags=re.M)
    body = max(blocks, key=lambda block: block.count("vfmadd")).split("\n")
    end = next(number for number, line in enumerate(body) if line.startswith("j"))
    return body[1 : end + 1], int(np.prod(config["tile"]))


@pytest.mark.usual_code
@pytest.mark.parametrize("channels, size", [(512, 14), (1024, 7), (128, 56)], ids=str)
def test_products_load_half_of_the_elements_themselves_and_spill_nothing(channels, size):
    loop, products = pointwise_loop("skylake-avx512", channels, size)
    fused = [line for line in loop if line.startswith("vfmadd")]
    loaded = [line for line in fused if "{1to16}" in line]
    assert products == 28 and len(fused) % products == 0 and len(loaded) == len(fused) // 2
    # With an index register such a product would be issued as two instructions, and with a long offset take more bytes.
    assert all(re.match(r"vfmadd\w+\s+(-?\d+)?\(%r\w+\)\{1to16\}", line) for line in loaded)
    assert all(-512 <= int(re.search(r"(-?\d*)\(", line)[1] or 0) <= 508 for line in loaded)
    assert not any("rsp" in line for line in loop)
    # Beside them are the other elements, two vectors of weights and their prefetches for each channel, and the loop.
    assert len(loop) <= len(fused) // products * (products + 7 + 2 + 2) + 6


@pytest.mark.usual_code
def test_products_of_older_vectors_load_no_elements():
    loop, _ = pointwise_loop("haswell", 512, 14)
    assert any(line.startswith("vfmadd") for line in loop) and not any("{1to" in line for line in loop)


def test_long_bodies_shorter_tiles_and_other_types_load_elements_once_for_all_products():
    machine = cpu.Machine(tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"))
    op, tile = packed_convolution(512, 512, 14, 1).op, (1, 14, 2)
    assert conv2d.has_memory_operands(op, {"tile": tile, "outer": "filters", "unroll_ic": 4}, machine)
    assert not conv2d.has_memory_operands(op, {"tile": tile, "outer": "filters", "unroll_ic": 8}, machine)
    narrow = packed_convolution(512, 512, 20, 1).op
    assert not conv2d.has_memory_operands(narrow, {"tile": (1, 10, 2), "outer": "filters", "unroll_ic": 4}, machine)
    assert not conv2d.has_memory_operands(narrow, {"tile": tile, "outer": "filters", "unroll_ic": 4}, machine)
    assert not conv2d.has_memory_operands(op, {"tile": (1, 6, 4), "outer": "rows", "unroll_ic": 4}, machine)
    x, w = te.placeholder((1, 8, 14, 14, 8), "float64"), te.placeholder((8, 8, 1, 1, 8, 8), "float64")
    double = topi.nn.conv2d_NCHWc(x, w, 1, 0, 1, "NCHW8c", "NCHW8c", "float64").op
    assert not conv2d.has_memory_operands(double, {"tile": tile, "outer": "filters", "unroll_ic": 4}, machine)


def padded_elements(channels: int, filters: int, dilation: int) -> int:
    """Elements of padded data that the chosen schedule of a convolution 3x3 over 16x16 pixels stores."""
    x = te.placeholder((1, channels // 16, 16, 16, 16))
    groups = channels if filters == channels else 1
    w = te.placeholder((filters // 16, 1 if groups > 1 else channels // 16, 3, 3, 1 if groups > 1 else 16, 16))
    make = topi.nn.depthwise_conv2d_NCHWc if groups > 1 else topi.nn.conv2d_NCHWc
    out = make(x, w, 1, dilation, dilation, "NCHW16c", "NCHW16c", "float32")
    target = tvm.target.Target("llvm")
    found = []
    func = tvm.lower(schedule_for([out], target), [x, w, out])["main"]
    post_order_visit(func.body, lambda n: found.append(n) if isinstance(n, tir.Allocate) else None)
    return max(int(np.prod([int(e) for e in n.extents])) for n in found if "pad" in n.buffer_var.name)


@pytest.mark.parametrize("channels, filters", [(512, 256), (64, 64)], ids=["direct", "depthwise"])
def test_padding_beyond_the_tiles_that_reach_data_is_not_made(channels, filters):
    # Of 40 rows and columns, at most those rows that are data.
    assert padded_elements(channels, filters, 12) <= channels * 16 * 40


@pytest.mark.parametrize("kernel, width", [(3, 14), (3, 50), (5, 14)], ids=str)
def test_depthwise_convolutions_read_their_data_where_it_lies(kernel, width):
    x, w = te.placeholder((1, 4, 14, width, 16)), te.placeholder((4, 1, kernel, kernel, 1, 16))
    out = topi.nn.depthwise_conv2d_NCHWc(x, w, 1, kernel // 2, 1, "NCHW16c", "NCHW16c", "float32")
    body = tvm.lower(schedule_for([out], tvm.target.Target("llvm")), [x, w, out])["main"].body
    stored = []
    post_order_visit(body, lambda n: stored.append(n.buffer_var.name) if isinstance(n, tir.Allocate) else None)
    assert stored and not any("pad" in name for name in stored)


def test_a_depthwise_convolution_of_computed_data_pads_a_copy_of_it():
    x, w = te.placeholder((1, 4, 14, 14, 16)), te.placeholder((4, 1, 3, 3, 1, 16))
    scaled = te.compute(x.shape, lambda *at: te.exp(x(*at)), tag="injective")
    out = topi.nn.depthwise_conv2d_NCHWc(scaled, w, 1, 1, 1, "NCHW16c", "NCHW16c", "float32")
    body = tvm.lower(schedule_for([out], tvm.target.Target("llvm")), [x, w, out])["main"].body
    stored = []
    post_order_visit(body, lambda n: stored.append(n.buffer_var.name) if isinstance(n, tir.Allocate) else None)
    assert any("pad" in name for name in stored)


def test_the_cost_of_a_tile_counts_the_taps_that_are_left():
    x, w = te.placeholder((1, 8, 32, 32, 16)), te.placeholder((16, 8, 3, 3, 16, 16))
    out = topi.nn.conv2d_NCHWc(x, w, 1, 24, 24, "NCHW16c", "NCHW16c", "float32")
    # Of rows a third and an eighth of the others meet data; columns are the same in tiles of eight.
    assert conv2d.computed_taps_share(out.op, (1, 8, 1), 0) == ((32 + 2 * 8) / 96) ** 2
    assert conv2d.computed_taps_share(out.op, (1, 8, 1), 1) == (32 + 2 * 8) / 96
    assert conv2d.computed_taps_share(out.op, (1, 32, 1), 0) == (32 + 2 * 8) / 96
    near = topi.nn.conv2d_NCHWc(x, w, 1, 1, 1, "NCHW16c", "NCHW16c", "float32")
    assert conv2d.computed_taps_share(near.op, (1, 8, 1), 0) == 1


def machine_of(**facts) -> cpu.Machine:
    machine = cpu.Machine(tvm.target.Target("llvm"))
    machine.__dict__.update({"registers": 32, "threads": 2, "l1_bytes": 1 << 16, "l2_bytes": 1 << 20, **facts})
    return machine


def test_tiles_leave_registers_for_numbers_that_are_loaded_in_pairs():
    for channels, filters, size, kernel, stride in ((144, 32, 56, 1, 1), (32, 192, 56, 1, 1), (48, 80, 200, 3, 2)):
        op = packed_convolution(channels, filters, size, kernel, stride=stride).op
        rows, columns, vectors = conv2d.TEMPLATE.choose(op, machine_of(loads_pairs=True))["tile"]
        assert rows * columns * (vectors + 1) + vectors <= 32
        rows, columns, vectors = conv2d.TEMPLATE.choose(op, machine_of(loads_pairs=False))["tile"]
        assert rows * columns * vectors + vectors < 32


def test_rows_that_a_task_pads_stay_in_the_second_cache():
    config = conv2d.TEMPLATE.choose(packed_convolution(80, 144, 200, 3, stride=2).op, machine_of(loads_pairs=False))
    assert config["pad"] == "task" and config["outer"] == "pixels"
    assert config["rows"] * 2 * 200 * 80 * 4 <= 1 << 19
    # Rows of an image so wide that none would stay are not cut to fewer than twice the window's overhang.
    config = conv2d.TEMPLATE.choose(packed_convolution(80, 80, 2000, 3, stride=1).op, machine_of(loads_pairs=False))
    assert config["outer"] != "pixels" or config["rows"] >= 3


@pytest.mark.parametrize("channels, size", [(144, 56), (48, 64), (48, 32), (144, 28)])
def test_few_tasks_of_depthwise_convolutions_are_as_many_for_each_thread(channels, size):
    x, w = te.placeholder((1, channels // 16, size, size, 16)), te.placeholder((channels // 16, 1, 3, 3, 1, 16))
    out = topi.nn.depthwise_conv2d_NCHWc(x, w, 1, 1, 1, "NCHW16c", "NCHW16c", "float32")
    rows = depthwise.TEMPLATE.choose(out.op, machine_of())["rows"]
    assert channels // 16 * -(-size // rows) % 2 == 0 and rows >= 4
