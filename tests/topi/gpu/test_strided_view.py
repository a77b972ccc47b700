"""Views of memory by strides, against NumPy's on an array of places."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tvm.topi.gpu.strided_view import Piece, StridedView, joined


def places(view: StridedView) -> np.ndarray:
    """The place of each element, in the order of the view."""
    out = np.array(view.offset)
    shape = []
    for dim in view.dims:
        along = np.array([0])
        for piece in dim:
            along = (along[:, None] + np.arange(piece.size) * piece.stride).reshape(-1)
        shape.append(len(along))
        out = (out[..., None] + along).reshape(*shape)
    return out


def divided(rng: random.Random, size: int, count: int) -> list[int]:
    out = []
    for _ in range(count - 1):
        out.append(rng.choice([d for d in range(1, size + 1) if size % d == 0]))
        size //= out[-1]
    return [*out, size]


def moved(rng: random.Random, view: StridedView, array: np.ndarray) -> tuple[StridedView | None, np.ndarray]:
    """A random reshape, transpose or slice of both."""
    kind = rng.randrange(3)
    if kind == 0:
        axes = rng.sample(range(array.ndim), array.ndim)
        return view.transposed(axes), array.transpose(axes)
    if kind == 1:
        shape = divided(rng, array.size, rng.randint(1, 4))
        return view.reshaped(shape), array.reshape(shape)
    bounds = []
    for size in array.shape:
        whole = rng.random() < 0.5
        first, step = (0, 1) if whole else (rng.randrange(size), rng.choice([1, 1, 2, -1]))
        most = -(-(size - first) // step) if step > 0 else first + 1
        bounds.append((first, size if whole else rng.randint(1, most), step))
    cut = tuple(first + step * np.arange(count) for first, count, step in bounds)
    return view.sliced(bounds), array[np.ix_(*cut)]


def has_vectors(array: np.ndarray, along: list[int], lanes: int) -> bool:
    others = [axis for axis in range(array.ndim) if axis not in along]
    rows = array.transpose([*others, *along]).reshape(-1, int(np.prod([array.shape[axis] for axis in along])))
    if rows.shape[1] % lanes:
        return False
    runs = rows.reshape(-1, lanes)
    return bool(np.all(runs == runs[:, :1] + np.arange(lanes)) and np.all(runs[:, 0] % lanes == 0))


def test_views_have_the_places_and_the_vectors_of_numpy(seed):
    rng = random.Random(seed)
    known = vectors = 0
    for number in range(400):
        shape = [rng.choice([1, 2, 3, 4, 6, 8, 16]) for _ in range(rng.randint(1, 4))]
        view, array = StridedView.of_shape(shape), np.arange(np.prod(shape)).reshape(shape)
        for _ in range(rng.randint(1, 4)):
            view, array = moved(rng, view, array)
            if view is None:
                break
            known += 1
            np.testing.assert_array_equal(places(view), array, err_msg=f"seed {seed} round {number}")
            along = sorted(rng.sample(range(array.ndim), rng.randint(1, array.ndim)))
            lanes = rng.choice([2, 4, 8])
            assert view.has_vectors(along, lanes) == has_vectors(array, along, lanes), f"seed {seed} round {number}"
            vectors += view.has_vectors(along, lanes)
    assert known > 400 and vectors > 10


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
def test_a_reshape_that_divides_no_piece_has_no_strides(shape):
    turned = StridedView.of_shape((6, 6)).transposed((1, 0))
    assert turned.reshaped((6, 2, 3)) is not None and turned.reshaped(shape) is None


def test_pieces_that_lie_behind_each_other_are_one():
    assert joined([Piece(2, 24), Piece(1, 5), Piece(3, 8), Piece(8, 1)]) == (Piece(48, 1),)
    assert joined([Piece(2, 25), Piece(3, 8)]) == (Piece(2, 25), Piece(3, 8))
