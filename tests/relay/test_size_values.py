"""What shapes computed from shapes hold, as far as it follows from sizes."""

from __future__ import annotations

import numpy as np

from tvm import relay
from tvm.ir.prim import SizeVar
from tvm.relay.infer import infer_type
from tvm.relay.size_values import SizeValues, is_not_negative, plain, same_size
from tvm.tir import max as most
from tvm.tir import min as least

n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
x = relay.var("x", shape=(n, 3, m), dtype="float32")


def held(e):
    found = SizeValues().of(infer_type(e))
    return None if found is None else [plain(v) for v in found.reshape(-1)]


def one(i):
    return relay.take(relay.shape_of(x, "int64"), relay.const(i, "int64"), 0)


def test_sizes_are_taken_out_of_shapes_computed_with_and_joined():
    wanted = relay.concatenate([relay.expand_dims(one(0) * one(2), 0), relay.const(np.array([-1, 4]), "int64")], 0)
    found = held(wanted)
    assert same_size(found[0], n * m) and found[1:] == [-1, 4]
    assert held(relay.prod(relay.shape_of(x, "int64"), axis=0))[0] is not None
    assert same_size(held(relay.trunc_divide(one(0) * relay.const(12, "int64"), relay.const(4, "int64")))[0], n * 3)
    assert held(relay.strided_slice(relay.shape_of(x, "int64"), [2], [-9], [-2], [0]))[1] is n


def test_comparisons_with_sizes_are_decided_where_sizes_decide_them():
    """Exporters write -1 for a size that stays, and choose it with a comparison."""
    shape, minus = relay.shape_of(x, "int64"), relay.const(np.array([-1, -1, -1]), "int64")
    chosen = relay.where(relay.equal(shape, minus), relay.const(np.array([7, 7, 7]), "int64"), shape)
    assert held(chosen) == [n, 3, m]
    assert held(relay.where(relay.equal(one(0), one(2)), one(0), one(2))) is None
    assert held(relay.maximum(one(0), relay.const(-1, "int64"))) == [n]
    assert held(relay.maximum(one(0), one(2))) is None


def test_nothing_is_said_of_data():
    data = relay.var("d", shape=(3,), dtype="int64")
    assert held(data) is None and held(data + data) is None
    assert held(relay.concatenate([data, relay.shape_of(x, "int64")], 0)) is None
    unknown = relay.var("u", shape=(relay.Any(), 2))
    assert held(relay.shape_of(unknown, "int64")) == [None, 2]
    assert held(relay.const(np.zeros(100, "int64"), "int64")) is None
    assert not is_not_negative(n - m) and is_not_negative(n * m + 3) and not same_size(None, None)


def sliced(*bounds, axes=(0,)):
    """The sizes of rows of a table of 8 x 5, between bounds that are known when running."""
    made = infer_type(relay.strided_slice(relay.const(np.zeros((8, 5), "float32")), *bounds, axes=list(axes)))
    return [plain(d) for d in made.checked_type.shape]


def row(e):
    return relay.expand_dims(e, 0)


def test_slices_between_sizes_have_sizes_that_follow():
    step = relay.const(np.array([1]), "int64")
    rows, columns = sliced(row(one(0)), row(one(0) + one(2)), step)
    assert same_size(rows, most(least(n + m, 8) - least(n, 8), 0)) and columns == 5
    assert same_size(sliced(relay.const(np.array([0]), "int64"), row(one(2)), step, axes=(1,))[1], least(m, 5))
    # Bounds that may count from the end, other steps, and data say nothing.
    data = relay.var("d", shape=(1,), dtype="int64")
    for bounds in ((row(one(0) - one(2)), row(one(0)), step), (row(one(0)), data, step),
                   (row(one(0)), row(one(2)), relay.const(np.array([2]), "int64"))):  # fmt: skip
        assert sliced(*bounds) == [None, 5]
