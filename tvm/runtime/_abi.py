"""ctypes declarations of the C interface of ``libtvm_runtime``: structures, and the signature of each function."""

from __future__ import annotations

import ctypes

C_ADDRESS = ctypes.c_void_p
# The class of plain pointers that Python functions receive.
OpaqueHandle = ctypes.c_void_p
C_STATUS = ctypes.c_int
C_CALLBACK = ctypes.CFUNCTYPE(C_STATUS, C_ADDRESS, C_ADDRESS, ctypes.c_int, C_ADDRESS, C_ADDRESS, C_ADDRESS)
C_FINALIZER = ctypes.CFUNCTYPE(None, C_ADDRESS)
C_CHECK = ctypes.CFUNCTYPE(C_STATUS)


class DLDevice(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", C_ADDRESS),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class ByteArray(ctypes.Structure):
    _fields_ = [("data", C_ADDRESS), ("size", ctypes.c_size_t)]


class TimeOptions(ctypes.Structure):
    _fields_ = [
        ("number", ctypes.c_int32),
        ("repeat", ctypes.c_int32),
        ("min_repeat_ms", ctypes.c_int32),
        ("limit_zero_time_iterations", ctypes.c_int32),
        ("cooldown_interval_ms", ctypes.c_int32),
        ("repeats_to_cooldown", ctypes.c_int32),
        ("cache_flush_bytes", ctypes.c_int64),
        ("preprocess", C_ADDRESS),
        ("device", DLDevice),
    ]


C_FORK = ctypes.CFUNCTYPE(ctypes.c_int)


class RPCServerOptions(ctypes.Structure):
    _fields_ = [
        ("key", ctypes.c_char_p),
        ("secret", ctypes.c_char_p),
        ("secret_size", ctypes.c_size_t),
        ("tracker_host", ctypes.c_char_p),
        ("tracker_port", ctypes.c_int),
        ("proxy_host", ctypes.c_char_p),
        ("proxy_port", ctypes.c_int),
        ("custom_addr", ctypes.c_char_p),
        ("max_message", ctypes.c_uint64),
        ("max_memory", ctypes.c_uint64),
        ("max_files", ctypes.c_uint64),
        ("max_seconds", ctypes.c_double),
        ("measure_only", ctypes.c_int),
        ("silent", ctypes.c_int),
        ("watch_fd", ctypes.c_int),
        ("told_port", ctypes.c_int),
        ("fork_process", C_FORK),
    ]


C_TEXT = ctypes.c_char_p
C_INT = ctypes.c_int
C_SIZE = ctypes.c_size_t
C_U64 = ctypes.c_uint64


# name -> (return type, argument types). `check` checks a return value of C_STATUS; functions with other types cannot
# fail.
C_SIGNATURES: dict[str, tuple] = {
    "TVMGetLastError": (C_TEXT, ()),
    "TVMGetRuntimeTable": (C_ADDRESS, ()),
    "TVMAPISetLastError": (None, (C_TEXT,)),
    "TVMSetForeignError": (None, (C_TEXT, C_U64)),
    "TVMTakeForeignError": (C_U64, ()),
    "TVMSetInterruptCheck": (None, (C_CHECK,)),
    "TVMSetForeignCaller": (None, (C_CALLBACK,)),
    "TVMFuncCreateForeign": (C_STATUS, (C_U64, C_FINALIZER, C_ADDRESS)),
    "TVMFuncForeignToken": (C_U64, (C_ADDRESS,)),
    "TVMFuncRetain": (C_STATUS, (C_ADDRESS,)),
    "TVMFuncFree": (C_STATUS, (C_ADDRESS,)),
    "TVMFuncCallFrame": (C_STATUS, (C_ADDRESS,)),
    "TVMFuncRegisterGlobal": (C_STATUS, (C_TEXT, C_ADDRESS, C_INT)),
    "TVMFuncGetGlobal": (C_STATUS, (C_TEXT, C_ADDRESS)),
    "TVMFuncRemoveGlobal": (C_STATUS, (C_TEXT,)),
    "TVMFuncListGlobalNames": (C_STATUS, (C_ADDRESS, C_ADDRESS)),
    "TVMReturnBytes": (C_STATUS, (C_TEXT, C_SIZE, C_INT, C_ADDRESS, C_ADDRESS)),
    "TVMObjectCreate": (C_STATUS, (C_U64, C_FINALIZER, C_ADDRESS)),
    "TVMObjectFree": (C_STATUS, (C_ADDRESS,)),
    "TVMObjectToken": (C_U64, (C_ADDRESS,)),
    "TVMObjectKind": (C_INT, (C_ADDRESS,)),
    "TVMObjectRetain": (C_STATUS, (C_ADDRESS,)),
    "TVMADTCreate": (C_STATUS, (ctypes.c_int64, C_ADDRESS, C_ADDRESS, C_INT, C_ADDRESS)),
    "TVMADTTag": (ctypes.c_int64, (C_ADDRESS,)),
    "TVMADTSize": (C_INT, (C_ADDRESS,)),
    "TVMADTField": (C_STATUS, (C_ADDRESS, C_INT, C_ADDRESS, C_ADDRESS)),
    "TVMArrayAlloc": (C_STATUS, (C_ADDRESS, C_INT, DLDataType, DLDevice, C_ADDRESS)),
    "TVMArrayCreateView": (C_STATUS, (C_ADDRESS, C_ADDRESS, C_INT, DLDataType, C_U64, C_ADDRESS)),
    "TVMArrayRetain": (C_STATUS, (C_ADDRESS,)),
    "TVMArrayFree": (C_STATUS, (C_ADDRESS,)),
    "TVMArrayUseCount": (C_INT, (C_ADDRESS,)),
    "TVMArrayCopyFromBytes": (C_STATUS, (C_ADDRESS, C_ADDRESS, C_SIZE)),
    "TVMArrayCopyToBytes": (C_STATUS, (C_ADDRESS, C_ADDRESS, C_SIZE)),
    "TVMArrayCopyFromTo": (C_STATUS, (C_ADDRESS, C_ADDRESS, C_ADDRESS)),
    "TVMArrayFromDLPack": (C_STATUS, (C_ADDRESS, C_ADDRESS)),
    "TVMArrayToDLPack": (C_STATUS, (C_ADDRESS, C_ADDRESS)),
    "TVMArrayFromDLPackVersioned": (C_STATUS, (C_ADDRESS, C_ADDRESS)),
    "TVMArrayToDLPackVersioned": (C_STATUS, (C_ADDRESS, C_ADDRESS)),
    "TVMDeviceExists": (C_INT, (DLDevice,)),
    "TVMDeviceTypeName": (C_TEXT, (C_INT,)),
    "TVMDeviceTypeOfName": (C_INT, (C_TEXT,)),
    "TVMDeviceLibraryLoad": (C_STATUS, (C_TEXT,)),
    "TVMSynchronize": (C_STATUS, (C_INT, C_INT, C_ADDRESS)),
    "TVMDeviceGetAttribute": (C_STATUS, (DLDevice, C_INT, C_ADDRESS, C_ADDRESS)),
    "TVMStreamCreate": (C_STATUS, (C_INT, C_INT, C_ADDRESS)),
    "TVMStreamFree": (C_STATUS, (C_INT, C_INT, C_ADDRESS)),
    "TVMSetStream": (C_STATUS, (C_INT, C_INT, C_ADDRESS)),
    "TVMDeviceModuleLoad": (C_STATUS, (C_TEXT, C_SIZE, C_ADDRESS)),
    "TVMDeviceModuleBytes": (C_ADDRESS, (C_ADDRESS, C_ADDRESS)),
    "TVMModCreate": (C_STATUS, (C_TEXT, C_FINALIZER, C_ADDRESS, C_ADDRESS)),
    "TVMModLoadFromFile": (C_STATUS, (C_TEXT, C_TEXT, C_ADDRESS)),
    "TVMModRetain": (C_STATUS, (C_ADDRESS,)),
    "TVMModFree": (C_STATUS, (C_ADDRESS,)),
    "TVMModTypeKey": (C_TEXT, (C_ADDRESS,)),
    "TVMModEntryName": (C_TEXT, (C_ADDRESS,)),
    "TVMModSetEntryName": (C_STATUS, (C_ADDRESS, C_TEXT)),
    "TVMModAddSymbol": (C_STATUS, (C_ADDRESS, C_TEXT, C_ADDRESS)),
    "TVMModAddFunction": (C_STATUS, (C_ADDRESS, C_TEXT, C_ADDRESS)),
    "TVMModBind": (C_STATUS, (C_ADDRESS, C_ADDRESS, C_ADDRESS)),
    "TVMModImport": (C_STATUS, (C_ADDRESS, C_ADDRESS)),
    "TVMModClearImports": (C_STATUS, (C_ADDRESS,)),
    "TVMModImportCount": (C_INT, (C_ADDRESS,)),
    "TVMModGetImport": (C_STATUS, (C_ADDRESS, C_INT, C_ADDRESS)),
    "TVMModGetFunction": (C_STATUS, (C_ADDRESS, C_TEXT, C_INT, C_ADDRESS)),
    "TVMChecksumOfParts": (C_U64, (C_ADDRESS, C_ADDRESS, C_INT)),
    "TVMChecksumOfFile": (C_STATUS, (C_TEXT, C_U64, C_ADDRESS)),
    "TVMCheckCpuNeeds": (C_STATUS, (C_TEXT,)),
    "TVMCpuHas": (C_INT, (C_TEXT,)),
    "TVMModGetSymbol": (C_ADDRESS, (C_ADDRESS, C_TEXT)),
    "TVMReleaseFreeMemory": (None, ()),
    "TVMThreadPoolSize": (C_INT, ()),
    "TVMBackendUseTiles": (C_INT, (C_ADDRESS,)),
    "TVMFlushDenormals": (C_INT, (C_INT,)),
    "TVMThreadPoolConfigure": (C_STATUS, (C_INT,)),
    "TVMFuncTime": (C_STATUS, (C_ADDRESS, ctypes.POINTER(TimeOptions), C_ADDRESS)),
    "TVMParamsLoad": (C_STATUS, (C_TEXT, C_SIZE, C_ADDRESS)),
    "TVMParamsLoadFile": (C_STATUS, (C_TEXT, C_ADDRESS)),
    "TVMParamsCount": (C_INT, (C_ADDRESS,)),
    "TVMParamsName": (C_ADDRESS, (C_ADDRESS, C_INT, C_ADDRESS)),
    "TVMParamsArray": (C_ADDRESS, (C_ADDRESS, C_INT)),
    "TVMParamsFree": (C_STATUS, (C_ADDRESS,)),
    "TVMRPCSessionOpen": (C_STATUS, (C_INT, C_U64, ctypes.c_double, C_ADDRESS)),
    "TVMRPCSessionClose": (C_STATUS, (C_INT,)),
    "TVMRPCSessionFree": (C_STATUS, (C_INT,)),
    "TVMRPCSessionFunction": (C_STATUS, (C_INT, C_TEXT, C_ADDRESS)),
    "TVMRPCServerRun": (C_STATUS, (C_INT, ctypes.POINTER(RPCServerOptions))),
}
