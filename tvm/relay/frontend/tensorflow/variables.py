"""Values of variables: the graph that restores a checkpoint maps checkpoint keys to variables."""

from __future__ import annotations

from ....error import TVMError
from .checkpoint import Checkpoint
from .graph import Body, Called, Library, Node, Ref
from .tensors import Text, array_of

_THROUGH = ("Identity", "Cast", "ReadVariableOp")
_ASSIGNS = ("AssignVariableOp", "Assign")
_HANDLES = ("VarHandleOp", "VariableV2", "Variable")


def shared_name(node: Node) -> str:
    """Return the name by which a variable or a table is identified."""
    return str(node.attrs.get("shared_name") or node.name)


class Variables:
    """The values of variables by their shared names."""

    def __init__(self, main: Body, library: Library, checkpoint: Checkpoint | None, restore: str):
        self.checkpoint = checkpoint
        self.stored: dict[str, str] = {}
        if checkpoint is not None:
            self._restored(main, {})
            node = main.nodes.get(restore.split(":")[0])
            called = node.attrs.get("f") if node is not None else None
            if node is not None and isinstance(called, Called):
                body = library.body(called.name)
                given = {a: (main, ref) for a, ref in zip(body.arguments, node.inputs)}
                self._restored(body, given)

    def value(self, name: str):
        """Return the array of a variable."""
        if self.checkpoint is None:
            raise TVMError(f"the variable '{name}' has no value: freeze the graph, or pass a SavedModel")
        return self.checkpoint.tensor(self.stored.get(name, name))

    def _restored(self, body: Body, given: dict[str, tuple[Body, Ref]]) -> None:
        """Record assignments of values that are read from the checkpoint; ``given`` are the arguments of a function."""
        for node in body.nodes.values():
            if node.op not in _ASSIGNS or len(node.inputs) < 2:
                continue
            variable = _source(body, node.inputs[0], given)
            value = _source(body, node.inputs[1], given)
            if variable is None or value is None or value[0].op != "RestoreV2" or variable[0].op not in _HANDLES:
                continue
            keys = _texts(body, value[0].inputs[1]) if len(value[0].inputs) > 1 else []
            if value[1] < len(keys):
                self.stored[shared_name(variable[0])] = keys[value[1]]


def _source(body: Body, ref: Ref, given: dict[str, tuple[Body, Ref]]) -> tuple[Node, int] | None:
    """Return the node that computes a value, skipping nodes that forward it, and the index of its output."""
    for _ in range(len(body.nodes) + 2):
        if ref.node in given and ref.node not in body.nodes:
            body, ref = given[ref.node]
            given = {}
        node = body.nodes.get(ref.node)
        if node is None or node.op not in _THROUGH or not node.inputs:
            return None if node is None else (node, node.number(ref))
        ref = node.inputs[0]
    return None


def _texts(body: Body, ref: Ref) -> list[str]:
    node = body.nodes.get(ref.node)
    found = array_of(node.attrs["value"]) if node is not None and node.op == "Const" and "value" in node.attrs else None
    return [v.decode("utf-8", "replace") for v in found.array.reshape(-1)] if isinstance(found, Text) else []


__all__ = ["Variables", "shared_name"]
