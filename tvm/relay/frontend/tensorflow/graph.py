"""Graphs and functions of a file as records: nodes by name, what each takes, and what a function gives."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from ....error import TVMError
from .schema import dtype_name
from .tensors import shape_of

# Nodes that a model may have with all calls, branches and steps of loops written out.
MOST_NODES = 131_072
# Names of outputs of operators that have more than one, in order; other operators have one output or one list.
OUTPUTS = {
    "Switch": ["output_false", "output_true"], "RefSwitch": ["output_false", "output_true"],
    "Merge": ["output", "value_index"], "RefMerge": ["output", "value_index"],
    "TopK": ["values", "indices"], "TopKV2": ["values", "indices"],
    "Unique": ["y", "idx"], "UniqueV2": ["y", "idx"],
    "UniqueWithCounts": ["y", "idx", "count"], "UniqueWithCountsV2": ["y", "idx", "count"],
    "ListDiff": ["out", "idx"], "MaxPoolWithArgmax": ["output", "argmax"], "Moments": ["mean", "variance"],
    "NonMaxSuppressionV4": ["selected_indices", "valid_outputs"],
    "NonMaxSuppressionV5": ["selected_indices", "selected_scores", "valid_outputs"],
    "CombinedNonMaxSuppression": ["nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"],
    "TensorListPopBack": ["output_handle", "tensor"], "TensorArrayV3": ["handle", "flow"],
    "TensorListConcat": ["tensor", "lengths"], "TensorListConcatV2": ["tensor", "lengths"],
    "TensorArrayConcatV3": ["value", "lengths"],
    "SoftmaxCrossEntropyWithLogits": ["loss", "backprop"],
    "SparseSoftmaxCrossEntropyWithLogits": ["loss", "backprop"],
    "BroadcastGradientArgs": ["r0", "r1"], "LSTMBlockCell": ["i", "cs", "f", "o", "ci", "co", "h"],
}  # fmt: skip
_BATCH_NORM = ["y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"]
OUTPUTS.update({f"FusedBatchNorm{v}": _BATCH_NORM for v in ("", "V2", "V3")})


class Called(NamedTuple):
    """The name of a function, as an attribute has it."""

    name: str


def _value(attr) -> Any:
    """An attribute as a Python value: text, numbers, names of element types, shapes; tensors stay as they are."""
    field = attr.WhichOneof("value")
    return None if field is None else _READERS[field](getattr(attr, field))


def _list(values) -> list:
    for field, given in values.ListFields():
        return [_READERS[field.name](v) for v in given]
    return []


_READERS: dict[str, Any] = {
    "list": _list, "s": lambda v: v.decode("utf-8", "replace"), "i": int, "f": float, "b": bool, "type": dtype_name,
    "shape": shape_of, "tensor": lambda v: v, "placeholder": str, "func": lambda v: Called(v.name),
}  # fmt: skip


class Ref(NamedTuple):
    """An output of a node: its number, or its name and the number in the list of that name."""

    node: str
    port: int
    output: str = ""


def ref_of(text: str) -> Ref:
    name, *rest = text.split(":")
    try:
        if len(rest) == 2:
            return Ref(name, int(rest[1]), rest[0])
        return Ref(name, int(rest[0]) if rest else 0)
    except ValueError:
        raise TVMError(f"'{text}' is no name of a node's output") from None


class Node:
    """An operator of a graph."""

    def __init__(self, proto):
        self.proto = proto
        self.name: str = proto.name
        self.op: str = proto.op
        self.inputs = [ref_of(i) for i in proto.input if not i.startswith("^")]
        self.controls = [i[1:] for i in proto.input if i.startswith("^")]

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """Attributes by name; those that have the operator's default may be left out."""
        found = {pair.key: _value(pair.value) for pair in self.proto.attr}
        return {key: value for key, value in found.items() if value is not None}

    def number(self, ref: Ref) -> int:
        """The number of an output among all."""
        if not ref.output:
            return ref.port
        names = OUTPUTS.get(self.op)
        return names.index(ref.output) if names and ref.output in names else ref.port


class Body:
    """The nodes of a graph or a function; ``arguments`` and ``results`` are those of a function."""

    def __init__(self, name: str, nodes, arguments: list[str], results: list[Ref]):
        self.name = name
        self.nodes: dict[str, Node] = {}
        for proto in nodes:
            if proto.name in self.nodes or not proto.name:
                raise TVMError(f"two nodes have the name '{proto.name}'")
            self.nodes[proto.name] = Node(proto)
        self.arguments = arguments
        self.results = results

    def node(self, name: str, where: str) -> Node:
        found = self.nodes.get(name)
        if found is None:
            raise TVMError(f"'{name}' is used by {where} but nothing makes it")
        return found


class Library:
    """The functions of a file; each is taken apart when it is called."""

    def __init__(self, graph):
        self.functions = {f.signature.name: f for f in graph.library.function}
        self.bodies: dict[str, Body] = {}

    def body(self, name: str) -> Body:
        if name not in self.bodies:
            if name not in self.functions:
                raise TVMError(f"there is no function '{name}'")
            found = self.functions[name]
            returned = {pair.key: pair.value for pair in found.ret}
            missing = [a.name for a in found.signature.output_arg if a.name not in returned]
            if missing:
                raise TVMError(f"the function '{name}' does not say what its result '{missing[0]}' is")
            results = [ref_of(returned[a.name]) for a in found.signature.output_arg]
            arguments = [a.name for a in found.signature.input_arg]
            self.bodies[name] = Body(name, found.node_def, arguments, results)
        return self.bodies[name]


__all__ = ["MOST_NODES", "OUTPUTS", "Body", "Called", "Library", "Node", "Ref", "ref_of"]
