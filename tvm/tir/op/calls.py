"""Calls of intrinsics, of packed functions and of external functions."""

from __future__ import annotations

from ...error import ExprTypeError
from ...ir.prim import BufferLoad, Call, PrimExpr, StringImm, const, convert
from ..buffer import Buffer
from .element import call


def call_intrin(dtype, func_name, *args, span=None) -> PrimExpr:
    """A call of the intrinsic ``func_name`` ("tir.exp" or an Op).

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".
    func_name : str or Op
        The intrinsic.
    *args
        Its arguments.

    Returns
    -------
    PrimExpr
    """
    return Call(dtype, func_name, args)


def _pack_buffer(buffer: Buffer) -> PrimExpr:
    """Return the array descriptor of a buffer, which packed functions take as an argument."""
    shape = call("handle", "tvm_stack_make_shape", *buffer.shape)
    strides = call("handle", "tvm_stack_make_shape", *buffer.strides) if buffer.strides else const(0, "int32")
    args = (buffer.data, shape, strides, len(buffer.shape), const(0, buffer.dtype), buffer.elem_offset)
    return call("handle", "tvm_stack_make_array", *args)


def packed(args) -> list:
    return [_pack_buffer(a) if isinstance(a, Buffer) else a for a in args]


def call_packed(*args, span=None) -> PrimExpr:
    """Call the packed function named by the first argument; buffers are passed as arrays.

    Parameters
    ----------
    *args
        The name of the function, then its arguments.

    Returns
    -------
    PrimExpr
        The call.
    """
    return call("int32", "tvm_call_packed", *packed(args))


def call_cpacked(*args, span=None) -> PrimExpr:
    """A call of a function with the packed C signature; the linker resolves its name.

    Parameters
    ----------
    *args
        The name of the function, then its arguments.

    Returns
    -------
    PrimExpr
    """
    return call("int32", "tvm_call_cpacked", *packed(args))


def call_packed_lowered(*args, span=None) -> PrimExpr:
    """A lowered call_packed: the arguments are already stored on the stack of packed values.

    Parameters
    ----------
    *args
        The name of the function, the stack of values, their type codes, and the begin and end index of the arguments.

    Returns
    -------
    PrimExpr
    """
    return call("int32", "tvm_call_packed_lowered", *packed(args))


def call_cpacked_lowered(*args, span=None) -> PrimExpr:
    """A lowered call_cpacked: the arguments are already stored on the stack of packed values.

    Parameters
    ----------
    *args
        The name of the function, the stack of values, their type codes, and the begin and end index of the arguments.

    Returns
    -------
    PrimExpr
    """
    return call("int32", "tvm_call_cpacked_lowered", *packed(args))


def call_extern(dtype, func_name, *args, span=None) -> PrimExpr:
    """Call a C function that may have side effects.

    Parameters
    ----------
    dtype : str
        The type of the value.
    func_name : str
        The name of the C function.
    *args
        Its arguments.

    Returns
    -------
    PrimExpr
        The call.
    """
    return call(dtype, "call_extern", StringImm(func_name), *args)


def call_pure_extern(dtype, func_name, *args, span=None) -> PrimExpr:
    """Call a C function without side effects.

    Parameters
    ----------
    dtype : str
        The type of the value.
    func_name : str
        The name of the C function.
    *args
        Its arguments.

    Returns
    -------
    PrimExpr
        The call.
    """
    return call(dtype, "call_pure_extern", StringImm(func_name), *args)


def call_llvm_intrin(dtype, name, *args, span=None) -> PrimExpr:
    """Call an LLVM intrinsic by name.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".
    name : str
        The name, such as "llvm.fma.v4f32".
    *args
        The number of leading operands that select the overload, then the operands.

    Returns
    -------
    PrimExpr
        The call.
    """
    return call(dtype, "call_llvm_intrin", StringImm(name), *args)


def call_llvm_pure_intrin(dtype, name, *args, span=None) -> PrimExpr:
    """A call of an LLVM intrinsic without side effects.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".
    name : str
        The name, such as "llvm.fma.v4f32".
    *args
        The number of leading operands that select the overload, then the operands.

    Returns
    -------
    PrimExpr
    """
    return call(dtype, "call_llvm_pure_intrin", StringImm(name), *args)


def call_tir(global_var, *args) -> PrimExpr:
    """Call another PrimFunc of the module.

    Parameters
    ----------
    global_var : GlobalVar
        The function.
    *args
        Its arguments.

    Returns
    -------
    PrimExpr
        The call.
    """
    return Call("void", global_var, args)


