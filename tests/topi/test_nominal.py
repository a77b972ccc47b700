"""Numbers that stand for unknown sizes: equal where sizes are equal whatever they are."""

from __future__ import annotations

from tvm import te, tir, topi
from tvm.ir.prim import FloorDiv, FloorMod
from tvm.ir.visit import post_order
from tvm.topi.nominal import Nominal, at


def test_products_are_equal_where_they_are_for_all_sizes():
    n, m = (tir.SizeVar(name, "int64") for name in "nm")
    sizes = Nominal()
    assert sizes.size(12) == 12
    assert sizes.elements([n * 12, m]) == sizes.elements([m, 3, n, 4])
    assert sizes.elements([n, n]) != sizes.elements([n, m])
    assert sizes.size((n * 4) // 4) == sizes.size(n)


def test_a_size_at_values_of_its_variables():
    n, m = (tir.SizeVar(name, "int64") for name in "nm")
    assert at(7, 1) == 7
    assert at(n * 12 + m, 1) == 13
    assert at(n * m, 2, {m: 5}) == 10


def test_a_reshape_of_unknown_sizes_divides_only_what_it_joins_or_parts():
    n, m = (tir.SizeVar(name, "int32") for name in "nm")
    joined = topi.reshape(te.placeholder((n, 12, m, m)), (n * 12, m, m))
    own = joined.op.body[0].indices
    # The dimensions that stay have the index of the result.
    assert list(own[2:]) == [a.var for a in joined.op.axis[1:]]
    parted = topi.reshape(te.placeholder((n * 12, m, 64)), (n, 12, m, 64))
    assert not any(isinstance(e, (FloorDiv, FloorMod)) for e in post_order(parted.op.body[0]))
