"""NaN goes through maxima and minima: reductions, pools, single elements; on every path to a result."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tvm
from tvm import relay, te, topi
from tvm.contrib import graph_executor

TYPES = {"float32": "float32", "float64": "float64", "float16": "float16", "bfloat16": ml_dtypes.bfloat16}
BUILDS = {
    "max": (lambda x: relay.max(x, 3), lambda v: v.max(3)),
    "min": (lambda x: relay.min(x, 3), lambda v: v.min(3)),
    "max of all": (lambda x: relay.max(x), lambda v: v.max()),
    "max of the middle": (lambda x: relay.max(x, (1, 2)), lambda v: v.max((1, 2))),
    "max_pool2d": (lambda x: relay.nn.max_pool2d(x, 2, 2), lambda v: v.reshape(2, 3, 2, 2, 4, 2).max((3, 5))),
    "global_max_pool2d": (relay.nn.global_max_pool2d, lambda v: v.max((2, 3), keepdims=True)),
    "adaptive_max_pool2d": (
        lambda x: relay.nn.adaptive_max_pool2d(x, (2, 4)), lambda v: v.reshape(2, 3, 2, 2, 4, 2).max((3, 5))
    ),
    "maximum": (lambda x: relay.maximum(x, relay.reverse(x, 3)), lambda v: np.maximum(v, v[..., ::-1])),
    "minimum": (lambda x: relay.minimum(relay.reverse(x, 3), x), lambda v: np.minimum(v, v[..., ::-1])),
    "relu": (relay.nn.relu, lambda v: np.maximum(v, 0)),
    "clip": (lambda x: relay.clip(x, -1, 1), lambda v: np.clip(v, -1, 1)),
}  # fmt: skip


def _data(rng, dtype):
    x = rng.standard_normal((2, 3, 4, 8))
    # A NaN at every place of some window, row and lane; a row of them, and one of minus infinity.
    x[rng.random(x.shape) < 0.15] = np.nan
    x[0, 0] = -np.inf
    x[1, 1, 2] = np.nan
    return x.astype(TYPES[dtype])


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("dtype", TYPES)
def test_graphs_pass_nan_on(dtype, level, rng):
    x = _data(rng, dtype)
    own = relay.var("x", shape=x.shape, dtype=dtype)
    known = relay.const(tvm.nd.array(x))
    fields = [build(v) for v in (own, known) for build, _ in BUILDS.values()]
    with tvm.transform.PassContext(opt_level=level):
        lib = relay.build(tvm.IRModule.from_expr(relay.Function([own], relay.Tuple(fields))), "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.set_input("x", tvm.nd.array(x))
    module.run()
    wide = x.astype("float64")
    for i, (name, (_, want)) in enumerate([*BUILDS.items()] * 2):
        got = module.get_output(i).numpy().astype("float64")
        way = "folded" if i >= len(BUILDS) else "run"
        np.testing.assert_array_equal(got, want(wide), err_msg=f"{name} of {dtype}, {way}")


@pytest.mark.parametrize("schedule", ["plain", "lanes", "rfactor"])
@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("reduce", [te.max, te.min])
def test_schedules_of_te_max_pass_nan_on(reduce, target, schedule, rng):
    x = rng.standard_normal((6, 32)).astype("float32")
    for row, place in enumerate((0, 1, 7, 8, 31)):
        x[row, place] = np.nan
    a = te.placeholder(x.shape, "float32", name="A")
    k = te.reduce_axis((0, 32), "k")
    b = te.compute((6,), lambda i: reduce(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    if schedule == "rfactor":
        s.rfactor(b, s[b].split(k, 8)[1])
    elif schedule == "lanes":
        s[b].reorder(k, b.op.axis[0])
        s[b].vectorize(s[b].split(b.op.axis[0], 2)[1])
    out = tvm.nd.array(np.zeros(6, "float32"))
    tvm.build(s, [a, b], target)(tvm.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), x.max(1) if reduce is te.max else x.min(1))


def test_the_maximum_of_nothing_is_below_all():
    x = np.full((1, 1, 4, 4), -np.inf, "float32")
    own = relay.var("x", shape=x.shape)
    lib = relay.build(tvm.IRModule.from_expr(relay.Function([own], relay.nn.max_pool2d(own, 3, 1, padding=1))), "llvm")
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(x=x)
    assert np.isneginf(module.get_output(0).numpy()).all()


@pytest.mark.parametrize("text", ["cuda", "opencl"])
def test_code_for_gpus_passes_nan_on(text):
    target = tvm.target.Target(text)
    with target:
        a = te.placeholder((4, 64), "float32", name="A")
        b = topi.max(a, 1)
        s = topi.schedule.schedule_for([b], target)
        built = tvm.build(s, [a, b], target)
    assert "a > b || a != a ? a : b" in built.imported_modules[0].get_source()


@pytest.mark.parametrize("value", [float("nan"), 2.0])
def test_literals_are_compared_as_the_program_compares(value):
    got = [tvm.te.max(tvm.tir.const(x, "float32"), tvm.tir.const(y, "float32")).value
           for x, y in ((value, 1.0), (1.0, value))]  # fmt: skip
    np.testing.assert_array_equal(got, np.maximum(value, 1.0))


def test_pools_are_reductions_by_te_max():
    x = te.placeholder((1, 1, 4, 4), name="x")
    pool = topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max")
    k = te.reduce_axis((0, 4), "k")
    own = te.compute((4,), lambda i: te.max(x[0, 0, i, k], axis=k))
    assert tvm.ir.structural_equal(pool.op.body[0].combiner, own.op.body[0].combiner)


@pytest.mark.usual_code
@pytest.mark.parametrize("cpu, triple, wanted", [
    ("skylake-avx512", "x86_64-unknown-linux-gnu", "vmaxps"),
    ("haswell", "x86_64-unknown-linux-gnu", "vmaxps"),
    ("neoverse-n1", "aarch64-unknown-linux-gnu", "fmax"),
])  # fmt: skip
def test_a_known_operand_costs_one_instruction(cpu, triple, wanted):
    a = te.placeholder((64,), "float32", name="A")
    b = te.compute((64,), lambda i: te.max(a[i], tvm.tir.const(0, "float32")), name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(s[b].split(b.op.axis[0], 4)[1])
    text = tvm.build(s, [a, b], tvm.target.Target(f"llvm -mtriple={triple} -mcpu={cpu}")).get_source("asm")
    assert wanted in text and "unord" not in text and "blendv" not in text
