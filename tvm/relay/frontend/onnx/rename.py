"""Writing a model in which each node has a name."""

from __future__ import annotations

import os

from ....error import TVMError
from .check import all_nodes
from .external import Folder


def save_renamed(model, folder: Folder | None, path) -> None:
    """Write the model with a name for each node, so that messages and reports can refer to it.

    A path that does not end in .onnx is a folder, in which each model gets a new file name.
    """
    import onnx

    path = os.fspath(path)
    whole_folder = not path.endswith(".onnx")
    if whole_folder:
        path = os.path.join(path, f"{model.graph.name or 'model'}_nodes_renamed.onnx".replace(os.sep, "_"))
    named = onnx.ModelProto()
    named.CopyFrom(model)
    for i, node in enumerate(named.graph.node):
        node.name = node.name or f"{node.op_type}_{i}"
    constants = [a.t for n in all_nodes(named.graph) for a in n.attribute if a.HasField("t")]
    for tensor in (*named.graph.initializer, *constants):
        if tensor.data_location == onnx.TensorProto.EXTERNAL and folder is not None:
            # Store the weight in the model: external data must be in the folder of the model, which is a different one
            # here.
            tensor.CopyFrom(folder.inside(tensor))
    try:
        if whole_folder:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        onnx.save(named, path)
    except (OSError, ValueError) as problem:
        raise TVMError(f"cannot write the renamed model to {path}: {problem}") from problem


__all__ = ["save_renamed"]
