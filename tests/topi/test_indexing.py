"""Slices, gathers, scatters and masks against NumPy and plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.evaluate import check, evaluate, run
from tvm import te, topi


def refuses(words, function, *args, **kwargs):
    with pytest.raises((ValueError, TypeError), match=words):
        function(*args, **kwargs)


# --- slices ---


@pytest.mark.parametrize("begin, end, strides", [
    ([1, 0], [4, 3], None), ([-3, 1], [-1, 100], [1, 2]), ([4, 4], [-100, 0], [-1, -2]), ([3], [3], None),
    ([None, 2], [None, None], [2, 1]), ([100, -1], [0, -4], [-2, -1]), ([0], [5], [7]), ([2, 3], [1, 2], None),
])  # fmt: skip
def test_strided_slice_as_python_slices(rng, begin, end, strides):
    data = rng.normal(size=(5, 7, 2)).astype("float32")
    at = tuple(slice(b, e, s) for b, e, s in zip(begin, end, strides or [None] * len(begin)))
    check([data], {"slice": (lambda t: topi.strided_slice(t, begin, end, strides), lambda x: x[at])})


def test_strided_slice_along_axes_and_by_size(rng):
    data = rng.normal(size=(5, 7, 2)).astype("float32")
    check([data], {
        "axes": (lambda t: topi.strided_slice(t, [1, 0], [6, 2], [2, 1], axes=[-2, 0]), lambda x: x[0:2, 1:6:2]),
        "size": (lambda t: topi.strided_slice(t, [1, -3], [2, -1], slice_mode="size"), lambda x: x[1:3, -3:]),
    })  # fmt: skip
    t = te.placeholder((5, 7))
    refuses("must not be zero", topi.strided_slice, t, [0], [1], [0])
    refuses("out of range", topi.strided_slice, t, [0], [1], [1], [2])
    refuses("slice_mode", topi.strided_slice, t, [0], [1], None, None, "middle")


def test_slice_bounds_known_only_when_running(rng):
    data = rng.normal(size=(7, 5)).astype("float32")
    a = te.placeholder((7, 5), name="a")
    bounds = [te.placeholder((2,), "int64", name=n) for n in ("begin", "end", "strides")]
    for begin, end, strides in (([1, -2], [6, 5], [2, 1]), ([-1, 3], [0, -100], [-2, -1])):
        wanted = data[begin[0] : end[0] : strides[0], begin[1] : (None if end[1] < -5 else end[1]) : strides[1]]
        made = topi.dynamic_strided_slice(a, *bounds, output_shape=wanted.shape)
        arrays = [data, *(np.array(v, "int64") for v in (begin, end, strides))]
        np.testing.assert_array_equal(run([a, *bounds], made, arrays), wanted)
    n = te.var("n")
    x = te.placeholder((n, 5), name="x")
    made = topi.strided_slice(x, [1, 0], [-1, 5], [2, 1])
    np.testing.assert_array_equal(run([x], made, [data], [(3, 5)]), data[1:-1:2])


def test_strided_set(rng):
    data = rng.normal(size=(5, 7)).astype("float32")
    for begin, end, strides in (([1, 0], [4, 7], [1, 2]), ([4, 6], [1, 0], [-1, -3]), ([-2, 1], [5, -1], [1, 1])):
        wanted = data.copy()
        part = tuple(slice(*v) for v in zip(begin, end, strides))
        values = rng.normal(size=wanted[part].shape).astype("float32")
        wanted[part] = values
        bounds = [np.array(v, "int32") for v in (begin, end, strides)]
        np.testing.assert_array_equal(evaluate([data, values, *bounds], topi.strided_set), wanted)
        got = evaluate([data, values], lambda a, v: topi.strided_set(a, v, begin, end, strides))
        np.testing.assert_array_equal(got, wanted)
    short = topi.testing.strided_set_python(np.zeros((3, 4, 3)), np.ones((1, 2, 3)), [1, 1, 0], [2, 3, 3], [1])
    assert short.sum() == 6 and (short[1, 1:3] == 1).all()


# --- gathers ---


def test_take(rng):
    data = rng.normal(size=(3, 5, 2)).astype("float32")
    indices = np.array([[0, 4, -7], [2, 9, 1]], "int32")
    check([data, indices], {
        "clip": (lambda a, i: topi.take(a, i, 1), lambda a, i: np.take(a, i, 1, mode="clip")),
        "wrap": (lambda a, i: topi.take(a, i, -2, mode="wrap"), lambda a, i: np.take(a, i, 1, mode="wrap")),
        "flat": (lambda a, i: topi.take(a, i, mode="wrap"), lambda a, i: np.take(a, i, mode="wrap")),
        "flat clip": (lambda a, i: topi.take(a, i), lambda a, i: np.take(a, i, mode="clip")),
    })  # fmt: skip
    check([data, np.array(2, "int64")], {"scalar": (lambda a, i: topi.take(a, i, 0, mode="fast"), lambda a, i: a[2])})
    check([data, np.zeros((0,), "int64")], {"none": (lambda a, i: topi.take(a, i, 0), lambda a, i: a[:0])})
    check([np.float32(4), np.array([0, 0], "int32")], {"of a scalar": (topi.take, lambda a, i: np.take(a, i))})
    batched = np.array([[0, 4], [2, 1], [3, 3]], "uint8")
    check([data, batched], {
        "batch": (lambda a, i: topi.take(a, i, 1, batch_dims=1), lambda a, i: np.stack([a[n][i[n]] for n in range(3)])),
    })  # fmt: skip
    t, i = te.placeholder((3, 5)), te.placeholder((2,), "int32")
    refuses("mode must be one of", topi.take, t, i, 0, 0, "raise")
    refuses("out of range", topi.take, t, i, 2)
    refuses("must be integers", topi.take, t, te.placeholder((2,)), 0)
    none = te.placeholder((0, 3))
    refuses("cannot take elements", topi.take, none, i, 0)
    refuses("cannot take elements", topi.gather, none, 0, te.placeholder((1, 3), "int32"))
    refuses("cannot take elements", topi.gather_nd, none, te.placeholder((1, 1), "int32"))
    refuses("cannot take elements", topi.adv_index, none, [i])
    assert topi.gather(none, 0, te.placeholder((0, 3), "int32")).shape[0] == 0


def test_gather(rng):
    data = rng.normal(size=(3, 5)).astype("float32")
    rows, columns = rng.integers(-3, 3, (2, 5)).astype("int64"), rng.integers(-5, 5, (3, 7)).astype("int32")
    check([data, rows, columns], {
        "rows": (lambda a, i, j: topi.gather(a, 0, i), lambda a, i, j: np.take_along_axis(a, i, 0)),
        "columns": (lambda a, i, j: topi.gather(a, -1, j), lambda a, i, j: np.take_along_axis(a, j, 1)),
    })  # fmt: skip
    refuses("dimensions, but indices have", topi.gather, te.placeholder((3, 5)), 0, te.placeholder((3,), "int32"))


def test_gather_nd(rng):
    data = rng.normal(size=(3, 4, 5)).astype("float32")
    two = np.stack([rng.integers(-3, 3, (2, 2)), rng.integers(0, 4, (2, 2))]).astype("int32")
    three = np.stack([rng.integers(0, n, 6) for n in (3, 4, 5)]).astype("int64")
    check([data, two, three], {
        "slices": (lambda a, i, j: topi.gather_nd(a, i), lambda a, i, j: a[tuple(i)]),
        "elements": (lambda a, i, j: topi.gather_nd(a, j), lambda a, i, j: a[tuple(j)]),
    })  # fmt: skip
    batched = rng.integers(0, 4, (1, 3, 2)).astype("int32")
    got = evaluate([data, batched], lambda a, i: topi.gather_nd(a, i, batch_dims=1))
    np.testing.assert_array_equal(got, np.stack([data[n][batched[0, n]] for n in range(3)]))
    fractions = np.array([[1.8, 0.0, 2.2], [0.4, 1.0, 1.9]], "float32")
    got = evaluate([data, fractions], topi.gather_nd)
    np.testing.assert_array_equal(got, data[tuple(fractions.astype("int64"))])
    np.testing.assert_array_equal(got, topi.testing.gather_nd_python(data, fractions))
    refuses("exceed the 1 dimensions", topi.gather_nd, te.placeholder((3,)), te.placeholder((2, 5), "int32"))


def test_adv_index(rng):
    data = rng.normal(size=(3, 4, 5)).astype("float32")
    i, j = rng.integers(0, 3, (2, 1)).astype("int32"), rng.integers(-4, 4, (3,)).astype("int64")
    check([data, i, j], {"two": (lambda a, x, y: topi.adv_index(a, [x, y]), lambda a, x, y: a[x, y])})
    refuses("index tensors cannot index", topi.adv_index, te.placeholder((3,)), [te.placeholder((2,), "int32")] * 2)


def test_one_hot_and_unravel_index():
    indices = np.array([[0, 2], [4, -1]], "int32")

    def hot(x, axis):
        return np.moveaxis(np.where(np.arange(5) == x[..., None], np.float32(2), np.float32(-1)), -1, axis)

    check([indices], {
        axis: (lambda t, a=axis: topi.one_hot(t, 2.0, -1.0, 5, a, "float32"), lambda x, a=axis: hot(x, a))
        for axis in (-1, 0, 1)
    })  # fmt: skip
    flat, shape = np.array([0, 22, 59], "int64"), np.array([3, 4, 5], "int64")
    wanted = np.stack(np.unravel_index(flat, shape))
    np.testing.assert_array_equal(evaluate([flat, shape], topi.unravel_index), wanted)
    np.testing.assert_array_equal(evaluate([flat], lambda t: topi.unravel_index(t, (3, 4, 5))), wanted)


# --- masks ---


def test_sequence_mask(rng):
    data = rng.normal(size=(4, 3, 2)).astype("float32")
    for axis, lengths in ((0, [1, 4, 0]), (1, [0, 3, 2, 1])):
        wanted = data.copy()
        for batch, length in enumerate(lengths):
            np.moveaxis(wanted, axis, 0)[length:, batch] = -5
        got = evaluate([data, np.array(lengths, "int32")], lambda t, n: topi.sequence_mask(t, n, -5.0, axis))
        np.testing.assert_array_equal(got, wanted)
    refuses("axis must be 0 or 1", topi.sequence_mask, te.placeholder((4, 3)), te.placeholder((3,), "int32"), 0, 2)


def test_trilu(rng):
    data = rng.normal(size=(2, 4, 5)).astype("float32")
    cases = {}
    for k in (-6, -1, 0, 2, 7):
        cases["upper", k] = (lambda t, k=k: topi.trilu(t, k, True), lambda x, k=k: np.triu(x, k))
        cases["lower", k] = (lambda t, k=k: topi.trilu(t, k, False), lambda x, k=k: np.tril(x, k))
    check([data], cases)
    got = evaluate([data, np.array(1, "int64")], lambda t, k: topi.trilu(t, k, True))
    np.testing.assert_array_equal(got, np.triu(data, 1))
    refuses("at least two dimensions", topi.trilu, te.placeholder((3,)), 0, True)


def set_diagonals(data, diagonal, k, align):
    """As TensorFlow describes MatrixSetDiagV3, element by element."""
    low, high = k if isinstance(k, tuple) else (k, k)
    above, below = (word == "RIGHT" for word in align.split("_"))
    out = data.copy()
    rows, columns = data.shape[-2:]
    longest = diagonal.shape[-1]
    for d in range(low, high + 1):
        places = [(r, r + d) for r in range(rows) if 0 <= r + d < columns]
        line = diagonal if low == high else diagonal[..., high - d, :]
        far = (d >= 0 and above) or (d <= 0 and below)
        for n, (r, c) in enumerate(places):
            out[..., r, c] = line[..., n + (longest - len(places) if far else 0)]
    return out


@pytest.mark.parametrize("k, align", [
    (0, "RIGHT_LEFT"), (1, "LEFT_LEFT"), (-2, "RIGHT_RIGHT"), ((-1, 2), "RIGHT_LEFT"), ((-1, 1), "LEFT_RIGHT"),
    ((0, 3), "RIGHT_RIGHT"),
])  # fmt: skip
def test_matrix_set_diag(rng, k, align):
    data = rng.normal(size=(2, 3, 5)).astype("float32")
    low, high = k if isinstance(k, tuple) else (k, k)
    longest = min(3 + min(high, 0), 5 - max(low, 0))
    shape = (2, longest) if low == high else (2, high - low + 1, longest)
    diagonal = rng.normal(size=shape).astype("float32")
    got = evaluate([data, diagonal], lambda a, d: topi.matrix_set_diag(a, d, k, align))
    np.testing.assert_array_equal(got, set_diagonals(data, diagonal, k, align))


def test_matrix_set_diag_refusals():
    t = te.placeholder((3, 5))
    refuses("3 elements, but 4 are given", topi.matrix_set_diag, t, te.placeholder((4,)))
    refuses("align must be one of", topi.matrix_set_diag, t, te.placeholder((3,)), 0, "MIDDLE")
    refuses("is empty", topi.matrix_set_diag, t, te.placeholder((3,)), (1, 0))


# --- scatters ---


@pytest.mark.parametrize("axis", [0, -1])
def test_scatter_elements(rng, axis):
    data = rng.integers(0, 9, (4, 5)).astype("float32")
    indices = rng.integers(-4, 4, (3, 4)).astype("int64")
    updates = rng.integers(1, 9, (3, 4)).astype("float32")
    joins = {
        "update": lambda old, new: new, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    }  # fmt: skip
    got = evaluate(
        [data, indices, updates], lambda d, i, u: [topi.scatter_elements(d, i, u, axis, r) for r in (*joins, "mean")]
    )
    for value, (name, join) in zip(got, joins.items()):
        wanted = data.copy()
        for r in range(3):
            for c in range(4):
                at = (indices[r, c], c) if axis == 0 else (r, indices[r, c])
                wanted[at] = join(wanted[at], updates[r, c])
        np.testing.assert_array_equal(value, wanted, err_msg=name)
    total, count = data.copy(), np.ones_like(data)
    for r in range(3):
        for c in range(4):
            at = (indices[r, c], c) if axis == 0 else (r, indices[r, c])
            total[at] += updates[r, c]
            count[at] += 1
    np.testing.assert_allclose(got[-1], total / count, rtol=1e-6, atol=1e-6)


def test_scatter_nd(rng):
    data = rng.normal(size=(3, 4, 5)).astype("float32")
    indices = np.array([[0, 2, 0], [1, -1, 1]], "int32")
    updates = rng.normal(size=(3, 5)).astype("float32")
    modes = ("update", "add", "mul", "min", "max")
    got = evaluate([data, indices, updates], lambda d, i, u: [topi.scatter_nd(d, i, u, m) for m in modes])
    join = {"update": lambda a, b: b, "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    for value, mode in zip(got, modes):
        wanted = data.copy()
        for n in range(3):
            at = (indices[0, n], indices[1, n])
            wanted[at] = join[mode](wanted[at], updates[n])
        np.testing.assert_allclose(value, wanted, rtol=1e-6, atol=1e-6, err_msg=mode)


def test_places_outside_are_left_out():
    data, updates = np.zeros((3,), "float32"), np.array([1, 2, 3], "float32")
    got = evaluate([data, np.array([7, -9, 1], "int32"), updates], topi.scatter_elements)
    assert got.tolist() == [0, 3, 0]


def test_scatter_refusals():
    d, i, u = te.placeholder((3, 4)), te.placeholder((2, 4), "int32"), te.placeholder((2, 4))
    refuses("must be one of", topi.scatter_elements, d, i, u, 0, "sum")
    refuses("the updates are int32", topi.scatter_elements, d, i, te.placeholder((2, 4), "int32"))
    refuses("dimensions", topi.scatter_elements, d, te.placeholder((2,), "int32"), u)
    refuses("the updates have shape", topi.scatter_nd, d, te.placeholder((1, 2), "int32"), te.placeholder((2, 3)))
    refuses("3 index components exceed", topi.scatter_nd, d, te.placeholder((3, 2), "int32"), te.placeholder((2,)))


def test_sparse_to_dense():
    def one(indices, shape, values, wanted):
        arrays = [np.array(indices, "int32"), np.array(values, "float32")]
        got = evaluate(arrays, lambda i, v: topi.sparse_to_dense(i, shape, v, -1.0))
        np.testing.assert_array_equal(got, wanted)

    one(2, (4,), 5, [-1, -1, 5, -1])
    one([0, 3], (4,), [7, 8], [7, -1, -1, 8])
    one([1, 2], (4,), 9, [-1, 9, 9, -1])
    one([[0, 1], [1, 0]], (2, 2), [3, 4], [[-1, 3], [4, -1]])
    refuses(
        "indices for an output of 2", topi.sparse_to_dense, te.placeholder((2,), "int32"), (2, 2), te.placeholder((2,))
    )


def test_invert_permutation_and_argwhere(rng):
    order = rng.permutation(7).astype("int64")
    check([order], {"inverse": (topi.invert_permutation, np.argsort)})
    data = (rng.random((3, 1, 5)) > 0.5).astype("int32")
    data[0, 0, 0] = 1
    wanted = np.argwhere(data)
    np.testing.assert_array_equal(evaluate([data], lambda t: topi.argwhere(wanted.shape, t)), wanted)
