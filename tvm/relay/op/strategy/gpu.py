"""Implementations for GPUs: functions of ``topi.gpu`` that replace those of ``topi.nn``, and statements for threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....target import Target
from ....topi.gpu import conv_transpose, convolution, matmul, winograd
from ..implementation import FamilyImplementation


def _on(**functions: Callable[..., Any]) -> FamilyImplementation:
    """Return an implementation that replaces functions by ones with the target as an argument."""

    def bound(attrs: Any, target: Target) -> dict[str, Callable[..., Any]]:
        return {name: partial(function, target=target) for name, function in functions.items()}

    return FamilyImplementation("gpu", bound)


# Operators defined by statements; they get the target GPU to distribute the work over its threads.
_STATEMENTS = ("sort", "argsort", "topk", "unique", "argwhere", "cumsum", "cumprod", "random.threefry_generate",
               "random.uniform", "random.normal", "random.multinomial", "vision.get_valid_counts",
               "vision.non_max_suppression", "vision.all_class_non_max_suppression", "vision.proposal",
               "vision.multibox_transform_loc")  # fmt: skip
_CONVOLUTION = _on(
    conv=convolution.conv,
    depthwise_nchw=convolution.depthwise_conv2d_nchw,
    depthwise_nhwc=convolution.depthwise_conv2d_nhwc,
)
_TRANSPOSED = _on(conv_transpose=conv_transpose.conv_transpose)

ROWS: dict[str, FamilyImplementation] = {
    "nn.dense": _on(dense=matmul.dense),
    "nn.matmul": _on(matmul=matmul.matmul),
    "nn.batch_matmul": _on(batch_matmul=matmul.batch_matmul),
    "nn.conv1d": _CONVOLUTION,
    "nn.conv2d": _CONVOLUTION,
    "nn.conv3d": _CONVOLUTION,
    "nn.conv1d_transpose": _TRANSPOSED,
    "nn.conv2d_transpose": _TRANSPOSED,
    "nn.conv3d_transpose": _TRANSPOSED,
    "nn.contrib_conv2d_winograd_planes": _on(conv=winograd.conv2d_winograd_nchw),
    **dict.fromkeys(_STATEMENTS, FamilyImplementation("gpu", lambda attrs, target: {"gpu": target})),
}
