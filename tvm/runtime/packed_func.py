"""Packed functions: one calling convention for compiled code, C and Python."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from numbers import Integral, Number

from ..error import TVMError
from . import _abi, _lib, vm_values
from ._lib import lib
from .container import convert_container
from .devices import Device
from .ndarray import NDArray, dtype_text, from_dlpack
from .object import Object

_pack_float = struct.Struct("=d").pack
_unpack_float = struct.Struct("=d").unpack
_pack_int = struct.Struct("=q").pack
_unpack_int = struct.Struct("=q").unpack
_pack_pair = struct.Struct("=ii").pack

_ALL_ARRAYS = [(_lib.NDARRAY,) * n for n in range(33)]


class PackedFunc:
    """A function with a C handle. ``is_global``: the global function table owns it.

    Parameters
    ----------
    handle : int
        The handle of the C function.
    is_global : bool, optional
        Whether the global function table owns it.
    keepalive : object, optional
        An object that must live as long as the function.
    """

    __slots__ = ("_function", "is_global", "_keepalive", "entry_name", "__weakref__")

    def __init__(self, handle: int, is_global: bool = False, keepalive: object = None):
        self._function = handle
        self.is_global = is_global
        self._keepalive = keepalive
        self.entry_name = None

    def __del__(self, lib=lib, ending=sys.is_finalizing) -> None:
        # At interpreter exit, the callbacks that freeing may call no longer exist.
        if self._function and not ending():
            lib.TVMFuncFree(self._function)

    @property
    def handle(self) -> int:
        return self._function

    def __call__(self, *args):
        try:
            # Fast path: all arguments are arrays.
            values = [arg._tensor for arg in args]
        except AttributeError:
            values = None
        # Outside the exception handler, so that an error of the call does not have the AttributeError as its context.
        if values is None or len(values) >= len(_ALL_ARRAYS):
            value, code = self._call_any(args)
        else:
            if 0 in values:
                raise TVMError("an array argument was valid only during a callback; copy it inside the callback")
            value, code = _lib.call(self._function, values, _ALL_ARRAYS[len(values)])
        return None if code == _lib.NULL else take_result(value, code)

    def _call_any(self, args: tuple) -> tuple[int, int]:
        encoded = [encode(arg) for arg in args]
        result = _lib.call(self._function, [item[0] for item in encoded], [item[1] for item in encoded])
        del encoded  # owns the memory that the values point to, so it must outlive the call
        return result


Function = PackedFunc


class PythonFunction(PackedFunc):
    """A packed function implemented by a Python callable. Python calls it directly; a C handle is created on demand."""

    __slots__ = ("python",)

    def __init__(self, python: Callable):
        super().__init__(0)
        self.python = python

    @property
    def handle(self) -> int:
        if not self._function:
            self._function = _lib.create_function(self.python)
        return self._function

    def __call__(self, *args):
        return normalize_result(self.python(*[normalize(arg) for arg in args]))


PackedFuncHandle = int


def convert_to_function(python: Callable) -> PackedFunc:
    """Convert a Python callable to a packed function."""
    return python if isinstance(python, PackedFunc) else PythonFunction(python)


# ---- values that remain in Python ----

_PLAIN = (str, int, float, bytes, bool, type(None), NDArray, Device, PackedFunc)


def normalize(value: object) -> object:
    """Return an argument of a packed function as the Python value that the callee receives."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple, dict)):
        return convert_container(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, Number) and not hasattr(value, "__array_priority__"):
        return value
    if isinstance(value, Integral):
        return int(value)
    if _is_function(value):
        return convert_to_function(value)
    return value


def normalize_result(value: object) -> object:
    return convert_container(value) if isinstance(value, (list, tuple, dict)) else value


def _is_function(value: object) -> bool:
    return type(value).__name__ in ("function", "method", "builtin_function_or_method", "partial")


# ---- conversion from Python to C ----


def _encode_int(value: Integral) -> tuple:
    number = int(value)
    if not -(1 << 63) <= number < 1 << 63:
        raise OverflowError(f"{number} does not fit in a 64-bit integer argument")
    return number, _lib.INT, None


