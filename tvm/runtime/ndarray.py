"""N-dimensional arrays over DLPack tensors. ``tvm.nd`` is this module."""

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
# TVM names of the types that NumPy supports only through ml_dtypes.
_EXTENSION_TYPES = {"bfloat16": "bfloat16", "e4m3_float8": "float8_e4m3fn", "e5m2_float8": "float8_e5m2"}
_EXTENSION_NAMES = {theirs: ours for ours, theirs in _EXTENSION_TYPES.items()}


def dtype_triple(dtype: object) -> tuple[int, int, int]:
    """Convert a dtype, given as text, NumPy dtype or scalar type, to (code, bits, lanes)."""
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
    """Return the NumPy dtype of one element; vector lanes become a trailing dimension."""
    import numpy

    name = _dtype.element(text) if text not in _EXTENSION_TYPES and not text.startswith("complex") else text
    if name in _EXTENSION_TYPES:
        try:
            import ml_dtypes
        except ImportError:
            raise TVMError(
                f"NumPy does not define the type '{name}'; install the package ml_dtypes to exchange such arrays"
            ) from None
        return numpy.dtype(getattr(ml_dtypes, _EXTENSION_TYPES[name]))
    if name.startswith("custom"):
        raise TVMError(
            f"NumPy does not define the type '{text}'; cast the array to a NumPy type in a compiled program first"
        )
    try:
        return numpy.dtype(name)
    except TypeError:
        raise TVMError(f"NumPy has no type for '{text}'") from None


