"""Loading of models: a graph as bytes, message or file, or the folder of a SavedModel."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from ....error import TVMError
from .checkpoint import Checkpoint
from .schema import parse

SAVED_MODEL = "saved_model.pb"
# The tag of the graph for inference, and the signature that is used by default.
SERVE, DEFAULT = "serve", "serving_default"


class Loaded(NamedTuple):
    """A graph; for a SavedModel also its signatures by name, its variables and its restore operation."""

    graph: Any
    entries: dict[str, Any]
    checkpoint: Checkpoint | None
    restore: str


def load(model) -> Loaded:
    """Load a model from a path, bytes, or a message of TensorFlow's GraphDef class."""
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
            raise TVMError(f"cannot read {os.path.basename(path)}: {problem.strerror}") from problem
    if hasattr(model, "as_graph_def"):
        model = model.as_graph_def()
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise TypeError(f"from_tensorflow: graph must be a GraphDef, its bytes or a path, got {type(model).__name__}")
    graph = parse("Graph", model, "the graph")
    if not graph.node:
        raise TVMError("the graph has no nodes or is not a GraphDef")
    return Loaded(graph, {}, None, "")


def _folder(path: str) -> Loaded:
    file = os.path.join(path, SAVED_MODEL)
    if not os.path.isfile(file):
        raise TVMError(f"the folder is not a SavedModel: it contains no {SAVED_MODEL}")
    with open(file, "rb") as opened:
        model = parse("SavedModel", opened.read(), SAVED_MODEL)
    if model.saved_model_schema_version != 1 or not model.meta_graphs:
        raise TVMError(f"{SAVED_MODEL} must have schema version 1 and contain a graph")
    chosen = [m for m in model.meta_graphs if SERVE in m.meta_info_def.tags]
    if not chosen and len(model.meta_graphs) > 1:
        tags = "; ".join(", ".join(m.meta_info_def.tags) for m in model.meta_graphs)
        raise TVMError(f"no graph of the SavedModel has the tag '{SERVE}'; the tags are {tags}")
    meta = (chosen or list(model.meta_graphs))[0]
    prefix = os.path.join(path, "variables", "variables")
    checkpoint = Checkpoint(prefix) if os.path.exists(f"{prefix}.index") else None
    entries = {pair.key: pair.value for pair in meta.signature_def}
    return Loaded(meta.graph_def, entries, checkpoint, meta.saver_def.restore_op_name)


__all__ = ["DEFAULT", "SAVED_MODEL", "Loaded", "load"]