def _encode_float(value: Number) -> tuple:
    return _unpack_int(_pack_float(float(value)))[0], _lib.FLOAT, None


def _encode_text(value: str) -> tuple:
    raw = value.encode()
    if b"\0" in raw:
        raise ValueError("a string argument contains a null character; pass bytes instead")
    address, keep = _lib.text_argument(raw)
    return address, _lib.STR, keep


def _encode_bytes(value: bytes | bytearray) -> tuple:
    address, keep = _lib.bytes_argument(value)
    return address, _lib.BYTES, keep


def _encode_object(value: object) -> tuple:
    handle = _lib.create_object(value)
    return handle, _lib.OBJECT, _OwnedObject(handle)


class _OwnedObject:
    __slots__ = ("handle",)

    def __init__(self, handle: int):
        self.handle = handle

    def __del__(self, lib=lib, ending=sys.is_finalizing) -> None:
        if not ending():
            lib.TVMObjectFree(self.handle)


_ENCODERS: dict[type, Callable[[object], tuple]] = {
    NDArray: lambda value: (value._tensor, _lib.NDARRAY, value),
    int: _encode_int,
    bool: _encode_int,
    float: _encode_float,
    str: _encode_text,
    bytes: _encode_bytes,
    bytearray: _encode_bytes,
    type(None): lambda value: (0, _lib.NULL, None),
    Device: lambda value: (_unpack_int(_pack_pair(value.device_type, value.device_id))[0], _lib.DEVICE, None),
    _abi.OpaqueHandle: lambda value: (value.value or 0, _lib.HANDLE, value),
    PackedFunc: lambda value: (value.handle, _lib.FUNCTION, value),
    PythonFunction: lambda value: (value.handle, _lib.FUNCTION, value),
}


def register_encoder(cls: type, encoder: Callable[[object], tuple]) -> None:
    """Register ``encoder(value)``, which returns (64-bit value, type code, object to keep alive during the call)."""
    _ENCODERS[cls] = encoder


def encode(value: object) -> tuple:
    """Return (64-bit value, type code, object to keep alive) of an argument."""
    encoder = _ENCODERS.get(type(value))
    return encoder(value) if encoder is not None else _encode_other(value)


def _encode_other(value: object) -> tuple:
    for cls, encoder in _ENCODERS.items():
        if isinstance(value, cls):
            return encoder(value)
    if hasattr(value, "_tvm_handle"):
        # Classes of other packages that wrap a TVM handle have these two attributes.
        return int(value._tvm_handle), getattr(value, "_tvm_tcode", _lib.OBJECT), value
    if isinstance(value, Integral):
        return _encode_int(value)
    if isinstance(value, Number):
        return _encode_float(value)
    if hasattr(value, "__dlpack__"):
        return _encode_tensor(value)
    if hasattr(value, "dtype") and hasattr(value, "item"):
        # NumPy scalars that are not Python numbers: bool, bfloat16.
        return encode(value.item())
    if isinstance(value, (list, tuple, dict)):
        return _encode_object(convert_container(value))
    if _is_function(value):
        function = convert_to_function(value)
        return function.handle, _lib.FUNCTION, function
    if isinstance(value, Object):
        return _encode_object(value)
    raise TypeError(f"a packed function cannot take an argument of type {type(value).__name__}")


def _encode_tensor(value: object) -> tuple:
    """Encode an array of another framework without a copy."""
    try:
        array = from_dlpack(value)
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError(
            f"a {type(value).__name__} argument cannot be used without a copy ({error}); pass tvm.nd.array(...)"
        ) from error
    return array._tensor, _lib.NDARRAY, array


# ---- conversion from C to Python ----


def _decode_float(value: int) -> float:
    return _unpack_float(_pack_int(value))[0]


def _decode_dtype(value: int) -> str:
    return dtype_text(struct.unpack("=BBH", _pack_int(value)[:4]))


def _decode_device(value: int) -> Device:
    return Device(*struct.unpack("=ii", _pack_int(value)))


