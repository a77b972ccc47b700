"""Schedules of the GPUs of phones: what their target says decides, and the numbers stay the same."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest

import tvm
from tvm import te, topi
from tvm.topi.gpu import gemm
from tvm.topi.gpu.machine import Machine

SIZES = [(1, 64, 3136, 576), (1, 1, 1000, 512), (12, 128, 128, 64), (1, 7, 13, 11)]


def lowered(target, m=64, n=64, k=64):
    with target:
        a, b = te.placeholder((m, k), name="a"), te.placeholder((k, n), name="b")
        made = topi.nn.relu(topi.cuda.matmul(a, b))
        s = topi.schedule.schedule_for([made], target)
    return s, [a, b, made]


def threads_of(text: str) -> list[int]:
    return [
        prod(int(n) for n in re.findall(r'launch_thread\("threadIdx\.[xyz]", (\d+)\)', kernel))
        for kernel in text.split('T.launch_thread("blockIdx')[1:]
        if "threadIdx" in kernel
    ]


@pytest.mark.parametrize("device, most", [("mali", 64), ("bifrost", 64), ("adreno", 128)])
@pytest.mark.parametrize("sizes", SIZES)
def test_blocks_are_small_and_picks_valid(device, most, sizes):
    machine = Machine(tvm.target.Target(f"opencl -device={device}"))
    known = gemm.Sizes(*sizes, 4)
    config = gemm.TEMPLATE.choose(known, machine)
    assert gemm.TEMPLATE.valid(known, machine, config) and prod(config["threads"]) <= most
    assert all(prod(t) <= most for t in gemm.TEMPLATE.space(known, machine)["threads"])
    tm, tn = config["tile"]
    assert tm * tn + tm + tn + machine.cost.tiled_matmul.least_other_registers <= machine.registers


def test_mali_reads_vectors_and_has_no_shared_memory():
    texts = {}
    for device in ("", "-device=mali", "-device=adreno"):
        target = tvm.target.Target(f"opencl {device}")
        s, args = lowered(target, 256, 512, 64)
        texts[device] = tvm.build(s, args, target).imported_modules[0].get_source()
    assert "__local" not in texts["-device=mali"] and "barrier" not in texts["-device=mali"]
    assert "__local" in texts[""] and "__local" in texts["-device=adreno"]
    # The right operand lies along the columns of a thread's tile.
    assert "vload4(0, b + " in texts["-device=mali"], texts["-device=mali"]


INNER_LOOP_ON_MALI = """
    for (int k_inner = 0; k_inner < 8; ++k_inner) { /* k.inner */
      float T_matmul_left[8] __attribute__((aligned(16)));
      #pragma unroll
      for (int i = 0; i < 8; ++i) {
        T_matmul_left[i] = a[((((blockIdx_y * 4096) + (threadIdx_y * 512)) + (k_outer * 8)) + k_inner) + (i * 64)];
      }
      float T_matmul_right[4] __attribute__((aligned(16)));
      float v[4] __attribute__((aligned(16)));
      vstore4(vload4(0, b + ((((blockIdx_x * 32) + (threadIdx_x * 4)) + (k_outer * 4096)) + (k_inner * 512))), 0, v);
      #pragma unroll
      for (int lane = 0; lane < 4; ++lane) {
        T_matmul_right[lane] = v[lane];
      }
      #pragma unroll
      for (int i0 = 0; i0 < 8; ++i0) {
        #pragma unroll
        for (int i1 = 0; i1 < 4; ++i1) {
          T_matmul_product[(i0 * 4) + i1] = T_matmul_product[(i0 * 4) + i1] + (T_matmul_left[i0] * T_matmul_right[i1]);
        }
      }
    }
"""


def test_the_inner_loop_on_mali():
    target = tvm.target.Target("opencl -device=mali")
    s, args = lowered(target, 256, 512, 64)
    text = tvm.build(s, args, target).imported_modules[0].get_source()
    assert "reqd_work_group_size(8, 8, 1)" in text
    assert INNER_LOOP_ON_MALI in text, text


def test_the_kernel_of_a_product_on_mali():
    target = tvm.target.Target("opencl -device=mali")
    s, args = lowered(target)
    text = str(tvm.lower(s, args, simple_mode=True))
    assert 'scope="shared"' not in text and 'scope="local"' in text
    config = gemm.TEMPLATE.choose(gemm.Sizes(1, 64, 64, 64, 4), Machine(target))
    threads = [int(n) for _, n in re.findall(r'launch_thread\("threadIdx\.([xy])", (\d+)\)', text)]
    assert sorted(threads) == sorted(config["threads"])


@tvm.testing.requires_opencl
@pytest.mark.parametrize("device", ["mali", "adreno"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 7, 300), (37, 41, 53), (64, 64, 64), (130, 12, 257)])
def test_products_are_right(device, shape, rng):
    m, n, k = shape
    target = tvm.target.Target(f"opencl -device={device}")
    s, args = lowered(target, m, n, k)
    a, b = (rng.standard_normal(t).astype("float32") for t in ((m, k), (k, n)))
    out = tvm.nd.array(np.zeros((m, n), "float32"), tvm.cl(0))
    tvm.build(s, args, target)(tvm.nd.array(a, tvm.cl(0)), tvm.nd.array(b, tvm.cl(0)), out)
    wanted = np.maximum(a.astype("float64") @ b, 0)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-4 * max(float(np.abs(wanted).max()), 1.0))


@tvm.testing.requires_opencl
@pytest.mark.parametrize("device, most", [("mali", 64), ("adreno", 128)])
def test_other_operators_have_small_blocks_too(device, most, rng):
    target = tvm.target.Target(f"opencl -device={device}")
    x = rng.standard_normal((3, 70, 31)).astype("float32")
    with target:
        a = te.placeholder(x.shape, name="a")
        for made, wanted in (
            (topi.exp(a), np.exp(x)),
            (topi.sum(a, axis=(1, 2)), x.sum(axis=(1, 2), dtype="float64")),
            (topi.nn.softmax(a), np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        ):
            s = topi.schedule.schedule_for([made], target)
            assert all(n <= most for n in threads_of(str(tvm.lower(s, [a, made], simple_mode=True))))
            out = tvm.nd.array(np.zeros(wanted.shape, "float32"), tvm.cl(0))
            tvm.build(s, [a, made], target)(tvm.nd.array(x, tvm.cl(0)), out)
            np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-4, atol=1e-3)


@tvm.testing.requires_opencl
@pytest.mark.parametrize(
    "compute, schedule",
    [
        (topi.mali.dense, topi.mali.schedule_dense),
        (topi.bifrost.dense, topi.bifrost.schedule_dense),
        (topi.gpu.dense_large_batch, topi.gpu.schedule_dense_large_batch),
        (topi.gpu.dense_small_batch, topi.gpu.schedule_dense_small_batch),
    ],
)
def test_classic_names(compute, schedule, rng):
    a, b = (rng.standard_normal(t).astype("float32") for t in ((5, 19), (7, 19)))
    target = tvm.target.Target("opencl -device=mali")
    with target:
        data, weight = te.placeholder(a.shape), te.placeholder(b.shape)
        made = compute(data, weight)
        s = schedule([made])
    out = tvm.nd.array(np.zeros((5, 7), "float32"), tvm.cl(0))
    tvm.build(s, [data, weight, made], target)(tvm.nd.array(a, tvm.cl(0)), tvm.nd.array(b, tvm.cl(0)), out)
    np.testing.assert_allclose(out.numpy(), a.astype("float64") @ b.T, rtol=1e-4, atol=1e-4)
