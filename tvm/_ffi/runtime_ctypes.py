"""``tvm._ffi.runtime_ctypes``: devices and data types."""

from ..dtype import DataType, DataTypeCode  # noqa: F401
from ..runtime.devices import RPC_SESS_MASK, Device  # noqa: F401
