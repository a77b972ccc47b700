"""Import of the optional package xgboost."""

from __future__ import annotations

import importlib
from typing import Any


def load_xgboost(user: str) -> Any:
    """Return the package xgboost. If it is missing, the ImportError names the component that needs it."""
    try:
        return importlib.import_module("xgboost")
    except ImportError:
        raise ImportError(f"{user} needs the package xgboost; pip install xgboost-cpu (or xgboost)") from None


__all__ = ["load_xgboost"]
