"""Einstein summation against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.topi.evaluate import evaluate
from tvm import te, topi


@pytest.mark.parametrize("subscripts, shapes", [
    ("ij,jk->ik", [(3, 5), (5, 2)]), ("ij,jk", [(3, 5), (5, 2)]), ("ii", [(4, 4)]), ("ii->i", [(4, 4)]),
    ("ij->ji", [(3, 5)]), ("bij, bjk -> bik", [(2, 3, 4), (2, 4, 1)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
    ("i,i->", [(7,), (7,)]), ("i,j->ij", [(3,), (5,)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
    ("...i->...", [(2, 3, 5)]), ("ba,b", [(3, 5), (3,)]), ("ij,ij->ij", [(3, 1), (1, 5)]),
])  # fmt: skip
def test_einsum(rng, subscripts, shapes):
    arrays = [rng.normal(size=s).astype("float32") for s in shapes]
    got = evaluate(arrays, lambda *t: topi.einsum(subscripts, *t))
    wanted = np.einsum(subscripts, *[a.astype("float64") for a in arrays])
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("subscripts, words", [
    ("ij,jk->ik", "2 terms for 1"), ("ijk->i", "does not label the 2 dimensions"), ("i1->i", "only letters"),
    ("ij->ik", "one that no tensor has"), ("ij->ii", "repeats a label"),
])  # fmt: skip
def test_refusals(subscripts, words):
    with pytest.raises(ValueError, match=words):
        topi.einsum(subscripts, te.placeholder((3, 4)))


def test_labels_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="do not broadcast"):
        topi.einsum("ij,jk->ik", te.placeholder((3, 4)), te.placeholder((5, 2)))
