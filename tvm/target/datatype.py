"""Custom data types: numeric types registered by users, with functions that implement their operations.

A value of a custom type is stored as an unsigned integer of the same width. Operations of a program (casts, literals,
arithmetic, comparisons, intrinsics) are lowered by functions that are registered here per target and type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..dtype import CUSTOM, CUSTOM_BEGIN, CUSTOM_MIN, info, stored
from ..error import TVMError, did_you_mean
from ..ir.op import Op
from ..ir.prim import BinaryOpExpr, Call, Cast, FloatImm, PrimExpr, StringImm, const
from ..registry import Registry

# Keys have the form "target.operation.types".
LOWER: Registry[Callable[[Any], Any]] = Registry("lowering function of a custom data type")


def register(type_name: str, type_code: int) -> None:
    """Register a custom data type, whose values are written as ``custom[type_name]32``.

    Parameters
    ----------
    type_name : str
        The name.
    type_code : int
        The unique type code of the type in arrays: 129 to 255.

    Raises
    ------
    TVMError
        The name or the code is already in use, or the code is out of range.

    Examples
    --------
    >>> tvm.target.datatype.register("tiny", 200)
    >>> relay.var("x", shape=(3,), dtype="custom[tiny]16").type_annotation.dtype
    'custom[tiny]16'
    """
    if not type_name.isidentifier():
        raise TVMError(f"datatype.register: the name of a type must be an identifier, got {type_name!r}")
    if not CUSTOM_BEGIN <= int(type_code) <= 255:
        raise TVMError(
            f"datatype.register: the code of '{type_name}' must be between {CUSTOM_BEGIN} and 255, got {type_code}"
        )
    if CUSTOM.get(type_name, type_code) != type_code:
        raise TVMError(f"datatype.register: '{type_name}' is already registered with code {CUSTOM[type_name]}")
    taken = next((name for name, code in CUSTOM.items() if code == type_code and name != type_name), None)
    if taken is not None:
        raise TVMError(f"datatype.register: code {type_code} is already used by '{taken}'")
    CUSTOM[type_name] = int(type_code)


def get_type_name(type_code: int) -> str:
    """The name of the custom data type with a code.

    Parameters
    ----------
    type_code : int
        The code.

    Returns
    -------
    str
        The name.

    Raises
    ------
    TVMError
        No custom data type has this code.
    """
    for name, code in CUSTOM.items():
        if code == type_code:
            return name
    raise TVMError(f"no custom data type has the code {type_code}")


def get_type_code(type_name: str) -> int:
    """The code of a custom data type.

    Parameters
    ----------
    type_name : str
        The name.

    Returns
    -------
    int
        The code.

    Raises
    ------
    TVMError
        No custom data type has this name.
    """
    if type_name not in CUSTOM:
        raise TVMError(f"no custom data type is called '{type_name}'{did_you_mean(type_name, CUSTOM)}")
    return CUSTOM[type_name]


def get_type_registered(type_code: int) -> bool:
    """Whether a custom data type with this code is registered.

    Parameters
    ----------
    type_code : int
        The code.

    Returns
    -------
    bool
        Whether the type exists.
    """
    return type_code in CUSTOM.values()


def lower_key(op_name: str, target: str, src_type: str, dest_type: str | None, intrinsic: str | None) -> str:
    """Return the name under which the function for an operation is registered."""
    middle = f"{op_name}.intrin.{intrinsic}" if intrinsic else op_name
    return f"{target}.{middle}.{dest_type + '.' if op_name == 'Cast' and dest_type else ''}{src_type}"


def register_op(
    lower_func: Callable[[Any], Any], op_name: str, target: str, src_type_name: str,
    dest_type_name: str | None = None, intrinsic_name: str | None = None,
) -> None:  # fmt: skip
    """Register the function that lowers an operation on a custom data type; an earlier function is replaced.

    Parameters
    ----------
    lower_func : Callable
        Returns an expression without custom data types for the operation; the operands have already been lowered.
    op_name : str
        The class of the operation: "Cast", "FloatImm", "Call", "Add", "LE", ...
    target : str
        The kind of target, such as "llvm".
    src_type_name : str
        The type: the name of a custom type, or "float", "int", "uint" for a cast from one of these.
    dest_type_name : str, optional
        For "Cast": the destination type, in the same form.
    intrinsic_name : str, optional
        For "Call": the intrinsic, such as "tir.sqrt".

    Raises
    ------
    TVMError
        A cast has no ``dest_type_name``.
    """
    if op_name == "Cast" and dest_type_name is None:
        raise TVMError("datatype.register_op: a Cast needs a source and a destination type; dest_type_name is missing")
    LOWER.register(lower_key(op_name, target, src_type_name, dest_type_name, intrinsic_name), lower_func, override=True)


def register_min_func(func: Callable[[int], Any], type_name: str) -> None:
    """Register the smallest value of a custom data type, which is the initial value of maximum reductions.

    Parameters
    ----------
    func : Callable
        Returns the value as an expression of the type, for a number of bits.
    type_name : str
        The name of the type.
    """
    CUSTOM_MIN[type_name] = func


def create_min_lower_func(extern_func_map: Mapping[int, str], type_name: str) -> Callable[[int], PrimExpr]:
    """A function for ``register_min_func`` that calls a C function.

    Parameters
    ----------
    extern_func_map : dict of int to str
        The name of the C function by number of bits.
    type_name : str
        The name of the type.

    Returns
    -------
    Callable
        The function.
    """

    def lower(num_bits: int) -> PrimExpr:
        if num_bits not in extern_func_map:
            raise TVMError(f"no C function is given for the smallest value of custom[{type_name}]{num_bits}")
        return _call_pure_extern(f"custom[{type_name}]{num_bits}", extern_func_map[num_bits])

    return lower


def create_lower_func(extern_func_map: Mapping[Any, str]) -> Callable[[Any], PrimExpr]:
    """A function for ``register_op`` that calls a C function with the operands.

    Parameters
    ----------
    extern_func_map : dict of int to str, or of (int, int) to str
        The name of the C function by number of bits; for casts, by the bits of source and destination.

    Returns
    -------
    Callable
        The function.
    """

    def lower(op: Any) -> PrimExpr:
        bits = info(op.dtype).bits
        operands: tuple[Any, ...]
        key: Any = bits
        if isinstance(op, Cast):
            key, operands = (info(op.value.dtype).bits, bits), (op.value,)
        elif isinstance(op, FloatImm):
            operands = (const(op.value, "float32" if bits <= 32 else "float64"),)
        elif isinstance(op, Call):
            operands = op.args
        elif isinstance(op, BinaryOpExpr):
            key, operands = info(op.a.dtype).bits, (op.a, op.b)
        else:
            raise TVMError(f"create_lower_func: a {type(op).__name__} cannot be lowered to a function call: {op}")
        if key not in extern_func_map:
            raise TVMError(f"create_lower_func: no function for {key} bits is given, which lowering {op} needs")
        return _call_pure_extern(stored(op.dtype), extern_func_map[key], *operands)

    return lower


def lower_ite(ite_op: Any) -> PrimExpr:
    """A selection between two values, for ``register_op`` of "tir.if_then_else".

    Parameters
    ----------
    ite_op : Call
        The if_then_else call.

    Returns
    -------
    PrimExpr
        The same selection between unsigned integers.
    """
    return Call(stored(ite_op.dtype), Op.get("tir.if_then_else"), tuple(ite_op.args))


def lower_call_pure_extern(op: Any) -> PrimExpr:
    """A call of a C function, for ``register_op`` of "tir.call_pure_extern".

    Parameters
    ----------
    op : Call
        The call.

    Returns
    -------
    PrimExpr
        The same call with an unsigned integer type.
    """
    return Call(stored(op.dtype), Op.get("tir.call_pure_extern"), tuple(op.args))


def _call_pure_extern(dtype: str, name: str, *args: Any) -> PrimExpr:
    return Call(dtype, Op.get("tir.call_pure_extern"), (StringImm(name), *args))


__all__ = [
    "create_lower_func",
    "create_min_lower_func",
    "get_type_code",
    "get_type_name",
    "get_type_registered",
    "lower_call_pure_extern",
    "lower_ite",
    "register",
    "register_min_func",
    "register_op",
]
