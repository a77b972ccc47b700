"""Matmuls of an external BLAS library: the functions of Apache TVM, implemented with NumPy."""

from __future__ import annotations

from ..runtime import registry as _registry
from ..te.operation import extern
from ..tir.op import call_packed

_NAME = "tvm.contrib.cblas.matmul"
_BATCH = "tvm.contrib.cblas.batch_matmul"
_ITERATIVE = "tvm.contrib.cblas.batch_matmul_iterative"


def _product(a, b, out, transa, transb) -> None:
    import numpy

    x, y = a.numpy(), b.numpy()
    x = numpy.swapaxes(x, -1, -2) if transa else x
    y = numpy.swapaxes(y, -1, -2) if transb else y
    out.copyfrom(numpy.matmul(x, y).astype(out.dtype))


def _one_by_one(a, b, out, transa, transb) -> None:
    import numpy

    x, y = a.numpy(), b.numpy()
    x = numpy.swapaxes(x, -1, -2) if transa else x
    y = numpy.swapaxes(y, -1, -2) if transb else y
    out.copyfrom(numpy.stack([numpy.matmul(p, q) for p, q in zip(x, y)]).astype(out.dtype))


for _n, _function in ((_NAME, _product), (_BATCH, _product), (_ITERATIVE, _one_by_one)):
    if _registry.get_global_func(_n, allow_missing=True) is None:
        _registry.register_func(_n, _function)


def matmul(lhs, rhs, transa=False, transb=False, **kwargs):
    """An extern operation that computes a matmul.

    Parameters
    ----------
    lhs : Tensor
        Whether the left matrix is transposed.
    rhs : Tensor
        The right matrix.
    transa : bool, optional
        Whether the left one is transposed.
    transb : bool, optional
        Whether the right matrix is transposed.
    **kwargs
        Further arguments of ``te.extern``.

    Returns
    -------
    Tensor
    """
    n = lhs.shape[1] if transa else lhs.shape[0]
    m = rhs.shape[0] if transb else rhs.shape[1]
    return extern(
        (n, m),
        [lhs, rhs],
        lambda ins, outs: call_packed(_NAME, ins[0], ins[1], outs[0], transa, transb),
        name="C",
        **kwargs,
    )


def batch_matmul(lhs, rhs, transa=False, transb=False, iterative=False, **kwargs):
    """An extern operation that computes matmuls along the first axis.

    Parameters
    ----------
    lhs : Tensor
        The left matrix.
    rhs : Tensor
        The right matrix.
    transa : bool, optional
        Whether the left matrices are transposed.
    transb : bool, optional
        Whether the right matrices are transposed.
    iterative : bool, optional
        Whether to call the library once per pair of matrices (the packed function
        ``tvm.contrib.cblas.batch_matmul_iterative``) instead of once for all.
    **kwargs
        Further arguments of ``te.extern``.

    Returns
    -------
    Tensor
    """
    b = lhs.shape[0]
    n = lhs.shape[2] if transa else lhs.shape[1]
    m = rhs.shape[1] if transb else rhs.shape[2]
    name = _ITERATIVE if iterative else _BATCH
    return extern(
        (b, n, m),
        [lhs, rhs],
        lambda ins, outs: call_packed(name, ins[0], ins[1], outs[0], transa, transb),
        name="C",
        **kwargs,
    )
