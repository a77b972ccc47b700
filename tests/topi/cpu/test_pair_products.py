"""Products of pairs (``smmla``, ``bfmmla``): right under an emulator, in registers, refused where there are none."""

import ml_dtypes
import numpy as np
import pytest

import tvm
from tests.topi.cpu.pair_emulation import session
from tvm import te
from tvm.topi.cpu import pair_products

TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-v1"
NAMES = [i.name.rpartition(".")[2] for i in pair_products.INSTRUCTIONS]
TYPES = {"bfloat16": ml_dtypes.bfloat16}


def matmul(row, m, n, blocks, steps, tile):
    """A matmul of packed operands (blocks, steps, m, depth) by register tiles; k is summed over blocks and steps."""
    lhs = te.placeholder((blocks, steps, m, row.depth), row.lhs, name="lhs")
    rhs = te.placeholder((blocks, steps, n, row.depth), row.rhs, name="rhs")
    axes = [te.reduce_axis((0, size), name=name) for size, name in ((blocks, "b"), (steps, "s"), (row.depth, "d"))]
    b, s, d = axes
    term = lambda i, j: te.sum(lhs[b, s, i, d].astype(row.sums) * rhs[b, s, j, d].astype(row.sums), axis=axes)
    out = te.compute((m, n), term, name="out")
    schedule = te.create_schedule(out.op)
    io, jo, i, j = schedule[out].tile(out.op.axis[0], out.op.axis[1], *tile)
    schedule[out].reorder(io, jo, b, i, j, s, d)
    schedule[out].tensorize(i, pair_products.multiply(row, *tile, steps))
    return schedule, [lhs, rhs, out]


def operands(row, m, n, blocks, steps):
    rng = np.random.default_rng(m + n)
    shapes = (blocks, steps, m, row.depth), (blocks, steps, n, row.depth)
    found = []
    for shape, dtype in zip(shapes, (row.lhs, row.rhs)):
        low, high = {"int8": (-128, 128), "uint8": (0, 256)}.get(dtype, (-8, 9))
        array = rng.integers(low, high, shape)
        array.flat[0], array.flat[-1] = low, high - 1
        found.append(array.astype(TYPES.get(dtype, dtype)))
    return found


@pytest.fixture(scope="module")
def machine():
    with session() as remote:
        yield remote


@pytest.mark.parametrize("row", pair_products.INSTRUCTIONS, ids=NAMES)
def test_products_are_exact(row, machine, tmp_path):
    m, n, blocks, steps = 12, 8, 3, 5
    schedule, args = matmul(row, m, n, blocks, steps, (4, 8))
    built = tvm.build(schedule, args, TARGET, name="matmul")
    built.export_library(str(tmp_path / "pairs.so"))
    machine.upload(str(tmp_path / "pairs.so"))
    function, device = machine.load_module("pairs.so"), machine.cpu()
    x, y = operands(row, m, n, blocks, steps)
    out = tvm.nd.empty((m, n), row.sums, device)
    function(tvm.nd.array(x, device), tvm.nd.array(y, device), out)
    wide = "float64" if row.sums == "float32" else "int64"
    want = np.einsum("bsid,bsjd->ij", x.astype(wide), y.astype(wide))
    np.testing.assert_array_equal(out.numpy(), want)


@pytest.mark.usual_code
@pytest.mark.parametrize("row", pair_products.INSTRUCTIONS, ids=NAMES)
def test_a_register_tile_is_loaded_once_and_not_spilled(row):
    schedule, args = matmul(row, 64, 64, 4, 16, (8, 8))
    text = tvm.build(schedule, args, TARGET, name="matmul").get_source("asm")
    name = row.name.rpartition(".")[2]
    loop = max(text.split("\n.L"), key=lambda part: part.count(f"\t{name}\t"))
    products = loop.count(f"\t{name}\t")
    loads = loop.count("\tldr\tq") + 2 * loop.count("\tldp\tq")
    # Four vectors of each operand for sixteen products.
    assert products and products % 16 == 0 and loads * 2 == products
    assert "[sp" not in loop


@pytest.mark.parametrize("cpu, wanted", [
    ("neoverse-v1", {"smmla", "ummla", "usmmla", "bfmmla"}), ("neoverse-n1", set()), ("cortex-a72", set()),
])  # fmt: skip
def test_a_target_has_those_of_its_features(cpu, wanted):
    target = tvm.target.Target(f"llvm -mtriple=aarch64-linux-gnu -mcpu={cpu}")
    found = {pair_products.pair_product(target, i.lhs, i.rhs) for i in pair_products.INSTRUCTIONS} - {None}
    assert {i.name.rpartition(".")[2] for i in found} == wanted
    assert pair_products.pair_product(target, "int8", "uint8") is None
    assert pair_products.pair_product(tvm.target.Target("llvm -mtriple=x86_64-linux-gnu"), "int8", "int8") is None


def test_odd_rows_and_columns_are_refused():
    for m, n in ((3, 2), (2, 5), (0, 2)):
        with pytest.raises(ValueError, match=f"rows and columns must come in pairs, got {m} and {n}"):
            pair_products.multiply(pair_products.INSTRUCTIONS[0], m, n, 1)


def test_operands_that_do_not_fit_the_intrinsics_are_refused():
    row = pair_products.INSTRUCTIONS[0]
    with pytest.raises(ValueError, match="columns must come in pairs and words of k in one or two, got 3 and 1"):
        pair_products.multiply_rows(row, 4, 3, 1, 1)
    with pytest.raises(ValueError, match="columns must come in pairs and words of k in one or two, got 4 and 3"):
        pair_products.multiply_rows(row, 4, 4, 1, 3)
    window = pair_products.Window((3, 3), (1, 1), (1, 1))
    with pytest.raises(ValueError, match="columns must come in pairs and words of k in one or two, got 5 and 1"):
        pair_products.convolve(row, (1, 2), 5, 1, 1, window)
