"""Sorting against NumPy: stable both ways, NaN greatest, every axis, ties, lengths of 0, 1 and primes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.evaluate import check, evaluate, run
from tvm import te, topi


def order(x, axis, ascend=True):
    """Stable; downwards NaN comes first."""
    if ascend:
        return np.argsort(x, axis, kind="stable")
    n = x.shape[axis]
    return n - 1 - np.flip(np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


@pytest.mark.parametrize("shape", [(1,), (13,), (64,), (3, 7, 2), (2, 0)])
def test_sort_and_argsort(rng, shape):
    data = rng.integers(-3, 4, shape).astype("float32")
    if data.size > 5:
        data.flat[rng.integers(0, data.size, 3)] = [np.nan, -np.inf, np.inf]
    cases = {}
    for axis in range(-1, len(shape) - 1):
        for up in (True, False):
            cases["sort", axis, up] = (
                lambda t, a=axis, u=up: topi.sort(t, a, u),
                lambda x, a=axis, u=up: np.take_along_axis(x, order(x, a, u), a),
            )
            cases["argsort", axis, up] = (
                lambda t, a=axis, u=up: topi.argsort(t, axis=a, is_ascend=u, dtype="int64"),
                lambda x, a=axis, u=up: order(x, a, u),
            )
    check([data], cases)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float64", "bool"])
def test_types(rng, dtype):
    data = rng.integers(0, 2, (4, 31)).astype(dtype)
    check(
        [data], {"sort": (topi.sort, np.sort), "down": (lambda t: topi.sort(t, -1, 0), lambda x: np.sort(x)[:, ::-1])}
    )


def test_large_sorts_use_threads(rng):
    data = rng.normal(size=(8, 5000)).astype("float32")
    np.testing.assert_array_equal(evaluate([data], topi.sort), np.sort(data))


def test_valid_counts():
    data = np.array([[3, 1, 2, 0], [5, 4, 9, 1], [2, 1, 4, 3]], "float32")
    counts = np.array([3, 0, 4], "int32")
    got = evaluate([data, counts], lambda t, n: topi.argsort(t, n, 1, False, "int32"))
    assert got.tolist() == [[0, 2, 1, 3], [0, 1, 2, 3], [2, 3, 0, 1]]


def test_topk(rng):
    data = rng.integers(0, 5, (3, 11)).astype("float32")
    for k, axis, up in ((1, 1, False), (4, -1, True), (3, 0, False), (0, 1, False)):
        kept = k or data.shape[axis]
        wanted = np.take(order(data, axis, up), range(kept), axis)
        values, indices = evaluate([data], lambda t: topi.topk(t, k, axis, "both", up, "int32"))
        np.testing.assert_array_equal(indices, wanted)
        np.testing.assert_array_equal(values, np.take_along_axis(data, wanted, axis))
    only = evaluate([data], lambda t: topi.topk(t, 2, 1, "indices"))
    assert only.dtype == np.int64
    np.testing.assert_array_equal(only, order(data, 1, False)[:, :2])
    t = te.placeholder((3, 5))
    with pytest.raises(ValueError, match="k is 6, but the dimension has only 5 elements"):
        topi.topk(t, 6)
    with pytest.raises(ValueError, match="ret_type"):
        topi.topk(t, 2, ret_type="all")
    with pytest.raises(ValueError, match="out of range"):
        topi.sort(t, 2)
    with pytest.raises(ValueError, match="has no axis"):
        topi.sort(te.placeholder(()))


def test_length_known_only_when_running(rng):
    n = te.var("n")
    t = te.placeholder((n,), "int32", name="t")
    data = rng.integers(0, 9, 17).astype("int32")
    np.testing.assert_array_equal(run([t], topi.sort(t), [data], [(17,)]), np.sort(data))


def test_searchsorted(rng):
    sequence = np.sort(rng.integers(0, 9, 13)).astype("float32")
    values = rng.integers(-1, 11, (3, 4)).astype("float32")
    check([sequence, values], {
        "left": (topi.searchsorted, lambda s, v: np.searchsorted(s, v)),
        "right": (lambda s, v: topi.searchsorted(s, v, True, "int32"),
                  lambda s, v: np.searchsorted(s, v, "right").astype("int32")),
    })  # fmt: skip
    rows = np.sort(rng.integers(0, 9, (3, 7)), 1).astype("int32")
    wanted = np.stack([np.searchsorted(r, v) for r, v in zip(rows, values.astype("int32"))])
    np.testing.assert_array_equal(evaluate([rows, values.astype("int32")], topi.searchsorted), wanted)


def test_unique(rng):
    data = rng.integers(0, 6, 19).astype("int32")
    wanted, firsts, inverse, counts = np.unique(data, True, True, True)
    got = evaluate([data], lambda t: topi.unique(t, True, True))
    n = int(got[3][0])
    assert n == len(wanted)
    for value, reference in zip((got[0], got[1], got[4]), (wanted, firsts, counts)):
        np.testing.assert_array_equal(value[:n], reference)
        assert not value[n:].any()
    np.testing.assert_array_equal(got[2], inverse)
    # In order of appearance.
    got = evaluate([data], lambda t: topi.unique(t, False, True))
    appearance = np.argsort(firsts)
    np.testing.assert_array_equal(got[0][:n], wanted[appearance])
    np.testing.assert_array_equal(got[1][:n], firsts[appearance])
    np.testing.assert_array_equal(got[4][:n], counts[appearance])
    np.testing.assert_array_equal(got[0][got[2]], data)
