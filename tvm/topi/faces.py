"""Operators under the names of devices: ``topi.cuda.conv2d_nchw``, ``topi.x86.dense_nopack``.

Most operators are the same on every device; their schedules ask what the device can do. So these names mean the
operators of ``topi``, or those of a GPU's templates (``gpu/named.py``), and those of several ways to compute one
operator all mean that operator.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..not_built import name_of

# Ways to compute an operator, by their classic names.
ONE_OPERATOR = {
    "batch_matmul_nkkm": "batch_matmul",
    "compute_depthwise_conv2d_nhwc": "depthwise_conv2d_nhwc",
    "conv2d_nchw_spatial_pack": "conv2d_nchw",
    "conv2d_nchw_winograd": "conv2d_nchw",
    "conv2d_nhwc_spatial_pack": "conv2d_nhwc",
    "dense_large_batch": "dense",
    "dense_nopack": "dense",
    "dense_pack": "dense",
    "dense_small_batch": "dense",
    "depthwise_conv2d_nchw_spatial_pack": "depthwise_conv2d_nchw",
}
_HOMES = (".nn", "", ".vision", ".random", ".image")


def face(module: str, own: dict[str, Callable[..., Any]] | None = None) -> Callable[[str], Any]:
    """``__getattr__`` of a module named after a device; ``own`` are operators that are computed otherwise there."""

    def named(name: str) -> Any:
        wanted = ONE_OPERATOR.get(name, name)
        if own is not None and wanted in own:
            return own[wanted]
        for home in _HOMES if not name.startswith("_") else ():
            found = vars(importlib.import_module("tvm.topi" + home)).get(wanted)
            if callable(found):
                return found
        return name_of(module, name)

    return named


__all__ = ["ONE_OPERATOR", "face"]
