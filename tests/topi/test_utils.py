"""Helpers of the operators: constants, indices, shapes, the walk that inlines."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.evaluate import evaluate
from tvm import te, topi
from tvm.ir.prim import const
from tvm.te.schedule import AttachType
from tvm.topi import tag, utils


def test_constants():
    n = te.var("n")
    assert utils.get_const_int(const(3) * 4) == 12 and utils.get_const_int(n * 2 - n - n + 5) == 5
    known, open_ = utils.get_const_tuple((const(3), n))
    assert known == 3 and type(known) is int and open_ is n
    assert topi.get_const_tuple is utils.get_const_tuple and topi.get_const_int(const(3)) == 3
    assert utils.get_const_float(const(2.5, "float32")) == 2.5
    assert utils.equal_const_int(n - n, 0) and not utils.equal_const_int(n, 0)
    with pytest.raises(ValueError, match="known at compile time, got the expression n"):
        utils.get_const_int(n)
    assert utils.prod(()) == 1 and utils.prod((2, 3, 4)) == 24
    assert utils.ceil_div(7, 2) == 4 and utils.get_const_int(utils.ceil_div(const(7), const(2))) == 4
    assert utils.is_empty_shape((const(3), const(0))) and not utils.is_empty_shape((n, const(2)))
    assert utils.is_dynamic_shape((n, 2)) and not utils.is_dynamic_shape((const(3), 2))
    assert utils.get_max_power2_factor(48) == 16 and utils.get_max_power2_factor(48, 8) == 8
    assert utils.swap([1, 2, 3], 0) == [3, 2, 1]


def test_indices_go_there_and_back():
    shape = (3, 4, 5)
    for flat in range(60):
        indices = utils.unravel_index(const(flat), [const(d) for d in shape])
        values = [utils.get_const_int(i) for i in indices]
        assert tuple(values) == np.unravel_index(flat, shape)
        assert utils.get_const_int(utils.ravel_index([const(v) for v in values], shape)) == flat
    assert utils.ravel_index([], []) == 0 and utils.unravel_index(const(0), []) == []


def test_axes():
    assert utils.normalize_axis(-1, 3, "x") == 2 and utils.normalize_axes(None, 2, "x") == [0, 1]
    with pytest.raises(ValueError, match="x: axis 3 is out of range for a tensor of 3 dimensions"):
        utils.normalize_axis(3, 3, "x")
    with pytest.raises(ValueError, match="an axis is repeated"):
        utils.normalize_axes((1, -2), 3, "x")


def test_shape_in_another_layout():
    assert utils.get_shape((1, 32, 7, 7), "NCHW", "NCHW16c") == (1, 2, 7, 7, 16)
    assert utils.get_shape((1, 7, 7, 8), "NHWC", "NCHW") == (1, 8, 7, 7)


def test_matrices_and_vectors_of_constants(rng):
    matrix, vector = rng.normal(size=(3, 2)).astype("float32"), np.array([4, 5, 6], "int32")
    got = evaluate([np.zeros(1, "float32")], lambda _: [utils.const_matrix(matrix), utils.const_vector(vector)])
    np.testing.assert_array_equal(got[0], matrix)
    np.testing.assert_array_equal(got[1], vector)


def test_traverse_inline_calls_once_and_inlines_what_is_injective():
    a = te.placeholder((4, 4), name="a")
    b = topi.exp(a)
    c = topi.add(b, topi.transpose(b))
    total = topi.sum(c, 1)
    s = te.create_schedule(topi.tanh(total).op)
    met = []
    utils.traverse_inline(s, s.outputs[0], lambda op: met.append(op.name))
    assert met == ["T_sum", "T_tanh"]
    other = te.create_schedule(c.op)
    met.clear()
    utils.traverse_inline(other, c.op, lambda op: met.append(op.name))
    assert met == ["T_exp", "T_transpose", "T_add"]
    assert [stage.attach_type for stage in other.stages if stage.op.name in ("T_exp", "T_transpose")] == [
        AttachType.INLINE
    ] * 2


def test_tags():
    assert tag.is_injective(topi.exp(te.placeholder((3,))).op.tag)
    assert tag.is_injective(topi.transpose(te.placeholder((3,))).op.tag)
    assert tag.is_broadcast("broadcast") and not tag.is_broadcast("injective")
    assert not tag.is_injective(topi.sum(te.placeholder((3,))).op.tag)
    assert not tag.is_injective("") and not tag.is_injective("broadcast_kernel")


def test_fixed_point_multiply_for_each_channel(rng):
    x = rng.integers(-(2**20), 2**20, (2, 3, 5)).astype("int32")
    multiplier = rng.integers(2**30, 2**31 - 1, 3).astype("int32")
    left, right = np.zeros(3, "int32"), np.array([0, 3, 7], "int32")

    def make(t, m, l, r):
        return topi.math.fixed_point_multiply_per_axis(t, m, l, r, False, True, [1])

    got = evaluate([x, multiplier, left, right], make)
    for (n, c, i), value in np.ndenumerate(x):
        shift = 31 + int(right[c])
        exact = (int(value) * int(multiplier[c]) + (1 << (shift - 1))) >> shift
        assert abs(int(got[n, c, i]) - exact) <= 1
