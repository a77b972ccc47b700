"""Programs for the tests of device code: schedules with thread axes, and their kernels."""

from __future__ import annotations

import tvm
from tvm import te
from tvm.ir.module import IRModule
from tvm.target import Target
from tvm.tir import pipeline

# The oldest architecture: its text compiles for all of them. A target without one is that of the GPU of the machine.
CUDA = "cuda -arch=sm_50"


def kernels_of(schedule, args, target: str, name: str = "f") -> IRModule:
    """The kernels of a schedule, as code generation gets them."""
    lowered = tvm.lower(schedule, args, name=name)
    return pipeline.split_host_device(lowered, Target(target), Target("llvm"))[1]


def bind(schedule, tensor, threads: int, lanes: int = 1) -> None:
    """All axes fused and spread over blocks of ``threads``, each computing ``lanes`` elements as one vector."""
    fused = schedule[tensor].fuse(*tensor.op.axis)
    if lanes > 1:
        fused, vector = schedule[tensor].split(fused, lanes)
        schedule[tensor].vectorize(vector)
    block, thread = schedule[tensor].split(fused, threads)
    schedule[tensor].bind(block, te.thread_axis("blockIdx.x"))
    schedule[tensor].bind(thread, te.thread_axis("threadIdx.x"))


def elementwise(function, dtype: str = "float32", size=256, threads: int = 16, lanes: int = 1):
    """(schedule, arguments) of ``B[i] = function(A[i])``."""
    a = te.placeholder((size,), name="A", dtype=dtype)
    b = te.compute((size,), lambda i: function(a[i]), name="B")
    schedule = te.create_schedule(b.op)
    bind(schedule, b, threads, lanes)
    return schedule, [a, b]


def matmul(size: int = 64, dtype: str = "float32", scope: str = "shared"):
    """A product of square matrices with tiles in shared memory and in registers."""
    a, b = (te.placeholder((size, size), name=name, dtype=dtype) for name in "AB")
    k = te.reduce_axis((0, size), name="k")
    wide = "float32"
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k].astype(wide) * b[k, j].astype(wide), axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    tiles = [s.cache_read(x, scope, [local]) for x in (a, b)]
    by, y = s[c].split(s[c].op.axis[0], 32)
    bx, x = s[c].split(s[c].op.axis[1], 32)
    ty, y = s[c].split(y, 4)
    tx, x = s[c].split(x, 4)
    s[c].reorder(by, bx, ty, tx, y, x)
    for axis, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        s[c].bind(axis, te.thread_axis(tag))
    s[c].vectorize(x)
    s[local].compute_at(s[c], tx)
    outer, inner = s[local].split(s[local].op.reduce_axis[0], 8)
    s[local].reorder(outer, inner, *s[local].op.axis)
    for axis in s[local].op.axis:
        s[local].unroll(axis)
    for tile in tiles:
        s[tile].compute_at(s[local], outer)
        fused = s[tile].fuse(*s[tile].op.axis)
        fused, lanes = s[tile].split(fused, 4)
        fused, tx = s[tile].split(fused, 8)
        _, ty = s[tile].split(fused, 8)
        s[tile].bind(tx, te.thread_axis("threadIdx.x"))
        s[tile].bind(ty, te.thread_axis("threadIdx.y"))
        s[tile].vectorize(lanes)
    return s, [a, b, c]


def row_sums(rows: int = 64, columns: int = 128, dtype: str = "float32", threads: int = 32):
    """Sums of rows, each by the threads of one block together."""
    m = te.placeholder((rows, columns), name="M", dtype=dtype)
    k = te.reduce_axis((0, columns), name="k")
    total = te.compute((rows,), lambda i: te.sum(m[i, k].astype("float32"), axis=k), name="S")
    s = te.create_schedule(total.op)
    _, inner = s[total].split(total.op.reduce_axis[0], threads)
    part = s.rfactor(total, inner)
    s[total].bind(s[total].op.axis[0], te.thread_axis("blockIdx.x"))
    s[total].bind(s[total].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    s[part].compute_at(s[total], s[total].op.reduce_axis[0])
    return s, [m, total]


def by_hand(buffers: dict[str, tuple[tuple[int, ...], str]], body, threads: int = 32):
    """A function for one block of ``threads``: ``body(builder, buffers by name, thread)``."""
    builder = tvm.tir.ir_builder.create()
    made = {name: tvm.tir.decl_buffer(shape, dtype, name) for name, (shape, dtype) in buffers.items()}
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    builder.scope_attr(block, "thread_extent", 1)
    builder.scope_attr(thread, "thread_extent", threads)
    body(builder, {name: builder.buffer_ptr(buffer) for name, buffer in made.items()}, thread.var)
    function = tvm.tir.PrimFunc(list(made.values()), builder.get())
    return function.with_attr({"global_symbol": "f", "tir.noalias": True})


def written_by_hand(buffers: dict[str, tuple[tuple[int, ...], str]], body, threads: int = 32, target: str = CUDA):
    """The kernels of such a function."""
    lowered = tvm.lower(by_hand(buffers, body, threads), name="f")
    return pipeline.split_host_device(lowered, Target(target), Target("llvm"))[1]
