"""Tuners: what to measure next."""

from __future__ import annotations

from . import callback
from .ga_tuner import GATuner
from .index_based_tuner import GridSearchTuner, IndexBaseTuner, RandomTuner
from .tuner import Tuner, TuningError
