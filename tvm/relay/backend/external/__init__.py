"""Partitions of a graph that external code generators compile: their calls, their code, and modules for them."""

from .c_source import c_source_module
from .json_graph import json_graph, json_module
from .options import options_of
from .summary import summarize

__all__ = ["c_source_module", "json_graph", "json_module", "options_of", "summarize"]
