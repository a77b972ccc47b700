"""One record for every operator of a model, chosen with the whole graph in view."""

from . import utils
from .base_graph_tuner import BaseGraphTuner, DPTuner, PBQPTuner
from .layout_transform import layout_transform

__all__ = ["BaseGraphTuner", "DPTuner", "PBQPTuner", "layout_transform", "utils"]
