"""``tvm._ffi.registry``: the global function table."""

from ..runtime.registry import (  # noqa: F401
    extract_ext_funcs,
    get_global_func,
    list_global_func_names,
    register_extension,
    register_func,
    register_object,
    remove_global_func,
)
