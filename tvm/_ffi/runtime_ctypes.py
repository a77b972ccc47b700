"""``tvm._ffi.runtime_ctypes``: devices, data types and the codes of packed values."""

from ..dtype import DataType, DataTypeCode  # noqa: F401
from ..runtime.devices import RPC_SESS_MASK, Device  # noqa: F401


class ArgTypeCode:
    """Type codes of packed values."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    NULL = 4
    TVM_TYPE = 5
    DLDEVICE = 6
    DLTENSOR_HANDLE = 7
    OBJECT_HANDLE = 8
    MODULE_HANDLE = 9
    PACKED_FUNC_HANDLE = 10
    STR = 11
    BYTES = 12
    NDARRAY_HANDLE = 13
    OBJECT_RVALUE_REF_ARG = 14
    EXT_BEGIN = 15
