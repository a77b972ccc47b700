"""Row-by-row kernels of GPUs: each element is read once, and a thread keeps its own part of a row in registers."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tvm
import tvm.testing
from tests import on_target
from tvm import te, topi
from tvm.ir.visit import pre_order
from tvm.tir import pipeline
from tvm.tir.stmt import Allocate, AttrStmt
from tvm.topi.gpu import rows

CASES = [
    *[("softmax", shape) for shape in ((1, 1), (3, 5), (5, 17), (7, 33), (1, 1, 1000), (40, 64), (3, 16411))],
    *[("layer_norm", shape) for shape in ((5, 16), (2, 3, 100), (300, 768), (4, 4099))],
    *[("log_softmax", shape) for shape in ((40, 128), (2, 197), (8, 66, 40))],
]


def expected(name: str, x: np.ndarray) -> np.ndarray:
    x = x.astype("float64")
    if name == "layer_norm":
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    e = x - x.max(-1, keepdims=True)
    total = np.exp(e).sum(-1, keepdims=True)
    return np.exp(e) / total if name == "softmax" else e - np.log(total)


def operator(name: str, x: te.Tensor) -> te.Tensor:
    return topi.nn.layer_norm(x, None, None) if name == "layer_norm" else getattr(topi.nn, name)(x)


def lowered(make, *shapes, dtype: str = "float32", target: str = "cuda -arch=sm_90"):
    """The kernels of a computation."""
    device = tvm.target.Target(target, host="llvm")
    inputs = [te.placeholder(shape, dtype, name=f"in{i}") for i, shape in enumerate(shapes)]
    with device:
        made = make(*inputs)
        module = tvm.lower(topi.schedule.schedule_for([made], device), [*inputs, made])
    _, parts = pipeline.split_host_device(module, device, device.host)
    return [kernel.body for kernel in parts.functions.values()]


def private(body) -> list[int]:
    """Elements of what each thread has to itself."""
    memory = [n for n in pre_order(body) if isinstance(n, Allocate)]
    return [math.prod(int(e) for e in n.extents) for n in memory if "shared" not in str(n.buffer_var.type_annotation)]


def threads(body) -> dict[str, int]:
    found = [n for n in pre_order(body) if isinstance(n, AttrStmt) and n.attr_key == "thread_extent"]
    return {a.node.thread_tag: int(a.value) for a in found}


@on_target.needs_gpu
@pytest.mark.parametrize("name, shape", CASES)
def test_numbers(name, shape, rng):
    target = on_target.gpu()
    x = (rng.standard_normal(shape) * 2).astype("float32")
    with target:
        a = te.placeholder(shape)
        made = operator(name, a)
        built = tvm.build(topi.schedule.schedule_for([made], target), [a, made], target)
    device = tvm.device(target.kind.name, 0)
    out = tvm.nd.array(np.zeros(shape, "float32"), device)
    built(tvm.nd.array(x, device), out)
    np.testing.assert_allclose(out.numpy(), expected(name, x), rtol=1e-4, atol=1e-5 if name == "softmax" else 1e-3)


@pytest.mark.parametrize("size", (32, 33, 128, 197, 768, 1000, 1024, 3072, 4099, 16384))
def test_a_thread_keeps_its_own_part_of_a_row(size):
    for count in (1, 40, 3000):
        for name in ("softmax", "log_softmax", "layer_norm"):
            (body,) = lowered(lambda x, name=name: operator(name, x), (count, size))
            share = -(-size // threads(body)["threadIdx.x"])
            kept = [n for n in private(body) if n > 4]
            assert all(n <= share + 3 <= rows.ROW_REGISTERS + 3 for n in kept), (name, share, kept)
            assert kept or share <= 4, (name, share)


def test_rows_too_long_for_registers_are_read_again():
    (body,) = lowered(topi.nn.softmax, (8, 70_000))
    assert max(private(body)) <= 4 and threads(body)["threadIdx.x"] == 256


@pytest.mark.parametrize("count, size, warps, together", [
    (2364, 197, 1, 4), (1536, 128, 1, 4), (270, 96, 1, 2), (1999, 128, 1, 1), (197, 768, 4, 1), (1, 1000, 8, 1),
    (4096, 768, 1, 4), (4095, 768, 4, 1), (4096, 1032, 8, 1),
])  # fmt: skip
def test_short_rows_are_done_by_one_warp_where_there_are_many(count, size, warps, together):
    for name in ("softmax", "layer_norm"):
        (body,) = lowered(lambda x, name=name: operator(name, x), (count, size))
        found = threads(body)
        assert (found["blockIdx.x"], found.get("threadIdx.y", 1)) == (count // together, together)
        assert found["threadIdx.x"] == 32 * warps


def test_steps_before_and_after_are_done_once_on_vectors():
    def make(x, mask):
        y = topi.cast(topi.reshape(x, (2, 3, 4, 128)), "float32") * 0.125
        y = topi.nn.softmax(topi.add(y, topi.cast(mask, "float32")))
        return topi.cast(topi.reshape(y, (6, 4, 128)), "float16")

    target = tvm.target.Target("cuda -arch=sm_90", host="llvm")
    with target:
        x, mask = te.placeholder((6, 4, 128), "float16", name="x"), te.placeholder((2, 1, 4, 128), "float16", name="m")
        made = make(x, mask)
        function = tvm.build(topi.schedule.schedule_for([made], target), [x, mask, made], target)
    source = function.imported_modules[0].get_source()
    assert source.count("__global__") == 1 and source.count("expf(") == 1
    # Four halves at once, in and out.
    assert source.count("*(const uint2*)") == 2 and source.count("= *(uint2*)") == 1, source
    assert "__syncthreads" not in source


@pytest.mark.parametrize("shape", [(197, 768), (1, 197, 768), (3, 7, 5000)])
def test_one_result_of_a_row_is_made_by_the_threads_of_one_block(shape):
    (body,) = lowered(lambda x: topi.rsqrt(topi.sum(x, -1) * 0.5), shape)
    assert max(private(body)) == 1 and threads(body) == {"blockIdx.x": math.prod(shape[:-1]), "threadIdx.x": 256}


def test_reductions_of_other_rows_are_left_to_others():
    def crossed(x):
        largest = topi.max(x, -1, True)
        return topi.add(topi.subtract(x, largest), topi.transpose(largest))

    assert len(lowered(crossed, (40, 40))) > 1
