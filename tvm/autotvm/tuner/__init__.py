"""Tuners: they select the configurations to measure."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ...not_built import name_of
from . import callback
from .droplet_tuner import DropletTuner
from .ga_tuner import GATuner
from .index_based_tuner import GridSearchTuner, IndexBaseTuner, RandomTuner
from .tuner import Tuner, TuningError

if TYPE_CHECKING:
    from .xgboost_tuner import XGBTuner


def __getattr__(name: str):
    if name == "XGBTuner":
        return importlib.import_module(".xgboost_tuner", __name__).XGBTuner
    if name in ("xgboost_tuner", "xgboost_cost_model", "model_based_tuner", "sa_model_optimizer", "metric"):
        return importlib.import_module("." + name, __name__)
    return name_of(__name__, name)
