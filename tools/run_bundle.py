"""Run a shared bundle in this process, for tests and comparisons."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence

import numpy as np

from tvm.error import TVMError


class _Tensor(ctypes.Structure):
    """``tvm_bundle_tensor``."""

    _fields_ = [
        ("name", ctypes.c_char_p), ("dtype", ctypes.c_char_p), ("ndim", ctypes.c_int32), ("itemsize", ctypes.c_int32),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("nbytes", ctypes.c_uint64),
    ]  # fmt: skip


class Info(ctypes.Structure):
    """``tvm_bundle_info``."""

    _fields_ = [
        ("abi_version", ctypes.c_uint32), ("size", ctypes.c_uint32), ("model", ctypes.c_char_p),
        ("input_count", ctypes.c_int32), ("output_count", ctypes.c_int32), ("inputs", ctypes.POINTER(_Tensor)),
        ("outputs", ctypes.POINTER(_Tensor)), ("weight_bytes", ctypes.c_uint64),
    ]  # fmt: skip


def run_bundle(path: str | os.PathLike, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run the model "default" of a shared bundle once.

    Parameters
    ----------
    path : str or os.PathLike
        The file.
    inputs : sequence of numpy.ndarray
        The inputs in order.

    Returns
    -------
    list of numpy.ndarray
        The outputs.

    Raises
    ------
    TVMError
        A function of the bundle returned an error.
    """
    library, handle = ctypes.CDLL(os.path.abspath(path)), ctypes.c_void_p()
    library.tvm_bundle_error.restype = ctypes.c_char_p
    info = Info.in_dll(library, "tvm_bundle_description")

    def check(status: int) -> None:
        if status:
            raise TVMError(f"{os.fspath(path)}: {library.tvm_bundle_error(handle).decode()}")

    check(library.tvm_bundle_create(ctypes.byref(handle)))
    try:
        for i, value in enumerate(map(np.ascontiguousarray, inputs)):
            shape = (ctypes.c_int64 * max(value.ndim, 1))(*value.shape)
            data = value.ctypes.data_as(ctypes.c_void_p)
            check(library.tvm_bundle_set_input(handle, i, data, ctypes.c_uint64(value.nbytes), shape))
        check(library.tvm_bundle_run(handle))
        found = []
        for i in range(info.output_count):
            start, dims = ctypes.c_void_p(), ctypes.POINTER(ctypes.c_int64)()
            check(library.tvm_bundle_get_output(handle, i, ctypes.byref(start), None, ctypes.byref(dims)))
            output = info.outputs[i]
            sizes = [dims[d] for d in range(output.ndim)]
            data = ctypes.string_at(start.value or 0, math.prod(sizes) * output.itemsize)
            found.append(np.frombuffer(data, output.dtype.decode()).reshape(sizes))
        return found
    finally:
        library.tvm_bundle_destroy(handle)


__all__ = ["Info", "run_bundle"]
