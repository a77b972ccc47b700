"""Reading ONNX files and tensors."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ....dtype import canonical
from ....error import TVMError
from ..common.context import check_count
from .external import Folder
from .small_types import SMALL_TYPES, to_carrier

# ONNX element types that NumPy does not have; they are stored under these type names.
_SPECIAL = {"BFLOAT16": "bfloat16"}
_REFUSED = ("COMPLEX64", "COMPLEX128", "UNDEFINED")


class ModelFile(NamedTuple):
    """A model read from a file, and the folder that contains its external weight files."""

    model: Any
    folder: Folder


def load_file(path) -> ModelFile:
    """Read a model from a file. External weights are read when they are used; see external.py."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(os.fspath(path), load_external_data=False)
    except DecodeError as problem:
        raise TVMError(
            f"{path} is not an ONNX model, is truncated, or nests its graphs too deeply: {problem}"
        ) from problem
    except (OSError, ValueError) as problem:
        raise TVMError(f"cannot read {path}: {problem}") from problem
    return ModelFile(model, Folder(os.path.dirname(os.path.abspath(os.fspath(path)))))


def tensor_array(tensor, folder: Folder | None) -> Any:
    """Return the NumPy array of a TensorProto; ``folder`` is the folder of the model's file."""
    from onnx import TensorProto, numpy_helper

    onnx_dtype(tensor.data_type)
    try:
        if tensor.data_location == TensorProto.EXTERNAL:
            if folder is None:
                raise TVMError(
                    f"weight '{tensor.name}' is stored in an external file; pass the path of the model to from_onnx "
                    "instead of a ModelProto"
                )
            return to_carrier(folder.array(tensor))
        return to_carrier(numpy_helper.to_array(tensor))
    except (ValueError, TypeError, OverflowError) as problem:
        raise TVMError(f"cannot read weight '{tensor.name}': {problem}") from problem


def sparse_array(sparse, folder: Folder | None) -> Any:
    """Return the dense array of a SparseTensorProto."""
    values, indices = tensor_array(sparse.values, folder), tensor_array(sparse.indices, folder)
    check_count("a sparse weight", sparse.dims)
    out = np.zeros(list(sparse.dims), values.dtype)
    if indices.ndim == 1:
        out.reshape(-1)[indices] = values
    else:
        out[tuple(indices.T)] = values
    return out


def onnx_dtype(code: int) -> str:
    """Return the TVM type of an ONNX element type; for a small type, the integer type that stores it."""
    from onnx import TensorProto, helper

    try:
        name = TensorProto.DataType.Name(code)
    except ValueError as problem:
        raise TVMError(f"unknown ONNX element type {code}") from problem
    if name in _REFUSED:
        raise TVMError(f"tensors of {name.lower()} are not supported")
    if name in SMALL_TYPES:
        return SMALL_TYPES[name].carrier
    if name in _SPECIAL:
        return _SPECIAL[name]
    try:
        return canonical(str(helper.tensor_dtype_to_np_dtype(code)))
    except (ValueError, TypeError) as problem:
        raise TVMError(f"tensors of {name.lower()} are not supported") from problem


def onnx_code(dtype: str) -> int:
    """Return the ONNX element type number of a TVM type."""
    from onnx import TensorProto, helper

    for name, ours in _SPECIAL.items():
        if ours == dtype:
            return getattr(TensorProto, name)
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


__all__ = ["ModelFile", "check_count", "load_file", "onnx_code", "onnx_dtype", "sparse_array", "tensor_array"]
