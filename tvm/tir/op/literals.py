"""The extreme values of types."""

from __future__ import annotations

import math

from ...dtype import CUSTOM_MIN, canonical, info, int_range, with_lanes
from ...error import ExprValueError
from ...ir.prim import PrimExpr, const

# The largest finite values of the float types.
_FLOAT_MAX = {
    "float64": 1.7976931348623157e308,
    "float32": 3.4028234663852886e38,
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
}


def min_value(dtype, span=None) -> PrimExpr:
    """The smallest finite value of a type.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".

    Returns
    -------
    PrimExpr
    """
    dtype = canonical(dtype)
    if info(dtype).is_custom:
        return _custom_min(dtype)
    if info(dtype).is_float:
        return const(-_float_max(dtype), dtype)
    return const(int_range(dtype)[0], dtype)


def _custom_min(dtype: str) -> PrimExpr:
    """Return the smallest value of a custom type from the function registered for it (``tvm.target.datatype``)."""
    kind = info(dtype)
    function = CUSTOM_MIN.get(kind.code[7:-1])
    if function is None:
        raise ExprValueError(
            f"the smallest value of '{dtype}' is unknown; register it with tvm.target.datatype.register_min_func"
        )
    return function(kind.bits)


def max_value(dtype, span=None) -> PrimExpr:
    """The largest finite value of a type.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".

    Returns
    -------
    PrimExpr
    """
    dtype = canonical(dtype)
    return const(_float_max(dtype) if info(dtype).is_float else int_range(dtype)[1], dtype)


def _float_max(dtype: str) -> float:
    got = _FLOAT_MAX.get(with_lanes(dtype, 1))
    if got is None:
        raise ExprValueError(f"the range of type '{dtype}' is unknown; only integer and float types have a maximum")
    return got


def infinity(dtype, span=None) -> PrimExpr:
    """The infinity of a float type.

    Parameters
    ----------
    dtype : str
        The type of the value, such as "float32" or "int32x4".

    Returns
    -------
    PrimExpr

    Raises
    ------
    ExprValueError
        The type is not a float type.
    """
    dtype = canonical(dtype)
    if not info(dtype).is_float:
        raise ExprValueError(f"infinity: '{dtype}' is not a float type; use max_value for integers")
    return const(math.inf, dtype)


__all__ = ["infinity", "max_value", "min_value"]
