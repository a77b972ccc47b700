"""Marks of tests that need a package which pyproject.toml asks for only on some systems."""

from __future__ import annotations

import importlib.util

import pytest

needs_xgboost = pytest.mark.skipif(importlib.util.find_spec("xgboost") is None, reason="xgboost is not installed")
XGB, XGB_RANK, XGB_KNOB = (pytest.param(name, marks=needs_xgboost) for name in ("xgb", "xgb-rank", "xgb_knob"))
