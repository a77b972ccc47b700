"""Matmuls by dot products of bytes: rows that lie apart, blocks of rows, and exact results."""

import re

import numpy as np
import pytest

import tvm
from tests.quick_code import quick_code
from tvm import te
from tvm.topi.cpu import dot_products, matmul_dots
from tvm.topi.schedule.cpu import schedule_for

VNNI = "llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake -num-cores=1"
HAS_VNNI = tvm.target.Target("llvm").features.has_vnni


def scheduled(m, n, k, target):
    x = te.placeholder((m, k), "uint8", name="x")
    w = te.placeholder((n // 16, k // 16, 4, 16, 4), "int8", name="w")
    out = matmul_dots.products(matmul_dots.padded_lhs(x, k), w, (m, n), "product")
    dot_products.with_instruction(out, x, w, target, matmul_dots.PANEL)
    return schedule_for([out], target), [x, w, out]


def lowered(m, n, k):
    with tvm.target.Target(VNNI) as target:
        return str(tvm.lower(*scheduled(m, n, k, target)))


@pytest.mark.parametrize("m, k, stride", [(64, 2048, 2112), (96, 4096, 4160), (64, 2032, None), (63, 2048, None)])
def test_rows_of_a_register_tile_share_no_sets_of_the_cache(m, k, stride):
    text = lowered(m, 32, k)
    copies = re.findall(r"T_matmul_dots_lhs = T\.allocate\(\[(\d+)\]", text)
    assert [int(c) for c in copies] == ([m * stride] if stride else [])


@pytest.mark.parametrize("m, block", [(1024, 5), (2048, 9)])
def test_blocks_of_rows_are_even_and_end_with_the_rows(usual_machine, m, block):
    """An L2 cache of 1 MiB holds 18 register tiles of 14 rows: m is divided into the fewest blocks, and the register
    tiles that follow the whole ones are the single one that is cut off."""
    text = lowered(m, 32, 2048)
    tiles = -(-m // 14)
    assert f"in T.parallel({block})" in text and f"* {-(-tiles // block)}, " in text
    whole, cut = re.findall(r"for i0_inner_outer\w* in range\((.*)\):", text)
    blocks = np.arange(block)
    (name,) = set(re.findall(r"i0_outer\w*", whole + cut))

    def total(extent):
        return sum(eval(extent.replace("T.", ""), {"max": max, "min": min, name: int(b)}) for b in blocks)

    assert (total(whole), total(cut)) == (m // 14, 1)


@pytest.mark.skipif(not HAS_VNNI, reason="this CPU has no dot products of bytes")
@pytest.mark.parametrize("m, n, k", [(64, 48, 2048), (300, 32, 2048), (517, 16, 4096), (14, 32, 64), (1, 16, 16)])
def test_products_are_exact(m, n, k):
    rng = np.random.default_rng(m + n + k)
    x, w = rng.integers(0, 256, (m, k), "uint8"), rng.integers(-128, 128, (n, k)).astype("int8")
    packed = w.reshape(n // 16, 16, k // 16, 4, 4).transpose(0, 2, 3, 1, 4)
    with tvm.target.Target("llvm") as target, quick_code():
        schedule, arguments = scheduled(m, n, k, target)
        built = tvm.build(schedule, arguments, target)
    out = tvm.nd.empty((m, n), "int32")
    built(tvm.nd.array(x), tvm.nd.array(np.ascontiguousarray(packed)), out)
    np.testing.assert_array_equal(out.numpy(), x.astype("int64") @ w.T.astype("int64"))
