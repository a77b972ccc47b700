"""A register-tiled convolution as lowering gives it to code generation: right results, and no memory traffic for the
accumulators."""

from __future__ import annotations

import re

import numpy
import pytest

import tvm
from tests.codegen.raw import compile_raw, emit, prim_func
from tests.cpus import BASELINE, OLDER
from tvm import te
from tvm.codegen.llvm import jit as llvm_jit
from tvm.ir.prim import Broadcast, BufferLoad, Ramp, Var, const
from tvm.tir.buffer import decl_buffer
from tvm.tir.stmt import Allocate, BufferStore, For, ForKind, SeqStmt

SERIAL, UNROLLED = ForKind.SERIAL, ForKind.UNROLLED


def convolution(channels, filters, height, width, kernel, columns, blocks, unroll=4, lanes=16):
    """NCHW16c, stride 1, padded input; ``columns`` x ``blocks`` vectors are accumulated at a time."""
    padded_h, padded_w = height + kernel - 1, width + kernel - 1
    chunks = channels // lanes
    data = decl_buffer((channels * padded_h * padded_w,), "float32", "data")
    weight = decl_buffer((filters * channels * kernel * kernel,), "float32", "weight")
    out = decl_buffer((filters * height * width,), "float32", "out")
    sums = decl_buffer((columns * blocks * lanes,), "float32", "sums", scope="local")
    fo, oh, ow, co, kh, kw, ci_outer, ci_inner = (
        Var(n, "int32") for n in ("fo", "oh", "ow", "co", "kh", "kw", "ci.outer", "ci.inner")
    )

    def vector(base):
        return Ramp(base, const(1, "int32"), lanes)

    def tile(make):
        w, f = Var("w", "int32"), Var("f", "int32")
        return For(w, 0, columns, UNROLLED, For(f, 0, blocks, UNROLLED, make(w, f)))

    def clear(w, f):
        return BufferStore(sums, Broadcast(const(0.0, "float32"), lanes), [vector((w * blocks + f) * lanes)])

    def update(w, f):
        ci = ci_outer * unroll + ci_inner
        x = BufferLoad(data, [((co * padded_h + (oh + kh)) * padded_w + (ow * columns + w + kw)) * lanes + ci])
        k = (((fo * blocks + f) * chunks + co) * kernel + kh) * kernel + kw
        y = BufferLoad(weight, [vector((k * lanes + ci) * lanes)])
        at = [vector((w * blocks + f) * lanes)]
        return BufferStore(sums, BufferLoad(sums, at) + Broadcast(x, lanes) * y, at)

    def write(w, f):
        at = vector((((fo * blocks + f) * height + oh) * width + ow * columns + w) * lanes)
        return BufferStore(out, BufferLoad(sums, [vector((w * blocks + f) * lanes)]), [at])

    reduction = For(ci_inner, 0, unroll, UNROLLED, tile(update))
    for var, extent in ((ci_outer, lanes // unroll), (kw, kernel), (kh, kernel), (co, chunks)):
        reduction = For(var, 0, extent, SERIAL, reduction)
    steps = SeqStmt([tile(clear), reduction, tile(write)])
    body = Allocate(sums.data, "float32", [columns * blocks * lanes], True, steps)
    for var, extent in ((ow, width // columns), (oh, height), (fo, filters // lanes // blocks)):
        body = For(var, 0, extent, SERIAL, body)
    return prim_func([data, weight, out], body, "conv")


@pytest.mark.parametrize("target", ["llvm", f"llvm -mcpu={OLDER}", f"llvm -mcpu={BASELINE}"])
def test_convolution_agrees_with_numpy(target, rng):
    channels, filters, height, width, kernel = 32, 64, 3, 28, 3
    run = compile_raw(convolution(channels, filters, height, width, kernel, 14, 2), target)
    data = rng.standard_normal((channels // 16, height + 2, width + 2, 16)).astype("float32")
    weight = rng.standard_normal((filters // 16, channels // 16, kernel, kernel, 16, 16)).astype("float32")
    out = numpy.zeros((filters // 16, height, width, 16), "float32")
    assert run(data, weight, out) == 0
    windows = numpy.lib.stride_tricks.sliding_window_view(data.astype("float64"), (kernel, kernel), axis=(1, 2))
    want = numpy.einsum("chwirs,fcrsio->fhwo", windows, weight.astype("float64"))
    numpy.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)


def innermost_loop(assembly: str) -> list[str]:
    """Instructions of the loop with the most fused multiply-adds between a label and a jump back to it."""
    lines = [line.strip() for line in assembly.splitlines()]
    at = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    best: list[str] = []
    for number, line in enumerate(lines):
        jump = re.match(r"j\w+\s+(\.L\w+)$", line)
        if jump and at.get(jump[1], number) < number:
            body = lines[at[jump[1]] + 1 : number]
            if any(text.endswith(":") for text in body):
                continue
            if sum("vfmadd" in text for text in body) > sum("vfmadd" in text for text in best):
                best = body
    return best


@pytest.mark.parametrize(
    ("mcpu", "register", "lanes", "columns"), [("skylake-avx512", "zmm", 16, 14), ("haswell", "ymm", 8, 6)]
)
def test_accumulators_stay_in_registers(mcpu, register, lanes, columns):
    function = convolution(64, 64, 8, columns * 2, 3, columns, 2, lanes=lanes)
    text, cpu = emit(function, f"llvm -mtriple=x86_64-linux-gnu -mcpu={mcpu}")
    module = llvm_jit.optimized(text, cpu)
    assert "alloca" not in str(module)
    assembly = llvm_jit.machine_for(cpu).emit_assembly(module)
    loop = innermost_loop(assembly)
    fused = [line for line in loop if line.startswith("vfmadd") and register in line]
    assert len(fused) == columns * 2 * 4
    stores = [line for line in loop if re.search(rf"%{register}\d+, .*\(", line) and line.startswith("vmov")]
    assert stores == []
    assert "spill" not in assembly.lower()
    assert not any("rsp" in line for line in loop)


@pytest.mark.parametrize("target", ["llvm", f"llvm -mcpu={OLDER}", f"llvm -mcpu={BASELINE}"])
@pytest.mark.parametrize(("uses", "written"), [(2, False), (3, False), (5, True)])
def test_products_that_load_elements_themselves_agree_with_numpy(target, uses, written, rng):
    """``uses`` need not be the true number of uses, and what is read may have been written just before."""
    check_products(target, "memory_operands", uses, 37, 2, written, rng)


@pytest.mark.parametrize("target", ["llvm", f"llvm -mcpu={BASELINE}"])
@pytest.mark.parametrize("k, unrolled, written", [(40, 4, False), (40, 8, True), (40, 2, False), (37, 4, False)])
def test_products_with_lanes_of_loaded_vectors_agree_with_numpy(target, k, unrolled, written, rng):
    """Where a vector would not begin at a known lane or end with its row, elements are loaded alone."""
    check_products(target, "lane_operands", 4, k, unrolled, written, rng)


def check_products(target, pragma, value, k, unrolled, written, rng):
    """A matmul of 5 rows by 3 vectors with ``unrolled`` terms in the body of its loop."""
    m, lanes, vectors = 5, 16, 3
    a, b = te.placeholder((m, k), name="a"), te.placeholder((k, vectors * lanes), name="b")
    x = te.compute((m, k), lambda i, j: a[i, j] * 2, name="x") if written else a
    step = te.reduce_axis((0, k), name="step")
    c = te.compute((m, vectors * lanes), lambda i, j: te.sum(x[i, step] * b[step, j], axis=step), name="c")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    vector, lane = s[c].split(j, factor=lanes)
    outer, inner = s[c].split(step, factor=unrolled)
    s[c].reorder(outer, inner, i, vector, lane)
    s[c].vectorize(lane)
    for axis in (inner, i, vector):
        s[c].unroll(axis)
    s[c].pragma(inner, pragma, value)
    got = tvm.nd.empty((m, vectors * lanes))
    data, weight = rng.standard_normal((m, k)).astype("float32"), rng.standard_normal((k, 48)).astype("float32")
    tvm.build(s, [a, b, c], target)(tvm.nd.array(data), tvm.nd.array(weight), got)
    want = data.astype("float64") @ weight * (2 if written else 1)
    numpy.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)
