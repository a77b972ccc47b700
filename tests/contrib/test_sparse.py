"""Sparse matrices in memory, of dense ones and of given parts."""

from __future__ import annotations

import numpy as np
import pytest

import tvm
from tvm.contrib import sparse

DENSE = np.array([[0, 1.5, 0], [0, 0, 0], [2, 0, 3]], "float32")


def test_a_dense_matrix_becomes_rows_of_elements_and_back():
    made = sparse.array(DENSE)
    assert made.indptr.numpy().tolist() == [0, 1, 1, 3] and made.indices.numpy().tolist() == [1, 0, 2]
    assert made.shape == DENSE.shape and (made.numpy() == DENSE).all()


def test_given_parts_stay_on_their_device_and_another_one_is_refused():
    whole = sparse.array(DENSE)
    parts = whole.data, whole.indices, whole.indptr
    for device in (None, tvm.cpu()):
        again = sparse.array(parts, device, DENSE.shape)
        assert again.data is whole.data and (again.numpy() == DENSE).all()
    with pytest.raises(tvm.TVMError, match=r"not all parts are on cuda\(0\), which was asked for: one is on"):
        sparse.array(parts, tvm.cuda(), DENSE.shape)
