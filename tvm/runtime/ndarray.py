"""Arrays over DLPack tensors. ``tvm.nd`` is this module."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from .. import dtype as _dtype
from ..error import TVMError
from . import _lib
from ._lib import lib
from .devices import (
    Device,
    cl,
    cpu,
    cuda,
    device,
    ext_dev,
    gpu,
    hexagon,
    metal,
    mtl,
    opencl,
    rocm,
    vpi,
    vulkan,
    webgpu,
)

__all__ = [
    "Device",
    "NDArray",
    "NDArrayBase",
    "array",
    "cl",
    "cpu",
    "cuda",
    "device",
    "empty",
    "ext_dev",
    "from_dlpack",
    "gpu",
    "hexagon",
    "metal",
    "mtl",
    "numpyasarray",
    "opencl",
    "rocm",
    "vpi",
    "vulkan",
    "webgpu",
]

_CODE_NAMES = {
    0: "int",
    1: "uint",
    2: "float",
    3: "handle",
    4: "bfloat",
    5: "complex",
    6: "e4m3_float",
    7: "e5m2_float",
}
_CODE_NUMBERS = {name: number for number, name in _CODE_NAMES.items()}
# Types NumPy knows only through ml_dtypes, by our name.
_EXTENSION_TYPES = {"bfloat16": "bfloat16", "e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}
_EXTENSION_NAMES = {theirs: ours for ours, theirs in _EXTENSION_TYPES.items()}


def dtype_triple(dtype: object) -> tuple[int, int, int]:
    """(code, bits, lanes) of a dtype given as text, NumPy dtype or scalar type."""
    text = dtype if isinstance(dtype, str) else _dtype_of_object(dtype)
    text = _EXTENSION_NAMES.get(text, text)
    if text in _EXTENSION_TYPES and text != "bfloat16":
        return _CODE_NUMBERS[text[:-1]], 8, 1
    if text.startswith("complex"):
        return 5, int(text[7:]), 1
    info = _dtype.info(text)
    if info.is_custom:
        return _dtype.dlpack_parts(text)
    return _CODE_NUMBERS["uint" if info.code == "bool" else info.code], info.bits, info.lanes


def _dtype_of_object(dtype: object) -> str:
    import numpy

    try:
        return numpy.dtype(dtype).name
    except TypeError:
        raise TypeError(f"{dtype!r} is not a data type") from None


def dtype_text(triple: tuple[int, int, int]) -> str:
    code, bits, lanes = triple
    name = _CODE_NAMES.get(code)
    if name is None:
        name = next((f"custom[{own}]" for own, number in _dtype.CUSTOM.items() if number == code), None)
    if name is None:
        raise TVMError(f"unknown data type code {code}")
    return _dtype.make(name, bits, lanes)


def numpy_dtype(text: str):
    """The NumPy dtype of one element; lanes become a last dimension."""
    import numpy

    name = _dtype.element(text) if text not in _EXTENSION_TYPES and not text.startswith("complex") else text
    if name in _EXTENSION_TYPES:
        try:
            import ml_dtypes
        except ImportError:
            raise TVMError(
                f"NumPy has no type '{name}' of its own; install the package ml_dtypes to exchange such arrays"
            ) from None
        return numpy.dtype(getattr(ml_dtypes, _EXTENSION_TYPES[name]))
    if name.startswith("custom"):
        raise TVMError(f"NumPy has no type '{text}'; cast the array to a type of NumPy by a program first")
    try:
        return numpy.dtype(name)
    except TypeError:
        raise TVMError(f"NumPy has no type for '{text}'") from None


class NDArrayBase:
    """An array known to the C runtime by ``_tensor``, the address of its DLTensor."""

    __slots__ = ("_tensor", "_fields", "is_view", "__weakref__")

    def __init__(self, handle: int, is_view: bool = False):
        self._tensor = handle
        self._fields = None
        self.is_view = is_view

    def __del__(self, lib=lib, ending=sys.is_finalizing) -> None:
        # At the end of the interpreter the callbacks that freeing may run are gone already.
        if not self.is_view and self._tensor and not ending():
            lib.TVMArrayFree(self._tensor)

    @property
    def handle(self):
        """A ctypes pointer to the DLTensor."""
        return _lib.tensor_pointer(self._tensor)

    @property
    def _tvm_handle(self) -> int:
        """The address of the DLTensor, for classes that wrap an array."""
        return self._tensor


class NDArray(NDArrayBase):
    """An n-dimensional array on some device.

    Parameters
    ----------
    handle : int
        The handle of the C side.
    is_view : bool, optional
        Whether the memory belongs to somebody else.

    Examples
    --------
    >>> a = tvm.nd.array(np.zeros((2, 3), "float32"))
    >>> a.shape, a.dtype, a.device
    ((2, 3), 'float32', cpu(0))
    """

    __slots__ = ()

    def _read(self) -> tuple:
        # Shape and type of an array never change, so they are read from C once.
        fields = self._fields
        if fields is None:
            if not self._tensor:
                raise TVMError("this array was lent to a callback and is gone now; copy it inside the callback")
            data, where, triple, shape, strides, offset = _lib.read_tensor(self._tensor)
            fields = self._fields = (
                shape,
                dtype_text(triple),
                Device(*where),
                strides,
                data + offset if data else offset,
            )
        return fields

    @property
    def shape(self) -> tuple[int, ...]:
        return self._read()[0]

    @property
    def dtype(self) -> str:
        return self._read()[1]

    @property
    def device(self) -> Device:
        return self._read()[2]

    ctx = device

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Element strides, or None when the array is compact and row major."""
        return self._read()[3]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        total = 1
        for extent in self.shape:
            total *= extent
        return total

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d array")
        return self.shape[0]

    def same_as(self, other: object) -> bool:
        """True when both are the same array in memory.

        Parameters
        ----------
        other : object
            The other.

        Returns
        -------
        bool
            Whether they are.
        """
        return isinstance(other, NDArrayBase) and self._tensor == other._tensor

    def __eq__(self, other: object) -> bool:
        return self.same_as(other)

    def __ne__(self, other: object) -> bool:
        return not self.same_as(other)

    def __hash__(self) -> int:
        return hash(self._tensor)

    def __repr__(self) -> str:
        return f"<tvm.nd.NDArray shape={self.shape}, {self.device}>\n{self.numpy()!r}"

    def __str__(self) -> str:
        return str(self.numpy())

    # ---- NumPy ----

    def _numpy_shape(self) -> tuple[int, ...]:
        lanes = dtype_triple(self.dtype)[2]
        return self.shape if lanes == 1 else (*self.shape, lanes)

    def numpy(self):
        """A NumPy array with a copy of the data.

        Returns
        -------
        numpy.ndarray
            The copy.
        """
        import numpy

        out = numpy.empty(self._numpy_shape(), numpy_dtype(self.dtype))
        _lib.check(lib.TVMArrayCopyToBytes(self._tensor, out.ctypes.data, out.nbytes))
        return out

    def asnumpy(self):
        """The old name of ``numpy``.

        Returns
        -------
        numpy.ndarray
            A copy of the data.
        """
        return self.numpy()

    def __array__(self, dtype=None, copy=None):
        out = self.numpy()
        return out if dtype is None else out.astype(dtype, copy=False)

    def item(self):
        """The one number of an array of one element.

        Returns
        -------
        int, float or bool
            The number.
        """
        return self.numpy().item()

    def __getitem__(self, index: object):
        """Reading by index copies: the result is a NumPy value."""
        return self.numpy()[index]

    def __setitem__(self, in_slice: object, value: object) -> None:
        """``a[:] = value``: only the whole array can be assigned."""
        whole = isinstance(in_slice, slice) and in_slice == slice(None)
        if not whole and in_slice is not Ellipsis:
            raise ValueError(f"an NDArray is assigned as a whole: a[:] = value, not a[{in_slice!r}]")
        if isinstance(value, NDArrayBase):
            if not self.same_as(value):
                value.copyto(self)
        else:
            self.copyfrom(value)

    def copyfrom(self, source_array: object) -> NDArray:
        """Copy a NumPy array, list or number into this array, with conversion to its dtype; uint16 gives the bits of
        bfloat16.

        Parameters
        ----------
        source_array : NDArray, array, list or number
            The data.

        Returns
        -------
        NDArray
            This array.

        Raises
        ------
        ValueError
            The shapes differ.
        TypeError
            The data cannot be converted.
        """
        import numpy

        if isinstance(source_array, NDArrayBase):
            source_array.copyto(self)
            return self
        target = numpy_dtype(self.dtype)
        try:
            source = numpy.asarray(source_array)
            if source.dtype == numpy.uint16 and self.dtype == "bfloat16":
                # Scripts without ml_dtypes hold bfloat16 as bits.
                source = source.view(target)
            source = source.astype(target, order="C", copy=False) if source.dtype != target else source
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"copyfrom: {type(source_array).__name__} cannot become an array of {self.dtype}: {error}"
            ) from None
        shape = self._numpy_shape()
        if source.shape != shape:
            # A scalar fills the array, as in NumPy; any other shape must match.
            if source.size != 1 or source.ndim > len(shape):
                raise ValueError(f"copyfrom: the array has shape {shape}, the source {source.shape}")
            source = numpy.broadcast_to(source, shape)
        if not source.flags.c_contiguous:
            memory = _host_memory(self)
            packed = numpy.empty(shape, target) if memory is None else memory
            _copy_in_blocks(packed, source)
            if memory is not None:
                return self
            source = packed
        _lib.check(lib.TVMArrayCopyFromBytes(self._tensor, source.ctypes.data, source.nbytes))
        return self

    def copyto(self, target: NDArray | Device, mem_scope: str | None = None) -> NDArray:
        """Copy into ``target``, or into a new array on the device ``target``.

        Parameters
        ----------
        target : NDArray or Device
            The destination.
        mem_scope : str, optional
            The kind of memory of a new array.

        Returns
        -------
        NDArray
            The array with the copy.

        Raises
        ------
        ValueError
            The target is neither an array nor a device, or has another shape.
        """
        if isinstance(target, Device):
            target = empty(self.shape, self.dtype, target, mem_scope)
        if not isinstance(target, NDArrayBase):
            raise ValueError(f"copyto: expected an NDArray or a Device, got {type(target).__name__}")
        _lib.check(lib.TVMArrayCopyFromTo(self._tensor, target._tensor, None))
        return target

    def _create_view(self, shape: Sequence[int], dtype: str | None = None, byte_offset: int = 0) -> NDArray:
        """An array on the same memory, with another shape and type."""
        triple = dtype_triple(dtype or self.dtype)
        return NDArray(_lib.array_view(self._tensor, [int(extent) for extent in shape], triple, byte_offset))

    def reshape(self, *shape) -> NDArray:
        """A view with another shape; one extent may be -1.

        Parameters
        ----------
        *shape : int
            The extents, one by one or as one tuple.

        Returns
        -------
        NDArray
            The view.

        Raises
        ------
        ValueError
            The shape has another number of elements.
        """
        extents = [
            int(extent) for extent in (shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)
        ]
        if extents.count(-1) == 1:
            known = 1
            for extent in extents:
                known *= extent if extent != -1 else 1
            if known:
                extents[extents.index(-1)] = self.size // known
        view = self._create_view(extents)
        if view.size != self.size:
            raise ValueError(f"reshape: {self.shape} has {self.size} elements, {tuple(extents)} has {view.size}")
        return view

    # ---- DLPack ----

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.device_type, self.device.device_id

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if self.is_view:
            raise BufferError("an array lent to a callback cannot be shared; copy it first")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on {self.device}; copy it to the other device first")
        source = self.copyto(self.device) if copy else self
        if self.device.device_type != Device.kDLCPU and stream != -1:
            self.device.sync()  # a consumer's streams do not wait for ours
        return _lib.export_capsule(source._tensor, max_version is not None and tuple(max_version) >= (1, 0))

    def to_dlpack(self):
        """A DLPack capsule of the array, without a copy.

        Returns
        -------
        PyCapsule
            The capsule, which ``from_dlpack`` of any package takes.
        """
        return self.__dlpack__()


