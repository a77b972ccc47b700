"""Virtual threads, double buffers and reductions across lanes: the same results with and without them, on OpenCL and as
CUDA on the emulator of a GPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tvm
import tvm.testing
from tests import cuda_emulator
from tests.codegen import gpu_programs as programs
from tests.cuda_emulator.marks import needs_emulator
from tvm import te, tir
from tvm.codegen.cuda import build as cuda

# From sm_80 on double buffers are filled by copies beside the program.
DEVICES = [
    pytest.param("cuda -arch=sm_75", marks=needs_emulator, id="sm_75"),
    pytest.param("cuda -arch=sm_80", marks=needs_emulator, id="sm_80"),
    pytest.param("opencl", marks=tvm.testing.requires_opencl.marks(), id="opencl"),
]


def run(schedule, args, values: list[np.ndarray], target: str) -> np.ndarray:
    """The last array after the program has run."""
    target = tvm.target.Target(target, host="llvm")
    if target.kind.name == "cuda":
        return cuda_emulator.run(schedule, args, values, str(target.attrs["arch"]))[-1]
    held = [tvm.nd.array(v, tvm.cl(0)) for v in values]
    tvm.build(schedule, args, target)(*held)
    return held[-1].numpy()


def product(size: int, steps: int, virtual: bool, doubled: bool):
    """A product of square matrices whose tiles lie in shared memory, ``steps`` of the sum at a time."""
    a, b = (te.placeholder((size, size), name=name) for name in "AB")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    tiles = [s.cache_read(x, "shared", [local]) for x in (a, b)]
    order, threads = [[], [], [], []], {}
    for axis, letter in zip(s[c].op.axis, "yx"):
        block, inner = s[c].split(axis, 16)
        part, inner = s[c].split(inner, nparts=2 if virtual else 1)
        threads[letter] = te.thread_axis((0, 4), f"threadIdx.{letter}")
        thread, inner = s[c].split(inner, nparts=4)
        s[c].bind(block, te.thread_axis(f"blockIdx.{letter}"))
        s[c].bind(thread, threads[letter])
        if virtual:
            s[c].bind(part, te.thread_axis((0, 2), "vthread", name=f"v{letter}"))
        for rows, one in zip(order, (block, part, thread, inner)):
            rows.append(one)
    s[c].reorder(*itertools.chain(*order))
    s[local].compute_at(s[c], order[2][1])
    outer, inner = s[local].split(s[local].op.reduce_axis[0], steps)
    s[local].reorder(outer, inner, *s[local].op.axis)
    for tile in tiles:
        s[tile].compute_at(s[local], outer)
        fused = s[tile].fuse(*s[tile].op.axis)
        fused, vector = s[tile].split(fused, 4)
        fused, tx = s[tile].split(fused, 4)
        _, ty = s[tile].split(fused, 4)
        s[tile].vectorize(vector)
        s[tile].bind(tx, threads["x"])
        s[tile].bind(ty, threads["y"])
        if doubled:
            s[tile].double_buffer()
    return s, [a, b, c]


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize(("size", "steps"), [(32, 8), (48, 4), (36, 12)])
def test_virtual_threads_and_double_buffers_change_no_result(target, size, steps, rng):
    a, b = (rng.integers(-8, 9, (size, size)).astype("float32") for _ in range(2))
    for virtual, doubled in itertools.product((False, True), repeat=2):
        got = run(*product(size, steps, virtual, doubled), [a, b, np.full((size, size), -1, "float32")], target)
        # Sums of small whole numbers are exact in any order.
        np.testing.assert_array_equal(got, a @ b, err_msg=f"virtual threads {virtual}, double buffers {doubled}")


def test_double_buffers_are_asynchronous_copies_from_sm_80_on():
    for arch, wanted in (("sm_75", False), ("sm_80", True)):
        mod = programs.kernels_of(*product(32, 8, False, True), f"cuda -arch={arch}")
        text = cuda.emit(mod, tvm.target.Target(f"cuda -arch={arch}"))[0]
        assert ("tvm_copy_async_16(" in text) == wanted


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("threads", [(2, 1), (7, 3), (16, 3), (32, 4), (33, 1), (100, 2)])
@pytest.mark.parametrize("columns", [1, 40, 131])
def test_threads_reduce_together(target, threads, columns, rng):
    """Blocks of x by y threads: parts of warps, whole ones and several; rows and columns that do not divide."""
    x, y = threads
    rows = 2 * y + 1
    m = te.placeholder((rows, columns), name="M", dtype="int32")
    k = te.reduce_axis((0, columns), name="k")
    total = te.compute((rows,), lambda i: te.sum(m[i, k], axis=k), name="S")
    s = te.create_schedule(total.op)
    _, inner = s[total].split(total.op.reduce_axis[0], x)
    part = s.rfactor(total, inner)
    block, row = s[total].split(s[total].op.axis[0], y)
    s[total].bind(block, te.thread_axis("blockIdx.x"))
    s[total].bind(row, te.thread_axis("threadIdx.y"))
    lane = te.thread_axis((0, x), "threadIdx.x")
    s[total].bind(s[total].op.reduce_axis[0], lane)
    s[part].compute_at(s[total], s[total].op.reduce_axis[0])
    s[total].set_store_predicate(lane.var.equal(0))
    values = rng.integers(-9, 10, (rows, columns)).astype("int32")
    got = run(s, [m, total], [values, np.full(rows, 77, "int32")], target)
    np.testing.assert_array_equal(got, values.sum(axis=1))


@pytest.mark.parametrize("target", DEVICES)
def test_the_largest_of_each_row_and_its_place(target, rng):
    """A reduction of two values at once, across lanes under a guard that splits a warp."""
    rows, columns, threads = 5, 45, 32
    m = te.placeholder((rows, columns), name="M", dtype="float32")
    k = te.reduce_axis((0, columns), name="k")

    def better(x, y):
        first = tir.any(x[1] > y[1], tir.all(x[1] == y[1], x[0] < y[0]))
        return tir.Select(first, x[0], y[0]), tir.Select(first, x[1], y[1])

    argmax = te.comm_reducer(better, lambda p, v: (tir.const(1 << 30, p), tir.min_value(v)), name="argmax")
    place, value = te.compute((rows,), lambda i: argmax((k, m[i, k]), axis=k), name="best")
    s = te.create_schedule(place.op)
    _, inner = s[place].split(place.op.reduce_axis[0], threads)
    part = s.rfactor(place, inner)
    part = part[0] if isinstance(part, (list, tuple)) else part
    s[place].bind(s[place].op.axis[0], te.thread_axis("blockIdx.x"))
    s[place].bind(s[place].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    s[part].compute_at(s[place], s[place].op.reduce_axis[0])
    values = rng.integers(-3, 4, (rows, columns)).astype("float32")
    out = [values, np.zeros(rows, "int32"), np.zeros(rows, "float32")]
    if target == "opencl":
        held = [tvm.nd.array(v, tvm.cl(0)) for v in out]
        tvm.build(s, [m, place, value], tvm.target.Target(target, host="llvm"))(*held)
        got = [h.numpy() for h in held]
    else:
        got = cuda_emulator.run(s, [m, place, value], out, target.rpartition("=")[2])
    np.testing.assert_array_equal(got[1], values.argmax(axis=1))
    np.testing.assert_array_equal(got[2], values.max(axis=1))
