"""Reading ONNX files and tensors: what is not an ONNX model is refused in words."""

from __future__ import annotations

import os
from typing import Any

from ....dtype import canonical
from ....error import TVMError
from .small_types import SMALL_TYPES, to_carrier

# Element types of ONNX whose NumPy form has a name of its own here.
_SPECIAL = {"BFLOAT16": "bfloat16"}
_REFUSED = ("STRING", "COMPLEX64", "COMPLEX128", "UNDEFINED")


def load_file(path):
    """The model of a file, with the weights that lie beside it."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(os.fspath(path), load_external_data=False)
    except DecodeError as problem:
        raise TVMError(f"{path} is not an ONNX model, or is cut short: {problem}") from problem
    except (OSError, ValueError) as problem:
        raise TVMError(f"{path} cannot be read: {problem}") from problem
    load_external(model, os.path.dirname(os.path.abspath(os.fspath(path))))
    return model


def load_external(model, folder: str) -> None:
    """Weights stored beside the model; they must lie inside the model's own folder."""
    import onnx
    from onnx.external_data_helper import load_external_data_for_tensor, uses_external_data

    root = os.path.realpath(folder)
    for tensor in onnx.external_data_helper._get_all_tensors(model):
        if not uses_external_data(tensor):
            continue
        location = next((e.value for e in tensor.external_data if e.key == "location"), "")
        path = os.path.realpath(os.path.join(folder, location))
        if os.path.isabs(location) or os.path.commonpath([root, path]) != root:
            raise TVMError(f"weight '{tensor.name}' is stored outside the model's folder: {location}")
        if not os.path.isfile(path):
            raise TVMError(f"weight '{tensor.name}' should be in {path}, which is not there")
        try:
            load_external_data_for_tensor(tensor, folder)
        except (OSError, ValueError) as problem:
            raise TVMError(f"weight '{tensor.name}' cannot be read from {path}: {problem}") from problem
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def tensor_array(tensor) -> Any:
    """The NumPy array of a TensorProto."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_location == TensorProto.EXTERNAL:
        raise TVMError(f"weight '{tensor.name}' is stored in a file of its own; give from_onnx the path of the model")
    onnx_dtype(tensor.data_type)
    try:
        return to_carrier(numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as problem:
        raise TVMError(f"weight '{tensor.name}' cannot be read: {problem}") from problem


def sparse_array(sparse) -> Any:
    """The dense array of a SparseTensorProto."""
    import numpy as np

    values, indices = tensor_array(sparse.values), tensor_array(sparse.indices)
    out = np.zeros(list(sparse.dims), values.dtype)
    if indices.ndim == 1:
        out.reshape(-1)[indices] = values
    else:
        out[tuple(indices.T)] = values
    return out


def onnx_dtype(code: int) -> str:
    """Our name of an ONNX element type; of the bytes that carry it if it is a small one."""
    from onnx import TensorProto, helper

    try:
        name = TensorProto.DataType.Name(code)
    except ValueError as problem:
        raise TVMError(f"element type number {code} is not known") from problem
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
    """ONNX's number of an element type of ours."""
    import numpy as np
    from onnx import TensorProto, helper

    for name, ours in _SPECIAL.items():
        if ours == dtype:
            return getattr(TensorProto, name)
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


__all__ = ["load_external", "load_file", "onnx_code", "onnx_dtype", "sparse_array", "tensor_array"]
