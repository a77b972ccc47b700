"""``tvm.ir.function``: alias module of Apache TVM for the base class of functions."""

from __future__ import annotations

from .module import BaseFunc, CallingConv

__all__ = [
    "BaseFunc",
    "CallingConv",
]
