"""Calls of ``libtvm_runtime`` through ctypes; ``_abi.py`` declares its functions.

Handles are plain integers (addresses). A call that fails raises TVMError
with the message from C, or the original exception if a Python callback raised it.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import signal
import struct
import sys
import threading
from collections.abc import Sequence

from ..error import TVMError, error_from_text
from ..hooks import Hook
from ._abi import (
    C_ADDRESS,
    C_CALLBACK,
    C_CHECK,
    C_FINALIZER,
    C_FORK,
    C_INT,
    C_SIGNATURES,
    C_SIZE,
    C_TEXT,
    C_U64,
    ByteArray,
    DLDataType,
    DLDevice,
    DLTensor,
    RPCServerOptions,
    TimeOptions,
)
from ._paths import find_library

# Type codes of packed values.
INT, UINT, FLOAT, HANDLE, NULL, DTYPE, DEVICE = range(7)
TENSOR, OBJECT, MODULE, FUNCTION, STR, BYTES, NDARRAY, RVALUE, BOOL = range(7, 16)


class _Library:
    """Load the library at the first use of a function, so that compiling does not need a built runtime."""

    def is_loaded(self) -> bool:
        return "TVMGetLastError" in self.__dict__

    def __getattr__(self, name: str):
        if name not in C_SIGNATURES:
            raise AttributeError(name)
        with _load_lock:
            if not self.is_loaded():
                self._load()
        return self.__dict__[name]

    def _load(self) -> None:
        path = find_library()
        try:
            library = ctypes.CDLL(path)
            found = {name: getattr(library, name) for name in C_SIGNATURES}
        except (OSError, AttributeError) as error:
            raise TVMError(f"cannot load the runtime library {path}: {error}; rebuild it with 'make -C csrc'") from None
        for name, (result, arguments) in C_SIGNATURES.items():
            found[name].restype = result
            found[name].argtypes = arguments
        found["TVMSetInterruptCheck"](_interrupt_check)
        # Threads that still compute when the interpreter ends must no longer call into it.
        atexit.register(found["TVMSetInterruptCheck"], C_CHECK())
        found["TVMSetForeignCaller"](_callback)
        self.__dict__.update(found)
        self.__dict__["_opened"] = library

    def address(self, name: str) -> int | None:
        """Return the address of an exported symbol, or None if the library does not export it.

        The library is loaded with RTLD_LOCAL, so code that is compiled in this process needs the addresses."""
        self.TVMGetLastError  # noqa: B018
        found = getattr(self.__dict__["_opened"], name, None)
        return None if found is None else ctypes.cast(found, ctypes.c_void_p).value


_load_lock = threading.RLock()
lib = _Library()

# ---- errors ----

_tokens = itertools.count(1)
# Exceptions that pass through C. Bounded, because C may replace an error with its own and never fetch this one.
_pending: dict[int, BaseException] = {}
_PENDING_LIMIT = 256


def store_exception(error: BaseException) -> None:
    """Make ``error`` the last error of this thread; it is raised again when C returns to Python."""
    token = next(_tokens)
    while len(_pending) >= _PENDING_LIMIT:
        _pending.pop(next(iter(_pending)), None)
    _pending[token] = error
    text = f"{type(error).__name__}: {error}"
    lib.TVMSetForeignError(text.encode("utf-8", "replace").replace(b"\0", b"?"), token)


def raise_last_error() -> None:
    """Raise the error of the last failed call on this thread."""
    token = lib.TVMTakeForeignError()
    if token == _INTERRUPTED:
        # Run the handler of Ctrl-C, which usually raises; C only recorded the signal.
        signal.raise_signal(signal.SIGINT)
        raise KeyboardInterrupt
    error = _pending.pop(token, None)
    if error is None:
        text = (lib.TVMGetLastError() or b"").decode("utf-8", "replace")
        error = error_from_text(text or "the call failed without a message")
    try:
        raise error
    finally:
        del error  # avoids a reference cycle between frame and exception


def check(status: int) -> None:
    if status:
        raise_last_error()


_INTERRUPTED = (1 << 64) - 1
# The callback is a C function: in a Python function, the signal handler would run before the function's own `try`.
_interrupt_check = C_CHECK(ctypes.PYFUNCTYPE(C_INT)(("PyOS_InterruptOccurred", ctypes.pythonapi)))


# ---- calling ----

_HEADER_BYTES = 32
_FRAME_ARGUMENTS = 32
_CODE_OFFSET = 16


class Frame:
    """Memory of one call; frames are reused. The pool is a list: its pop and append are atomic between threads."""

    __slots__ = ("buffer", "pointer")

    def __init__(self, arguments: int = _FRAME_ARGUMENTS):
        self.buffer = ctypes.create_string_buffer(_HEADER_BYTES + 12 * arguments + 8)
        self.pointer = ctypes.c_void_p(ctypes.addressof(self.buffer))


_free_frames: list[Frame] = []
_packers = [struct.Struct(f"=qqqq{n}q{n}i").pack_into for n in range(_FRAME_ARGUMENTS + 1)]
_read_result = struct.Struct("=qq").unpack_from


def fill_frame(function: int, values: Sequence[int], codes: Sequence[int]) -> Frame:
    count = len(values)
    if count > _FRAME_ARGUMENTS:
        frame = Frame(count)
        struct.pack_into(f"=qqqq{count}q{count}i", frame.buffer, 0, function, count, 0, NULL, *values, *codes)
        return frame
    try:
        frame = _free_frames.pop()
    except IndexError:
        frame = Frame()
    _packers[count](frame.buffer, 0, function, count, 0, NULL, *values, *codes)
    return frame


def release_frame(frame: Frame) -> None:
    if len(frame.buffer) == _HEADER_BYTES + 12 * _FRAME_ARGUMENTS + 8:
        _free_frames.append(frame)


def call(function: int, values: Sequence[int], codes: Sequence[int]) -> tuple[int, int]:
    """Call a function handle and return (value, type code) of the result; the caller owns the value."""
    count = len(values)
    if count > _FRAME_ARGUMENTS:
        frame = fill_frame(function, values, codes)
        check(lib.TVMFuncCallFrame(frame.pointer))
        return _read_result(frame.buffer, _CODE_OFFSET)
    try:
        frame = _free_frames.pop()
    except IndexError:
        frame = Frame()
    buffer = frame.buffer
    _packers[count](buffer, 0, function, count, 0, NULL, *values, *codes)
    status = lib.TVMFuncCallFrame(frame.pointer)
    result = _read_result(buffer, _CODE_OFFSET)
    _free_frames.append(frame)
    if status:
        raise_last_error()
    return result


def time_call(function: int, values: Sequence[int], codes: Sequence[int], options: dict) -> list[float]:
    frame = fill_frame(function, values, codes)
    device = DLDevice(*options.pop("device"))
    record = TimeOptions(device=device, **options)
    seconds = (ctypes.c_double * max(record.repeat, 1))()
    try:
        check(lib.TVMFuncTime(frame.pointer, ctypes.byref(record), ctypes.addressof(seconds)))
    finally:
        release_frame(frame)
    return list(seconds)


# ---- callbacks ----

# Python values that C refers to by token: functions, objects and values that modules keep alive.
_kept: dict[int, object] = {}


@C_FINALIZER
def _drop(token: int, kept: dict = _kept) -> None:
    # Default argument: module globals may already be deleted when the interpreter ends.
    kept.pop(token, None)


def keep(value: object) -> int:
    token = next(_tokens)
    _kept[token] = value
    return token


INVOKE: Hook[[object, list[int], list[int]], tuple[int, int, bytes | None]] = Hook(
    "runtime._lib.INVOKE", "calls a Python function with values and type codes; returns a value, its code, or bytes"
)

_FAILED = -2


@C_CALLBACK
def _callback(values: int, codes: int, count: int, ret: int, ret_code: int, token: int) -> int:
    try:
        arguments = (ctypes.c_int64 * count).from_address(values)[:] if count else []
        kinds = (ctypes.c_int32 * count).from_address(codes)[:] if count else []
        value, code, text = INVOKE(_kept[token], arguments, kinds)
        if text is not None:
            return lib.TVMReturnBytes(text, len(text), code, ret, ret_code)
        ctypes.c_int64.from_address(ret).value = value
        ctypes.c_int32.from_address(ret_code).value = code
        return 0
    except BaseException as error:
        store_exception(error)
        ctypes.c_int32.from_address(ret_code).value = _FAILED
        return -1


def _out() -> ctypes.c_void_p:
    return ctypes.c_void_p()


def create_function(function: object) -> int:
    out = _out()
    check(lib.TVMFuncCreateForeign(keep(function), _drop, ctypes.addressof(out)))
    return out.value


def python_function(handle: int) -> object | None:
    """The Python function of a handle, or None if the function is not a Python function."""
    return _kept.get(lib.TVMFuncForeignToken(handle))


def register_global(name: str, handle: int, override: bool) -> None:
    check(lib.TVMFuncRegisterGlobal(name.encode(), handle, int(override)))


def get_global(name: str) -> int | None:
    out = _out()
    check(lib.TVMFuncGetGlobal(name.encode(), ctypes.addressof(out)))
    return out.value


def global_names() -> list[str]:
    size, names = ctypes.c_int(), ctypes.POINTER(ctypes.c_char_p)()
    check(lib.TVMFuncListGlobalNames(ctypes.addressof(size), ctypes.addressof(names)))
    return sorted(names[i].decode() for i in range(size.value))


def create_object(value: object) -> int:
    out = _out()
    check(lib.TVMObjectCreate(keep(value), _drop, ctypes.addressof(out)))
    return out.value


def object_value(handle: int) -> object:
    return _kept[lib.TVMObjectToken(handle)]


# ---- ADT values of the virtual machine ----

# Kinds of objects: values of the embedding language, ADT values, and closures.
FOREIGN, ADT, CLOSURE = range(3)


def data_create(tag: int, values: Sequence[int], codes: Sequence[int]) -> int:
    """Create an ADT value; the caller keeps its references to the fields."""
    count = len(values)
    fields, kinds, out = (ctypes.c_int64 * count)(*values), (ctypes.c_int * count)(*codes), _out()
    check(lib.TVMADTCreate(tag, ctypes.addressof(fields), ctypes.addressof(kinds), count, ctypes.addressof(out)))
    return out.value


def data_fields(handle: int) -> list[tuple[int, int]]:
    """Return values and type codes of the fields of an ADT value; the caller owns them."""
    found = []
    for index in range(lib.TVMADTSize(handle)):
        value, code = ctypes.c_int64(), ctypes.c_int()
        check(lib.TVMADTField(handle, index, ctypes.addressof(value), ctypes.addressof(code)))
        found.append((value.value, code.value))
    return found


# ---- text and bytes ----


def text_argument(text: bytes) -> tuple[int, object]:
    """Return the address of null-terminated ``text`` and the object that owns the memory."""
    holder = ctypes.c_char_p(text)
    return ctypes.cast(holder, C_ADDRESS).value, holder


def bytes_argument(data: bytes | bytearray) -> tuple[int, object]:
    """Return the address of a TVMByteArray of ``data`` and the object that owns both; the data is not copied."""
    if data and isinstance(data, bytearray):
        holder = ctypes.c_char.from_buffer(data)
        address = ctypes.addressof(holder)
    else:
        holder = ctypes.c_char_p(bytes(data))
        address = ctypes.cast(holder, C_ADDRESS).value
    record = ByteArray(address, len(data))
    return ctypes.addressof(record), (holder, record)


def checksum(parts: Sequence[bytes | memoryview]) -> int:
    """Compute the checksum of data in several buffers without copying it."""
    import numpy

    arrays = [numpy.frombuffer(part, "uint8") for part in parts if len(part)]
    addresses = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    sizes = (C_SIZE * len(arrays))(*(array.size for array in arrays))
    return lib.TVMChecksumOfParts(addresses, sizes, len(arrays))


def checksum_of_file(path: str, size: int) -> int:
    """Compute the checksum of the first ``size`` bytes of a file, which is read in blocks."""
    out = C_U64()
    check(lib.TVMChecksumOfFile(os.fsencode(path), size, ctypes.addressof(out)))
    return out.value


def cpu_lacks(feature: str) -> bool:
    """Return whether the CPU is known to lack a feature (LLVM name)."""
    return lib.TVMCpuHas(feature.encode()) == 0


def check_cpu_needs(path: str) -> None:
    """Check that the CPU has the features that an exported file needs; otherwise running it would crash the process."""
    check(lib.TVMCheckCpuNeeds(os.fsencode(path)))


def bytes_at(address: int, size: int) -> bytes:
    """Return a copy of memory."""
    return ctypes.string_at(address, size)


def read_text(address: int) -> str:
    return ctypes.string_at(address).decode("utf-8", "replace")


def read_bytes(address: int) -> bytes:
    record = ByteArray.from_address(address)
    return ctypes.string_at(record.data, record.size) if record.size else b""


# ---- arrays ----

_tensor_fields = struct.Struct("=QiiiBBHQQQ")
_TENSOR_BYTES = _tensor_fields.size


def _dims(shape: Sequence[int]):
    return (ctypes.c_int64 * len(shape))(*shape)


def array_alloc(shape: Sequence[int], dtype: tuple[int, int, int], device: tuple[int, int]) -> int:
    out, dims = _out(), _dims(shape)
    check(
        lib.TVMArrayAlloc(
            ctypes.addressof(dims), len(shape), DLDataType(*dtype), DLDevice(*device), ctypes.addressof(out)
        )
    )
    return out.value


def array_view(handle: int, shape: Sequence[int], dtype: tuple[int, int, int], offset: int) -> int:
    out, dims = _out(), _dims(shape)
    check(
        lib.TVMArrayCreateView(
            handle, ctypes.addressof(dims), len(shape), DLDataType(*dtype), offset, ctypes.addressof(out)
        )
    )
    return out.value


def read_tensor(handle: int) -> tuple:
    """Return (data, (device type, id), (code, bits, lanes), shape, strides or None, byte offset) of a DLTensor."""
    fields = _tensor_fields.unpack(ctypes.string_at(handle, _TENSOR_BYTES))
    data, device_type, device_id, ndim, code, bits, lanes, shape, strides, offset = fields
    unpack = struct.Struct(f"={ndim}q").unpack
    dims = unpack(ctypes.string_at(shape, 8 * ndim)) if ndim else ()
    steps = unpack(ctypes.string_at(strides, 8 * ndim)) if ndim and strides else None
    return data, (device_type, device_id), (code, bits, lanes), dims, steps, offset


def memory_at(address: int, size: int, owner: object) -> ctypes.Array:
    """Return memory as a buffer that keeps its owner alive."""
    memory = (ctypes.c_char * size).from_address(address)
    memory.owner = owner  # pyright: ignore[reportAttributeAccessIssue]
    return memory


def tensor_pointer(handle: int) -> object:
    return ctypes.cast(handle, ctypes.POINTER(DLTensor))


def device_exists(device: tuple[int, int]) -> bool:
    return bool(lib.TVMDeviceExists(DLDevice(*device)))


def device_type_of_name(name: str) -> int | None:
    """Return the device type of a custom device; None if the runtime is not loaded or has no such device."""
    found = lib.TVMDeviceTypeOfName(name.encode()) if lib.is_loaded() else -1
    return found if found > 0 else None


def device_type_name(device_type: int) -> str | None:
    """Return the name of a device type, or None if it has no name."""
    name = lib.TVMDeviceTypeName(device_type).decode() if lib.is_loaded() else ""
    return name if device_type_of_name(name) == device_type else None


def device_attribute(device: tuple[int, int], which: int) -> int | str | None:
    """Return an attribute of a device, or None if the device does not have it."""
    value, code = ctypes.c_int64(), ctypes.c_int()
    check(lib.TVMDeviceGetAttribute(DLDevice(*device), which, ctypes.addressof(value), ctypes.addressof(code)))
    if code.value == NULL:
        return None
    return read_text(value.value) if code.value == STR else value.value


def stream_create(device: tuple[int, int]) -> int:
    out = _out()
    check(lib.TVMStreamCreate(*device, ctypes.addressof(out)))
    return out.value


# ---- DLPack capsules ----

# Separate prototypes: attributes set on the functions of ctypes.pythonapi would affect every user of ctypes.
_OBJECT = ctypes.py_object


def _python_api(name: str, result, *arguments):
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_capsule_new = _python_api("PyCapsule_New", _OBJECT, C_ADDRESS, C_TEXT, C_ADDRESS)
_capsule_pointer = _python_api("PyCapsule_GetPointer", C_ADDRESS, _OBJECT, C_TEXT)
_capsule_set_name = _python_api("PyCapsule_SetName", C_INT, _OBJECT, C_TEXT)
_capsule_is_valid = _python_api("PyCapsule_IsValid", C_INT, _OBJECT, C_TEXT)
_raw_pointer = _python_api("PyCapsule_GetPointer", C_ADDRESS, C_ADDRESS, C_TEXT)
_raw_is_valid = _python_api("PyCapsule_IsValid", C_INT, C_ADDRESS, C_TEXT)
# (name, name once taken, import function, export function, offset of the deleter)
_KINDS = {
    False: (b"dltensor", b"used_dltensor", "TVMArrayFromDLPack", "TVMArrayToDLPack", _TENSOR_BYTES + 8),
    True: (
        b"dltensor_versioned",
        b"used_dltensor_versioned",
        "TVMArrayFromDLPackVersioned",
        "TVMArrayToDLPackVersioned",
        16,
    ),
}
_CAPSULE_DESTRUCTOR = ctypes.PYFUNCTYPE(None, C_ADDRESS)


@_CAPSULE_DESTRUCTOR
def _capsule_destructor(capsule: int) -> None:
    # A capsule that was not consumed owns its tensor. It is passed as an address: its reference count is already 0.
    for name, _, _, _, deleter_offset in _KINDS.values():
        if _raw_is_valid(capsule, name):
            managed = _raw_pointer(capsule, name)
            deleter = ctypes.c_void_p.from_address(managed + deleter_offset).value
            if deleter:
                C_FINALIZER(deleter)(managed)


def export_capsule(handle: int, versioned: bool) -> object:
    name, _, _, export_name, _ = _KINDS[versioned]
    out = _out()
    check(getattr(lib, export_name)(handle, ctypes.addressof(out)))
    return _capsule_new(out.value, name, ctypes.cast(_capsule_destructor, C_ADDRESS))


def import_capsule(capsule: object) -> int:
    for name, used, import_name, _, _ in _KINDS.values():
        if _capsule_is_valid(capsule, name):
            out = _out()
            check(getattr(lib, import_name)(_capsule_pointer(capsule, name), ctypes.addressof(out)))
            _capsule_set_name(capsule, used)
            return out.value
    raise ValueError("from_dlpack: expected a DLPack capsule that has not been consumed")


# ---- modules ----


def module_create(type_key: str, kept: object) -> int:
    out = _out()
    check(lib.TVMModCreate(type_key.encode(), _drop, keep(kept), ctypes.addressof(out)))
    return out.value


def module_load(path: str, fmt: str) -> int:
    out = _out()
    check(lib.TVMModLoadFromFile(os.fsencode(path), fmt.encode(), ctypes.addressof(out)))
    return out.value


def device_module_load(data: bytes) -> int:
    out = _out()
    check(lib.TVMDeviceModuleLoad(data, len(data), ctypes.addressof(out)))
    return out.value


def device_module_bytes(handle: int) -> bytes | None:
    """Return the bytes of a device module, or None for any other module."""
    size = ctypes.c_size_t()
    address = lib.TVMDeviceModuleBytes(handle, ctypes.addressof(size))
    return ctypes.string_at(address, size.value) if address else None


def module_import(handle: int, index: int) -> int:
    out = _out()
    check(lib.TVMModGetImport(handle, index, ctypes.addressof(out)))
    return out.value


def module_function(handle: int, name: str, query_imports: bool) -> int | None:
    out = _out()
    check(lib.TVMModGetFunction(handle, name.encode(), int(query_imports), ctypes.addressof(out)))
    return out.value


def params_load(data: bytes) -> list[tuple[str, int]]:
    """Return names and array handles (owned by the caller) of the arrays in serialized parameters."""
    out = _out()
    check(lib.TVMParamsLoad(data, len(data), ctypes.addressof(out)))
    return _take_params(out)


def params_load_file(path: str) -> list[tuple[str, int]]:
    """Return names and array handles (owned by the caller) of the arrays in a parameter file."""
    out = _out()
    check(lib.TVMParamsLoadFile(os.fsencode(path), ctypes.addressof(out)))
    return _take_params(out)


def _take_params(params) -> list[tuple[str, int]]:
    size = ctypes.c_size_t()
    try:
        found = []
        for index in range(lib.TVMParamsCount(params)):
            address = lib.TVMParamsName(params, index, ctypes.addressof(size))
            name = ctypes.string_at(address, size.value)
            array = lib.TVMParamsArray(params, index)
            lib.TVMArrayRetain(array)
            found.append((name.decode("utf-8", "replace"), array))
        return found
    finally:
        lib.TVMParamsFree(params)


# ---- RPC sessions ----


def session_open(fd: int, max_message: int, seconds: float) -> int:
    """Open a session on a socket and return its number; the session takes ownership of the socket."""
    out = ctypes.c_int()
    check(lib.TVMRPCSessionOpen(fd, max_message, seconds, ctypes.addressof(out)))
    return out.value


def session_function(session: int, name: str) -> int | None:
    out = _out()
    check(lib.TVMRPCSessionFunction(session, name.encode(), ctypes.addressof(out)))
    return out.value


def runtime_interface() -> tuple[int, int]:
    """Return version and number of entries of the function table through which compiled libraries call the runtime."""
    version, size = (ctypes.c_uint32 * 2).from_address(lib.TVMGetRuntimeTable())
    return version, (size - 8) // ctypes.sizeof(ctypes.c_void_p)


def run_server(listen_fd: int, **options) -> None:
    """Serve sessions until told to stop. Processes are forked through Python, whose locks need the fork hooks."""
    if not hasattr(os, "fork"):
        raise TVMError(
            f"the RPC server runs each session in a forked process, which {sys.platform} does not support; "
            "run the server on Linux or macOS (this machine can be a client)"
        )
    record = RPCServerOptions(fork_process=C_FORK(os.fork), **options)
    check(lib.TVMRPCServerRun(listen_fd, ctypes.byref(record)))
