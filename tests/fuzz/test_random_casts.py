"""Casts of any float to any integer type: cut, kept within the range, zero for NaN, on every path to a result."""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np
import pytest

import tvm
from tvm import relay, te
from tvm.contrib import graph_executor

CASES = int(os.environ.get("TVM_FUZZ_CASES", "500"))
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64", "float16", "bfloat16"]


def numbers(rng, dtype: str):
    """Floats around the ends of every range, infinities, NaN, and any bits."""
    ends = [s * (2.0**n) for n in (0, 7, 8, 15, 16, 31, 32, 63, 64) for s in (-1, 1)]
    near = [e * f for e in ends for f in (1.0, 0.999, 1.001)] + [e + d for e in ends for d in (-1, -0.5, 0.5, 1)]
    fixed = [0.0, -0.0, np.nan, np.inf, -np.inf, 300.0, -300.5, 1e30, -1e30, *near]
    size = np.dtype(dtype if dtype != "bfloat16" else ml_dtypes.bfloat16)
    with np.errstate(all="ignore"):
        fixed = np.array(fixed).astype(size)
        bits = rng.integers(0, 256, CASES * size.itemsize, "uint8").view(size)
        mild = (rng.standard_normal(CASES) * 2.0 ** rng.integers(0, 70, CASES)).astype(size)
    return np.concatenate([fixed, bits, mild])


def wanted(x, dtype: str):
    kind = np.iinfo(dtype)
    with np.errstate(all="ignore"):
        values = x.astype("float64").tolist()
    exact = [0 if v != v else kind.max if v >= kind.max else kind.min if v <= kind.min else int(v) for v in values]
    return np.array(exact, dtype)


@pytest.mark.parametrize("source", FLOATS)
def test_compiled_and_folded_casts_agree(source, rng):
    x = numbers(rng, source)
    own, known = relay.var("x", shape=x.shape, dtype=source), relay.const(tvm.nd.array(x))
    fields = [relay.cast(v, dtype) for v in (own, known) for dtype in INTEGERS]
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([own], relay.Tuple(fields))), "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("x", tvm.nd.array(x))
    module.run()
    for i, dtype in enumerate(INTEGERS * 2):
        way = "compiled" if i < len(INTEGERS) else "folded"
        np.testing.assert_array_equal(module.get_output(i).numpy(), wanted(x, dtype), err_msg=f"{dtype}, {way}")


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("source", ["float32", "float64", "float16"])
def test_lanes_and_c_give_the_same(source, target, lanes, rng):
    x = np.resize(numbers(rng, source), 1024)
    a = te.placeholder((1024,), source, name="A")
    outs = [te.compute((1024,), lambda i, d=dtype: a[i].astype(d), name=f"to_{dtype}") for dtype in INTEGERS]
    s = te.create_schedule([o.op for o in outs])
    for o in outs:
        if lanes > 1:
            s[o].vectorize(s[o].split(o.op.axis[0], lanes)[1])
    built = tvm.build(s, [a, *outs], target)
    got = [tvm.nd.array(np.zeros(1024, dtype)) for dtype in INTEGERS]
    built(tvm.nd.array(x), *got)
    for g, dtype in zip(got, INTEGERS):
        np.testing.assert_array_equal(g.numpy(), wanted(x, dtype), err_msg=dtype)


def test_literals_are_cast_as_the_program_casts():
    for value in (300.7, -300.0, 1e30, float("nan"), float("-inf"), 127.9, -128.9, -0.5):
        for dtype in INTEGERS:
            assert tvm.tir.const(value, "float64").astype(dtype).value == int(wanted(np.array([value]), dtype)[0])


@pytest.mark.usual_code
@pytest.mark.parametrize("cpu", ["skylake-avx512", "haswell"])
def test_code_for_other_machines_converts_whole_vectors(cpu):
    a = te.placeholder((64,), "float32", name="A")
    b = te.compute((64,), lambda i: a[i].astype("int32"), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], 16)[1])
    target = tvm.target.Target(f"llvm -mtriple=x86_64-unknown-linux-gnu -mcpu={cpu}")
    text = tvm.build(s, [a, b], target).get_source("asm")
    assert "vcvttps2dq" in text and "vcvttss2si" not in text
