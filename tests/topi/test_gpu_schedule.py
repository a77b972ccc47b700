"""Schedules for GPUs: everything becomes kernels within the limits of the device; no host code touches its memory."""

from __future__ import annotations

import math

import pytest

import tvm
from tvm import te, tir, topi
from tvm.dtype import info
from tvm.ir.visit import pre_order
from tvm.tir import pipeline
from tvm.tir.stmt import Allocate, AttrStmt
from tvm.topi.schedule import schedule_for

FAMILIES = {
    "elementwise": lambda a, b, i: topi.tanh(a) * 2 + topi.clip(b, -1, 1),
    "sums of rows": lambda a, b, i: topi.sum(topi.exp(a), 1, True),
    "sum of all": lambda a, b, i: topi.max(topi.abs(a)),
    "mean": lambda a, b, i: topi.sum(a, 0) / 3.0,
    "after a sum": lambda a, b, i: topi.divide(a, topi.sum(topi.abs(a), -1, True) + 1.0),
    "place": lambda a, b, i: topi.argmax(a, 0),
    "transpose": lambda a, b, i: topi.transpose(topi.add(a, b)),
    "concatenate": lambda a, b, i: topi.concatenate([a, topi.negative(b), a], 1),
    "take": lambda a, b, i: topi.exp(topi.take(a, i, 1)),
    "sort": lambda a, b, i: topi.exp(topi.sort(topi.add(a, b), 1)),
    "topk": lambda a, b, i: topi.topk(a, 1, 1),
    "scan": lambda a, b, i: topi.cumsum(topi.multiply(a, b), 1) - 1.0,
    "matmul": lambda a, b, i: topi.matmul(a, b, False, True),
    "softmax": lambda a, b, i: topi.nn.softmax(topi.add(a, b)),
    "softmax of columns": lambda a, b, i: topi.nn.softmax(a, 0),
    "log softmax": lambda a, b, i: topi.nn.log_softmax(a),
    "layer norm": lambda a, b, i: topi.nn.layer_norm(a, None, None),
    "resize": lambda a, b, i: topi.image.resize2d(topi.expand_dims(a, 0, 2), None, (7, 9), method="cubic"),
    "scatter": lambda a, b, i: topi.scatter_elements(a, topi.cast(topi.round(b), "int32"), b, 1, "add"),
    "several outputs": lambda a, b, i: [topi.add(a, b), topi.sum(a), topi.nn.relu(b)],
}
TARGETS = ("opencl", "cuda", "cuda -arch=sm_90")


def kernels(inputs, made, target: str):
    """The kernels of the functions, and what is launched of each: threads of a block, and shared bytes."""
    outs = [made] if isinstance(made, te.Tensor) else list(made)
    device = tvm.target.Target(target, host="llvm")
    lowered = tvm.lower(schedule_for(outs, device), [*inputs, *outs])
    _, parts = pipeline.split_host_device(lowered, device, device.host)
    return [kernel.body for kernel in parts.functions.values()]


def extents(body) -> dict[str, int]:
    axes = [n for n in pre_order(body) if isinstance(n, AttrStmt) and n.attr_key == "thread_extent"]
    return {a.node.thread_tag: a.value.value for a in axes if hasattr(a.value, "value")}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_becomes_kernels_within_the_limits(family, target):
    limits = tvm.target.Target(target).features
    for shape in ((5, 37), (1, 1), (64, 2048)):
        a, b = te.placeholder(shape, name="a"), te.placeholder(shape, name="b")
        i = te.placeholder((7,), "int64", name="i")
        with tvm.target.Target(target):
            made = FAMILIES[family](a, b, i)
        bodies = kernels([a, b, i], made, target)
        assert bodies
        for body in bodies:
            threads = 1
            for tag, extent in extents(body).items():
                threads *= extent if tag.startswith("threadIdx") else 1
            assert threads <= limits.max_threads
            memory = [n for n in pre_order(body) if isinstance(n, Allocate)]
            shared = [n for n in memory if "shared" in str(n.buffer_var.type_annotation)]
            sizes = [math.prod(e.value for e in n.extents) * info(n.dtype).bytes for n in shared]
            assert sum(sizes) <= limits.shared_bytes


def test_rows_are_one_kernel():
    a = te.placeholder((128, 768), name="a")
    for made in (topi.nn.softmax(a), topi.nn.log_softmax(a), topi.nn.layer_norm(a, None, None)):
        (body,) = kernels([a], made, "cuda")
        found = extents(body)
        assert found["blockIdx.x"] == 128 and found["threadIdx.x"] > 32


def test_what_follows_a_sum_is_done_with_it():
    x, w = te.placeholder((1, 16, 8, 8)), te.placeholder((32, 16, 3, 3))
    assert len(kernels([x, w], topi.nn.relu(topi.nn.conv2d_nchw(x, w, 1, 1, 1)), "cuda")) == 1


def test_lines_are_sorted_by_a_thread_each():
    a = te.placeholder((300, 20), name="a")
    (body,) = kernels([a], topi.sort(a, 1), "opencl")
    found = extents(body)
    assert found["blockIdx.x"] * found["threadIdx.x"] >= 300


def test_sizes_known_only_at_run_time():
    n = te.size_var("n")
    a = te.placeholder((n, 8), name="a")
    assert len(kernels([a], topi.nn.softmax(topi.exp(a)), "opencl")) >= 1
    assert len(kernels([a], topi.sum(a, 0), "opencl")) == 1


def test_tensors_without_elements_need_no_kernel():
    a = te.placeholder((3, 0), name="a")
    assert kernels([a], topi.exp(a), "opencl") == []
    assert len(kernels([a], topi.sum(a, 1), "opencl")) == 1


def test_scans_and_packed_calls():
    n, m = 6, 10
    x = te.placeholder((n, m), name="x")
    state = te.placeholder((n, m))
    first = te.compute((1, m), lambda _, j: x[0, j])
    update = te.compute((n, m), lambda t, j: state[t - 1, j] + x[t, j])
    assert len(kernels([x], te.scan(first, update, state, [x]), "opencl")) == 1
    call = te.extern((n, m), [x], lambda i, o: tir.call_packed("somewhere", i[0], o[0]), dtype="float32")
    assert kernels([x], call, "opencl") == []


def test_classic_names():
    a = te.placeholder((4, 100), name="a")
    with tvm.target.cuda():
        s = topi.cuda.schedule_softmax(topi.nn.softmax(a))
    assert any(x.op.name.endswith(".rf") for x in s.stages)