class NDArrayBase:
    """An array of the C runtime, identified by ``_tensor``, the address of its DLTensor."""

    __slots__ = ("_tensor", "_fields", "is_view", "__weakref__")

    def __init__(self, handle: int, is_view: bool = False):
        self._tensor = handle
        self._fields = None
        self.is_view = is_view

    def __del__(self, lib=lib, ending=sys.is_finalizing) -> None:
        # At interpreter exit, the callbacks that freeing may call no longer exist.
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
    """An n-dimensional array on a device.

    Parameters
    ----------
    handle : int
        The handle of the C array.
    is_view : bool, optional
        Whether the array does not own its memory.

    Examples
    --------
    >>> a = tvm.nd.array(np.zeros((2, 3), "float32"))
    >>> a.shape, a.dtype, a.device
    ((2, 3), 'float32', cpu(0))
    """

    __slots__ = ()

    def _read(self) -> tuple:
        # Shape and type of an array never change, so they are read from C only once.
        fields = self._fields
        if fields is None:
            if not self._tensor:
                raise TVMError("this array was valid only during a callback; copy it inside the callback")
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
        """Whether both are the same array in memory.

        Parameters
        ----------
        other : object
            The other array.

        Returns
        -------
        bool
            Whether both are the same array.
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
        """The old name of ``numpy``, kept for compatibility.

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
        """The value of an array with one element.

        Returns
        -------
        int, float or bool
            The value.
        """
        return self.numpy().item()

    def __getitem__(self, index: object):
        """Return a copy of an element or slice as a NumPy value."""
        return self.numpy()[index]

    def __setitem__(self, in_slice: object, value: object) -> None:
        """Assign the whole array: ``a[:] = value``; other indices are not supported."""
        whole = isinstance(in_slice, slice) and in_slice == slice(None)
        if not whole and in_slice is not Ellipsis:
            raise ValueError(f"an NDArray can only be assigned as a whole: a[:] = value, not a[{in_slice!r}]")
        if isinstance(value, NDArrayBase):
            if not self.same_as(value):
                value.copyto(self)
        else:
            self.copyfrom(value)

    def copyfrom(self, source_array: object) -> NDArray:
        """Copy a NumPy array, list or scalar into this array with conversion to its dtype; uint16 contains bfloat16
        bits.

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
                # Without ml_dtypes, bfloat16 values are represented as uint16 bits.
                source = source.view(target)
            source = source.astype(target, order="C", copy=False) if source.dtype != target else source
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"copyfrom: cannot convert {type(source_array).__name__} to an array of {self.dtype}: {error}"
            ) from None
        shape = self._numpy_shape()
        if source.shape != shape:
            # As in NumPy, a scalar fills the array; any other shape must match.
            if source.size != 1 or source.ndim > len(shape):
                raise ValueError(f"copyfrom: the array has shape {shape}, but the source has shape {source.shape}")
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
            The memory scope of a new array.

        Returns
        -------
        NDArray
            The array with the copy.

        Raises
        ------
        ValueError
            The target is neither an array nor a device, or its shape differs.
        """
        if isinstance(target, Device):
            target = empty(self.shape, self.dtype, target, mem_scope)
        if not isinstance(target, NDArrayBase):
            raise ValueError(f"copyto: expected an NDArray or a Device, got {type(target).__name__}")
        _lib.check(lib.TVMArrayCopyFromTo(self._tensor, target._tensor, None))
        return target

    def _create_view(self, shape: Sequence[int], dtype: str | None = None, byte_offset: int = 0) -> NDArray:
        """Create a view of the same memory with another shape and type."""
        triple = dtype_triple(dtype or self.dtype)
        return NDArray(_lib.array_view(self._tensor, [int(extent) for extent in shape], triple, byte_offset))

    def reshape(self, *shape) -> NDArray:
        """A view with another shape; one dimension may be -1.

        Parameters
        ----------
        *shape : int
            The dimensions, as separate arguments or as one tuple.

        Returns
        -------
        NDArray
            The view.

        Raises
        ------
        ValueError
            The number of elements differs.
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
            raise ValueError(f"reshape: {self.shape} has {self.size} elements, but {tuple(extents)} has {view.size}")
        return view

    # ---- DLPack ----

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device.device_type, self.device.device_id

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if self.is_view:
            raise BufferError("an array that is valid only during a callback cannot be shared; copy it first")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on {self.device}; copy it to the other device first")
        source = self.copyto(self.device) if copy else self
        if self.device.device_type != Device.kDLCPU and stream != -1:
            self.device.sync()  # streams of the consumer do not wait for our streams
        return _lib.export_capsule(source._tensor, max_version is not None and tuple(max_version) >= (1, 0))

    def to_dlpack(self):
        """A DLPack capsule of the array, which shares its memory.

        Returns
        -------
        PyCapsule
            The capsule, which ``from_dlpack`` of other packages accepts.
        """
        return self.__dlpack__()


def from_dlpack(dltensor: object) -> NDArray:
    """Create an array that shares the memory of a DLPack capsule or of an object with ``__dlpack__``."""
    if hasattr(dltensor, "__dlpack__"):
        try:
            dltensor = dltensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            dltensor = dltensor.__dlpack__()
    if type(dltensor).__name__ != "PyCapsule":
        raise TypeError(f"from_dlpack: {type(dltensor).__name__} is not a DLPack capsule and has no __dlpack__")
    return NDArray(_lib.import_capsule(dltensor))


def empty(shape, dtype="float32", device: Device | None = None, mem_scope: str | None = None) -> NDArray:
    """Create an array with undefined contents."""
    if mem_scope not in (None, "", "global"):
        raise TVMError(f"empty: memory scope '{mem_scope}' is not supported by the runtime; use 'global'")
    where = device if device is not None else cpu(0)
    extents = [int(extent) for extent in shape] if hasattr(shape, "__iter__") else [int(shape)]
    return NDArray(_lib.array_alloc(extents, dtype_triple(dtype), (where.device_type, where.device_id)))


def array(arr, device: Device | None = None, mem_scope: str | None = None) -> NDArray:
    """Create an array with a copy of ``arr`` (NDArray, NumPy array, list, scalar)."""
    import numpy

    where = device if device is not None else cpu(0)
    if isinstance(arr, NDArrayBase):
        return arr.copyto(empty(arr.shape, arr.dtype, where, mem_scope))
    source = numpy.asarray(arr)
    if source.dtype.kind in "OUSM":
        raise TypeError(
            f"array: cannot convert {type(arr).__name__} with elements of type {source.dtype} to an NDArray"
        )
    return empty(source.shape, source.dtype.name, where, mem_scope).copyfrom(source)


def elements(array: NDArray):
    """Return the elements as a read-only NumPy array: a view that keeps the array alive if it is compact and on the
    host, otherwise a copy."""
    found = _host_memory(array)
    if found is None:
        return array.numpy()
    found.flags.writeable = False
    return found


def _host_memory(array: NDArray):
    """Return a NumPy array over the memory of a compact host array, or None for other arrays."""
    import numpy

    shape, dtype, where, strides, address = array._read()
    if where.device_type != Device.kDLCPU or strides is not None or not array.size:
        return None
    kind, extents = numpy_dtype(dtype), array._numpy_shape()
    memory = _lib.memory_at(address, math.prod(extents) * kind.itemsize, array)
    return numpy.frombuffer(memory, kind).reshape(extents)


# The stride in bytes above which neighbours are on different cache lines, and how many cache lines fit in the L1 cache.
_LINE, _LINES = 64, 64
# The size in bytes above which several threads copy.
_MANY = 1 << 22


def _copy_in_blocks(target, source) -> None:
    """Copy a permuted NumPy array to a compact array, using several threads for large arrays.

    Elements that are adjacent in the destination may be a row apart in the source. Such rows are processed in small
    groups, so that each cache line is read only once."""
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
    """Create a host array from ``pieces``: pairs of a NumPy index and the elements at that index, in any order."""
    made = empty(shape, dtype)
    memory = _host_memory(made)
    if memory is not None:
        for where, source in pieces:
            _copy_in_blocks(memory[where], source)
    return made


def numpyasarray(np_data):
    """Create an array that shares the memory of a NumPy array."""
    return from_dlpack(np_data)
