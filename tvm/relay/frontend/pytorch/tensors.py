"""Conversion of PyTorch tensors to arrays. PyTorch is imported only if the caller passes its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....error import TVMError
from ....runtime import ndarray


def array_of(tensor: Any, what: str) -> np.ndarray:
    """Return the elements of a PyTorch tensor."""
    if tensor.is_quantized or tensor.is_sparse or str(tensor.layout) != "torch.strided":
        raise TVMError(f"{what} is a quantized or sparse tensor, which is not supported")
    found = tensor.detach().cpu().contiguous()
    if str(found.dtype) == "torch.bfloat16":
        import ml_dtypes
        import torch  # pyright: ignore[reportMissingImports]

        return found.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    try:
        return found.resolve_conj().resolve_neg().numpy()
    except TypeError as problem:
        raise TVMError(f"{what} has the element type {found.dtype}, which is not supported") from problem


def weight_of(tensor: Any, what: str) -> np.ndarray | ndarray.NDArray:
    """Return the elements of a weight.

    Elements that had to be copied, from a device or a non-contiguous tensor, have no other owner: they are used without
    a further copy if kernels can read them in place.
    """
    found = array_of(tensor, what)
    place = found.ctypes.data
    is_own = found.size and found.dtype.kind == "f" and place != tensor.data_ptr() and place % 64 == 0
    return ndarray.from_dlpack(found) if is_own else found


__all__ = ["array_of", "weight_of"]
