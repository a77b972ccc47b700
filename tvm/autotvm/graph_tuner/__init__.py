"""One record for every operator of a model, chosen with the whole graph in view."""

from . import utils
from .base_graph_tuner import BaseGraphTuner, DPTuner, PBQPTuner

__all__ = ["BaseGraphTuner", "DPTuner", "PBQPTuner", "utils"]
