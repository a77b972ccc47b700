"""Reductions against NumPy: axes of every kind, empty and 0-d tensors, ties, infinities, NaN, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.evaluate import check, evaluate, run
from tvm import te, topi

REDUCERS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


def cases(names, axes):
    return {
        (name, axis, keep): (
            lambda t, n=name, a=axis, k=keep: getattr(topi, n)(t, a, k),
            lambda x, f=reference, a=axis, k=keep: np.asarray(f(x, axis=a, keepdims=k)).astype(x.dtype),
        )
        for name, reference in names.items()
        for axis in axes
        for keep in (False, True)
    }


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_reductions_over_every_kind_of_axis(rng, dtype):
    data = (rng.random((3, 1, 5)) * 4).astype(dtype)
    check([data], cases(REDUCERS, [None, 0, -1, (0, 2), (-1, 0), 1, ()]), rtol=1e-4)


def test_scalars_and_empty_tensors():
    check([np.float32(3.5)], cases(REDUCERS, [None]))
    check([np.zeros((0, 3), "float32")], cases({"sum": np.sum, "prod": np.prod}, [0, None, 1]))


def test_extremes_of_infinities_and_integer_limits():
    check([np.full((2, 3), -np.inf, "float32")], cases({"max": np.max}, [1]))
    check([np.full((2, 3), np.inf, "float32")], cases({"min": np.min}, [None]))
    limits = np.iinfo("int64")
    check(
        [np.array([[limits.min, limits.min], [limits.max, 0]], "int64")], cases({"max": np.max, "min": np.min}, [0, 1])
    )


def test_all_and_any(rng):
    table = {"all": np.all, "any": np.any}
    for data in (rng.random((5, 3)) > 0.3, np.array([[0, 2], [3, 4]], "int32"), np.array(True), np.zeros((0, 2), bool)):
        made = {
            (name, axis): (lambda t, n=name, a=axis: getattr(topi, n)(t, a), lambda x, f=f, a=axis: f(x, axis=a))
            for name, f in table.items()
            for axis in ((None, 0) if data.ndim else (None,))
        }
        check([data], made)


def test_sums_and_products_of_truths_are_truths(rng):
    def within(function):
        return lambda x, **where: function(x, dtype=bool, **where)

    table = {"sum": within(np.sum), "prod": within(np.prod), "max": np.max, "min": np.min}
    check([rng.random((3, 1, 5)) > 0.6], cases(table, [None, 0, -1, (0, 2), ()]))
    check([np.zeros((0, 3), bool)], cases({"sum": table["sum"], "prod": table["prod"]}, [0, None]))


def test_means_of_truths_are_refused():
    with pytest.raises(TypeError, match="mean: not defined for bool; cast to float32"):
        topi.mean(te.placeholder((3,), "bool", name="x"))


def test_places_of_extremes(rng):
    data = rng.integers(0, 4, (3, 5, 2)).astype("float32")
    made = {}
    for name, reference in (("argmax", np.argmax), ("argmin", np.argmin)):
        for axis in (None, 0, 1, -1):
            for keep in (False, True):
                made[name, axis, keep] = (
                    lambda t, n=name, a=axis, k=keep: getattr(topi, n)(t, a, k),
                    lambda x, f=reference, a=axis, k=keep: f(x, axis=a, keepdims=k).astype("int32"),
                )

        def last(x, f=reference):
            return (x.shape[1] - 1 - f(x[:, ::-1], axis=1)).astype("int32")

        made[name, "last"] = (lambda t, n=name: getattr(topi, n)(t, 1, select_last_index=True), last)
    check([data], made)


def test_places_over_two_axes(rng):
    data = rng.normal(size=(3, 4, 5)).astype("float32")
    got = evaluate([data], lambda t: topi.argmax(t, (0, 2)))
    np.testing.assert_array_equal(got, data.transpose(1, 0, 2).reshape(4, 15).argmax(1))


def test_places_among_edge_values():
    data = np.array([[np.nan, 1, np.nan], [-np.inf] * 3, [np.inf] * 3, [1, np.nan, 2]], "float32")
    check([data], {
        "max": (lambda t: topi.argmax(t, 1), lambda x: x.argmax(1).astype("int32")),
        "min": (lambda t: topi.argmin(t, 1), lambda x: x.argmin(1).astype("int32")),
    })  # fmt: skip


def test_mean(rng):
    data = rng.normal(size=(3, 7)).astype("float32")
    check([data], {"mean": (lambda t: topi.mean(t, -1, True), lambda x: x.mean(-1, keepdims=True))})


def test_collapse_sum(rng):
    data = rng.normal(size=(2, 3, 5)).astype("float32")
    check([data], {
        "all": (lambda t: topi.collapse_sum(t, ()), lambda x: x.sum()),
        "front": (lambda t: topi.collapse_sum(t, (3, 5)), lambda x: x.sum(0)),
        "inner": (lambda t: topi.collapse_sum(t, (3, 1)), lambda x: x.sum((0, 2))[:, None]),
        "kept": (lambda t: topi.collapse_sum(t, (1, 3, 5)), lambda x: x.sum(0, keepdims=True)),
    })  # fmt: skip
    with pytest.raises(ValueError, match="does not broadcast"):
        topi.collapse_sum(te.placeholder((2, 3)), (2,))


def test_bad_axes_are_refused():
    data = te.placeholder((2, 3))
    with pytest.raises(ValueError, match="axis 2 is out of range for a tensor of 2 dimensions"):
        topi.sum(data, 2)
    with pytest.raises(ValueError, match="axis -3 is out of range"):
        topi.argmax(data, -3)
    with pytest.raises(ValueError, match="an axis is repeated"):
        topi.max(data, (0, -2))


@pytest.mark.parametrize("place_of", [topi.argmax, topi.argmin])
def test_places_in_an_axis_of_length_0_are_refused(place_of):
    with pytest.raises(ValueError, match=f"{place_of.__name__}: cannot take elements from a dimension of size 0"):
        place_of(te.placeholder((3, 0)), 1)
    assert evaluate([np.zeros((3, 0), "float32")], lambda t: place_of(t, 0)).shape == (0,)


def test_shape_known_only_when_running(rng):
    n = te.var("n")
    data = te.placeholder((n, 3), name="data")
    value = rng.normal(size=(5, 3)).astype("float32")
    got = run([data], [topi.sum(data, 0), topi.argmax(data, 0)], [value], [(3,), (3,)])
    np.testing.assert_allclose(got[0], value.sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(got[1], value.argmax(0))
