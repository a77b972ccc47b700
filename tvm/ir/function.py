"""``tvm.ir.function``: the base of functions, under TVM's path."""

from __future__ import annotations

from .module import BaseFunc, CallingConv

__all__ = [
    "BaseFunc",
    "CallingConv",
]
