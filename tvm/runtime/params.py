"""Parameter blobs: names and arrays in one file, in the classic layout."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from ..error import TVMError
from . import _lib
from .ndarray import NDArray, NDArrayBase, array, dtype_triple
from .registry import register_func

_LIST_MAGIC = 0xF7E58D4F05049CB7
_ARRAY_MAGIC = 0xDD5E40F096B4A13F


def save_param_dict(params: Mapping[str, object]) -> bytearray:
    """The blob of ``params`` (arrays of ours or of NumPy), in the order of the mapping."""
    out = bytearray(struct.pack("<QQQ", _LIST_MAGIC, 0, len(params)))
    for name in params:
        raw = name.encode()
        out += struct.pack("<Q", len(raw)) + raw
    out += struct.pack("<Q", len(params))
    for value in params.values():
        item = value if isinstance(value, NDArrayBase) else array(value)
        data = item.numpy().tobytes()
        head = struct.pack("<QQiii", _ARRAY_MAGIC, 0, 1, 0, len(item.shape))
        head += struct.pack("<BBH", *dtype_triple(item.dtype))
        out += head + struct.pack(f"<{len(item.shape)}qq", *item.shape, len(data)) + data
    return out


def save_param_dict_to_file(params: Mapping[str, object], path: str | os.PathLike) -> None:
    """Written under another name and moved into place, so that a reader never sees half a file."""
    target = os.fspath(path)
    partial = f"{target}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as file:
            file.write(save_param_dict(params))
        os.replace(partial, target)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def load_param_dict(param_bytes: bytes | bytearray | str) -> dict[str, NDArray]:
    """The arrays of a blob by name."""
    if isinstance(param_bytes, str):
        param_bytes = param_bytes.encode("latin-1")
    return {name: NDArray(handle) for name, handle in _lib.params_load(bytes(param_bytes))}


def load_param_dict_from_file(path: str | os.PathLike) -> dict[str, NDArray]:
    with open(path, "rb") as file:
        data = file.read()
    try:
        return load_param_dict(data)
    except TVMError as error:
        raise TVMError(f"{os.fspath(path)}: {error}") from None


@register_func("runtime.LoadParams", override=True)
def _load_params(blob: bytes) -> dict[str, NDArray]:
    """For functions of the runtime that hand out parameters; an empty blob has none."""
    return load_param_dict(blob) if blob else {}
