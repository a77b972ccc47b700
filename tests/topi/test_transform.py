"""Shapes and orders against NumPy: sizes of one and primes, 0-d, empty, negative axes, refusals, unknown sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tests.topi.evaluate import check, evaluate, run
from tvm import te, topi


def refuses(words, function, *args, **kwargs):
    with pytest.raises((ValueError, TypeError), match=words):
        function(*args, **kwargs)


def test_dimensions_added_removed_moved(rng):
    data = rng.normal(size=(3, 1, 5, 1)).astype("float32")
    check([data], {
        "expand": (lambda t: topi.expand_dims(t, 1, 2), lambda x: x.reshape(3, 1, 1, 1, 5, 1)),
        "expand last": (lambda t: topi.expand_dims(t, -1), lambda x: x[..., None]),
        "squeeze": (topi.squeeze, np.squeeze),
        "squeeze one": (lambda t: topi.squeeze(t, -1), lambda x: x.squeeze(-1)),
        "squeeze two": (lambda t: topi.squeeze(t, (1, 3)), lambda x: x.squeeze((1, 3))),
        "transpose": (topi.transpose, np.transpose),
        "transpose axes": (lambda t: topi.transpose(t, (2, -4, 3, 1)), lambda x: x.transpose(2, 0, 3, 1)),
        "flip": (lambda t: topi.flip(t, -2), lambda x: np.flip(x, -2)),
        "flip two": (lambda t: topi.flip(t, (0, 2)), lambda x: np.flip(x, (0, 2))),
    })  # fmt: skip
    check(
        [np.int8(5)],
        {"scalar": (lambda t: topi.expand_dims(t, 0), lambda x: x[None]), "t": (topi.transpose, lambda x: x)},
    )
    t = te.placeholder((3, 5))
    refuses("out of range", topi.expand_dims, t, 4)
    refuses("dimension 0 has size 3", topi.squeeze, t, 0)
    refuses("1 axes for a tensor of 2", topi.transpose, t, (1,))
    refuses("an axis is repeated", topi.transpose, t, (1, 1))


def test_expand_like(rng):
    small, like = rng.normal(size=(3,)).astype("float32"), np.zeros((2, 3, 5), "float32")
    check([small, like], {
        "expand": (lambda a, b: topi.expand_like(a, b, (0, 2)), lambda a, b: np.broadcast_to(a[:, None], b.shape)),
    })  # fmt: skip
    refuses("do not match", topi.expand_like, te.placeholder((3,)), te.placeholder((2, 3, 5)), (0,))


@pytest.mark.parametrize("old, new", [
    ((2, 3, 5), (6, 5)), ((6, 5), (2, 3, 5)), ((2, 6), (3, 4)), ((1, 7, 1), (7,)), ((12,), (2, 2, 3)), ((1,), ()),
    ((), (1, 1)), ((3, 4, 5), (5, 4, 3)), ((0, 3), (3, 0)), ((0, 3), (0,)), ((4, 3, 2, 1), (4, 1, 6)),
    ((2, 3, 4), (2, -1)), ((2, 3, 4, 5), (6, 20)), ((1, 1, 6), (6, 1)),
])  # fmt: skip
def test_reshape(rng, old, new):
    check(
        [rng.normal(size=old).astype("float32")],
        {"reshape": (lambda t: topi.reshape(t, new), lambda x: x.reshape(new))},
    )


def test_reshape_refusals():
    t = te.placeholder((3, 4))
    refuses("has 12 elements", topi.reshape, t, (5, 2))
    refuses("only one -1", topi.reshape, t, (-1, -1))
    refuses("cannot be inferred", topi.reshape, te.placeholder((0, 3)), (-1, 0))


def test_concatenate_and_stack(rng):
    a, b, c = (rng.normal(size=(2, n, 3)).astype("float32") for n in (1, 5, 0))
    check([a, b, c], {
        "middle": (lambda *t: topi.concatenate(t, 1), lambda *x: np.concatenate(x, 1)),
        "negative": (lambda *t: topi.concatenate(t, -2), lambda *x: np.concatenate(x, 1)),
        "one": (lambda *t: topi.concatenate([t[0]], 0), lambda *x: x[0]),
        "first": (lambda *t: topi.concatenate([t[0], t[0], t[0]], 0), lambda *x: np.concatenate([x[0]] * 3, 0)),
        "stack": (lambda *t: topi.stack([t[0], t[0]], -1), lambda *x: np.stack([x[0]] * 2, -1)),
        "stack 1": (lambda *t: topi.stack([t[1], t[1], t[1]], 1), lambda *x: np.stack([x[1]] * 3, 1)),
    })  # fmt: skip
    check([np.float32(1), np.float32(2)], {"scalars": (lambda *t: topi.stack(t, 0), lambda *x: np.stack(x))})
    t, u = te.placeholder((2, 3)), te.placeholder((2, 4))
    refuses("the shapes differ besides axis 0", topi.concatenate, (t, u), 0)
    refuses("the dtypes differ", topi.concatenate, (t, te.placeholder((2, 3), "int32")), 0)
    refuses("out of range", topi.concatenate, (t, t), 2)
    refuses("the shapes differ", topi.stack, (t, u), 0)


def test_split(rng):
    data = rng.normal(size=(6, 5)).astype("float32")
    for argument, axis in ((3, 0), ([1, 4], 0), ([0, 2, 2], -1), (1, 1), ([], 0)):
        got = evaluate([data], lambda t: topi.split(t, argument, axis))
        for value, wanted in zip(got, np.split(data, argument, axis), strict=True):
            np.testing.assert_array_equal(value, wanted)
    t = te.placeholder((6, 5))
    refuses("is not divisible into 4 equal parts", topi.split, t, 4, 0)
    refuses("are not increasing", topi.split, t, [4, 2], 0)


def test_repeat_and_tile(rng):
    data = rng.normal(size=(2, 3)).astype("float32")
    check([data], {
        "repeat": (lambda t: topi.repeat(t, 3, -1), lambda x: np.repeat(x, 3, -1)),
        "tile": (lambda t: topi.tile(t, (2, 3)), lambda x: np.tile(x, (2, 3))),
        "tile more": (lambda t: topi.tile(t, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3))),
        "tile fewer": (lambda t: topi.tile(t, (4,)), lambda x: np.tile(x, (4,))),
        "tile none": (lambda t: topi.tile(t, (0, 1)), lambda x: np.tile(x, (0, 1))),
    })  # fmt: skip
    refuses("must be positive", topi.repeat, te.placeholder((2,)), 0, 0)


def test_arange_meshgrid_eye_shape():
    a, b = np.arange(3, dtype="float32"), np.arange(4, dtype="float32")
    check([a, b], {
        "to": (lambda *_: topi.arange(5, dtype="int32"), lambda *_: np.arange(5, dtype="int32")),
        "step": (lambda *_: topi.arange(1.0, 6.5, 1.5), lambda *_: np.arange(1, 6.5, 1.5, dtype="float32")),
        "down": (lambda *_: topi.arange(10, 0, -3, "int64"), lambda *_: np.arange(10, 0, -3, dtype="int64")),
        "none": (lambda *_: topi.arange(3, 3, 1, "int32"), lambda *_: np.arange(0, dtype="int32")),
        "ij": (lambda *t: topi.meshgrid(t, "ij")[1], lambda *x: np.meshgrid(*x, indexing="ij")[1]),
        "xy": (lambda *t: topi.meshgrid(t, "xy")[0], lambda *x: np.meshgrid(*x, indexing="xy")[0]),
        "eye": (lambda *_: topi.eye(3, 5, 1, "int32"), lambda *_: np.eye(3, 5, 1, "int32")),
        "shape": (lambda t, _: topi.shape(topi.expand_dims(t, 0), "int64"), lambda *_: np.array([1, 3], "int64")),
        "size": (lambda t, _: topi.ndarray_size(t), lambda *_: np.array(3, "int32")),
    })  # fmt: skip
    refuses("must not be zero", topi.arange, 0, 5, 0)
    refuses("'ij' or 'xy'", topi.meshgrid, [te.placeholder((3,))], "ab")


def test_reverse_sequence():
    data = np.arange(24, dtype="float32").reshape(3, 4, 2)

    def reference(x, lengths, seq, batch):
        out = x.copy()
        for n, length in enumerate(lengths):
            at = [slice(None)] * 3
            at[batch] = n
            part = np.moveaxis(out, (batch, seq), (0, 1))[n]
            part[:length] = part[:length][::-1].copy()
        return out

    lengths = np.array([1, 4, 3], "int32")
    got = evaluate([data, lengths], lambda t, n: topi.reverse_sequence(t, n, 1, 0))
    np.testing.assert_array_equal(got, reference(data, lengths, 1, 0))
    lengths = np.array([3, 0, 2, 1], "int64")
    got = evaluate([data, lengths], lambda t, n: topi.reverse_sequence(t, n, 0, 1))
    np.testing.assert_array_equal(got, reference(data, lengths, 0, 1))
    refuses("lengths for 3 batches", topi.reverse_sequence, te.placeholder((3, 4)), te.placeholder((2,), "int32"))


def test_sliding_window(rng):
    data = rng.normal(size=(2, 7, 9)).astype("float32")
    wanted = np.lib.stride_tricks.sliding_window_view(data, (3, 4), axis=(1, 2))[:, ::2, ::3]
    got = evaluate([data], lambda t: topi.sliding_window(t, 1, (3, 4), (2, 3)))
    np.testing.assert_array_equal(got, wanted)
    refuses("does not fit", topi.sliding_window, te.placeholder((2, 3)), 1, (4,), (1,))


def test_where_broadcasts(rng):
    condition, a, b = rng.random((3, 1)) > 0.5, rng.normal(size=(5,)).astype("float32"), np.float32(2)
    check([condition, a, b], {"where": (topi.where, np.where)})
    check([np.array([0, 3, -1], "int32"), a[:3], a[:3] + 1], {"numbers": (topi.where, np.where)})
    check([np.zeros((0,), bool), a[:1], a[:1]], {"empty": (topi.where, np.where)})


def test_layout_transform(rng):
    data = rng.normal(size=(1, 8, 3, 5)).astype("float32")
    blocked = data.reshape(1, 2, 4, 3, 5).transpose(0, 1, 3, 4, 2)
    check([data], {
        "block": (lambda t: topi.layout_transform(t, "NCHW", "NCHW4c"), lambda x: blocked),
        "order": (lambda t: topi.layout_transform(t, "NCHW", "NHWC"), lambda x: x.transpose(0, 2, 3, 1)),
    })  # fmt: skip
    check([blocked], {
        "back": (lambda t: topi.layout_transform(t, "NCHW4c", "NCHW"), lambda x: data),
        "other": (lambda t: topi.layout_transform(t, "NCHW4c", "NCHW2c"),
                  lambda x: data.reshape(1, 4, 2, 3, 5).transpose(0, 1, 3, 4, 2)),
    })  # fmt: skip
    padded = np.pad(data[:, :6], ((0, 0), (0, 2), (0, 0), (0, 0)))
    check([data[:, :6]], {
        "uneven": (lambda t: topi.layout_transform(t, "NCHW", "NCHW4c"),
                   lambda x: padded.reshape(1, 2, 4, 3, 5).transpose(0, 1, 3, 4, 2)),
    })  # fmt: skip
    t = te.placeholder((1, 8, 3, 5))
    refuses("cannot be converted", topi.layout_transform, t, "NCHW", "NCDHW")
    assert topi.layout_transform(t, "NCHW", "NCHW") is t


def test_products(rng):
    a, b = rng.normal(size=(3, 5)).astype("float32"), rng.normal(size=(5, 4)).astype("float32")
    check([a, b], {
        "matmul": (topi.matmul, np.matmul),
        "transposed": (lambda x, y: topi.matmul(y, x, True, True), lambda x, y: y.T @ x.T),
        "dot": (lambda x, y: topi.tensordot(x, y, 1), lambda x, y: np.tensordot(x, y, 1)),
        "outer": (lambda x, y: topi.tensordot(x, y, 0), lambda x, y: np.tensordot(x, y, 0)),
        "axes": (lambda x, y: topi.tensordot(x, y, ((1,), (0,))), lambda x, y: np.tensordot(x, y, ((1,), (0,)))),
    }, rtol=1e-4)  # fmt: skip
    c, d = rng.normal(size=(2, 3, 5)).astype("float32"), rng.normal(size=(5, 3, 4)).astype("float32")
    pairs = ((1, 2), (1, 0))
    check([c, d], {"pairs": (lambda x, y: topi.tensordot(x, y, pairs), lambda x, y: np.tensordot(x, y, pairs))}, 1e-4)
    refuses("must be equal", topi.matmul, te.placeholder((3, 5)), te.placeholder((4, 3)))


def test_sizes_known_only_when_running(rng):
    n = te.var("n")
    x = te.placeholder((n, 4), name="x")
    value = rng.normal(size=(5, 4)).astype("float32")
    made = [
        topi.transpose(x), topi.reshape(x, (n, 2, 2)), topi.reshape(x, (n * 4,)), topi.concatenate([x, x], 0),
        topi.flip(x, 0), topi.expand_dims(x, 0), topi.tile(x, (1, 2)), topi.split(x, 2, 1)[1], topi.stack([x, x], 1),
    ]  # fmt: skip
    wanted = [
        value.T, value.reshape(5, 2, 2), value.ravel(), np.concatenate([value, value]), value[::-1], value[None],
        np.tile(value, (1, 2)), value[:, 2:], np.stack([value, value], 1),
    ]  # fmt: skip
    got = run([x], made, [value], [w.shape for w in wanted])
    for number, (a, b) in enumerate(zip(got, wanted)):
        np.testing.assert_array_equal(a, b, err_msg=str(number))


def test_equal_parts_of_an_unknown_size_have_one_size():
    n = te.var("n")
    parts = topi.split(te.placeholder((2, n)), 4, 1)
    assert all(tvm.ir.structural_equal(p.shape[1], n // 4) for p in parts)