def from_dlpack(dltensor: object) -> NDArray:
    """An array on the memory of a DLPack capsule, or of any object with ``__dlpack__``, without a copy."""
    if hasattr(dltensor, "__dlpack__"):
        try:
            dltensor = dltensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            dltensor = dltensor.__dlpack__()
    if type(dltensor).__name__ != "PyCapsule":
        raise TypeError(f"from_dlpack: {type(dltensor).__name__} is not a DLPack capsule and has no __dlpack__")
    return NDArray(_lib.import_capsule(dltensor))


def empty(shape, dtype="float32", device: Device | None = None, mem_scope: str | None = None) -> NDArray:
    """A new array whose contents are undefined."""
    if mem_scope not in (None, "", "global"):
        raise TVMError(f"empty: memory scope '{mem_scope}' is not supported by the runtime; only 'global' is")
    where = device if device is not None else cpu(0)
    extents = [int(extent) for extent in shape] if hasattr(shape, "__iter__") else [int(shape)]
    return NDArray(_lib.array_alloc(extents, dtype_triple(dtype), (where.device_type, where.device_id)))


def array(arr, device: Device | None = None, mem_scope: str | None = None) -> NDArray:
    """A new array with a copy of ``arr`` (NDArray, NumPy array, list, number)."""
    import numpy

    where = device if device is not None else cpu(0)
    if isinstance(arr, NDArrayBase):
        return arr.copyto(empty(arr.shape, arr.dtype, where, mem_scope))
    source = numpy.asarray(arr)
    if source.dtype.kind in "OUSM":
        raise TypeError(f"array: {type(arr).__name__} with elements of type {source.dtype} has no NDArray form")
    return empty(source.shape, source.dtype.name, where, mem_scope).copyfrom(source)


