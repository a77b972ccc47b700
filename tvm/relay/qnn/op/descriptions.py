"""What the parameters of operators on quantized numbers are."""

from __future__ import annotations

_OWNERS = {
    "": "the input", "input_": "the input", "lhs_": "the left operand", "rhs_": "the right operand",
    "output_": "the result", "kernel_": "the weights", "x_": "the left matrices", "y_": "the right matrices",
}  # fmt: skip
PARAMETERS = {
    **{
        f"{x}scale": ("Expr", f"The scale s of {what}: real = (integer - zero point) * s.")
        for x, what in _OWNERS.items()
    },
    **{f"{x}zero_point": ("Expr", f"The integer that stands for zero in {what}.") for x, what in _OWNERS.items()},
    "input_scales": ("list of Expr", "The scale of each input."),
    "input_zero_points": ("list of Expr", "The zero point of each input."),
    "lhs_axis": ("int", "The dimension along which the left scale changes."),
    "rhs_axis": ("int", "The dimension along which the right scale changes."),
    "axis": ("int", "The dimension along which scales change."),
    "concatenate.axis": ("int", "The dimension."),
    "softmax.axis": ("int", "The dimension."),
    "rounding": ("str, optional", '"UPWARD" or "TONEAREST": where halves go.'),
    "compute_dtype": ("str, optional", '"int64", "float32" or "float64": what is computed in.'),
    "in_dtype": ("str", "The type of the integers."),
    "units": ("int", "The number of rows of the weight."),
    "kwargs": ("str", "``rounding`` and ``compute_dtype``, as requantize takes them."),
}
