"""Matmuls on GPUs: tiles in shared memory and registers, split-k, convolutions as implicit GEMM."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import tvm
import tvm.testing
from tvm import te, topi
from tvm.topi.gpu import gemm
from tvm.topi.gpu.machine import Machine

CONVOLUTIONS = [
    # images, channels, size, filters, window, stride, padding, layout
    (1, 16, 9, 12, 3, 1, 1, "NCHW"),
    (2, 8, 7, 33, 1, 1, 0, "NCHW"),
    (1, 3, 15, 7, 5, 2, 2, "NCHW"),
    (2, 5, 6, 9, 3, 2, 1, "NHWC"),
]


def convolved(x, w, stride: int, padding: int):
    """The convolution of NCHW with OIHW in double precision."""
    n, _, h, width = x.shape
    filters, _, kh, kw = w.shape
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    rows, columns = (h + 2 * padding - kh) // stride + 1, (width + 2 * padding - kw) // stride + 1
    out = np.zeros((n, filters, rows, columns))
    for i, j in itertools.product(range(kh), range(kw)):
        part = x[:, :, i : i + rows * stride : stride, j : j + columns * stride : stride]
        out += np.einsum("nchw,oc->nohw", part, w[:, :, i, j])
    return out


def run(outs, args, values, wanted, target):
    with target:
        s = topi.schedule.schedule_for(outs, target)
    function = tvm.build(s, args, target)
    device = tvm.cl(0)
    out = tvm.nd.array(np.zeros(wanted.shape, "float32"), device)
    function(*[tvm.nd.array(np.ascontiguousarray(v), device) for v in values], out)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-4 * float(np.abs(wanted).max()))


def any_configuration(rng):
    """In place of the pick: any valid configuration."""

    def choose(sizes, machine):
        table = gemm.TEMPLATE.space(sizes, machine)
        while True:
            config = {name: values[rng.integers(len(values))] for name, values in table.items()}
            if gemm.TEMPLATE.valid(sizes, machine, config):
                return config

    return choose


@tvm.testing.requires_opencl
@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("drawn", [False, True])
def test_convolution_with_an_epilogue(case, drawn, rng, monkeypatch):
    n, channels, size, filters, window, stride, padding, layout = case
    if drawn:
        monkeypatch.setattr(gemm.TEMPLATE, "choose", any_configuration(rng))
    x = rng.standard_normal((n, channels, size, size)).astype("float32")
    w = rng.standard_normal((filters, channels, window, window)).astype("float32")
    b = rng.standard_normal((filters, 1, 1) if layout == "NCHW" else (filters,)).astype("float32")
    target = tvm.target.Target("opencl")
    last = layout == "NHWC"
    data = x.transpose(0, 2, 3, 1) if last else x
    with target:
        shapes = (data.shape, (window, window, channels, filters), b.shape)
        d, k, bias = (te.placeholder(shape) for shape in shapes)
        made = topi.cuda.conv2d(d, k, stride, padding, 1, data_layout=layout, kernel_layout="HWIO")
        r = topi.nn.relu(topi.add(made, bias))
    wanted = convolved(x, w, stride, padding)
    wanted = np.maximum((wanted.transpose(0, 2, 3, 1) if last else wanted) + b, 0)
    run([r], [d, k, bias, r], [data, w.transpose(2, 3, 1, 0), b], wanted, target)


@tvm.testing.requires_opencl
@pytest.mark.parametrize("m, n, k", [(37, 41, 53), (5, 8, 300), (64, 32, 64)])
@pytest.mark.parametrize("drawn", [False, True])
def test_product_of_a_matrix_and_a_transposed_one(m, n, k, drawn, rng, monkeypatch):
    if drawn:
        monkeypatch.setattr(gemm.TEMPLATE, "choose", any_configuration(rng))
    a, b = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal((n, k)).astype("float32")
    target = tvm.target.Target("opencl")
    with target:
        left, right = te.placeholder(a.shape), te.placeholder(b.shape)
        made = topi.tanh(topi.cuda.dense(left, right))
    run([made], [left, right, made], [a, b], np.tanh(a.astype("float64") @ b.T), target)


@tvm.testing.requires_opencl
@pytest.mark.parametrize("transpose_a, transpose_b", [(False, True), (True, False)])
def test_batch_of_products(transpose_a, transpose_b, rng):
    a, b = rng.standard_normal((3, 17, 19)), rng.standard_normal((1, 19, 21))
    target = tvm.target.Target("opencl")
    values = [(a.transpose(0, 2, 1) if transpose_a else a), (b.transpose(0, 2, 1) if transpose_b else b)]
    values = [v.astype("float32") for v in values]
    with target:
        left, right = (te.placeholder(v.shape) for v in values)
        made = topi.cuda.batch_matmul(left, right, transpose_a=transpose_a, transpose_b=transpose_b)
    run([made], [left, right, made], values, a @ b, target)


def test_the_pick_divides_the_sum_where_tiles_are_few():
    machine = Machine(tvm.target.Target("cuda -arch=sm_90"))
    sizes = gemm.Sizes(1, 512, 49, 4608, 4)
    config = gemm.TEMPLATE.choose(sizes, machine)
    assert config["split_k"] > 1 and gemm.TEMPLATE.valid(sizes, machine, config)


def test_operand_tiles_larger_than_the_shared_memory_are_not_valid():
    machine = Machine(tvm.target.Target("opencl"))
    sizes = gemm.Sizes(1, 512, 512, 512, 4)
    config = {"tile": (8, 4), "threads": (8, 16), "block_k": 32, "split_k": 1}
    assert not gemm.TEMPLATE.valid(sizes, machine, {**config, "block_k": 1024})
    assert gemm.TEMPLATE.valid(sizes, machine, {**config, "block_k": 8})


@tvm.testing.requires_opencl
def test_one_row_times_a_matrix(rng):
    a, b = rng.standard_normal((1, 301)).astype("float32"), rng.standard_normal((301, 70)).astype("float32")
    target = tvm.target.Target("opencl")
    with target:
        left, right = te.placeholder(a.shape), te.placeholder(b.shape)
        made = topi.nn.relu(topi.cuda.matmul(left, right))
    run([made], [left, right, made], [a, b], np.maximum(a.astype("float64") @ b, 0), target)


def test_grids_stay_within_their_limits():
    """Rows beyond the second dimension of a grid go along the first."""
    target = tvm.target.Target("cuda -arch=sm_90")
    with target:
        a, b = te.placeholder((9_000_000, 8)), te.placeholder((8, 4))
        made = topi.cuda.matmul(a, b)
        text = str(tvm.lower(topi.schedule.schedule_for([made], target), [a, b, made]))
    blocks = {tag: int(n) for tag, n in re.findall(r'launch_thread\("blockIdx\.([xy])", (\d+)\)', text)}
    assert blocks["y"] <= gemm.MAX_GRID_BLOCKS < blocks["x"]
    with target:
        assert gemm.is_tiled([a, b], None, te.const(gemm.MAX_GRID_BLOCKS, "int32"))
        assert not gemm.is_tiled([a, b], None, te.const(gemm.MAX_GRID_BLOCKS + 1, "int32"))


def cuda_source(n: int) -> str:
    """The kernel of a square product."""
    target = tvm.target.Target("cuda -arch=sm_90", host="llvm")
    with target:
        a, b = te.placeholder((n, n), name="a"), te.placeholder((n, n), name="b")
        made = topi.cuda.matmul(a, b)
        s = topi.schedule.schedule_for([made], target)
    return tvm.build(s, [a, b, made], target).imported_modules[0].get_source()


def test_a_large_product_has_large_tiles_and_one_kernel():
    machine = Machine(tvm.target.Target("cuda -arch=sm_90"))
    for n in (2048, 4096, 8192):
        config = gemm.TEMPLATE.choose(gemm.Sizes(1, n, n, n, 4, (1, 4)), machine)
        assert config["tile"] == max(gemm.THREAD_TILES) and config["split_k"] == 1


def test_an_operand_of_wide_copies_has_the_longer_side_of_a_block():
    machine = Machine(tvm.target.Target("cuda -arch=sm_90"))
    sides = {}
    for copies in ((1, 4), (4, 1)):
        config = gemm.TEMPLATE.choose(gemm.Sizes(1, 4096, 4096, 4096, 4, copies), machine)
        sides[copies] = [t * n for t, n in zip(config["tile"], config["threads"])]
    assert sides[1, 4][0] < sides[1, 4][1] and sides[4, 1][0] >= sides[4, 1][1]


def most_of_a_bank(words: list[int]) -> int:
    """The most different words of shared memory that are wanted of one of its 32 banks."""
    return max(len({w for w in words if w % 32 == bank}) for bank in range(32))


def values_in_a_warp(expression: str, width: int) -> list[int]:
    """What the threads of the first warp compute, in blocks so wide; all loops are in their first iteration."""
    names = re.findall(r"[a-z]\w*", expression)
    return [
        eval(expression, {**dict.fromkeys(names, 0), "threadIdx_x": i % width, "threadIdx_y": i // width})
        for i in range(32)
    ]


@pytest.mark.parametrize("threads, block_k", [((16, 16), 8), ((16, 16), 16), ((8, 8), 32), ((8, 16), 8)])
def test_threads_of_a_warp_want_different_banks(threads, block_k, monkeypatch):
    """Copies of an operand that is contiguous along k, and vector reads of operand tiles by eight threads."""
    config = {"tile": (8, 8), "threads": threads, "block_k": block_k, "split_k": 1}
    monkeypatch.setattr(gemm.TEMPLATE, "choose", lambda sizes, machine: config)
    source = cuda_source(256)
    fetched = re.findall(r"tvm_copy_async_4\(T_matmul_left \+ (.*), a \+", source)[0]
    words = values_in_a_warp(fetched, 8)
    assert len(set(words)) == 32 and most_of_a_bank(words) == 1
    for read in re.findall(r"= T_matmul_left\[(.*?)\] \* T_matmul_right\[(.*?)\];", source)[0]:
        words = values_in_a_warp(read, 8)
        assert all(w % 4 == 0 for w in words)
        for quarter in range(0, 32, 8):
            assert most_of_a_bank([w + i for w in words[quarter : quarter + 8] for i in range(4)]) == 1
