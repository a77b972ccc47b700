"""Wrappers that call compiled functions with arrays of other libraries, without copies."""

from __future__ import annotations

from collections.abc import Callable

from ..runtime import ndarray


def convert_func(tvm_func: Callable, tensor_type: type, to_dlpack_func: Callable) -> Callable:
    """A function that calls ``tvm_func`` with the memory of arguments of ``tensor_type``; other arguments are passed
    on. ``to_dlpack_func`` creates a DLPack capsule of such an argument.

    Parameters
    ----------
    tvm_func : callable
        The function.
    tensor_type : type
        The class of tensors.
    to_dlpack_func : callable
        Creates a capsule of a tensor.

    Returns
    -------
    callable
    """

    def function(*args):
        return tvm_func(
            *(ndarray.from_dlpack(to_dlpack_func(arg)) if isinstance(arg, tensor_type) else arg for arg in args)
        )

    return function


def to_pytorch_func(tvm_func: Callable) -> Callable:
    """A function that takes PyTorch tensors.

    Parameters
    ----------
    tvm_func : callable
        The function.

    Returns
    -------
    callable
    """
    import torch  # pyright: ignore[reportMissingImports]
    import torch.utils.dlpack  # pyright: ignore[reportMissingImports]

    return convert_func(tvm_func, torch.Tensor, torch.utils.dlpack.to_dlpack)
