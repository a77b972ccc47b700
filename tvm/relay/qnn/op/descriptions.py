"""Descriptions of the parameters of QNN operators, from which docstrings are built."""

from __future__ import annotations

_OWNERS = {
    "": "the input", "input_": "the input", "lhs_": "the left operand", "rhs_": "the right operand",
    "output_": "the output", "kernel_": "the weights", "x_": "the left matrices", "y_": "the right matrices",
}  # fmt: skip
PARAMETERS = {
    **{
        f"{x}scale": ("Expr", f"The scale s of {what}: real = (integer - zero point) * s.")
        for x, what in _OWNERS.items()
    },
    **{f"{x}zero_point": ("Expr", f"The integer that represents zero in {what}.") for x, what in _OWNERS.items()},
    "input_scales": ("list of Expr", "The scale of each input."),
    "input_zero_points": ("list of Expr", "The zero point of each input."),
    "lhs_axis": ("int", "The axis of a per-channel scale of the left operand."),
    "rhs_axis": ("int", "The axis of a per-channel scale of the right operand."),
    "axis": ("int", "The axis of per-channel scales and zero points."),
    "concatenate.axis": ("int", "The axis to concatenate along."),
    "softmax.axis": ("int", "The axis to normalize over."),
    "rounding": ("str, optional", '"UPWARD" or "TONEAREST": how ties are rounded.'),
    "compute_dtype": ("str, optional", '"int64", "float32" or "float64": the type that requantization computes in.'),
    "in_dtype": ("str", "The integer type of the input."),
    "units": ("int", "The number of output features: rows of the weights."),
    "kwargs": ("str", "``rounding`` and ``compute_dtype``, as in ``requantize``."),
}
