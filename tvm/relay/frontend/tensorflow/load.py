"""Models as they are handed over: a graph as bytes, message or file, or the folder of a SavedModel."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ....error import TVMError
from .checkpoint import Checkpoint
from .schema import parse

SAVED_MODEL = "saved_model.pb"
# The tag of the graph that is meant for inference, and the entry that is taken if none is named.
SERVE, DEFAULT = "serve", "serving_default"


class Loaded(NamedTuple):
    """A graph; of a SavedModel also its entries by name, its variables and what restores them."""

    graph: Any
    entries: dict[str, Any]
    checkpoint: Checkpoint | None
    restore: str


def load(model) -> Loaded:
    """What a model is: a path, bytes, or a message of TensorFlow's own class."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        if os.path.isdir(path):
            return _folder(path)
        if os.path.basename(path) == SAVED_MODEL:
            return _folder(os.path.dirname(path) or ".")
        try:
            with open(path, "rb") as file:
                model = file.read()
        except OSError as problem:
            raise TVMError(f"{os.path.basename(path)} cannot be read: {problem.strerror}") from problem
    if hasattr(model, "as_graph_def"):
        model = model.as_graph_def()
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise TypeError(f"from_tensorflow: a GraphDef, its bytes or a path is wanted, got {type(model).__name__}")
    graph = parse("Graph", model, "the graph")
    if not graph.node:
        raise TVMError("the graph has no nodes, or is no GraphDef")
    return Loaded(graph, {}, None, "")


def _folder(path: str) -> Loaded:
    file = os.path.join(path, SAVED_MODEL)
    if not os.path.isfile(file):
        raise TVMError(f"the folder has no {SAVED_MODEL}: it is no SavedModel")
    with open(file, "rb") as opened:
        model = parse("SavedModel", opened.read(), SAVED_MODEL)
    if model.saved_model_schema_version != 1 or not model.meta_graphs:
        raise TVMError(f"{SAVED_MODEL} is none of schema version 1, or has no graph")
    chosen = [m for m in model.meta_graphs if SERVE in m.meta_info_def.tags]
    if not chosen and len(model.meta_graphs) > 1:
        tags = "; ".join(", ".join(m.meta_info_def.tags) for m in model.meta_graphs)
        raise TVMError(f"no graph of the SavedModel has the tag {SERVE}; their tags are {tags}")
    meta = (chosen or list(model.meta_graphs))[0]
    prefix = os.path.join(path, "variables", "variables")
    checkpoint = Checkpoint(prefix) if os.path.exists(f"{prefix}.index") else None
    entries = {pair.key: pair.value for pair in meta.signature_def}
    return Loaded(meta.graph_def, entries, checkpoint, meta.saver_def.restore_op_name)


__all__ = ["DEFAULT", "SAVED_MODEL", "Loaded", "load"]
