"""The table of TIR intrinsics: name, effect, number of operands (-1: any), and attributes for printers and passes.

Each entry defines the operator ``tir.<name>``. Rules that lower an intrinsic are in ``intrin_rules``.
"""

from __future__ import annotations

from enum import IntEnum

from ..ir.op import register_op


class CallEffectKind(IntEnum):
    """The side effect of a call. Larger values are stronger effects, up to UpdateState."""

    ExprAnnotation = 0
    Pure = 1
    ReadState = 2
    UpdateState = 3
    Opaque = 3
    SpecialCallArg = 4
    EmbedInfo = 5
    ControlJump = 6


# Element-wise float functions, also for vectors: the value has the type of the operands.
FLOAT_UNARY = (
    "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf",
)  # fmt: skip
FLOAT_BINARY = ("pow", "fmod", "hypot", "copysign", "nextafter", "ldexp", "atan2")
ROUNDING = ("floor", "ceil", "round", "nearbyint", "trunc", "fabs")
CLASSIFY = ("isnan", "isfinite", "isinf")
BITS = {
    "bitwise_and": 2, "bitwise_or": 2, "bitwise_xor": 2, "bitwise_not": 1, "shift_left": 2, "shift_right": 2,
    "clz": 1, "popcount": 1, "q_multiply_shift": 4, "q_multiply_shift_per_axis": 7, "fma": 3, "reinterpret": 1,
}  # fmt: skip

ELEMENTWISE: dict[str, int] = {
    **dict.fromkeys(FLOAT_UNARY + ROUNDING + CLASSIFY, 1),
    **dict.fromkeys(FLOAT_BINARY, 2),
    **BITS,
}

PURE = {
    "large_uint_imm": 2, "address_of": 1, "if_then_else": 3, "isnullptr": 1, "handle_add_byte_offset": 2,
    "type_annotation": 0, "call_pure_extern": -1, "call_llvm_pure_intrin": -1, "call_spirv_pure_glsl450": -1,
    "vectorhigh": 1, "vectorlow": 1, "vectorcombine": 2, "dp4a": 3, "start_profile_intrinsic": -1,
    "end_profile_intrinsic": -1,
}  # fmt: skip

READS = {"tvm_context_id": 0, "tvm_struct_get": 3, "undef": 0, "anylist_getitem": 2}

UPDATES = {
    "call_extern": -1, "call_llvm_intrin": -1, "prefetch": 4,
    "tvm_struct_set": 4, "lookup_param": 1, "tvm_throw_last_error": 0, "tvm_check_return": 3,
    "tvm_stack_alloca": 2, "tvm_stack_make_shape": -1, "tvm_stack_make_array": 6,
    "tvm_call_packed": -1, "tvm_call_cpacked": -1, "tvm_call_trace_packed": -1,
    "tvm_call_packed_lowered": -1, "tvm_call_cpacked_lowered": -1, "tvm_call_trace_packed_lowered": -1,
    "anylist_resetitem": 2, "anylist_setitem_call_packed": -1, "anylist_setitem_call_cpacked": -1,
    "TVMBackendAllocWorkspace": 5, "TVMBackendFreeWorkspace": 3, "nd_mem_alloc_with_scope": -1,
    # Threads of a device.
    "tvm_thread_context": 1, "tvm_storage_sync": -1, "tvm_thread_allreduce": -1, "tvm_global_barrier_kinit": 0,
    "tvm_warp_shuffle": 5, "tvm_warp_shuffle_up": 5, "tvm_warp_shuffle_down": 5, "tvm_warp_activemask": 0,
    "atomic_add": 2, "create_barriers": 1,
    # Matrix units.
    "tvm_load_matrix_sync": 8, "tvm_mma_sync": 8, "tvm_bmma_sync": 8, "tvm_fill_fragment": 6,
    "tvm_store_matrix_sync": 8, "mma_store": 6, "mma_fill": 3,
    "ptx_mma": -1, "ptx_mma_sp": -1, "ptx_ldmatrix": 7, "ptx_cp_async": -1, "ptx_cp_async_bulk": 6,
    "ptx_commit_group": 0, "ptx_wait_group": 1, "ptx_cp_async_barrier": 1, "ptx_init_barrier_thread_count": 2,
    "ptx_arrive_barrier": 1, "ptx_arrive_barrier_expect_tx": 2, "ptx_wait_barrier": 1,
    "ptx_wgmma": 12, "ptx_wgmma_wait": -1,
    # Data transfers.
    "texture2d_store": -1, "texture2d_load": -1, "dma_copy": -1, "dma_wait": -1, "dma_start_group": -1,
    "dma_end_group": -1,
}  # fmt: skip

OTHERS = {
    "likely": (CallEffectKind.ExprAnnotation, 1),
    "tvm_access_ptr": (CallEffectKind.SpecialCallArg, 5),
    "tvm_static_handle": (CallEffectKind.SpecialCallArg, 0),
    "tvm_tuple": (CallEffectKind.EmbedInfo, -1),
    "assume": (CallEffectKind.EmbedInfo, 1),
    "ret": (CallEffectKind.ControlJump, 1),
}

# Intrinsics whose type TVMScript prints, because it does not follow from their operands.
DTYPE_FIRST = (
    "call_extern", "call_pure_extern", "call_llvm_intrin", "call_llvm_pure_intrin", "reinterpret", "type_annotation",
    "vectorhigh", "vectorlow", "vectorcombine", "dp4a", "ptx_mma", "ptx_mma_sp", "ptx_ldmatrix", "ptx_cp_async",
    "ptx_cp_async_bulk", "mma_store", "mma_fill", "texture2d_load",
)  # fmt: skip
DTYPE_LAST = ("tvm_struct_get",)
PRINTED_AS = {"tvm_call_packed": "call_packed", "tvm_call_cpacked": "call_cpacked"}


def _register(name: str, effect: CallEffectKind, operands: int) -> None:
    attrs = {"TCallEffectKind": effect, "TScriptPrinterName": PRINTED_AS.get(name, name)}
    if name in ELEMENTWISE or name == "likely":
        attrs["TVectorizable"] = True
    if name in DTYPE_FIRST:
        attrs["TScriptDtypePrintLocation"] = "first"
    elif name in DTYPE_LAST:
        attrs["TScriptDtypePrintLocation"] = "last"
    if name.startswith("TVMBackend"):
        attrs["TGlobalSymbol"] = name
    register_op("tir." + name, num_inputs=operands, **attrs)


def _register_all() -> None:
    for rows, effect in (
        (ELEMENTWISE, CallEffectKind.Pure),
        (PURE, CallEffectKind.Pure),
        (READS, CallEffectKind.ReadState),
        (UPDATES, CallEffectKind.UpdateState),
    ):
        for name, operands in rows.items():
            _register(name, effect, operands)
    for name, (effect, operands) in OTHERS.items():
        _register(name, effect, operands)


_register_all()


def effect_of(call) -> CallEffectKind:
    """Return the side effect of a call; a call of a function other than an intrinsic may have any effect."""
    attrs = getattr(call.op, "attrs", None)
    effect = attrs.get("TCallEffectKind") if attrs else None
    return CallEffectKind.Opaque if effect is None else effect
