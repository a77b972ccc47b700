"""Operators under Apache TVM's device-specific names: ``topi.cuda.conv2d_nchw``, ``topi.x86.dense_nopack``.

Most operators are the same on every device, and their schedules adapt to the device's features. The device-specific
names are therefore aliases of the operators of ``topi``, or of the GPU templates (``gpu/named.py``). The names of
different algorithms for one operator are aliases of this operator.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from ..not_built import name_of

# Algorithms of an operator, by their Apache TVM names.
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
    """Return ``__getattr__`` of a module named after a device; ``own`` are operators with a separate implementation."""

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
