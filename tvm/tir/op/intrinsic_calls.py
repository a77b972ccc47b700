"""Functions that only call an intrinsic, generated from a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from ...docstring import docstring
from ...ir.op import Op
from ...ir.prim import Call, PrimExpr
from ..descriptions import INTRINSICS, PARAMETERS
from .calls import packed

_MMA_OPERANDS = (
    "shape A_layout B_layout A_dtype B_dtype C_dtype multiplicand_a a_index multiplicand_b b_index accumulator c_index"
)
# By name: (type of the value, parameters). With the type "dtype" the caller passes the type as first argument. A
# parameter may have a default, and a last parameter with a star takes the remaining arguments.
_PLAIN_CALLS = {
    "isnullptr": ("bool", "val"),
    "handle_add_byte_offset": ("handle", "handle offset"),
    "assume": ("bool", "cond"),
    "undef": ("int32", ""),
    "lookup_param": ("handle", "param_name"),
    "prefetch": ("int32", "address rw locality cache_type"),
    "start_profile_intrinsic": ("handle", "id"),
    "end_profile_intrinsic": ("handle", "id"),
    "tvm_tuple": ("handle", "*value"),
    "tvm_struct_set": ("int32", "arr index field value"),
    "tvm_stack_alloca": ("handle", "dtype_str num"),
    "tvm_stack_make_shape": ("handle", "*args"),
    "tvm_stack_make_array": ("handle", "data shape strides ndim arr_dtype elem_offset"),
    "tvm_check_return": ("int32", "expected return_unexpected nested_call"),
    "tvm_throw_last_error": ("handle", ""),
    "tvm_context_id": ("handle", ""),
    "tvm_access_ptr": ("handle", "ptype data offset extent rw_mask"),
    "tvm_thread_allreduce": ("handle", "*freduce_args"),
    "tvm_storage_sync": ("int32", "storage_scope"),
    "tvm_global_barrier_kinit": ("int32", ""),
    "tvm_warp_activemask": ("uint32", ""),
    "atomic_add": ("dtype", "pointer value"),
    "create_barriers": ("handle", "barrier_count"),
    "tvm_load_matrix_sync": ("handle", "fragment m n k index buffer_ptr stride layout"),
    "tvm_mma_sync": ("handle", "fragment_d index_d fragment_a index_a fragment_b index_b fragment_c index_c"),
    "tvm_bmma_sync": ("handle", "fragment_d index_d fragment_a index_a fragment_b index_b fragment_c index_c"),
    "tvm_fill_fragment": ("handle", "fragment m n k index value"),
    "tvm_store_matrix_sync": ("handle", "fragment m n k index buffer_ptr stride layout"),
    "mma_store": ("dtype", "m n dst_ptr src_ptr src_offset dst_stride"),
    "mma_fill": ("dtype", "local_size local_ptr offset"),
    "ptx_mma": ("dtype", _MMA_OPERANDS + " saturate operator="),
    "ptx_mma_sp": ("dtype", _MMA_OPERANDS + " metadata meta_index sparse_selector saturate"),
    "ptx_ldmatrix": ("dtype", "trans num type local_ptr local_offset smem_ptr smem_offset"),
    "ptx_cp_async": ("dtype", "shared_ptr shared_offset global_ptr global_offset bytes"),
    "ptx_cp_async_bulk": ("dtype", "shared_ptr shared_offset global_ptr global_offset bytes barrier_id"),
    "ptx_commit_group": ("void", ""),
    "ptx_wait_group": ("void", "num"),
    "ptx_cp_async_barrier": ("void", "barrier_id"),
    "ptx_init_barrier_thread_count": ("void", "barrier_id thread_count"),
    "ptx_arrive_barrier": ("void", "barrier_id"),
    "ptx_arrive_barrier_expect_tx": ("void", "barrier_id byte_count"),
    "ptx_wait_barrier": ("void", "barrier_id"),
    "ptx_wgmma": ("void", "dtype m n k fragment index a_ptr a_along a_stride b_ptr b_along b_stride"),
    "ptx_wgmma_wait": ("void", "num fragment="),
    "vectorlow": ("dtype", "vec"),
    "vectorhigh": ("dtype", "vec"),
    "vectorcombine": ("dtype", "vec1 vec2"),
    "dma_copy": ("int32", "*args"),
    "dma_wait": ("int32", "*args"),
    "dma_start_group": ("int32", "*args"),
    "dma_end_group": ("int32", "*args"),
    "texture2d_store": ("handle", "*args"),
    "texture2d_load": ("dtype", "*args"),
    "anylist_getitem": ("handle", "list_handle index"),
    "anylist_resetitem": ("int32", "list_handle index"),
    "anylist_setitem_call_packed": ("int32", "list_handle index func_name *args"),
    "anylist_setitem_call_cpacked": ("int32", "list_handle index func_name *args"),
    "TVMBackendAllocWorkspace": ("handle", "device_type device_id nbytes dtype_code_hint dtype_bits_hint"),
    "TVMBackendFreeWorkspace": ("int32", "device_type device_id ptr"),
}


def _plain_call(name: str, dtype: str, parameters: str) -> Callable:
    kinds = []
    for text in (["dtype"] if dtype == "dtype" else []) + parameters.split():
        kind = inspect.Parameter.VAR_POSITIONAL if text[0] == "*" else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = None if text.endswith("=") else inspect.Parameter.empty
        kinds.append(inspect.Parameter(text.strip("*="), kind, default=default))
    signature = inspect.Signature(kinds)
    op = Op.get("tir." + name)

    def function(*args, **named) -> PrimExpr:
        bound = signature.bind(*args, **named)
        values = [v for v in bound.args if v is not None]
        kind = values.pop(0) if dtype == "dtype" else dtype
        return Call(kind, op, packed(values) if name.startswith("anylist_setitem") else values)

    function.__name__ = function.__qualname__ = name
    function.__signature__ = signature  # type: ignore[attr-defined]
    names = [str(kind).partition("=")[0] for kind in kinds]
    entries = [(text, *PARAMETERS[text.lstrip("*")]) for text in names]
    function.__doc__ = docstring(INTRINSICS[name], entries, "PrimExpr\n    The call of the intrinsic.")
    return function


for _name, (_dtype, _parameters) in _PLAIN_CALLS.items():
    globals()[_name] = _plain_call(_name, _dtype, _parameters)

__all__ = list(_PLAIN_CALLS)
