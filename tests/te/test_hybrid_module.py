"""Hybrid script: calls between scripts, constants, and schedules written out as scripts."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm import te
from tvm.error import DiagnosticError, TVMError
from tvm.te.hybrid import runtime

# ruff: noqa: F821


@te.hybrid.script
def outer(n, m, a, b):
    c = output_tensor((n, m), a.dtype)
    for i in range(n):
        for j in range(m):
            c[i, j] = a[i] * b[j]
    return c


@te.hybrid.script
def calls(a, b):
    for i in range(len(a)):
        a[i] = i + 1.0
    c = outer(4, 5, a, b)
    d = output_tensor(c.shape, c.dtype)
    for i in range(4):
        for j in range(5):
            d[i, j] = c[i, j] + i
    return d


@te.hybrid.script
def table_sum(a, table):
    width = len(table[0])
    c = output_tensor(a.shape, a.dtype)
    for i in range(a.shape[0]):
        for j in const_range(width):
            c[i] = c[i] + a[i] * table[1, j]
    return c


@te.hybrid.script
def nameless(a, b):
    d = output_tensor(a.shape, a.dtype)
    d[0] = outer(4, 5, a, b)[0, 0]
    return d


def run(s, args, *inputs):
    arrays = [tvm.nd.array(x) for x in inputs]
    arrays.append(tvm.nd.array(np.zeros([int(d) for d in args[-1].shape], args[-1].dtype)))
    tvm.build(s, args, "llvm")(*arrays)
    return [x.numpy() for x in arrays]


def test_a_script_calls_another_and_writes_its_input():
    a, b = te.placeholder((4,), name="a"), te.placeholder((5,), name="b")
    d = calls(a, b)
    x, y = np.zeros(4, "float32"), np.random.default_rng(0).random(5, dtype="float32")
    got = run(te.create_schedule(d.op), [a, b, d], x, y)
    np.testing.assert_array_equal(got[0], np.arange(1, 5))
    np.testing.assert_allclose(got[2], np.outer(np.arange(1, 5), y) + np.arange(4)[:, None], rtol=1e-6, atol=1e-6)


def test_the_result_of_another_script_needs_a_name():
    with pytest.raises(DiagnosticError, match="assign the output of another hybrid script to a name"):
        nameless(te.placeholder((4,)), te.placeholder((5,)))


def test_names_assigned_one_number_are_constants_and_tables_take_several_indices():
    a = te.placeholder((3,), name="a")
    table = [[0.0, 0.0], [2.0, 3.0]]
    c = table_sum(a, tvm.runtime.convert(table))
    x = np.arange(3, dtype="float32")
    np.testing.assert_allclose(run(te.create_schedule(c.op), [a, c], x)[1], x * 5, atol=1e-6)


def test_the_names_of_hybrid_script_are_listed_and_do_not_leak():
    assert {"allocate", "output_tensor", "const_range", "float32"} <= set(runtime.HYBRID_GLOBALS)
    outer(2, 2, np.ones(2), np.ones(2))
    assert "output_tensor" not in outer.__globals__


@pytest.mark.parametrize("how", ["plain", "split", "fused", "computed inside"])
def test_a_schedule_written_out_as_a_script_computes_the_same(how, tmp_path):
    n = te.var("n")
    a, b = te.placeholder((n, 6), name="a"), te.placeholder((6,), name="b")
    k = te.reduce_axis((0, 6), "k")
    c = te.compute((n,), lambda i: te.max(te.exp(a[i, k]) * b[k], axis=k), name="c")
    d = te.compute((n,), lambda i: tvm.tir.Select(c[i] > 1.5, c[i], -c[i]), name="d")
    s = te.create_schedule(d.op)
    if how == "split":
        outer_loop, inner = s[c].split(c.op.axis[0], factor=4)
        s[c].reorder(outer_loop, k, inner)
    elif how == "fused":
        s[c].fuse(c.op.axis[0], k)
    elif how == "computed inside":
        outer_loop, inner = s[d].split(d.op.axis[0], nparts=2)
        s[c].compute_at(s[d], outer_loop)
        s[d].vectorize(s[d].split(inner, factor=2)[1])
    module = te.hybrid.build(s, [a, b], [d], name="written")
    module.save(str(tmp_path / "written.py"))
    again = te.hybrid.HybridModule()
    again.load(str(tmp_path / "written.py"))
    assert again.name == "written" and again.get_source() == module.get_source()
    rng = np.random.default_rng(0)
    x, y = rng.random((9, 6), dtype="float32"), rng.random(6, dtype="float32")
    want = (np.exp(x) * y).max(1)
    want = np.where(want > 1.5, want, -want)
    np.testing.assert_allclose(again(x, y), want, rtol=1e-5, atol=1e-5)
    made = again(a, b)
    out = tvm.nd.array(np.zeros(9, "float32"))
    tvm.build(te.create_schedule(made.op), [a, b, made], "llvm")(tvm.nd.array(x), tvm.nd.array(y), out)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-5, atol=1e-5)


def test_an_empty_module_says_so():
    with pytest.raises(TVMError, match="empty: load a script first"):
        te.hybrid.HybridModule()(1)
    with pytest.raises(TVMError, match="a hybrid module must contain exactly one function; the text has 2"):
        te.hybrid.HybridModule("def f(): pass\ndef g(): pass\n")
