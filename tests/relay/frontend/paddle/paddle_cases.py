"""Small programs, one or a few operators each. What PaddlePaddle makes of them is in cases.npz, which
tools/paddle_reference.py writes."""

from __future__ import annotations

# The families of cases register themselves.
import paddle_layer_cases
import paddle_tensor_cases
from paddle_case import CASES, Case

__all__ = ["CASES", "Case", "paddle_layer_cases", "paddle_tensor_cases"]
