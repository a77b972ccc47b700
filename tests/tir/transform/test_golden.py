"""What passes print, compared with texts in ``golden/``. ``TVM_UPDATE_GOLDEN=1`` writes them anew: read the change.

The programs are small and made here, so a difference shows what a pass does differently and nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tvm
from tvm import te
from tvm.driver.build_module import schedule_to_module
from tvm.tir import pipeline
from tvm.tir import transform as T

GOLDEN = Path(__file__).parent / "golden"
CUDA = tvm.target.Target("cuda -arch=sm_50", host="llvm")


def run(mod, *passes):
    for step in passes:
        mod = step(mod)
    return mod


def stencil():
    """A row of t is computed where it is used, from a minimum that is not zero."""
    a = te.placeholder((10, 8), name="A")
    t = te.compute((10, 8), lambda i, j: a[i, j] * 2.0, name="t")
    b = te.compute((8, 8), lambda i, j: t[i, j] + t[i + 2, j], name="B")
    s = te.create_schedule(b.op)
    s[t].compute_at(s[b], b.op.axis[0])
    return s, [a, b]


def vector_add(n, guarded_lane=False):
    a = te.placeholder((n,), name="A")
    choose = lambda i: tvm.tir.if_then_else(i > 2, a[i - 3], 0.0) if guarded_lane else a[i] + 1.0
    b = te.compute((n,), choose, name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], 4)[1])
    return s, [a, b]


def matmul():
    a, b = te.placeholder((32, 16), name="A"), te.placeholder((16, 32), name="B")
    k = te.reduce_axis((0, 16), "k")
    c = te.compute((32, 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    acc = s.cache_write(c, "local")
    io, jo, ii, ji = s[c].tile(*c.op.axis, 4, 16)
    s[acc].compute_at(s[c], jo)
    i, j = s[acc].op.axis
    ko, ki = s[acc].split(s[acc].op.reduce_axis[0], 4)
    s[acc].reorder(ko, ki, i, j)
    s[acc].unroll(ki)
    s[acc].unroll(i)
    s[acc].vectorize(j)
    s[c].vectorize(ji)
    s[c].parallel(io)
    return s, [a, b, c]


def chain():
    a = te.placeholder((64,), name="A")
    tensors = [a]
    for i in range(4):
        tensors.append(te.compute((64,), lambda k, t=tensors[-1], i=i: t[63 - k] + float(i), name=f"T{i}"))
    return te.create_schedule(tensors[-1].op), [a, tensors[-1]]


def virtual_threads():
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 4), lambda i, j: b[i, 3 - j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], nparts=2)
    s[c].bind(outer, te.thread_axis("vthread"))
    s[b].compute_at(s[c], inner)
    return s, [a, c]


def double_buffered():
    a = te.placeholder((8, 4), name="A")
    b = te.compute((8, 4), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 4), lambda i, j: b[i, 3 - j] * 2.0, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].double_buffer()
    return s, [a, c]


def row_sums():
    a = te.placeholder((6, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x"))
    s[b].bind(b.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    return s, [a, b]


def packed_call():
    a = te.placeholder((4, 5), name="A")
    call = lambda ins, outs: tvm.tir.call_packed("twice", ins[0], outs[0], 3)
    b = te.extern((4, 5), [a], call, name="B")
    return te.create_schedule(b.op), [a, b]


def blocks():
    a = te.placeholder((4, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    b = te.compute((4,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((4,), lambda i: b[i] * 2.0, name="C")
    return te.create_prim_func([a, c])


def unrolled(mod):
    with tvm.transform.PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}):
        return T.UnrollLoop()(mod)


def raw(made):
    return schedule_to_module(*made)


CASES = {
    "storage_flatten": lambda: run(raw(stencil()), T.StorageFlatten(64)),
    "simplify": lambda: run(raw(stencil()), T.StorageFlatten(64), T.Simplify()),
    "vectorize": lambda: run(raw(vector_add(16)), T.StorageFlatten(64), T.Simplify(), T.VectorizeLoop()),
    "vectorize_lanes": lambda: run(raw(vector_add(16, True)), T.StorageFlatten(64), T.Simplify(), T.VectorizeLoop()),
    "loop_partition": lambda: tvm.lower(*vector_add(te.var("n"))),
    "loop_partition_padding": lambda: tvm.lower(*vector_add(32, True)),
    "matmul": lambda: tvm.lower(*matmul()),
    "unroll": lambda: run(tvm.lower(*vector_add(16)), unrolled),
    "storage_rewrite": lambda: tvm.lower(*chain()),
    "virtual_thread": lambda: tvm.lower(*virtual_threads()),
    "double_buffer": lambda: tvm.lower(*double_buffered()),
    "packed_entry": lambda: run(tvm.lower(*vector_add(te.var("n")), name="add"), T.MakePackedAPI()),
    "packed_call": lambda: run(tvm.lower(*packed_call()), T.MakePackedAPI(), T.LowerTVMBuiltin()),
    "kernel": lambda: pipeline.split_host_device(tvm.lower(*row_sums(), name="sums"), CUDA, CUDA.host)[1],
    "blocks": lambda: tvm.lower(blocks()),
}


@pytest.mark.parametrize("name", CASES)
def test_text(name):
    got = str(CASES[name]()) + "\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("TVM_UPDATE_GOLDEN"):
        path.write_text(got)
    assert got == path.read_text()
