"""SplitOddVectors: vectors of any number of lanes are computed in registers."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tvm
from tvm import te, tir

LANES = (3, 5, 6, 7, 12, 24, 48, 100)


def vectorized(out):
    schedule = te.create_schedule(out.op)
    schedule[out].vectorize(out.op.axis[-1])
    return schedule


def run(schedule, tensors, *inputs):
    out = tvm.nd.empty([int(d) for d in tensors[-1].shape], tensors[-1].dtype)
    tvm.build(schedule, tensors, "llvm")(*map(tvm.nd.array, inputs), out)
    return out.numpy()


def test_a_store_becomes_one_for_each_power_of_two():
    a = te.placeholder((4, 22), name="a")
    b = te.compute((4, 22), lambda i, j: a[i, j] * a[i, 0] + 1.0, name="b")
    mod = tvm.lower(vectorized(b), [a, b])
    body = str(tir.transform.SplitOddVectors()(mod)["main"].body)
    stores = re.findall(r"b\[i \* 22(?: \+ (\d+))?:.*\] = .*Broadcast\(a\[i \* 22\], (\d+)\)", body)
    assert stores == [("", "16"), ("16", "4"), ("20", "2")]
    # What is of a power of two stays as it is.
    c = te.compute((4, 16), lambda i, j: a[i, j] + 1.0, name="c")
    lowered = tvm.lower(vectorized(c), [a, c])
    assert tir.transform.SplitOddVectors()(lowered)["main"].body.same_as(lowered["main"].body)


@pytest.mark.parametrize("lanes", LANES)
def test_lanes_are_computed_as_without_vectors(lanes):
    rows = np.random.default_rng(lanes).random((3, lanes)).astype("float32") - 0.5
    a = te.placeholder((3, lanes), name="a")
    n = te.placeholder((3,), "int32", name="n")

    def element(i, j):
        chosen = tir.Select(a[i, j] > 0, te.exp(a[i, j]), tir.Cast("float32", j) / 2.0)
        return te.if_then_else(n[i] > 0, chosen, a[i, lanes - 1 - j])

    b = te.compute((3, lanes), element, name="b")
    got = run(vectorized(b), [a, n, b], rows, np.array([1, 0, 1], "int32"))
    wanted = np.where(rows > 0, np.exp(rows), np.arange(lanes) / 2)
    wanted[1] = rows[1, ::-1]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float64", "bool"])
def test_other_types(dtype):
    values = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, (2, 13)).astype(dtype)
    a = te.placeholder((2, 13), dtype, name="a")
    b = te.compute(
        (2, 13),
        lambda i, j: te.max(a[i, j].astype("int32") - 3, 0).astype(dtype) if dtype != "bool" else tir.Not(a[i, j]),
        name="b",
    )
    wanted = ~values if dtype == "bool" else np.maximum(values.astype("int32") - 3, 0).astype(dtype)
    np.testing.assert_array_equal(run(vectorized(b), [a, b], values), wanted)


@pytest.mark.usual_code
@pytest.mark.parametrize("lanes", [24, 48])
def test_sums_stay_in_registers(lanes):
    """LLVM would carry a sum of 48 lanes as 48 scalars from step to step."""
    a, b = te.placeholder((4, 64), name="a"), te.placeholder((64, lanes), name="b")
    k = te.reduce_axis((0, 64), name="k")
    c = te.compute((4, lanes), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="c")
    schedule = te.create_schedule(c.op)
    i, j = c.op.axis
    schedule[c].reorder(k, i, j)
    schedule[c].unroll(i)
    schedule[c].vectorize(j)
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512"
    text = tvm.build(schedule, [a, b, c], target).get_source("asm")
    assert text.count("vfmadd") == 4 * (-(-lanes // 16)) and not re.search(r"vinsert|vextract|vperm", text)
    x, y = (np.random.default_rng(1).random(shape).astype("float32") for shape in ((4, 64), (64, lanes)))
    np.testing.assert_allclose(run(schedule, [a, b, c], x, y), x @ y, rtol=1e-4)


def test_lanes_that_are_read_after_they_would_be_written_stay_together():
    """``m[j + 1] = m[j]`` of all lanes at once reads what was there before."""
    data = tir.decl_buffer((8,), "float32", name="m")
    zero, one = tvm.tir.const(0, "int32"), tvm.tir.const(1, "int32")
    store = tir.BufferStore(data, tir.BufferLoad(data, [tir.Ramp(zero, one, 7)]), [tir.Ramp(one, one, 7)])
    func = tir.PrimFunc([data.data], store, buffer_map={}).with_attr("global_symbol", "f")
    mod = tvm.IRModule({"f": func})
    assert tir.transform.SplitOddVectors()(mod)["f"].body.same_as(func.body)
