"""Reductions: axes bound what is reduced, and unused components of a combiner go."""

from __future__ import annotations

import tvm
from tvm import te, tir
from tvm.arith import Analyzer, ConstIntBound


def same(a, b) -> bool:
    return tvm.ir.structural_equal(a, b)


def test_the_ranges_of_axes_are_used():
    k = te.reduce_axis((0, 10), name="k")
    j = te.reduce_axis((-5, 3), name="j")
    an = Analyzer()
    got = an.canonical_simplify(te.sum(tir.Select(k.var + j.var < 12, k.var + j.var, 0), [k, j]))
    assert same(got, te.sum(k.var + j.var, [k, j]))
    assert got.axis[0] is k and got.axis[1] is j


def test_a_reduction_over_nothing_is_its_value():
    A = te.placeholder((10,), name="A")
    k = te.reduce_axis((0, 10), name="k")
    an = Analyzer()
    an.bind(k.var, k.dom)
    assert same(an.canonical_simplify(te.sum(A[3], [])), A[3])
    got = an.canonical_simplify(te.sum(A[3], [], where=k.var > 12, init=1.0))
    assert got.value == 1.0


def test_combiner_is_simplified_and_unused_parts_go():
    dummy = te.var("dummy")
    A = te.placeholder((10,), name="A")
    k = te.reduce_axis((0, 10), name="k")
    prod = te.comm_reducer(lambda x, y: x * y, lambda t0: tir.const(1, t0))
    either = te.comm_reducer(
        lambda x, y: tir.Select(dummy < 0, x + y, x * y),
        lambda t0: tir.Select(dummy < 0, tir.const(0, t0), tir.const(1, t0)),
    )
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] * y[1]),
        lambda t0, t1: (tir.const(0, t0), tir.const(5, t1) - tir.const(4, t1)),
    )
    an = Analyzer()
    an.update(dummy, ConstIntBound(-10, -4))
    assert same(an.canonical_simplify(either(A[k], k)), te.sum(A[k], k))
    an.update(dummy, ConstIntBound(5, 9), True)
    assert same(an.canonical_simplify(either(A[k], k)), prod(A[k], k))
    assert same(an.canonical_simplify(both((A[k], A[10 - k]), k)[0]), te.sum(A[k], k))
    assert same(an.canonical_simplify(both((A[k], A[10 - k]), k)[1]), prod(A[10 - k], k))