_PLAIN_DECODERS: dict[int, Callable[[int], object]] = {
    _lib.INT: lambda value: value,
    _lib.UINT: lambda value: value,
    _lib.FLOAT: _decode_float,
    _lib.HANDLE: _abi.OpaqueHandle,
    _lib.NULL: lambda value: None,
    _lib.DTYPE: _decode_dtype,
    _lib.DEVICE: _decode_device,
    _lib.STR: _lib.read_text,
    _lib.BYTES: _lib.read_bytes,
    _lib.BOOL: bool,
}


def function_from_handle(handle: int, is_global: bool = False) -> PackedFunc:
    """Return the function of a handle, or the Python function it wraps; takes ownership of the reference."""
    python = _lib.python_function(handle)
    if python is None:
        return PackedFunc(handle, is_global)
    function = PythonFunction(python)
    function._function = handle
    function.is_global = is_global
    return function


def _take_object(handle: int) -> object:
    if lib.TVMObjectKind(handle) != _lib.FOREIGN:
        return vm_values.take(handle)
    try:
        return _lib.object_value(handle)
    finally:
        lib.TVMObjectFree(handle)


def _borrow_object(handle: int) -> object:
    if lib.TVMObjectKind(handle) != _lib.FOREIGN:
        lib.TVMObjectRetain(handle)
        return vm_values.take(handle)
    return _lib.object_value(handle)


# The receiver owns a result.
_RESULT_DECODERS: dict[int, Callable[[int], object]] = {
    **_PLAIN_DECODERS,
    _lib.NDARRAY: NDArray,
    _lib.FUNCTION: function_from_handle,
    _lib.OBJECT: _take_object,
}


def _borrow_array(handle: int) -> NDArray:
    lib.TVMArrayRetain(handle)
    return NDArray(handle)


def _borrow_function(handle: int) -> PackedFunc:
    lib.TVMFuncRetain(handle)
    return function_from_handle(handle)


# An argument of a callback is borrowed; arrays without an owner are views that are valid until the callback returns.
_ARGUMENT_DECODERS: dict[int, Callable[[int], object]] = {
    **_PLAIN_DECODERS,
    _lib.NDARRAY: _borrow_array,
    _lib.TENSOR: lambda handle: NDArray(handle, is_view=True),
    _lib.FUNCTION: _borrow_function,
    _lib.OBJECT: _borrow_object,
}


def register_decoder(code: int, result: Callable[[int], object], argument: Callable[[int], object]) -> None:
    _RESULT_DECODERS[code] = result
    _ARGUMENT_DECODERS[code] = argument


def take_result(value: int, code: int) -> object:
    decoder = _RESULT_DECODERS.get(code)
    if decoder is None:
        raise TVMError(f"a packed function returned a value with the unknown type code {code}")
    return decoder(value)


# Results of callbacks carry one reference, which C takes over.
_RETAIN = {_lib.NDARRAY: "TVMArrayRetain", _lib.FUNCTION: "TVMFuncRetain", _lib.MODULE: "TVMModRetain"}


def _encode_result(value: object) -> tuple[int, int, bytes | None]:
    if isinstance(value, str):
        return 0, _lib.STR, value.encode()
    if isinstance(value, (bytes, bytearray)):
        return 0, _lib.BYTES, bytes(value)
    number, code, keep = encode(value)
    if code in _RETAIN:
        if isinstance(value, NDArray) and value.is_view:
            raise TVMError("a callback returned an array that is valid only during the callback; return a copy")
        getattr(lib, _RETAIN[code])(number)
    elif isinstance(keep, _OwnedObject):
        return _lib.create_object(_lib.object_value(number)), code, None
    return number, code, None


def _invoke(python: Callable, values: list[int], codes: list[int]) -> tuple[int, int, bytes | None]:
    arguments = [_ARGUMENT_DECODERS[code](value) for value, code in zip(values, codes, strict=True)]
    try:
        return _encode_result(python(*arguments))
    finally:
        for argument in arguments:
            if type(argument) is NDArray and argument.is_view:
                argument._tensor = 0
                argument._fields = None


_lib.INVOKE.give(_invoke)
