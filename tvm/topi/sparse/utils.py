"""Random sparse matrices, and the schedules of sparse matmuls."""

from __future__ import annotations

from typing import Any

from ...not_built import name_of


def random_bsr_matrix(m: int, n: int, bs_r: int, bs_c: int, density: float, dtype: str) -> Any:
    """A random block sparse matrix (requires SciPy).

    Parameters
    ----------
    m : int
        The rows.
    n : int
        The columns.
    bs_r : int
        The rows of a block.
    bs_c : int
        The columns of a block.
    density : float
        The fraction of nonzero blocks.
    dtype : str
        The dtype of the elements.

    Returns
    -------
    scipy.sparse.bsr_matrix
        The matrix.
    """
    import numpy as np
    import scipy.sparse

    if m % bs_r or n % bs_c:
        raise ValueError(f"random_bsr_matrix: a matrix of {m} x {n} is not divisible into blocks of {bs_r} x {bs_c}")
    shape = m // bs_r, n // bs_c
    count = int(shape[0] * shape[1] * density) + 1
    places = np.random.choice(shape[0] * shape[1], size=min(count, shape[0] * shape[1]), replace=False)
    blocks = np.random.uniform(-1, 1, size=(len(places), bs_r, bs_c)).astype(dtype)
    order = np.argsort(places)
    rows, columns = np.divmod(places[order], shape[1])
    starts = np.searchsorted(rows, np.arange(shape[0] + 1)).astype("int32")
    return scipy.sparse.bsr_matrix((blocks, columns.astype("int32"), starts), shape=(m, n))


def __getattr__(name: str):
    return name_of(__name__, name)


__all__ = ["random_bsr_matrix"]
