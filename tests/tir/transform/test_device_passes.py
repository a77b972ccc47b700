"""Kernels: barriers, reductions over threads, the division of host and device."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_interpreter import run_kernel
from lowered import of, var

import tvm
from tvm import te
from tvm.error import TVMError
from tvm.ir.module import GlobalVar, IRModule
from tvm.ir.op import Op
from tvm.ir.prim import Call, IterVar, StringImm, const
from tvm.ir.visit import rewrite
from tvm.tir import pipeline
from tvm.tir.buffer import decl_buffer
from tvm.tir.function import PrimFunc
from tvm.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate, For, IfThenElse, LetStmt, seq
from tvm.tir.transform.combine_context_call import combine_context_call
from tvm.tir.transform.lower_device_storage_access_info import lower_device_storage_access_info
from tvm.tir.transform.lower_thread_allreduce import lower_thread_allreduce
from tvm.tir.transform.thread_sync import thread_sync

CUDA = tvm.target.Target("cuda", host="llvm")


def axis(tag, extent):
    return IterVar((0, extent), var(tag.replace(".", "_")), IterVar.ThreadIndex, tag)


def barriers(node):
    return [c for c in of(Call, node) if getattr(c.op, "name", "") == "tir.tvm_storage_sync"]


def kernel(make, threads=8, size=64):
    """A kernel of one block; ``make(thread, shared, output)`` gives its body."""
    tx = axis("threadIdx.x", threads)
    s, b = decl_buffer((size,), "int32", "s", scope="shared"), decl_buffer((size,), "int32", "B")
    body = Allocate(s.data, "int32", [size], const(True), make(tx.var, s, b))
    return PrimFunc([b], AttrStmt(tx, "thread_extent", const(threads), body))


def output(func, size=64):
    got = np.zeros(size, "int32")
    return got, run_kernel(func, got)


def test_reading_what_another_thread_wrote_needs_a_barrier():
    func = thread_sync(kernel(lambda t, s, b: seq(BufferStore(s, t * 10, [t]), BufferStore(b, s[7 - t], [t]))))
    assert len(barriers(func)) == 1
    np.testing.assert_array_equal(output(func)[0][:8], np.arange(8)[::-1] * 10)


def test_own_elements_need_none():
    func = kernel(lambda t, s, b: seq(BufferStore(s, t, [t]), BufferStore(b, s[t], [t])))
    assert thread_sync(func).body is func.body


def test_same_place_for_all_threads_is_not_their_own():
    body = lambda t, s, b: seq(IfThenElse(t < 1, BufferStore(s, const(5), [0])), BufferStore(b, s[0], [t]))
    func = thread_sync(kernel(body))
    assert len(barriers(func)) == 1
    assert (output(func)[0][:8] == 5).all()


def test_loop_that_carries_shared_data():
    i = var("i")
    body = lambda t, s, b: For(i, 0, 4, 0, seq(BufferStore(s, t + i, [t]), BufferStore(b, b[t] + s[7 - t], [t])))
    func = thread_sync(kernel(body))
    assert len(barriers(func)) == 2
    np.testing.assert_array_equal(output(func)[0][:8], [4 * (7 - t) + 6 for t in range(8)])


def test_exchange_under_a_condition_of_threads_is_refused():
    body = lambda t, s, b: IfThenElse(t < 4, seq(BufferStore(s, t, [t]), BufferStore(b, s[3 - t], [t])))
    with pytest.raises(TVMError, match="under a condition that differs between them"):
        thread_sync(kernel(body))


def test_barrier_that_stands_already_is_counted():
    sync = Evaluate(Call("int32", Op.get("tir.tvm_storage_sync"), (StringImm("shared"),)))
    func = kernel(lambda t, s, b: seq(BufferStore(s, t, [t]), sync, BufferStore(b, s[7 - t], [t])))
    assert thread_sync(func).body is func.body


def scheduled(width, rows=3):
    """Row sums, each by ``width`` threads, two rows to a block where they divide."""
    a = te.placeholder((rows, width), "int32", "A")
    k = te.reduce_axis((0, width), "k")
    b = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].bind(b.op.axis[0], te.thread_axis("blockIdx.x" if rows % 2 else "threadIdx.y"))
    s[b].bind(b.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    return tvm.lower(s, [a, b])["main"]


@pytest.mark.parametrize(("width", "rows"), [(1, 3), (2, 3), (7, 3), (8, 3), (13, 4), (16, 2)])
def test_reduction_over_threads(width, rows):
    func = lower_thread_allreduce(scheduled(width, rows))
    x = np.arange(rows * width, dtype="int32").reshape(rows, width)
    y = np.zeros(rows, "int32")
    run_kernel(func, x, y)
    np.testing.assert_array_equal(y, x.sum(1))


@pytest.mark.parametrize(("width", "rows"), [(2, 3), (8, 3), (16, 2), (32, 3), (64, 3), (96, 2), (24, 3)])
def test_reduction_over_threads_by_shuffles(width, rows):
    func = lower_thread_allreduce(scheduled(width, rows).with_attr("target", CUDA))
    names = [getattr(c.op, "name", "") for c in of(Call, func)]
    # Twenty-four threads are neither a part of a warp nor whole warps.
    assert ("tir.tvm_warp_shuffle" in names) == (width != 24)
    assert names.count("tir.tvm_storage_sync") == (0 if 32 % width == 0 else 2 if width % 32 == 0 else 7)
    x = np.arange(rows * width, dtype="int32").reshape(rows, width)
    y = np.zeros(rows, "int32")
    run_kernel(func, x, y)
    np.testing.assert_array_equal(y, x.sum(1))


@pytest.mark.parametrize("width", [8, 64])
def test_reduction_of_pairs_by_shuffles_prefers_the_first(width):
    def combine(a, b):
        better = tvm.tir.any(a[1] > b[1], tvm.tir.all(a[1] == b[1], a[0] < b[0]))
        return tvm.tir.Select(better, a[0], b[0]), tvm.tir.Select(better, a[1], b[1])

    argmax = te.comm_reducer(combine, lambda t0, t1: (te.max_value(t0), te.min_value(t1)), name="argmax")
    a = te.placeholder((2, width), "int32", "A")
    k = te.reduce_axis((0, width), "k")
    at, best = te.compute((2,), lambda i: argmax((k.var, a[i, k]), axis=k), name="best")
    s = te.create_schedule(at.op)
    s[at].bind(at.op.axis[0], te.thread_axis("blockIdx.x"))
    s[at].bind(at.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    func = lower_thread_allreduce(tvm.lower(s, [a, at, best])["main"].with_attr("target", CUDA))
    x = np.random.default_rng(width).integers(0, 5, (2, width)).astype("int32")
    found, value = np.zeros(2, "int32"), np.zeros(2, "int32")
    run_kernel(func, x, found, value)
    np.testing.assert_array_equal(found, x.argmax(1))
    np.testing.assert_array_equal(value, x.max(1))


def test_reduction_of_pairs_over_threads():
    def combine(a, b):
        better = a[1] >= b[1]
        return tvm.tir.Select(better, a[0], b[0]), tvm.tir.Select(better, a[1], b[1])

    argmax = te.comm_reducer(combine, lambda t0, t1: (tvm.tir.const(-1, t0), te.min_value(t1)), name="argmax")
    a = te.placeholder((2, 9), "int32", "A")
    k = te.reduce_axis((0, 9), "k")
    at, best = te.compute((2,), lambda i: argmax((k.var, a[i, k]), axis=k), name="best")
    s = te.create_schedule(at.op)
    s[at].bind(at.op.axis[0], te.thread_axis("blockIdx.x"))
    s[at].bind(at.op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    func = lower_thread_allreduce(tvm.lower(s, [a, at, best])["main"])
    x = np.array([[3, 1, 4, 1, 5, 9, 2, 6, 5], [8, 7, 6, 5, 4, 3, 2, 1, 0]], "int32")
    found, value = np.zeros(2, "int32"), np.zeros(2, "int32")
    run_kernel(func, x, found, value)
    np.testing.assert_array_equal(found, x.argmax(1))
    np.testing.assert_array_equal(value, x.max(1))


def test_number_of_reducing_threads_must_be_known():
    tx, n, b = axis("threadIdx.x", 8), var("n"), decl_buffer((1,), "int32", "B")
    r = decl_buffer((1,), "int32", "r", scope="local")
    x, y = var("x"), var("y")
    reducer = tvm.tir.CommReducer([x], [y], [x + y], [const(0)])
    call = Call("handle", Op.get("tir.tvm_thread_allreduce"), (const(1, "uint32"), tx.var, const(True), r.data, tx.var))
    body = AttrStmt(reducer, "reduce_scope", const(0), Evaluate(call))
    with pytest.raises(TVMError, match="needs a constant extent; the extent of threadIdx.x is n"):
        lower_thread_allreduce(PrimFunc([b, n], AttrStmt(tx, "thread_extent", n, body)))


def shared_stage():
    n = 32
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    c = te.compute((n,), lambda i: b[n - 1 - i] * 2.0, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 8)
    bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    s[c].bind(outer, bx)
    s[c].bind(inner, tx)
    s[b].compute_at(s[c], outer)
    s[b].set_scope("shared")
    s[b].bind(b.op.axis[0], tx)
    return tvm.lower(s, [a, c], name="stage")


def test_host_and_device_are_divided():
    host, device = pipeline.split_host_device(shared_stage(), CUDA, CUDA.host)
    assert sorted(v.name_hint for v in host.functions) == ["stage", "stage_compute_"]
    kernel_func = device["stage_kernel"]
    assert kernel_func.attrs["calling_conv"] == 2
    assert list(kernel_func.attrs["tir.kernel_launch_params"]) == ["blockIdx.x", "threadIdx.x"]
    assert [p.name for p in kernel_func.params] == ["A", "C"] and len(barriers(kernel_func)) == 1
    calls = [c for c in of(Call, host["stage_compute_"]) if hasattr(c.op, "name")]
    launches = [c for c in calls if c.op.name == "tir.tvm_call_packed_lowered"]
    assert [c.args[0].value for c in launches] == ["__tvm_set_device", "stage_kernel"]
    x, y = np.arange(32, dtype="float32"), np.zeros(32, "float32")
    run_kernel(kernel_func, x, y)
    np.testing.assert_array_equal(y, (x[::-1] + 1) * 2)


def test_unbound_loops_on_a_device_are_refused():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    mod = tvm.lower(te.create_schedule(b.op), [a, b])
    with pytest.raises(TVMError, match="Did you forget to bind"):
        pipeline.split_host_device(mod, CUDA, CUDA.host)


def test_passes_by_hand_name_kernels_as_usual():
    mod = tvm.tir.transform.BindTarget(CUDA)(shared_stage())
    mod = tvm.tir.transform.SplitHostDevice()(tvm.tir.transform.AnnotateDeviceRegions()(mod))
    assert "stage_kernel" in mod
    calls = [c for c in of(Call, mod["stage"]) if isinstance(c.op, GlobalVar)]
    assert [c.op.name_hint for c in calls] == ["stage_kernel"]


def test_pointers_with_usage_become_addresses():
    a = decl_buffer((8,), "float32", "A")
    body = Evaluate(Call("int32", Op.get("tir.call_extern"), ("touch", a.access_ptr("w", offset=3))))
    new = lower_device_storage_access_info(PrimFunc([a], body))
    names = [c.op.name for c in of(Call, new)]
    assert "tir.tvm_access_ptr" not in names and "tir.address_of" in names


def test_equal_contexts_are_made_once():
    n, i = var("n"), var("i")
    device = lambda: Call("handle", Op.get("tir.call_extern"), ("device_context", n))
    use = lambda: Evaluate(
        Call("int32", Op.get("tir.call_extern"), ("f", Call("handle", Op.get("tir.tvm_thread_context"), (device(),))))
    )
    new = combine_context_call(PrimFunc([n], For(i, 0, n, 0, seq(use(), use()))))
    assert len(of(LetStmt, new)) == 1 and isinstance(new.body, LetStmt)


def test_module_without_kernels_is_left_alone():
    b = decl_buffer((4,), "int32", "B")
    mod = IRModule({"f": PrimFunc([b], BufferStore(b, const(1), [0]), attrs={"global_symbol": "f", "target": CUDA})})
    assert [v.name_hint for v in tvm.tir.transform.SplitHostDevice()(mod).functions] == ["f"]


def tiled_matmul(n=16, block=8, threads=2, step=4):
    """The classic schedule: tiles in shared memory fetched by all threads, virtual threads, local accumulators."""
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    shared = [s.cache_read(t, "shared", [c]) for t in (a, b)]
    local = [s.cache_read(t, "local", [c]) for t in shared]
    acc = s.cache_write(c, "local")
    blocks = [te.thread_axis(f"blockIdx.{x}") for x in "yx"]
    lanes = [te.thread_axis((0, threads), f"threadIdx.{x}") for x in "yx"]
    virtual = [te.thread_axis((0, 2), "vthread", name=f"v{x}") for x in "yx"]
    order = []
    for axis, bind, thread, vthread in zip(c.op.axis, blocks, lanes, virtual):
        outer, inner = s[c].split(axis, factor=block)
        v, inner = s[c].split(inner, nparts=2)
        t, inner = s[c].split(inner, nparts=threads)
        s[c].bind(outer, bind)
        s[c].bind(v, vthread)
        s[c].bind(t, thread)
        order.append((outer, v, t, inner))
    s[c].reorder(*[group[i] for i in range(4) for group in order])
    s[acc].compute_at(s[c], order[1][2])
    ko, ki = s[acc].split(s[acc].op.reduce_axis[0], factor=step)
    s[acc].reorder(ko, ki, *s[acc].op.axis)
    for t in shared:
        s[t].compute_at(s[acc], ko)
        y, rest = s[t].split(s[t].fuse(*s[t].op.axis), nparts=threads)
        x, rest = s[t].split(rest, nparts=threads)
        s[t].bind(y, lanes[0])
        s[t].bind(x, lanes[1])
    for t in local:
        s[t].compute_at(s[acc], ki)
    return tvm.lower(s, [a, b, c], name="matmul")


def test_tiled_matmul_on_a_device():
    _, device = pipeline.split_host_device(tiled_matmul(), CUDA, CUDA.host)
    func = device["matmul_kernel"]
    x = np.random.default_rng(11).integers(-4, 5, (16, 16)).astype("float32")
    y = np.random.default_rng(12).integers(-4, 5, (16, 16)).astype("float32")
    z = np.zeros((16, 16), "float32")
    met = run_kernel(func, x, y, z)
    np.testing.assert_array_equal(z, x @ y)
    # Two barriers in each of four steps of the reduction, in each of four blocks.
    assert met == 2 * 4 * 4


def warp_stage(n=64, width=8, scope="warp", reverse=True):
    """Each warp reverses its elements through its own memory."""
    a = te.placeholder((n,), "int32", "A")
    b = te.compute((n,), lambda i: a[i] * 2, name="B")
    pick = lambda i: i // width * width + (width - 1 - i % width) if reverse else i
    c = te.compute((n,), lambda i: b[pick(i)] + 1, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], width)
    tx = te.thread_axis("threadIdx.x")
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, tx)
    s[b].compute_at(s[c], outer)
    s[b].set_scope(scope)
    s[b].bind(b.op.axis[0], tx)
    return tvm.lower(s, [a, c], name="warp")


@pytest.mark.parametrize("reverse", [True, False])
def test_memory_of_a_warp_is_read_by_shuffles(reverse):
    _, device = pipeline.split_host_device(warp_stage(reverse=reverse), CUDA, CUDA.host)
    func = device["warp_kernel"]
    shuffles = [c for c in of(Call, func) if getattr(c.op, "name", "") == "tir.tvm_warp_shuffle"]
    assert len(shuffles) == reverse and int(of(Allocate, func)[0].extents[0]) == 1
    x, y = np.arange(64, dtype="int32"), np.zeros(64, "int32")
    run_kernel(func, x, y)
    want = x.reshape(8, 8)[:, ::-1].reshape(-1) if reverse else x
    np.testing.assert_array_equal(y, want * 2 + 1)


def test_memory_of_a_warp_needs_warps():
    opencl = tvm.target.Target("opencl", host="llvm")
    with pytest.raises(TVMError, match="B: the target has no warps; use scope 'shared' or 'local'"):
        pipeline.split_host_device(warp_stage(), opencl, opencl.host)


def test_one_number_of_threads_for_a_kernel():
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] * 2, name="B")
    c = te.compute((8,), lambda i: b[i] + 1, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 4)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    s[c].bind(inner, te.thread_axis("threadIdx.x"))
    s[b].compute_at(s[c], outer)
    _, own = s[b].split(b.op.axis[0], 2)
    s[b].bind(own, te.thread_axis("threadIdx.x"))
    with pytest.raises(TVMError, match="threadIdx.x has extent 2 in one loop and 4 in another"):
        pipeline.split_host_device(tvm.lower(s, [a, c]), CUDA, CUDA.host)


def tiles_of_a_product(size=16, lanes=4, double=True):
    """A product of matrices by one block of 4 x 4 threads, with tiles of both in shared memory."""
    a = te.placeholder((size, size), "int32", "A")
    b = te.placeholder((size, size), "int32", "B")
    k = te.reduce_axis((0, size), "k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    tiles = [s.cache_read(x, "shared", [local]) for x in (a, b)]
    y, yi = s[c].split(c.op.axis[0], 4)
    x, xi = s[c].split(c.op.axis[1], 4)
    s[c].reorder(y, x, yi, xi)
    s[c].bind(y, te.thread_axis("threadIdx.y"))
    s[c].bind(x, te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[c], x)
    outer, inner = s[local].split(s[local].op.reduce_axis[0], 4)
    s[local].reorder(outer, inner, *s[local].op.axis)
    for tile in tiles:
        s[tile].compute_at(s[local], outer)
        fused = s[tile].fuse(*s[tile].op.axis)
        fused, vector = s[tile].split(fused, lanes)
        fused, tx = s[tile].split(fused, 4)
        _, ty = s[tile].split(fused, 4)
        s[tile].bind(tx, te.thread_axis("threadIdx.x"))
        s[tile].bind(ty, te.thread_axis("threadIdx.y"))
        s[tile].vectorize(vector)
        if double:
            s[tile].double_buffer()
    return tvm.lower(s, [a, b, c], name="product")


def kernel_for(lowered, target, config=None):
    with tvm.transform.PassContext(config=config or {}):
        target = tvm.target.Target(target, host="llvm")
        return pipeline.split_host_device(lowered, target, target.host)[1]["product_kernel"]


def check_product(func, size=16):
    rng = np.random.default_rng(size)
    a, b = (rng.integers(-5, 5, (size, size)).astype("int32") for _ in range(2))
    c = np.zeros((size, size), "int32")
    met = run_kernel(func, a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    return met


def copies(func):
    return [c for c in of(Call, func) if getattr(c.op, "name", "") == "tir.ptx_cp_async"]


@pytest.mark.slow("compiles and runs large kernels")
@pytest.mark.parametrize("target", ["opencl", "cuda -arch=sm_75", "cuda -arch=sm_80"])
def test_double_buffered_tiles_need_one_barrier_an_iteration(target):
    func = kernel_for(tiles_of_a_product(), target)
    assert len(copies(func)) == (4 if target.endswith("80") else 0)
    assert check_product(func) == 4
    assert check_product(kernel_for(tiles_of_a_product(double=False), target)) == 8


def test_copies_beside_the_program_are_asked_for_or_come_with_double_buffers():
    lowered = tiles_of_a_product(double=False)
    assert not copies(kernel_for(lowered, "cuda -arch=sm_80"))
    func = kernel_for(lowered, "cuda -arch=sm_80", {"tir.use_async_copy": True})
    assert [int(c.args[4]) for c in copies(func)] == [16, 16]
    check_product(func)


def test_without_its_waits_a_copy_is_not_there_in_time():
    func = kernel_for(tiles_of_a_product(), "cuda -arch=sm_80")

    def nothing(node):
        return const(0, "int32") if getattr(getattr(node, "op", None), "name", "") == "tir.ptx_wait_group" else None

    with pytest.raises(AssertionError, match="Arrays are not equal"):
        check_product(func.replace(body=rewrite(func.body, nothing)))