def elements(array: NDArray):
    """The elements of an array as a NumPy array that is only read: on the array's memory if that is compact and of the
    host, which it keeps, and a copy otherwise."""
    found = _host_memory(array)
    if found is None:
        return array.numpy()
    found.flags.writeable = False
    return found


def _host_memory(array: NDArray):
    """A NumPy array on the memory of a compact array of the host; None for others."""
    import numpy

    shape, dtype, where, strides, address = array._read()
    if where.device_type != Device.kDLCPU or strides is not None or not array.size:
        return None
    kind, extents = numpy_dtype(dtype), array._numpy_shape()
    memory = _lib.memory_at(address, math.prod(extents) * kind.itemsize, array)
    return numpy.frombuffer(memory, kind).reshape(extents)


# Bytes from which on neighbours lie on different cache lines, and how many of these stay in the first cache.
_LINE, _LINES = 64, 64
# Bytes from which on several threads copy.
_MANY = 1 << 22


def _copy_in_blocks(target, source) -> None:
    """Copy a NumPy array in another order of elements to a compact one, many of them in several threads. Elements that
    come to lie side by side may be a row apart before: the rows are then taken a few at a time, so that a cache line is
    read once for all it has."""
    from .host_cpu import usable_cores

    is_strided = abs(source.strides[-1]) >= _LINE
    threads = min(usable_cores(), 8) if target.nbytes >= _MANY else 1
    axis = target.ndim - 1 if is_strided else 0
    size = target.shape[axis]
    block = _LINES if is_strided else -(-size // threads)

    def copy(first: int) -> None:
        part = (*[slice(None)] * axis, slice(first, first + block))
        target[part] = source[part]

    places = range(0, size, max(block, 1))
    if threads == 1 or len(places) == 1:
        for first in places:
            copy(first)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(copy, places))


def assembled(shape: tuple[int, ...], dtype: str, pieces: Iterable[tuple[Any, Any]]) -> NDArray:
    """An array of the host whose memory takes ``pieces``: where each goes, as NumPy indexes, and its elements, many and
    in any order."""
    made = empty(shape, dtype)
    memory = _host_memory(made)
    if memory is not None:
        for where, source in pieces:
            _copy_in_blocks(memory[where], source)
    return made


def numpyasarray(np_data):
    """An array on the memory of a NumPy array, without a copy."""
    return from_dlpack(np_data)
