"""Fragments of matrices as tile registers: their numbers and sizes, what is refused, and the code."""

import platform
import re

import numpy as np
import pytest

import tvm
from tests.tile_emulator import emulated
from tvm import te
from tvm.error import TVMError
from tvm.runtime import _lib, host_cpu
from tvm.topi.cpu import conv2d_tiles, matmul_tiles, tiles
from tvm.topi.cpu.tiles import BFLOAT16, Kind
from tvm.topi.schedule.cpu import schedule_for

AMX = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids"


def matmul(m, n, k, block=(2, 2), kind=BFLOAT16, unrolled=True):
    """A schedule written by hand, with the public intrinsics."""
    depth, step = kind.depth, kind.k
    shape = tiles.Shape(16, 16, 1, step, kind)
    a = te.placeholder((k // step, m, step), kind.lhs, name="a")
    taken = te.compute((k // step, m, 1, step), lambda o, i, t, c: a(o, i + t, c), name="taken")
    b = te.placeholder((n // 16, k // step, 1, step // depth, 16, depth), kind.rhs, name="b")
    sizes = {"outer": k // step, "tap": 1, "group": step // depth, "inner": depth}
    outer, tap, group, inner = axes = [te.reduce_axis((0, size), name=name) for name, size in sizes.items()]

    def body(j, i, jj):
        x = taken[outer, i, tap, group * depth + inner].astype(kind.sums)
        return te.sum(x * b[j, outer, tap, group, jj, inner].astype(kind.sums), axis=axes)

    c = te.compute((n // 16, m, 16), body, name="c")
    s = te.create_schedule(c.op)
    sums = s.cache_write(c, tiles.SCOPES["sums"])
    lhs, rhs = taken, s.cache_read(b, tiles.SCOPES["b"], [sums])
    s[lhs].set_scope(tiles.SCOPES["a"])
    j, i, jj = c.op.axis
    j_outer, j = s[c].split(j, block[1])
    i_outer, i = s[c].split(i, 16 * block[0])
    t, i = s[c].split(i, 16)
    s[c].reorder(j_outer, i_outer, j, t, i, jj)
    s[sums].compute_at(s[c], i_outer)
    s[c].tensorize(i, tiles.store(shape))
    j2, i2, jj2 = s[sums].op.axis
    t2, i2 = s[sums].split(i2, 16)
    outer, tap, group, inner = s[sums].op.reduce_axis
    s[sums].reorder(outer, j2, t2, i2, jj2, tap, group, inner)
    s[sums].tensorize(i2, tiles.multiply(shape))
    s[lhs].compute_at(s[sums], outer)
    t3, i3 = s[lhs].split(s[lhs].op.axis[1], 16)
    s[lhs].tensorize(i3, tiles.load_lhs(shape))
    s[rhs].compute_at(s[sums], outer)
    s[rhs].tensorize(s[rhs].op.axis[2], tiles.load_rhs(shape))
    if unrolled:
        for stage, loops in ((c, (j, t)), (sums, (j2, t2)), (lhs, (t3,)), (rhs, (s[rhs].op.axis[0],))):
            for axis in loops:
                s[stage].unroll(axis)
    return s, [a, b, c]


@pytest.mark.parametrize("kind", [
    BFLOAT16, Kind("int8", "int8", "int32", 4), Kind("uint8", "int8", "int32", 4), Kind("int8", "uint8", "int32", 4),
    Kind("uint8", "uint8", "int32", 4),
], ids=lambda kind: f"{kind.lhs}-{kind.rhs}")
def test_a_matmul_of_tiles_equals_numpy(kind):
    m, n, k = 64, 32, 3 * kind.k
    rng = np.random.default_rng(0)

    def random(shape, dtype):
        if dtype == "bfloat16":
            # Small whole numbers, whose sums are exact.
            return rng.integers(-8, 9, shape).astype(tvm.nd.empty((1,), dtype).numpy().dtype)
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, shape).astype(dtype)

    x, y = random((m, k), kind.lhs), random((n, k), kind.rhs)
    with emulated() as target:
        s, arguments = matmul(m, n, k, kind=kind)
        built = tvm.build(s, arguments, target)
        packed = (
            x.reshape(m, 3, kind.k).transpose(1, 0, 2),
            y.reshape(n // 16, 16, 3, 1, kind.k // kind.depth, kind.depth).transpose(0, 2, 3, 4, 1, 5),
        )
        given = [tvm.nd.empty(p.shape, d).copyfrom(np.ascontiguousarray(p)) for p, d in zip(packed, kind)]
        out = tvm.nd.empty((n // 16, m, 16), kind.sums)
        built(*given, out)
    got = out.numpy().transpose(1, 0, 2).reshape(m, n)
    np.testing.assert_array_equal(got, x.astype("int64") @ y.astype("int64").T)


def test_more_fragments_than_registers_are_refused():
    s, arguments = matmul(96, 64, 64, block=(3, 2))
    with pytest.raises(TVMError, match=r"11 tile registers are needed .* there are 8"):
        tvm.build(s, arguments, AMX)


def test_branches_share_registers_only_where_each_sets_its_own():
    def build(keeps: bool):
        ib = tvm.tir.ir_builder.create()
        out = ib.buffer_ptr(tvm.tir.decl_buffer((2048,), "float32", name="out"))
        which = tvm.tir.Var("which", "int32")
        held = [tiles._fragments(ib, "float32", 5 * 256, "sums") for _ in range(2)]

        def branch(data):
            for i in range(0 if keeps else 5):
                ib.emit(tiles._call("tvm_fill_fragment", data, 16, 16, 32, i, tvm.tir.const(0, "float32")))
            place = tvm.tir.address_of(out._buffer[0])
            ib.emit(tiles._call("tvm_store_matrix_sync", data, 16, 16, 32, 0, place, 16, "row_major"))

        with ib.if_scope(which > 0):
            branch(held[0])
        with ib.else_scope():
            branch(held[1])
        function = tvm.tir.PrimFunc([which, out._buffer.data], ib.get()).with_attr("global_symbol", "f")
        return tvm.build(tvm.IRModule({"f": function}), target=AMX).get_source("asm")

    assert "tilezero" in build(keeps=False)
    with pytest.raises(TVMError, match=r"10 tile registers are needed"):
        build(keeps=True)


def test_a_fragment_that_is_not_known_is_refused():
    s, arguments = matmul(64, 32, 64, unrolled=False)
    with pytest.raises(TVMError, match="unroll the loops over fragments"):
        tvm.build(s, arguments, AMX)


def test_a_target_without_tiles_is_told():
    s, arguments = matmul(64, 32, 64)
    with pytest.raises(TVMError, match=r"lacks amx-tile"):
        tvm.build(s, arguments, "llvm -mtriple=x86_64-linux-gnu -mcpu=icelake-server")


def runs(assembly: str) -> list[list[str]]:
    """The tile instructions of each stretch of code without jumps that multiplies."""
    parts = re.split(r"^\.L\w+:|^\s+j\w+\s.*$", assembly, flags=re.MULTILINE)
    return [re.findall(r"^\s+(tile\w+|tdp\w+)", part, flags=re.MULTILINE) for part in parts if "tdpb" in part]


def matmul_assembly(m, n, k, kind):
    """What is compiled for a dense layer."""
    data = te.placeholder((m, k), kind.lhs, name="data")
    panels = te.placeholder((n // 32, k // kind.k, 16, 32, kind.depth), kind.rhs, name="panels")
    out = matmul_tiles.products(data, panels, n, kind)
    target = tvm.target.Target(AMX + " -num-cores=1")
    return tvm.build(schedule_for([out], target), [data, panels, out], target).get_source("asm")


@pytest.mark.parametrize("kind", [BFLOAT16, Kind("uint8", "int8", "int32", 4)], ids=["bf16", "int8"])
def test_the_loop_of_a_matmul_loads_each_tile_once_for_two_products_and_spills_none(kind):
    assembly = matmul_assembly(2048, 2048, 2048, kind)
    product = "tdpbf16ps" if kind is BFLOAT16 else "tdpbusd"
    near, far, last = runs(assembly)
    # Rows come from the L2 cache and leave the begin of the panel in the L1 cache; the rest of it passes by, too.
    assert near == [product] * 2 + ["tileloaddt1", product, "tileloadd", product, "tileloadd", "tileloaddt1"]
    assert far == [product] * 2 + ["tileloaddt1", product, "tileloaddt1", product] + ["tileloaddt1"] * 2
    # Sums are held for all of k and written once.
    assert last == [product] * 4 + ["tilestored"] * 4
    assert assembly.count("tilezero") == 4 and assembly.count("tileload") == 4 + 4 + 4
    # What passes by the caches is waited for once, where the function is left.
    assert "vmovnt" in assembly and 0 < assembly.count("sfence") <= assembly.count("tilerelease")


def test_a_matmul_of_a_long_k_adds_up_parts_whose_panel_stays_in_the_l1_cache():
    assembly = matmul_assembly(2048, 64, 32768, BFLOAT16)
    loop = ["tdpbf16ps"] * 2 + ["tileloaddt1", "tdpbf16ps", "tileloadd", "tdpbf16ps", "tileloadd", "tileloaddt1"]
    last = ["tdpbf16ps"] * 4 + ["tilestored"] * 4
    # A loop for the first part of k, and one for the others, which read and write the sums once; they end alike.
    assert sorted(runs(assembly)) == sorted([loop, loop, last])
    assert assembly.count("tilezero") == 4 and assembly.count("tileload") == (4 + 4) + (4 + 4 + 4)


def test_a_matmul_whose_rows_stay_in_the_cache_holds_its_sums_for_all_of_k():
    assembly = matmul_assembly(32, 64, 256, BFLOAT16)
    loop, last = runs(assembly)
    assert sorted(loop) == ["tdpbf16ps"] * 4 + ["tileloadd"] * 4 and last == ["tdpbf16ps"] * 4 + ["tilestored"] * 4
    assert assembly.count("tilestored") == 4 and assembly.count("tileloadd") == 4 + 4
    assert "vmovnt" not in assembly and "sfence" not in assembly


@pytest.mark.parametrize(("kind", "image", "filters", "pad_value"), [
    (BFLOAT16, (1, 2, 28, 28, 32), (4, 2, 3, 3, 16, 32, 2), 0),
    (Kind("uint8", "int8", "int32", 4), (1, 2, 28, 28, 64), (2, 2, 3, 3, 16, 64, 4), 3),
], ids=["bf16", "int8"])  # fmt: skip
def test_the_loop_of_a_convolution_loads_a_tile_once_for_two_products_and_spills_none(kind, image, filters, pad_value):
    data, kernel = te.placeholder(image, kind.lhs, name="data"), te.placeholder(filters, kind.rhs, name="kernel")
    out = conv2d_tiles.conv2d(data, kernel, 1, 1, 1, kind, pad_value)
    target = tvm.target.Target(AMX)
    assembly = tvm.build(schedule_for([out], target), [data, kernel, out], target).get_source("asm")
    # Two tiles of pixels, of two rows, and two of filters, each loaded before the first product that waits for it.
    (loop,) = runs(assembly)
    product = "tdpbf16ps" if kind is BFLOAT16 else "tdpbusd"
    assert [name == product for name in loop] == [False, False, True, False, True, False, True, True]
    # Sums are written once; a spill would be a store and a load more.
    assert assembly.count("tilestored") == 4 and assembly.count("tileloadd") == 4


def test_the_registers_are_asked_for_before_anything_else():
    """A function that has called the runtime by then: what it knows of it is not known in its first block."""
    data = te.placeholder((1, 2, 7, 7, 32), "bfloat16", name="data")
    kernel = te.placeholder((1, 2, 3, 3, 16, 4, 2), "bfloat16", name="kernel")
    out = conv2d_tiles.conv2d(data, kernel, 1, 1, 1, BFLOAT16)
    target = tvm.target.Target(AMX)
    text = tvm.build(schedule_for([out], target), [data, kernel, out], target).get_source("ll")
    body = next(part for part in text.split("\ndefine ")[1:] if "tileloadd64" in part)
    assert "i64 104" in body.split("br ")[0] and body.count("tilerelease()") >= 1


def test_a_process_without_the_registers_is_told_in_words():
    if platform.machine() == "x86_64" and not host_cpu.lacking(["amx-tile"]):
        assert _lib.lib.TVMBackendUseTiles(None) == 0
        return
    with pytest.raises(TVMError, match=r"tile registers \(AMX\).*-mattr=-amx-tile"):
        _lib.check(_lib.lib.TVMBackendUseTiles(None))
