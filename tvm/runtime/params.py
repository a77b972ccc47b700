"""Serialized parameters: names and arrays in one file, in Apache TVM's format."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping

from ..error import TVMError
from . import _lib
from .ndarray import NDArray, NDArrayBase, array, dtype_triple, elements
from .registry import register_func

_LIST_MAGIC = 0xF7E58D4F05049CB7
_ARRAY_MAGIC = 0xDD5E40F096B4A13F


_ALIGNMENT = 64


def pack_params(params: Mapping[str, object], start: int | None = None) -> Iterator[bytes | memoryview]:
    """Yield the serialized parameters in parts.

    If the data starts at offset ``start`` of aligned memory, the data of every array is aligned; the second word of an
    array header is the number of padding bytes."""
    names = struct.pack("<QQQ", _LIST_MAGIC, 0, len(params))
    for name in params:
        raw = name.encode()
        names += struct.pack("<Q", len(raw)) + raw
    names += struct.pack("<Q", len(params))
    yield names
    at = (start or 0) + len(names)
    for value in params.values():
        item = value if isinstance(value, NDArrayBase) else array(value)
        data = memoryview(elements(item).reshape(-1).view("uint8"))
        tail = struct.pack("<iii", 1, 0, len(item.shape)) + struct.pack("<BBH", *dtype_triple(item.dtype))
        tail += struct.pack(f"<{len(item.shape)}qq", *item.shape, data.nbytes)
        padding = 0 if start is None else -(at + 16 + len(tail)) % _ALIGNMENT
        head = struct.pack("<QQ", _ARRAY_MAGIC, padding) + tail + b"\0" * padding
        yield head
        yield data
        at += len(head) + data.nbytes


def save_param_dict(params: Mapping[str, object]) -> bytearray:
    """The serialized parameters (NDArrays or NumPy arrays), in the order of the mapping.

    Parameters
    ----------
    params : Mapping[str, object]
        The arrays by name.

    Returns
    -------
    bytearray

    Examples
    --------
    >>> data = tvm.runtime.save_param_dict({"w": tvm.nd.array(np.ones(2, "float32"))})
    >>> tvm.runtime.load_param_dict(data)["w"].numpy().tolist()
    [1.0, 1.0]
    """
    out = bytearray()
    for piece in pack_params(params):
        out += piece
    return out


def save_param_dict_to_file(params: Mapping[str, object], path: str | os.PathLike) -> None:
    """Write a parameter file under a temporary name and rename it, so that readers never see an incomplete file.

    Parameters
    ----------
    params : Mapping[str, object]
        The arrays by name.
    path : str | os.PathLike
        The file.
    """
    target = os.fspath(path)
    partial = f"{target}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as file:
            for piece in pack_params(params):
                file.write(piece)
        os.replace(partial, target)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def load_param_dict(param_bytes: bytes | bytearray | str) -> dict[str, NDArray]:
    """The arrays in serialized parameters, by name.

    Parameters
    ----------
    param_bytes : bytes | bytearray | str
        The serialized parameters.

    Returns
    -------
    dict[str, NDArray]
    """
    if isinstance(param_bytes, str):
        param_bytes = param_bytes.encode("latin-1")
    return {name: NDArray(handle) for name, handle in _lib.params_load(bytes(param_bytes))}


def load_param_dict_from_file(path: str | os.PathLike) -> dict[str, NDArray]:
    """The arrays of a parameter file, by name; the file is not read into memory as a whole.

    Parameters
    ----------
    path : str | os.PathLike
        The file.

    Returns
    -------
    dict[str, NDArray]

    Raises
    ------
    TVMError
        The file is not a parameter file.
    """
    with open(path, "rb"):
        pass  # raise OSError if the file does not exist
    try:
        return {name: NDArray(handle) for name, handle in _lib.params_load_file(os.fspath(path))}
    except TVMError as error:
        raise TVMError(f"{os.fspath(path)}: {error}") from None


def param_names(path: str | os.PathLike) -> list[str]:
    """Return the names in a parameter file without reading the arrays."""

    def word() -> int:
        return struct.unpack("<Q", file.read(8))[0]

    with open(path, "rb") as file:
        try:
            magic, _, count = word(), word(), word()
            left = os.fstat(file.fileno()).st_size
            if magic != _LIST_MAGIC or count > left:
                raise ValueError("the list of names is missing")
            return [file.read(min(word(), left)).decode() for _ in range(count)]
        except (struct.error, ValueError) as error:
            raise TVMError(f"{os.fspath(path)}: corrupt, truncated or not a parameter file: {error}") from None


@register_func("runtime.LoadParams", override=True)
def _load_params(blob: bytes, *pairs) -> dict[str, NDArray]:
    """Return parameters by name from serialized parameters, which may be empty, and from alternating names and arrays.

    C functions of the runtime call this to return parameters."""
    return {**(load_param_dict(blob) if blob else {}), **dict(zip(pairs[::2], pairs[1::2]))}
