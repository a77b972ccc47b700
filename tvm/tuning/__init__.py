"""The tuning engine: it distributes a budget of trials and time over all tasks of a model, for any kind of search."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from . import events, search, state
from .engine import TuningRun, tune
from .events import Event
from .options import TuningOptions
from .result import TuningResult
from .search import Measurement, Outcome, Search, TuningError
from .state import TaskState, TaskStatus

if TYPE_CHECKING:
    from .relay_model import RelayModel


def __getattr__(name: str):
    # RelayModel imports the graph compiler, which the engine itself does not need.
    if name == "RelayModel":
        return importlib.import_module(".relay_model", __name__).RelayModel
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