def trace(args, trace_action="tvm.default_trace_action") -> PrimExpr:
    """Call ``trace_action`` with ``args`` at run time; the value is the last argument.

    Parameters
    ----------
    args : list of PrimExpr
        The arguments of the call; the last one is the value.
    trace_action : str, optional
        The name of the global function to call.

    Returns
    -------
    PrimExpr
        The last of ``args``; evaluating it makes the call.

    Raises
    ------
    ExprTypeError
        ``args`` is not a list.
    """
    if not isinstance(args, (list, tuple)):
        raise ExprTypeError(f"trace takes a list of values, got {type(args).__name__}")
    return call(convert(args[-1]).dtype, "tvm_call_trace_packed", StringImm(trace_action), *packed(args))


def ret(val, span=None) -> PrimExpr:
    """Return ``val`` from the function.

    Parameters
    ----------
    val : PrimExpr
        The value.

    Returns
    -------
    PrimExpr
        The call that returns from the function.
    """
    val = convert(val)
    return call(val.dtype, "ret", val)


def address_of(buffer_load, span=None) -> PrimExpr:
    """The address of an element, or of the first element of a buffer.

    Parameters
    ----------
    buffer_load : BufferLoad or Buffer
        The element, or the buffer.

    Returns
    -------
    PrimExpr
    """
    if isinstance(buffer_load, Buffer):
        buffer_load = BufferLoad(buffer_load, tuple(const(0, s.dtype) for s in buffer_load.shape))
    return call("handle", "address_of", buffer_load)


def tvm_struct_get(arr, index, field, dtype) -> PrimExpr:
    """A field of the ``index``-th struct at ``arr``.

    Parameters
    ----------
    arr : PrimExpr
        The address of the first struct.
    index : PrimExpr
        The index of the struct.
    field : int or str
        The field.
    dtype : str
        The type of the value, such as "float32" or "int32x4".

    Returns
    -------
    PrimExpr
    """
    return call(dtype, "tvm_struct_get", arr, index, field)


def tvm_warp_shuffle(mask, value, warp_id, width, warp_size) -> PrimExpr:
    """The value of another thread of the same warp.

    Parameters
    ----------
    mask : PrimExpr
        The bit mask of the participating threads.
    value : PrimExpr
        The value of this thread.
    warp_id : PrimExpr
        The index of the thread to read from.
    width : PrimExpr
        The size of the thread groups that exchange values.
    warp_size : PrimExpr
        The number of threads of a warp.

    Returns
    -------
    PrimExpr
    """
    return call(convert(value).dtype, "tvm_warp_shuffle", mask, value, warp_id, width, warp_size)


def tvm_warp_shuffle_up(mask, value, offset, width, warp_size) -> PrimExpr:
    """The value of the thread whose index in the warp is smaller by ``offset``.

    Parameters
    ----------
    mask : PrimExpr
        The bit mask of the participating threads.
    value : PrimExpr
        The value of this thread.
    offset : PrimExpr
        The distance to the other thread.
    width : PrimExpr
        The size of the thread groups that exchange values.
    warp_size : PrimExpr
        The number of threads of a warp.

    Returns
    -------
    PrimExpr
    """
    return call(convert(value).dtype, "tvm_warp_shuffle_up", mask, value, offset, width, warp_size)


def tvm_warp_shuffle_down(mask, value, offset, width, warp_size) -> PrimExpr:
    """The value of the thread whose index in the warp is larger by ``offset``.

    Parameters
    ----------
    mask : PrimExpr
        The bit mask of the participating threads.
    value : PrimExpr
        The value of this thread.
    offset : PrimExpr
        The distance to the other thread.
    width : PrimExpr
        The size of the thread groups that exchange values.
    warp_size : PrimExpr
        The number of threads of a warp.

    Returns
    -------
    PrimExpr
    """
    return call(convert(value).dtype, "tvm_warp_shuffle_down", mask, value, offset, width, warp_size)


def tvm_thread_context(var) -> PrimExpr:
    """A marker that its argument belongs to the context of a thread.

    Parameters
    ----------
    var : Var
        The variable.

    Returns
    -------
    PrimExpr
    """
    return call(convert(var).dtype, "tvm_thread_context", var)


def dp4a(vec1, vec2, acc=0) -> PrimExpr:
    """``acc`` plus the dot product of two vectors of four 8-bit integers.

    Parameters
    ----------
    vec1 : PrimExpr
        A vector of four 8-bit integers.
    vec2 : PrimExpr
        The other vector of four 8-bit integers.
    acc : PrimExpr, optional
        The accumulator.

    Returns
    -------
    PrimExpr
    """
    return call("int32", "dp4a", convert(vec1), convert(vec2), acc)


__all__ = [
    "address_of",
    "call_cpacked",
    "call_cpacked_lowered",
    "call_extern",
    "call_intrin",
    "call_llvm_intrin",
    "call_llvm_pure_intrin",
    "call_packed",
    "call_packed_lowered",
    "call_pure_extern",
    "call_tir",
    "dp4a",
    "ret",
    "trace",
    "tvm_struct_get",
    "tvm_thread_context",
    "tvm_warp_shuffle",
    "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up",
]
