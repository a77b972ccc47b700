"""HDF5 files as Keras writes them, read through the package h5py. Nothing outside the file is read: links into other
files, data stored in other files and data assembled from other files are refused. Data is read only when it is asked
for, and has at most the size that the bytes of the file can hold."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ....error import TVMError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# What the strongest compression of the format makes of one byte.
_MOST_PACKED = 1100
_MOST_DEPTH = 64


def h5py_module():
    """The package h5py, which an installation without extras does not have.

    Raises
    ------
    TVMError
        It is not installed.
    """
    try:
        import h5py
    except ImportError as problem:
        raise TVMError(
            "Keras stores models in HDF5 files, which are read through the package h5py; install it with "
            "pip install h5py, or with this package as tvm-classic[keras]"
        ) from problem
    return h5py


@contextmanager
def _in_words(what: str) -> Iterator[None]:
    """What goes wrong inside h5py is the file's fault."""
    try:
        yield
    except TVMError:
        raise
    except MemoryError as problem:
        raise TVMError(f"{what}: there is not enough memory for this") from problem
    except Exception as problem:
        raise TVMError(f"{what} of the HDF5 file is damaged: {problem or type(problem).__name__}") from problem


class Weight:
    """Data of the file: its name, and its elements when they are asked for."""

    def __init__(self, name: str, data, size: int):
        self.name = name
        self._data, self._size = data, size

    def array(self) -> np.ndarray:
        """The elements.

        Raises
        ------
        TVMError
            They are damaged, lie in another file, or are no numbers.
        """
        data, what = self._data, f"the data '{self.name}'"
        with _in_words(what):
            kind, shape = data.dtype, data.shape
            if kind.kind not in "fiub" or shape is None:
                raise TVMError(f"{what} of the HDF5 file has elements of {kind}; numbers are wanted")
            count = math.prod(shape) * kind.itemsize
            if data.external or data.is_virtual:
                raise TVMError(f"{what} lies in another file, which is not read")
            if count > _MOST_PACKED * min(self._size, max(data.id.get_storage_size(), 0)):
                raise TVMError(f"{what} would take {count} bytes, more than the file can hold")
            found = np.asarray(data[()])
        return found


class Group:
    """A group of the file."""

    def __init__(self, group, size: int, path: str = "", depth: int = 0):
        self._group, self._size = group, size
        self.path, self._depth = path, depth

    def _member(self, name: str):
        h5py = h5py_module()
        found = self._group
        for part in name.strip("/").split("/"):
            with _in_words(f"the entry '{self.path}/{name}'"):
                if not isinstance(found, h5py.Group):
                    return None
                link = found.get(part, getlink=True) if part else None
                if link is None:
                    return None
                if not isinstance(link, h5py.HardLink):
                    raise TVMError(
                        f"'{self.path}/{name}' of the HDF5 file is a link to another place, which is not followed"
                    )
                found = found[part]
        return found

    def group(self, name: str) -> Group | None:
        """A group inside this one, or None."""
        if self._depth >= _MOST_DEPTH:
            raise TVMError(f"the groups of the HDF5 file are nested deeper than {_MOST_DEPTH}")
        found = self._member(name)
        if not isinstance(found, h5py_module().Group):
            return None
        return Group(found, self._size, f"{self.path}/{name}", self._depth + 1)

    def weight(self, name: str) -> Weight | None:
        """Data inside this group, or None."""
        found = self._member(name)
        return Weight(f"{self.path}/{name}", found, self._size) if isinstance(found, h5py_module().Dataset) else None

    def text(self, name: str) -> str | None:
        """An attribute that is a text, or None."""
        with _in_words(f"the attribute '{name}'"):
            if name not in self._group.attrs:
                return None
            self._bounded(name)
            found = self._group.attrs[name]
            return _decoded(found)

    def texts(self, name: str) -> list[str]:
        """An attribute that is a list of texts; one too long for an attribute is stored in numbered parts."""
        out: list[str] = []
        with _in_words(f"the attribute '{name}'"):
            if name in self._group.attrs:
                return self._part(name)
            for number in range(1 << 16):
                if f"{name}{number}" not in self._group.attrs:
                    break
                out += self._part(f"{name}{number}")
        return out

    def _part(self, name: str) -> list[str]:
        self._bounded(name)
        return [_decoded(v) for v in np.asarray(self._group.attrs[name]).reshape(-1)]

    def _bounded(self, name: str) -> None:
        found = self._group.attrs.get_id(name)
        if math.prod(found.shape or (1,)) * max(found.dtype.itemsize, 1) > _MOST_PACKED * self._size:
            raise TVMError(f"the attribute '{name}' would be larger than the file")


def _decoded(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if not isinstance(value, str):
        raise TVMError(f"a text is wanted, got {type(value).__name__}")
    return value


@contextmanager
def opened(data: bytes | str) -> Iterator[Group]:
    """The outermost group of a file, given by its path or its bytes.

    Raises
    ------
    TVMError
        It is no HDF5 file.
    """
    h5py = h5py_module()
    with _in_words("the beginning"):
        file = h5py.File(io.BytesIO(data) if isinstance(data, bytes) else data, "r")
    try:
        with _in_words("the beginning"):
            size = file.id.get_filesize()
        yield Group(file, size)
    finally:
        with _in_words("the end"):
            file.close()


__all__ = ["SIGNATURE", "Group", "Weight", "h5py_module", "opened"]
