"""Hooks of layers: functions for each target that the passes Legalize and AlterOpLayout call, and that users can
override.

``conv2d_alter_layout.register("cpu")`` registers a function for targets with the key ``cpu``. The function takes and
returns Relay expressions; None leaves the layer unchanged.
"""

from __future__ import annotations

from typing import Any

from ..docstring import docstring
from ..target import generic_func

_ATTRS = ("attrs", "Attrs", "The attributes of the call.")
_INPUTS = ("inputs", "list of Expr", "The operands of the call.")
_RESULT = "Expr or None\n    The expression that replaces the call; None leaves the call unchanged."


def _legalize(name: str, layer: str) -> Any:
    def hook(attrs, inputs, types):
        return None

    types = ("types", "list of Type", "The types of the operands, followed by the type of the output.")
    hook.__name__ = hook.__qualname__ = name
    hook.__doc__ = docstring(f"Replace {layer} by a form that the target supports.", [_ATTRS, _INPUTS, types], _RESULT)
    return generic_func(hook)


def _alter_layout(name: str, layer: str) -> Any:
    def hook(attrs, inputs, tinfos, out_type):
        return None

    types = [("tinfos", "list of Type", "The types of the operands."), ("out_type", "Type", "The type of the output.")]
    hook.__name__ = hook.__qualname__ = name
    hook.__doc__ = docstring(f"Replace {layer} by a form in another layout.", [_ATTRS, _INPUTS, *types], _RESULT)
    return generic_func(hook)


batch_matmul_legalize = _legalize("batch_matmul_legalize", "a batched matmul")
conv2d_legalize = _legalize("conv2d_legalize", "a convolution")
conv2d_transpose_legalize = _legalize("conv2d_transpose_legalize", "a transposed convolution")
dense_legalize = _legalize("dense_legalize", "a dense layer")
matmul_legalize = _legalize("matmul_legalize", "a matmul")
conv2d_alter_layout = _alter_layout("conv2d_alter_layout", "a convolution")
conv3d_alter_layout = _alter_layout("conv3d_alter_layout", "a 3D convolution")
dense_alter_layout = _alter_layout("dense_alter_layout", "a dense layer")
# This hook has no default function, because weights that are variables would be packed in every run.
x86_dense_alter_layout = _alter_layout("x86_dense_alter_layout", "a dense layer")

__all__ = [
    "batch_matmul_legalize",
    "conv2d_alter_layout",
    "conv2d_legalize",
    "conv2d_transpose_legalize",
    "conv3d_alter_layout",
    "dense_alter_layout",
    "dense_legalize",
    "matmul_legalize",
    "x86_dense_alter_layout",
]
