"""The tile of a matrix product: inside the registers, little thrown away, no store and no spill in the inner loop."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tvm import relay, te, topi
from tvm.relay.transform.cpu.pack_dense import pack_weight
from tvm.te.graph import post_order_ops
from tvm.topi import size_class
from tvm.topi.cpu import matmul, matmuls
from tvm.topi.cpu.machine import Machine
from tvm.topi.schedule import schedule_for
from tvm.topi.schedule.cpu import Planner

AVX512 = tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512 -num-cores=2")
AVX2 = tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=2")


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("m", [1, 2, 3, 5, 7, 13, 49, 64, 128, 197, 211, 1024])
@pytest.mark.parametrize("n", [1, 17, 64, 768, 1000])
def test_tiles_fit_the_registers_and_waste_little(target, m, n):
    machine = Machine(target)
    width = matmul.panel_width(m, n, machine, "float32")
    rows = matmul.row_tile(m, n, width, machine, "float32")
    vectors = width // machine.lanes("float32")
    assert rows * vectors + vectors + 1 <= machine.registers
    assert -(-m // rows) * rows <= m * 1.1 + 1


def dense(m, k, n, target):
    with target:
        machine = Machine(target)
        width = matmul.panel_width(m, n, machine, "float32")
        a, b = te.placeholder((m, k), name="a"), te.placeholder((-(-n // width), k, width), name="b")
        c = topi.nn.relu(topi.nn.dense_pack(a, b, units=n))
        return schedule_for([c], target), [a, b, c]


@pytest.mark.usual_code
@pytest.mark.parametrize("m, k, n", [(128, 768, 768), (197, 768, 3072), (1, 512, 1024), (49, 384, 384)])
def test_the_inner_loop_only_multiplies_and_loads(m, k, n):
    s, args = dense(m, k, n, AVX512)
    text = tvm.build(s, args, AVX512).get_source("asm")
    # The block that holds the products, from its label to the jump back.
    blocks = re.split(r"^\.L\w+:.*$", text, flags=re.M)
    body = max(blocks, key=lambda b: b.count("vfmadd"))
    body = body[: body.rindex("vfmadd")]
    body = body[body.index("vfmadd") :]
    assert body.count("vfmadd") >= 16
    stores = [line for line in body.splitlines() if re.search(r"mov\w+\s+%[xyz]mm\d+,\s*-?\d*\(", line)]
    assert not stores, stores


@pytest.mark.parametrize("target", [AVX512, AVX2], ids=["avx512", "avx2"])
@pytest.mark.parametrize("m, k, n", [(1, 768, 768), (16, 768, 768), (128, 3072, 768)])
def test_unrolled_bodies_are_short(m, k, n, target):
    s, args = dense(m, k, n, target)
    (op,) = (op for op in post_order_ops([args[-1].op]) if "dense_pack" in op.tag)
    config = matmul.TEMPLATE.choose(op, Machine(target))
    products = config["tile"][0] * config["tile"][1] * config["unroll"]
    assert 24 < products <= 48 or products < 48 and config["unroll"] == matmul.UNROLL


@pytest.mark.parametrize("m, k, n", [(128, 256, 768), (197, 3072, 768), (1024, 768, 96), (1, 4096, 1000)])
def test_the_space_holds_the_pick(m, k, n):
    with AVX512:
        a, b = te.placeholder((m, k), name="a"), te.placeholder((-(-n // 48), k, 48), name="b")
        op = topi.nn.dense_pack(a, b).op
        op = op if op.tag == "dense_pack" else op.input_tensors[0].op
    machine = Machine(AVX512)
    space, pick = matmul.TEMPLATE.space(op, machine), matmul.TEMPLATE.choose(op, machine)
    assert set(space) == set(pick) and all(pick[name] in space[name] for name in pick)


@pytest.mark.parametrize("shape, n", [((40, 3072), 50), ((2, 37, 2048), 48), ((300, 1000), 33), ((61, 4096), 16)])
def test_sums_in_parts_and_rows_in_parts_agree_with_numpy(shape, n):
    small = tvm.target.Target("llvm")
    machine = Machine(small)
    machine.l2_bytes = 1 << 18
    rng = np.random.default_rng(n)
    a = rng.standard_normal(shape).astype("float32")
    w = rng.standard_normal((n, shape[-1])).astype("float32")
    with small:
        panels = pack_weight(w, matmul.panel_width(shape[-2], n, machine, "float32"))
        x, y = te.placeholder(shape, name="x"), te.placeholder(panels.shape, name="y")
        z = topi.nn.relu(topi.nn.dense_pack(x, y, units=n))
        s = te.create_schedule(z.op)
        planner = Planner(s, machine)
        planner.run()
        assert any("rf" in stage.op.name for stage in s.stages) or shape[-2] > 256
        built = tvm.build(s, [x, y, z], small)
    got = tvm.nd.empty((*shape[:-1], n))
    built(tvm.nd.array(a), tvm.nd.array(panels), got)
    np.testing.assert_allclose(got.numpy(), np.maximum(a.astype("float64") @ w.T, 0), rtol=1e-4, atol=1e-3)


def product(target, batch, m, k, n, transpose_a, transpose_b, right=None):
    rng = np.random.default_rng(m * n + k)
    a = rng.standard_normal((batch, k, m) if transpose_a else (batch, m, k)).astype("float32")
    right = right or batch
    b = rng.standard_normal((right, n, k) if transpose_b else (right, k, n)).astype("float32")
    with target:
        x, y = te.placeholder(a.shape, name="a"), te.placeholder(b.shape, name="b")
        z = topi.nn.relu(topi.nn.batch_matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b))
        built = tvm.build(schedule_for([z], target), [x, y, z], target)
    left, other = (a.swapaxes(1, 2) if transpose_a else a), (b.swapaxes(1, 2) if transpose_b else b)
    want = np.maximum(left.astype("float64") @ other, 0)
    got = tvm.nd.empty(want.shape)
    built(tvm.nd.array(a), tvm.nd.array(b), got)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "batch, m, k, n",
    [(1, 1, 1, 1), (2, 4, 6, 48), (3, 5, 7, 11), (2, 13, 1, 17), (12, 19, 16, 32), (1, 40, 33, 97), (1, 64, 8, 256),
     (2, 3, 9, 31), (5, 37, 20, 16)],
)  # fmt: skip
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_of_two_tensors_agree_with_numpy(batch, m, k, n, transpose_b):
    product(tvm.target.Target("llvm"), batch, m, k, n, False, transpose_b)


def test_products_with_the_left_side_transposed_or_one_matrix_for_all():
    here = tvm.target.Target("llvm")
    product(here, 3, 9, 5, 17, True, False)
    product(here, 2, 8, 5, 16, True, True)
    product(here, 4, 9, 5, 20, False, False, right=1)
    product(here, 1, 9, 5, 20, False, True, right=4)


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("mcpu", ["haswell", "skylake-avx512"])
def test_a_single_row_of_unknown_sizes_reads_the_rhs_where_it_lies(mcpu, transpose_b):
    target = tvm.target.Target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={mcpu}")
    m, n = te.size_var("m", "int64"), te.size_var("n", "int64")
    a, b = te.placeholder((12, m, 64)), te.placeholder((12, n, 64) if transpose_b else (12, 64, n))
    with size_class.compiling(1) as choice:
        one = matmuls.batch_matmul(a, b, transpose_b=transpose_b, target=target)
    with size_class.compiling(0):
        many = matmuls.batch_matmul(a, b, transpose_b=transpose_b, target=target)
    wanted = "m < T.int64(2)" if transpose_b else "m < T.int64(2) and n >= T.int64(64)"
    assert [str(c) for c in choice.conditions] == [wanted]
    packs = [any(op.tag == "panels" for op in post_order_ops([out.op])) for out in (one, many)]
    assert packs == [False, True]


@pytest.mark.parametrize("arch, mcpu, width, few", [("aarch64", "neoverse-n1", 16, 1), ("x86_64", "haswell", 16, 2)])
def test_tiles_of_few_rows_have_no_class_for_blocks_of_sums(usual_machine, arch, mcpu, width, few):
    target = tvm.target.Target(f"llvm -mtriple={arch}-linux-gnu -mcpu={mcpu}")
    a, b = te.placeholder((te.size_var("m", "int64"), 1536)), te.placeholder((16, 1536, width))
    with size_class.compiling(0) as choice:
        matmuls.dense_pack(a, b, target=target)
    # A single row; few rows where tiles have more; and then those that need no blocks, where the caches hold them.
    assert choice.classes == 1 if few == 1 else choice.classes in (2, 3)


@pytest.mark.parametrize(
    "function, k, copies", [(topi.tanh, 128, 1), (lambda x: x + 1, 128, 2), (lambda x: x + 1, 768, 1)],
    ids=["tanh", "cheap", "deep"],
)  # fmt: skip
def test_tiles_are_repeated_for_the_last_rows_where_that_is_cheap_and_pays(function, k, copies):
    """Unknown rows: the last tile may not be full. A polynomial for each of its vectors is long, and beside long sums
    conditions on rows cost nothing."""
    a, b = te.placeholder((te.size_var("m", "int64"), k), name="a"), te.placeholder((24, k, 32), name="b")
    with size_class.compiling(0), AVX512:
        out = function(matmuls.dense_pack(a, b, target=AVX512))
        text = str(tvm.lower(schedule_for([out], AVX512), [a, b, out]))
    stores = [line for line in text.splitlines() if re.match(rf"\s+{out.op.name}\w*\[.*\] = ", line)]
    assert len(stores) == copies


@pytest.mark.parametrize("m", [1, 8])
@pytest.mark.parametrize("unknown", [(0,), (3,), (2,), (5,), (0, 5), (2, 3)])
def test_sizes_that_one_operand_alone_states(m, unknown, rng):
    """A size that one operand states and the other does not, as in ``(Any, 8, 4)`` times ``(2, 5, 4)``."""
    sizes = [relay.Any() if i in unknown else d for i, d in enumerate((2, m, 4, 2, 20, 4))]
    a, b = relay.var("a", shape=sizes[:3]), relay.var("b", shape=sizes[3:])
    exe = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([a, b], relay.nn.batch_matmul(a, b))), "llvm")
    vm = tvm.runtime.vm.VirtualMachine(exe, tvm.cpu())
    # A batch that is dynamic may be 1, which is broadcast.
    for batches in [(2, 2), *[(1, 2)] * (0 in unknown), *[(2, 1)] * (3 in unknown)]:
        x, y = (rng.normal(size=(n, *shape)).astype("float32") for n, shape in zip(batches, ((m, 4), (20, 4))))
        np.testing.assert_allclose(vm.invoke("main", x, y).numpy(), x @ y.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)
