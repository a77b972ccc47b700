"""The analyzer's public interface."""

from __future__ import annotations

import pytest

from tvm.arith import Analyzer, ConstIntBound, IntervalSet, IntSet, ModularSet, eval_set, expr_deep_equal
from tvm.ir.prim import IntImm, Range, SizeVar, Var


@pytest.fixture
def loops():
    an = Analyzer()
    i, j = Var("i"), Var("j")
    an.bind(i, Range(0, 8))
    an.bind(j, Range(0, 16))
    return an, i, j


def test_split_and_fuse_indices_leave_no_division(loops):
    an, i, j = loops
    fused = i * 16 + j
    assert an.simplify(fused // 16) is i
    assert an.simplify(fused % 16) is j
    assert expr_deep_equal(an.simplify(fused // 4 % 4), j // 4)


def test_guards_that_always_hold_vanish(loops):
    an, i, j = loops
    assert an.can_prove(i * 16 + j < 128)
    assert not an.can_prove(i * 16 + j < 127)


def test_symbolic_extent_proves_its_guard():
    an = Analyzer()
    k, n = Var("k"), SizeVar("n")
    an.bind(k, Range(0, n))
    assert an.can_prove(k < n)
    assert an.can_prove(k + 1 <= n)
    assert not an.can_prove(k + 1 < n)


def test_rebinding_replaces_what_was_known():
    an = Analyzer()
    x = Var("x")
    an.bind(x, Range(0, 4))
    assert an.can_prove(x < 4)
    an.bind(x, Range(0, 8))
    assert not an.can_prove(x < 4)
    assert an.can_prove(x < 8)


def test_constraint_holds_only_inside_its_scope():
    an = Analyzer()
    x = Var("x")
    with an.constraint_scope(x < 3):
        assert an.can_prove(x < 5)
    assert not an.can_prove(x < 5)


def test_update_refuses_a_conflict_unless_overridden():
    an = Analyzer()
    x = Var("x")
    an.update(x, ConstIntBound(0, 4))
    with pytest.raises(ValueError, match="override=True"):
        an.update(x, ConstIntBound(0, 5))
    an.update(x, ConstIntBound(0, 5), override=True)
    assert an.const_int_bound(x).max_value == 5
    an.update(x, ModularSet(4, 1))
    assert an.modular_set(x * 2).coeff == 8


def test_eval_set_of_a_split_index():
    x, k = Var("x"), Var("k")
    got = eval_set(x * 4 + k, {k: Range(0, 4)})
    assert expr_deep_equal(got.min_value, x * 4)
    assert expr_deep_equal(got.max_value, x * 4 + 3)
    got = eval_set((x * 4 + k) // 4, {k: Range(0, 4)})
    assert got.min_value is x and got.max_value is x


def test_sets_of_points_and_vectors():
    assert isinstance(IntSet.single_point(3), IntervalSet)
    assert IntervalSet(1, 0).is_nothing()
    assert IntSet.everything().is_everything()


def test_deep_chain_does_not_recurse():
    an = Analyzer()
    x, j = Var("x"), Var("j")
    e = x
    for step in range(20000):
        e = e + j if step % 2 else e * 2 % 7
    assert an.simplify(e).dtype == "int32"
    assert isinstance(an.simplify(e - e), IntImm)
