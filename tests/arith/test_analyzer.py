"""The analyzer's public interface."""

from __future__ import annotations

import itertools

import pytest

from tvm.arith import (
    Analyzer,
    ConstIntBound,
    IntervalSet,
    IntSet,
    ModularSet,
    eval_set,
    expr_deep_equal,
    stats,
)
from tvm.ir.prim import (
    LT,
    And,
    Cast,
    CommReducer,
    IterVar,
    Let,
    Min,
    Not,
    PrimExpr,
    Range,
    Reduce,
    Select,
    SizeVar,
    Var,
    const,
)


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
    with pytest.raises(ValueError, match="'x' already has a binding or bounds"):
        an.bind(x, Range(0, 16), allow_override=False)
    an.bind(Var("y"), Range(0, 16), allow_override=False)


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


DEEP = 20000


def _deep(step, depth: int) -> PrimExpr:
    e = Var("x")
    for k in range(depth):
        e = step(e, k)
    return e


@pytest.mark.slow("simplifies chains of thousands of expressions")
def test_deep_chains_do_not_recurse():
    j, p = Var("j"), Var("p", "bool")
    zero = const(0, "int32")
    chains = [
        (DEEP, lambda e, k: e + j if k % 2 else e * 2 % 7),
        (DEEP // 4, lambda e, k: Select(LT(j, const(k, "int32")), e, zero)),
        (DEEP, lambda e, k: Min(e, Var("m"))),
        (DEEP // 4, lambda e, k: Let(Var("v"), const(k, "int32"), e + 1)),
        (DEEP // 4, lambda e, k: Let(Var("v"), j * j + k, e)),
        (DEEP // 20, lambda e, k: (e - j) // 2 + (e - j) % 2),
    ]
    for depth, step in chains:
        an = Analyzer()
        # Python's own stack ends after a thousand.
        e = _deep(step, depth // 4)
        assert an.simplify(e).dtype == "int32"
        an.const_int_bound(e)
        an.modular_set(e)
        assert an.can_prove_equal(e, e)
    condition = p
    for k in range(DEEP):
        condition = And(condition, LT(j, const(k, "int32"))) if k % 3 else Not(condition)
    assert Analyzer().simplify(condition).dtype == "bool"


@pytest.mark.slow("simplifies expressions with thousands of shared operands")
def test_shared_operands_are_visited_once():
    an = Analyzer()
    e = Var("x")
    for _ in range(200):
        e = Select(LT(e, const(3, "int32")), e + e, e * e)
    stats.reset()
    an.simplify(e)
    assert stats.visits < 400_000


def test_axes_keep_their_identity():
    k = IterVar(Range(0, 8), "k", IterVar.CommReduce)
    x, y = Var("x", "float32"), Var("y", "float32")
    combiner = CommReducer((x,), (y,), (x + y,), (const(0.0, "float32"),))
    total = Reduce(combiner, (Cast("float32", k.var + 0),), (k,), const(True, "bool"))
    assert Analyzer().simplify(total).axis[0] is k


def test_let_variables_of_one_name_and_two_values():
    v = Var("v")
    one, two = Let(v, const(1, "int32"), v + 1), Let(v, const(2, "int32"), v + 1)
    assert Analyzer().simplify(one * 10 + two).value == 23


@pytest.mark.parametrize("divisor", [2, 3, 8])
def test_multiples_of_the_divisor_move_out_of_a_quotient(divisor):
    an, n, m = Analyzer(), Var("n"), Var("m")
    for offset, quotients in itertools.product(range(-9, 9), range(-3, 4)):
        for more in (0, m, n * 7 - m):
            outside = (n + offset) // divisor + quotients + more
            inside = (n + (offset + quotients * divisor)) // divisor + more
            assert an.can_prove_equal(outside, inside)
            assert not an.can_prove_equal(outside, inside + 1)
    assert an.can_prove((n - 1) // divisor + 1 <= (n + (divisor - 1)) // divisor)


def test_a_range_takes_effect_on_expressions_seen_before_it():
    an, i, j, n = Analyzer(), Var("i"), Var("j"), SizeVar("n")
    clamped = Min(i + n, n + 7)
    assert not an.can_prove_equal(clamped, i + n)
    an.bind(i, Range(0, 8))
    assert an.can_prove_equal(clamped, i + n)
    # A variable that no expression has mentioned, inside a condition and after it.
    with an.constraint_scope(n < 3):
        an.bind(j, Range(0, n))
        assert an.can_prove(j < 2) and an.can_prove(j < n)
    assert an.can_prove(i < 8) and not an.can_prove(n < 3)
    an.bind(j, Range(5, 7))
    assert an.can_prove(j > 4)
