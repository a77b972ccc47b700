"""Sparse matrices whose rows are lists of elements (CSR): arrays of them, and placeholders for programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import te
from ..error import TVMError
from ..runtime import ndarray

_INDEX = "int32"


class CSRNDArray:
    """A sparse matrix in memory.

    Parameters
    ----------
    arg1 : numpy.ndarray or tuple of NDArray
        A dense matrix, or the values, columns and starts of rows of a sparse one.
    device : Device, optional
        Where a dense matrix goes; the CPU where none is given. Parts that are given stay where they are.
    shape : tuple of int, optional
        Rows and columns, where the parts are given.
    """

    def __init__(self, arg1: Any, device: Any = None, shape: tuple[int, int] | None = None):
        if isinstance(arg1, tuple):
            if len(arg1) != 3 or shape is None:
                raise TVMError("CSRNDArray: values, columns, starts of rows and a shape are wanted")
            self.data, self.indices, self.indptr = arg1
            elsewhere = [part.device for part in arg1 if part.device != (arg1[0].device if device is None else device)]
            if elsewhere:
                wanted = f"on {device}, which was asked for" if device is not None else "on one device"
                raise TVMError(f"CSRNDArray: the parts are not {wanted}: one of them is on {elsewhere[0]}")
        else:
            device = device if device is not None else ndarray.cpu(0)
            source = np.asarray(arg1)
            if source.ndim != 2:
                raise TVMError(f"CSRNDArray: a matrix is wanted, got {source.ndim} dimensions")
            places = source != 0
            starts = np.concatenate([[0], np.cumsum(places.sum(axis=1))])
            self.data = ndarray.array(source[places], device)
            self.indices = ndarray.array(np.nonzero(places)[1].astype(_INDEX), device)
            self.indptr = ndarray.array(starts.astype(_INDEX), device)
            shape = source.shape
        self.shape = tuple(shape)
        self.dtype = self.data.dtype

    def numpy(self) -> np.ndarray:
        """The dense matrix.

        Returns
        -------
        numpy.ndarray
            Zeros and the elements.
        """
        full = np.zeros(self.shape, self.dtype)
        starts = self.indptr.numpy()
        rows = np.repeat(np.arange(self.shape[0]), np.diff(starts))
        full[rows, self.indices.numpy()] = self.data.numpy()
        return full

    asnumpy = numpy


class SparsePlaceholderOp:
    """A sparse matrix that a program takes.

    Parameters
    ----------
    shape : tuple of PrimExpr
        Rows and columns.
    nonzeros : PrimExpr
        How many elements there are.
    dtype : str
        Their type.
    name : str
        What the tensors are named after.
    """

    def __init__(self, shape: Any, nonzeros: Any, dtype: str, name: str):
        self.shape, self.dtype, self.name = tuple(shape), dtype, name
        self.data = te.placeholder((nonzeros,), dtype, name=f"{name}_data")


class CSRPlaceholderOp(SparsePlaceholderOp):
    """One whose rows are lists of elements.

    Parameters
    ----------
    shape : tuple of PrimExpr
        Rows and columns.
    nonzeros : PrimExpr
        How many elements there are.
    dtype : str
        Their type.
    name : str
        What the tensors are named after.
    """

    def __init__(self, shape: Any, nonzeros: Any, dtype: str, name: str):
        super().__init__(shape, nonzeros, dtype, name)
        self.indices = te.placeholder((nonzeros,), _INDEX, name=f"{name}_indices")
        self.indptr = te.placeholder((self.shape[0] + 1,), _INDEX, name=f"{name}_indptr")


def array(source_array: Any, device: Any = None, shape: tuple[int, int] | None = None, stype: str = "csr") -> Any:
    """A sparse matrix of a dense one, or of its parts.

    Parameters
    ----------
    source_array : numpy.ndarray or tuple of NDArray
        The matrix.
    device : Device, optional
        Where it lives.
    shape : tuple of int, optional
        Rows and columns, where the parts are given.
    stype : str
        The format; "csr" is there.

    Returns
    -------
    CSRNDArray
        The matrix.

    Raises
    ------
    NotImplementedError
        Another format.
    """
    _check_format(stype)
    return CSRNDArray(source_array, device, shape)


def placeholder(
    shape: Any, nonzeros: Any = None, dtype: str | None = None, name: str = "placeholder", stype: str = "csr"
) -> CSRPlaceholderOp:
    """The tensors of a sparse matrix that a program takes: ``data``, ``indices`` and ``indptr``.

    Parameters
    ----------
    shape : tuple of PrimExpr
        Rows and columns.
    nonzeros : PrimExpr, optional
        How many elements there are; a variable where nothing is given.
    dtype : str, optional
        Their type; float32 where none is given.
    name : str
        What the tensors are named after.
    stype : str
        The format; "csr" is there.

    Returns
    -------
    CSRPlaceholderOp
        The matrix.

    Raises
    ------
    NotImplementedError
        Another format.
    """
    _check_format(stype)
    nonzeros = nonzeros if nonzeros is not None else te.var("nonzeros")
    return CSRPlaceholderOp(shape, nonzeros, dtype or "float32", name)


def _check_format(stype: str) -> None:
    if stype != "csr":
        raise NotImplementedError(f"sparse matrices are csr here, not '{stype}'")


__all__ = ["CSRNDArray", "CSRPlaceholderOp", "SparsePlaceholderOp", "array", "placeholder"]
