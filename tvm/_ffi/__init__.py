"""Names of Apache TVM's foreign-function package, for scripts that import them from here."""

from . import base, registry, runtime_ctypes
from .registry import get_global_func, register_extension, register_func, register_object
