"""Graph tuners: choose one record for each operator of a model with the whole graph taken into account."""

from . import utils
from .base_graph_tuner import BaseGraphTuner, DPTuner, PBQPTuner
from .layout_transform import layout_transform

__all__ = ["BaseGraphTuner", "DPTuner", "PBQPTuner", "layout_transform", "utils"]
