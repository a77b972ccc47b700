"""What a compiled function takes: sizes known at the call, repeated dimensions, traced values."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import TVMError


def added(rows_of_a, rows_of_b, rows_of_c):
    a = te.placeholder((rows_of_a, te.var("columns_of_a")), name="A")
    b = te.placeholder((rows_of_b, te.var("columns_of_b")), name="B")
    c = te.compute((rows_of_c, te.var("columns")), lambda i, j: a[i, j] + b[i, j], name="C")
    return tvm.build(te.create_schedule(c.op), [a, b, c], "llvm")


@pytest.mark.parametrize("first", [(1, 4), (2, 1), (1, 1), (2, 4)])
def test_dimensions_of_unrelated_sizes_repeat_when_they_are_one(first):
    f = added(te.var("m"), te.var("n"), te.var("o"))
    rng = np.random.default_rng(0)
    x, y = rng.random(first, dtype="float32"), rng.random((2, 4), dtype="float32")
    out = tvm.nd.array(np.zeros((2, 4), "float32"))
    f(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), x + y, atol=1e-6)


def test_dimensions_of_one_size_must_agree_and_stay_dense():
    n = te.var("n")
    a, b = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    c = te.compute((n - 1,), lambda i: a[i] + b[i + 1], name="C")
    s = te.create_schedule(c.op)
    assert "stride" not in str(tvm.lower(s, [a, b, c]))
    f = tvm.build(s, [a, b, c], "llvm")
    out = tvm.nd.array(np.zeros(3, "float32"))
    with pytest.raises(TVMError, match=r"shape\[0\]"):
        f(tvm.nd.array(np.zeros(4, "float32")), tvm.nd.array(np.zeros(1, "float32")), out)


def traced(dtype, action, target):
    a = te.placeholder((4,), name="A", dtype=dtype)
    b = te.compute((4,), lambda i: tvm.tir.trace([i, a[i]], action), name="B")
    out = tvm.nd.array(np.zeros(4, dtype))
    tvm.build(te.create_schedule(b.op), [a, b], target)(tvm.nd.array(np.arange(4).astype(dtype)), out)
    return out.numpy()


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_a_traced_value_is_kept_or_replaced_by_what_the_action_returns(dtype, target):
    seen = []
    tvm.register_func("test.trace.look", lambda i, v: seen.append((i, v)), override=True)
    tvm.register_func("test.trace.change", lambda i, v: v + 10, override=True)
    np.testing.assert_array_equal(traced(dtype, "test.trace.look", target), np.arange(4))
    assert seen == [(i, i) for i in range(4)]
    np.testing.assert_array_equal(traced(dtype, "test.trace.change", target), np.arange(4) + 10)


def test_the_default_action_prints(capfd):
    np.testing.assert_array_equal(traced("int32", "tvm.default_trace_action", "llvm"), np.arange(4))
    assert "[2, 2]" in capfd.readouterr().out
