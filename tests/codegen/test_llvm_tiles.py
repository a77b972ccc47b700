"""Fragments of matrices as tile registers: their numbers and sizes, what is refused, and the code."""

import platform
import re

import numpy as np
import pytest

import tvm
from tests.tile_emulator import emulated, registers
from tvm import te, tir
from tvm.error import TVMError
from tvm.runtime import _lib, host_cpu
from tvm.topi.cpu import conv2d_tiles, matmul_tiles, tiles
from tvm.topi.cpu.machine import Machine
from tvm.topi.cpu.tiles import BFLOAT16, Kind
from tvm.topi.schedule.cpu import schedule_for

AMX = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids"


def matmul(m, n, k, block=(2, 2), kind=BFLOAT16):
    """A schedule written by hand, with the public intrinsic."""
    depth, step, (tall, wide) = kind.depth, kind.k, block
    shape = tiles.Shape(16, 16, 1, step, kind)
    a = te.placeholder((m, k), kind.lhs, name="a")
    b = te.placeholder((n // (16 * wide), k // step, step // depth, 16 * wide, depth), kind.rhs, name="b")
    sizes = {"outer": k // step, "group": step // depth, "inner": depth}
    outer, group, inner = axes = [te.reduce_axis((0, size), name=name) for name, size in sizes.items()]

    def body(j, t, i, jj):
        x = a[t * 16 + i, outer * step + group * depth + inner].astype(kind.sums)
        return te.sum(x * b[j, outer, group, jj, inner].astype(kind.sums), axis=axes)

    c = te.compute((n // (16 * wide), m // 16, 16, 16 * wide), body, name="c")
    s = te.create_schedule(c.op)
    j, t, i, jj = c.op.axis
    t_outer, t = s[c].split(t, tall)
    s[c].reorder(j, t_outer, t, i, jj, *axes)
    s[c].tensorize(t, tiles.block_product(tiles.Block(shape, tall, wide, k // step, k // step)))
    return s, [a, b, c]


@pytest.mark.parametrize(
    "kind",
    [
        BFLOAT16,
        Kind("int8", "int8", "int32", 4),
        Kind("uint8", "int8", "int32", 4),
        Kind("int8", "uint8", "int32", 4),
        Kind("uint8", "uint8", "int32", 4),
    ],
    ids=lambda kind: f"{kind.lhs}-{kind.rhs}",
)
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
        packed = x, y.reshape(n // 32, 32, 3, kind.k // kind.depth, kind.depth).transpose(0, 2, 3, 1, 4)
        given = [tvm.nd.empty(p.shape, d).copyfrom(np.ascontiguousarray(p)) for p, d in zip(packed, kind)]
        out = tvm.nd.empty((n // 32, m // 16, 16, 32), kind.sums)
        built(*given, out)
    got = out.numpy().transpose(1, 2, 0, 3).reshape(m, n)
    np.testing.assert_array_equal(got, x.astype("int64") @ y.astype("int64").T)


def test_more_fragments_than_registers_are_refused():
    s, arguments = matmul(96, 64, 64, block=(3, 2))
    with pytest.raises(TVMError, match=r"11 tile registers are needed .* there are only 8"):
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
    ib = tvm.tir.ir_builder.create()
    data = tiles._fragments(ib, "float32", 4 * 256, "sums")
    with ib.for_range(0, 4) as i:
        ib.emit(tiles._call("tvm_fill_fragment", data, 16, 16, 32, i, tvm.tir.const(0, "float32")))
    function = tvm.tir.PrimFunc([], ib.get()).with_attr("global_symbol", "f")
    with pytest.raises(TVMError, match="unroll the loops over fragments"):
        tvm.build(tvm.IRModule({"f": function}), target=AMX)


def test_a_target_without_tiles_is_told():
    s, arguments = matmul(64, 32, 64)
    with pytest.raises(TVMError, match=r"lacks amx-tile"):
        tvm.build(s, arguments, "llvm -mtriple=x86_64-linux-gnu -mcpu=icelake-server")


def runs(assembly: str) -> list[list[str]]:
    """The tile instructions of each stretch of code without jumps that multiplies."""
    parts = re.split(r"^\.L\w+:|^\s+j\w+\s.*$", assembly, flags=re.MULTILINE)
    return [re.findall(r"^\s+(tile\w+|tdp\w+)", part, flags=re.MULTILINE) for part in parts if "tdpb" in part]


@pytest.fixture
def caches(monkeypatch):
    """Those of a Sapphire Rapids core, whatever this machine has."""
    own = Machine.__init__

    def init(self, target):
        own(self, target)
        self.l1_bytes, self.l2_bytes = 48 << 10, 2 << 20

    monkeypatch.setattr(Machine, "__init__", init)


def matmul_assembly(m, n, k, kind, result=None):
    """What is compiled for a dense layer."""
    data = te.placeholder((m, k), kind.lhs, name="data")
    panels = te.placeholder((n // 32, k // kind.k, 16, 32, kind.depth), kind.rhs, name="panels")
    out = matmul_tiles.products(data, panels, n, kind)
    if result:
        sums = out
        out = te.compute(sums.shape, lambda i, j: sums[i, j].astype(result), name="narrow", tag="elemwise")
    target = tvm.target.Target(AMX + " -num-cores=1")
    return tvm.build(schedule_for([out], target), [data, panels, out], target).get_source("asm")


@pytest.mark.parametrize("kind, phases", [
    # Register blocks finish sums of the panel before, of the first part of k, of parts between, and of the last part.
    (BFLOAT16, 4), (Kind("uint8", "int8", "int32", 4), 3),
], ids=["bf16", "int8"])  # fmt: skip
def test_the_loop_of_a_matmul_loads_each_tile_once_for_two_products_and_spills_none(kind, phases, caches):
    assembly = matmul_assembly(2048, 2048, 2048, kind)
    product = "tdpbf16ps" if kind is BFLOAT16 else "tdpbusd"
    # Rows come from the L2 cache and leave the part of the panel in the L1 cache.
    step = [product] * 2 + ["tileloaddt1", product, "tileloadd", product, "tileloadd", "tileloaddt1"]
    swap = ["tilestored", "tilezero", product]
    first = [*swap, *swap, "tileloaddt1", *swap, "tileloadd", *swap, "tileloadd", "tileloaddt1", *step]
    # The first step stores the sums of the block before, and the last one loads the operands of the one that follows.
    found = runs(assembly)
    assert all(run in (first, step) for run in found) and found.count(first) == phases and len(found) >= 3 * phases
    # Sums begin as zero once more before the first panel, and are stored once more behind the last.
    assert assembly.count("tilestored") == assembly.count("tilezero") == 4 * (phases + 1)
    assert assembly.count("tileload") == 4 + 4 * (len(found) + phases)
    # What passes by the caches is waited for once, where the function is left.
    assert "vmovnt" in assembly and 0 < assembly.count("sfence") <= assembly.count("tilerelease")


def test_the_vectors_of_a_step_finish_two_rows_of_the_block_before(caches):
    assembly = matmul_assembly(2048, 2048, 2048, BFLOAT16, "bfloat16")
    parts = re.split(r"^\.L\w+:|^\s+j\w+\s.*$", assembly, flags=re.MULTILINE)
    steps = [part for part in parts if part.count("tdpbf16ps") == 4 and "vmovaps" in part]
    # Rows of the first part of k are copied, those of parts between are added to sums in memory. With the last part
    # they are rounded where they are added up: that of the register block before, and of the panel before.
    copies, adds, *finals = steps
    assert copies.count("vmovaps") == adds.count("vmovaps") == 2 * 4
    assert "vadd" not in copies and adds.count("vaddps") == 4 and "vcvt" not in copies + adds
    assert finals and all(part.count("vaddps") == part.count("vcvtneps2bf16") == 4 for part in finals)
    # The next panel is fetched by as many prefetches in each step.
    assert all(part.count("prefetcht1") == 2 for part in steps)


def test_results_of_bfloat16_pass_by_the_caches(caches):
    """Whole lines of them, as sums do; halves of lines do not."""
    bytes_ = Kind("uint8", "int8", "int32", 4)
    assembly = matmul_assembly(2048, 2048, 2048, BFLOAT16, "bfloat16")
    assert "vmovnt" in assembly and "sfence" in assembly
    assert "vmovnt" not in matmul_assembly(2048, 2048, 2048, bytes_, "uint8")


def test_a_matmul_of_few_rows_holds_its_sums_for_all_of_k(caches):
    assembly = matmul_assembly(32, 64, 2048, BFLOAT16)
    near, far, last = runs(assembly)
    # The begin of the panel stays in the L1 cache with the rows, and the rest of it passes by.
    for loop, panel in ((near, "tileloadd"), (far, "tileloaddt1")):
        assert loop == ["tdpbf16ps"] * 2 + ["tileloadd", "tdpbf16ps", panel, "tdpbf16ps", panel, "tileloadd"]
    # Sums are written once, each while the products of others are computed.
    assert last == ["tdpbf16ps", "tilestored"] * 4
    assert assembly.count("tilezero") == 4 and assembly.count("tileload") == 4 + 4 + 4
    assert "vmovnt" not in assembly and "sfence" not in assembly


@pytest.mark.parametrize(("kind", "image", "filters", "pad_value"), [
    (BFLOAT16, (1, 4, 28, 28, 32), (4, 4, 3, 3, 16, 32, 2), 0),
    (Kind("uint8", "int8", "int32", 4), (1, 4, 28, 28, 64), (2, 4, 3, 3, 16, 64, 4), 3),
], ids=["bf16", "int8"])  # fmt: skip
def test_the_loop_of_a_convolution_loads_a_tile_once_for_two_products_and_spills_none(kind, image, filters, pad_value):
    data, kernel = te.placeholder(image, kind.lhs, name="data"), te.placeholder(filters, kind.rhs, name="kernel")
    out = conv2d_tiles.conv2d(data, kernel, 1, 1, 1, kind, pad_value)
    target = tvm.target.Target(AMX)
    assembly = tvm.build(schedule_for([out], target), [data, kernel, out], target).get_source("asm")
    product = "tdpbf16ps" if kind is BFLOAT16 else "tdpbusd"
    # Two tiles of pixels, of two rows, and two of filters, each loaded for the next step behind the last product that
    # reads it. The steps over a window are a round of the loop over blocks of channels.
    step = [product] * 2 + ["tileloadd", product, "tileloaddt1", product, "tileloaddt1", "tileloadd"]
    loop, last = runs(assembly)
    assert loop == 9 * step and last == 8 * step + [product, "tilestored"] * 4
    # Sums are written once; a spill would be a store and a load more.
    assert assembly.count("tilestored") == 4 and assembly.count("tileload") == 4 + 9 * 4 + 8 * 4


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


@pytest.mark.parametrize("is_used", [True, False])
def test_fragments_that_nothing_uses_have_no_register(is_used):
    """The branch that partitioned loops never take leaves buffers behind, around those of the other."""

    def body(_, outs):
        ib = tir.ir_builder.create()
        for number in range(10):
            ib.allocate("float32", 256, name=f"sums{number}", scope="wmma.accumulator")
        sums = ib.allocate("float32", 256, name="sums", scope="wmma.accumulator")
        zero = tir.const(0, "float32")
        if is_used:
            ib.emit(tir.call_intrin("handle", "tir.tvm_fill_fragment", sums._buffer.data, 16, 16, 32, 0, zero))
            ib.emit(tir.call_intrin("handle", "tir.tvm_store_matrix_sync", sums._buffer.data, 16, 16, 32, 0,
                                    outs[0].access_ptr("w"), 16, "row_major"))  # fmt: skip
        else:
            ib.emit(outs[0].vstore([0, 0], zero))
        return ib.get()

    out = te.extern((16, 16), [], body, dtype="float32", name="out")
    result = tvm.nd.array(np.ones((16, 16), "float32"))
    with registers():
        built = tvm.build(te.create_schedule(out.op), [out], "llvm")
        built(result)
    assert ("emulated_ldtilecfg" in built.get_source("ll")) is is_used
    np.testing.assert_array_equal(result.numpy() == 0, np.arange(256).reshape(16, 16) < (256 if is_used else 1))
