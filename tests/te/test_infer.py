"""Bound inference: how much of a producer each reader needs."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import ScheduleError
from tvm.te.infer import infer_bound


def folded(n: int, rows: int, height: int, width: int, tile: int):
    """A matrix of rows and places, folded into an image whose places are fused and cut into tiles."""
    size = height * width
    a = te.placeholder((rows, n * size), name="a")
    flat = te.compute((rows, n * size), lambda o, p: a[o, p] * 2.0, name="flat")
    out = te.compute((n, rows, height, width), lambda b, o, y, x: flat[o, b * size + y * width + x] + 1.0, name="out")
    s = te.create_schedule(out.op)
    b, o, y, x = s[out].op.axis
    s[out].reorder(o, b, y, x)
    outer, _ = s[out].split(s[out].fuse(b, y, x), factor=tile)
    s[flat].compute_at(s[out], outer)
    return s, a, flat, out


@pytest.mark.parametrize("n, rows, height, width, tile", [(1, 3, 7, 7, 8), (2, 5, 6, 4, 5), (3, 1, 1, 13, 4)])
def test_an_index_that_joins_fused_axes_needs_the_tile_only(n, rows, height, width, tile):
    s, a, flat, out = folded(n, rows, height, width, tile)
    ranges = infer_bound(s.normalize())
    extents = [int(r.extent) for axis, r in ranges.items() if axis.var.name == "p"]
    assert extents == [tile]
    func = tvm.build(s, [a, out], "llvm")
    x = np.random.default_rng(1).standard_normal((rows, n * height * width)).astype("float32")
    got = tvm.nd.array(np.zeros((n, rows, height, width), "float32"))
    func(tvm.nd.array(x), got)
    wanted = (x * 2 + 1).reshape(rows, n, height, width).transpose(1, 0, 2, 3)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-6, atol=1e-6)


def test_what_one_thread_of_many_does_needs_its_own_element_only():
    a = te.placeholder((20, 64), name="a")
    k = te.reduce_axis((0, 64), name="k")
    total = te.compute((20,), lambda i: te.sum(a[i, k], axis=k), name="total")
    out = te.compute((20,), lambda j: total[j] + 1.0, name="out")
    s = te.create_schedule(out.op)
    block, one = s[out].split(out.op.axis[0], factor=1)
    s[out].bind(block, te.thread_axis("blockIdx.x"))
    s[out].bind(one, te.thread_axis((0, 32), "threadIdx.x"))
    s[total].compute_at(s[out], block)
    s[total].set_scope("local")
    assert [int(r.extent) for axis, r in infer_bound(s.normalize()).items() if axis.var.name == "i"] == [1]


@pytest.mark.parametrize("size", (64, 61))
def test_threads_keep_the_part_of_a_row_that_their_own_loops_read(size):
    """A row cut into pieces of eight threads, two elements each: both readers, each with loops of its own on the same
    threads, read what their thread has."""
    a = te.placeholder((5, size), name="a")
    doubled = te.compute((5, size), lambda i, j: a[i, j] * 2.0, name="doubled")
    k = te.reduce_axis((0, size), name="k")
    total = te.compute((5,), lambda i: te.sum(doubled[i, k], axis=k), name="total")
    out = te.compute((5, size), lambda i, j: doubled[i, j] - total[i], name="out")
    s = te.create_schedule(out.op)
    threads = te.thread_axis((0, 8), "threadIdx.x")

    def cut(stage, axis):
        outer, inner = stage.split(axis, factor=16)
        return outer, *stage.split(inner, factor=2)

    s[out].bind(out.op.axis[0], te.thread_axis("blockIdx.x"))
    outer, thread, lane = cut(s[out], out.op.axis[1])
    s[out].reorder(thread, outer, lane)
    s[out].bind(thread, threads)
    cut(s[doubled], s[doubled].op.axis[1])
    part = s[s.cache_write(doubled, "local")]
    s[doubled].compute_inline()
    part.compute_at(s[out], thread)
    _, inner, _ = cut(s[total], s[total].op.reduce_axis[0])
    sums = s[s.rfactor(total, inner, 1)]
    own = s[total].op.reduce_axis[0]
    s[total].bind(own, threads)
    sums.compute_at(s[total], own)
    sums.set_scope("local")
    s[total].compute_at(s[out], thread)
    s[total].set_scope("local")
    plain = s.normalize()
    ranges = infer_bound(plain)
    kept = next(x for x in plain.stages if x.name == "doubled.local")
    assert [int(ranges[axis].extent) for axis in kept.op.axis] == [1, -(-size // 16), 1, 2]


def test_threads_past_the_end_of_an_axis_find_what_they_read():
    """Sixteen threads carry thirteen groups of four columns: the strip they share holds sixteen groups."""
    a = te.placeholder((8, 64), name="a")
    strip = te.compute((8, 64), lambda k, j: a[k, j] * 2.0, name="strip")
    k = te.reduce_axis((0, 8), name="k")
    total = te.compute((64,), lambda j: te.sum(strip[k, j], axis=k), name="total")
    out = te.compute((49,), lambda j: total[j] + 1.0, name="out")
    s = te.create_schedule(out.op)
    threads = te.thread_axis((0, 16), "threadIdx.x")
    thread, _ = s[out].split(out.op.axis[0], factor=4)
    s[out].bind(thread, threads)
    s[total].compute_at(s[out], thread)
    s[total].set_scope("local")
    s[strip].set_scope("shared")
    s[total].reorder(s[total].op.reduce_axis[0], s[total].op.axis[0])
    s[strip].compute_at(s[total], s[total].op.reduce_axis[0])
    ranges = infer_bound(s.normalize())
    assert [int(r.extent) for axis, r in ranges.items() if axis.var.name == "j"] == [49, 4, 64]


def a_shared_strip(shared_inside_moving_loop: bool):
    a = te.placeholder((5, 8), "int32", name="a")
    k = te.reduce_axis((0, 5), name="k")
    b = te.compute((8,), lambda i: te.sum(a[k, i], axis=k), name="b")
    s = te.create_schedule(b.op)
    local = s.cache_write(b, "local")
    outer, _ = s[b].split(b.op.axis[0], factor=2)
    s[b].bind(outer, te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[b], outer)
    shared = s.cache_read(a, "shared", [local])
    (i,), (k,) = s[local].op.axis, s[local].op.reduce_axis
    s[local].reorder(*((i, k) if shared_inside_moving_loop else (k, i)))
    s[shared].compute_at(s[local], k)
    return s


def test_a_loop_that_starts_elsewhere_in_every_thread_holds_nothing_shared():
    with pytest.raises(ScheduleError, match="computed inside loop i.c of b.local, whose start differs between"):
        infer_bound(a_shared_strip(True))


def test_the_same_outside_of_that_loop_is_whole():
    s = a_shared_strip(False)
    ranges = infer_bound(s)
    shared = next(stage for stage in s.stages if stage.op.name == "a.shared")
    assert [int(ranges[axis].extent) for axis in shared.op.axis] == [1, 8]
