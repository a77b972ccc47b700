"""Simulated quantization with float values, where the integer dtype is known only at run time."""

from __future__ import annotations

from typing import Any

from ... import te
from ...error import TVMError
from ...ir.prim import Select, const

# The dtype code that disables quantization: values stay unchanged.
SQNN_DISABLE = 0
SQNN_INT8 = 1
SQNN_UINT8 = 2
SQNN_INT32 = 3
SQNN_DTYPE_TO_CODE = {
    "disable": SQNN_DISABLE,
    "int8": SQNN_INT8,
    "uint8": SQNN_UINT8,
    "int32": SQNN_INT32,
    "int16": 4,
    "uint16": 5,
}
SQNN_CODE_TO_DTYPE = {code: dtype for dtype, code in SQNN_DTYPE_TO_CODE.items()}

_LIMITS = {
    SQNN_INT8: (-128.0, 127.0),
    SQNN_UINT8: (0.0, 255.0),
    SQNN_INT32: (-2147483648.0, 2147483647.0),
    SQNN_DTYPE_TO_CODE["int16"]: (-32768.0, 32767.0),
    SQNN_DTYPE_TO_CODE["uint16"]: (0.0, 65535.0),
}


def simulated_quantize(data, out_dtype, output_scale=None, output_zero_point=None, axis=-1):
    """round(data / scale) + zero point, clamped to the limits of an integer dtype, as floats. ``out_dtype`` is a tensor
    with the code of the dtype (``SQNN_DTYPE_TO_CODE``). The scale and the zero point are vectors along ``axis`` or have
    one element.

    Raises
    ------
    TVMError
        The scale or the zero point is missing, or the scale, the zero point or the dtype code has the wrong number of
        dimensions.
    """
    code, at = _checked("simulated_quantize", data, out_dtype, output_scale, output_zero_point, axis)

    def body(*indices: Any) -> Any:
        x, scale, zero = data(*indices), at(output_scale, indices), at(output_zero_point, indices)
        whole = te.nearbyint(te.div(x, scale)) + zero.astype(data.dtype)
        out = x
        for known, (least, most) in _LIMITS.items():
            out = Select(code.equal(known), te.max(te.min(whole, _number(most, data)), _number(least, data)), out)
        return out

    return te.compute(data.shape, body, name="simulated_quantize", tag="injective")


def simulated_dequantize(data, in_dtype, input_scale=None, input_zero_point=None, axis=-1):
    """(data - zero point) * scale, for integers that are stored as floats; the unchanged data if the dtype code
    disables quantization.

    Raises
    ------
    TVMError
        The scale or the zero point is missing, or the scale, the zero point or the dtype code has the wrong number of
        dimensions.
    """
    code, at = _checked("simulated_dequantize", data, in_dtype, input_scale, input_zero_point, axis)

    def body(*indices: Any) -> Any:
        x, scale, zero = data(*indices), at(input_scale, indices), at(input_zero_point, indices)
        return Select(code.equal(SQNN_DISABLE), x, (x - zero.astype(data.dtype)) * scale)

    return te.compute(data.shape, body, name="simulated_dequantize", tag="injective")


def _number(value: float, data: Any) -> Any:
    return const(value, data.dtype)


def _checked(name: str, data: Any, dtype: Any, scale: Any, zero: Any, axis: int) -> tuple[Any, Any]:
    """Return the dtype code, and a function that maps a parameter and the indices of a data element to the parameter's
    element."""
    rank = len(data.shape)
    if not -rank <= axis < rank:
        raise TVMError(f"{name}: axis {axis} is out of range for {rank} dimensions")
    if scale is None or zero is None or len(scale.shape) != 1 or len(zero.shape) != 1:
        raise TVMError(f"{name}: the scale and the zero point must be vectors")
    if len(dtype.shape) != 0:
        raise TVMError(f"{name}: the dtype code must be a scalar, got {len(dtype.shape)} dimensions")
    return dtype(), lambda parameter, indices: parameter[te.indexmod(indices[axis], parameter.shape[0])]


__all__ = [
    "SQNN_CODE_TO_DTYPE", "SQNN_DISABLE", "SQNN_DTYPE_TO_CODE", "SQNN_INT32", "SQNN_INT8", "SQNN_UINT8",
    "simulated_dequantize", "simulated_quantize",
]  # fmt: skip
