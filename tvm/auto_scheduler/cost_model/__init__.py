"""Cost models: they select the states to measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .cost_model import CostModel, PythonBasedModel, RandomModel

if TYPE_CHECKING:
    from .xgb_model import XGBModel


def __getattr__(name: str):
    # This model imports NumPy, and xgboost when it is used.
    if name in ("XGBModel", "xgb_model"):
        import importlib

        module = importlib.import_module(".xgb_model", __name__)
        return module if name == "xgb_model" else module.XGBModel
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


__all__ = ["CostModel", "PythonBasedModel", "RandomModel", "XGBModel"]
