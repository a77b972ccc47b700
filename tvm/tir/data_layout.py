"""Data layouts under ``tvm.tir``; they are defined in ``tvm.target.layout``."""

from __future__ import annotations

from ..target.layout import BijectiveLayout, Layout, bijective_layout, layout

__all__ = ["BijectiveLayout", "Layout", "bijective_layout", "layout"]
