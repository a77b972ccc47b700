"""Sparse matrices in CSR format: arrays, and placeholders for programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import te
from ..error import TVMError
from ..runtime import ndarray

_INDEX = "int32"


class CSRNDArray:
    """A sparse matrix in memory, in CSR format.

    Parameters
    ----------
    arg1 : numpy.ndarray or tuple of NDArray
        A dense matrix, or the values, column indices and row pointers of a sparse matrix.
    device : Device, optional
        The device for a dense matrix (default: CPU). Given parts stay on their device.
    shape : tuple of int, optional
        Rows and columns, if the parts are given.
    """

    def __init__(self, arg1: Any, device: Any = None, shape: tuple[int, int] | None = None):
        if isinstance(arg1, tuple):
            if len(arg1) != 3 or shape is None:
                raise TVMError("CSRNDArray: expected values, column indices, row pointers and a shape")
            self.data, self.indices, self.indptr = arg1
            elsewhere = [part.device for part in arg1 if part.device != (arg1[0].device if device is None else device)]
            if elsewhere:
                wanted = f"on {device}, which was asked for" if device is not None else "on one device"
                raise TVMError(f"CSRNDArray: not all parts are {wanted}: one is on {elsewhere[0]}")
        else:
            device = device if device is not None else ndarray.cpu(0)
            source = np.asarray(arg1)
            if source.ndim != 2:
                raise TVMError(f"CSRNDArray: expected a matrix, got an array with {source.ndim} dimensions")
            places = source != 0
            starts = np.concatenate([[0], np.cumsum(places.sum(axis=1))])
            self.data = ndarray.array(source[places], device)
            self.indices = ndarray.array(np.nonzero(places)[1].astype(_INDEX), device)
            self.indptr = ndarray.array(starts.astype(_INDEX), device)
            shape = source.shape
        self.shape = tuple(shape)
        self.dtype = self.data.dtype

    def numpy(self) -> np.ndarray:
        """The dense matrix as a NumPy array.

        Returns
        -------
        numpy.ndarray
            The matrix, including zeros.
        """
        full = np.zeros(self.shape, self.dtype)
        starts = self.indptr.numpy()
        rows = np.repeat(np.arange(self.shape[0]), np.diff(starts))
        full[rows, self.indices.numpy()] = self.data.numpy()
        return full

    asnumpy = numpy


class SparsePlaceholderOp:
    """A sparse matrix that is an input of a program.

    Parameters
    ----------
    shape : tuple of PrimExpr
        Rows and columns.
    nonzeros : PrimExpr
        The number of non-zero elements.
    dtype : str
        The element type.
    name : str
        The prefix of the tensor names.
    """

    def __init__(self, shape: Any, nonzeros: Any, dtype: str, name: str):
        self.shape, self.dtype, self.name = tuple(shape), dtype, name
        self.data = te.placeholder((nonzeros,), dtype, name=f"{name}_data")


class CSRPlaceholderOp(SparsePlaceholderOp):
    """A sparse matrix in CSR format that is an input of a program.

    Parameters
    ----------
    shape : tuple of PrimExpr
        Rows and columns.
    nonzeros : PrimExpr
        The number of non-zero elements.
    dtype : str
        The element type.
    name : str
        The prefix of the tensor names.
    """

    def __init__(self, shape: Any, nonzeros: Any, dtype: str, name: str):
        super().__init__(shape, nonzeros, dtype, name)
        self.indices = te.placeholder((nonzeros,), _INDEX, name=f"{name}_indices")
        self.indptr = te.placeholder((self.shape[0] + 1,), _INDEX, name=f"{name}_indptr")


def array(source_array: Any, device: Any = None, shape: tuple[int, int] | None = None, stype: str = "csr") -> Any:
    """A sparse matrix from a dense matrix or from its parts.

    Parameters
    ----------
    source_array : numpy.ndarray or tuple of NDArray
        The matrix.
    device : Device, optional
        The device.
    shape : tuple of int, optional
        Rows and columns, if the parts are given.
    stype : str
        The format; only "csr" is supported.

    Returns
    -------
    CSRNDArray
        The matrix.

    Raises
    ------
    NotImplementedError
        The format is not supported.
    """
    _check_format(stype)
    return CSRNDArray(source_array, device, shape)


def placeholder(
    shape: Any, nonzeros: Any = None, dtype: str | None = None, name: str = "placeholder", stype: str = "csr"
) -> CSRPlaceholderOp:
    """The input tensors of a sparse matrix: ``data``, ``indices`` and ``indptr``.

    Parameters
    ----------
    shape : tuple of PrimExpr
        Rows and columns.
    nonzeros : PrimExpr, optional
        The number of non-zero elements; by default a variable.
    dtype : str, optional
        The element type; float32 by default.
    name : str
        The prefix of the tensor names.
    stype : str
        The format; only "csr" is supported.

    Returns
    -------
    CSRPlaceholderOp
        The matrix.

    Raises
    ------
    NotImplementedError
        The format is not supported.
    """
    _check_format(stype)
    nonzeros = nonzeros if nonzeros is not None else te.var("nonzeros")
    return CSRPlaceholderOp(shape, nonzeros, dtype or "float32", name)


def _check_format(stype: str) -> None:
    if stype != "csr":
        raise NotImplementedError(f"sparse format '{stype}' is not supported; use 'csr'")


__all__ = ["CSRNDArray", "CSRPlaceholderOp", "SparsePlaceholderOp", "array", "placeholder"]
