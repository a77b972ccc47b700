"""Graphs and functions of a model file: nodes by name, their inputs, and the arguments and outputs of functions."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from ....error import TVMError
from .schema import dtype_name
from .tensors import shape_of

# Maximum number of nodes of a model after inlining all calls and branches, and unrolling loops.
MOST_NODES = 131_072
# Names of outputs in order, for operators with several outputs; other operators have one output or one list.
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
    """The name of a function in an attribute."""

    name: str


def _value(attr) -> Any:
    """Convert an attribute to a Python value: strings, numbers, names of element types, shapes; tensors are
    unchanged.
    """
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
    """An output of a node: its index, or its name and its index in the list of that name."""

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
        raise TVMError(f"'{text}' is not a valid name of a node's output") from None


class Node:
    """A node of a graph."""

    def __init__(self, proto):
        self.proto = proto
        self.name: str = proto.name
        self.op: str = proto.op
        self.inputs = [ref_of(i) for i in proto.input if not i.startswith("^")]
        self.controls = [i[1:] for i in proto.input if i.startswith("^")]

    @cached_property
    def attrs(self) -> dict[str, Any]:
        """Return the attributes by name; attributes with the operator's default can be missing."""
        found = {pair.key: _value(pair.value) for pair in self.proto.attr}
        return {key: value for key, value in found.items() if value is not None}

    def number(self, ref: Ref) -> int:
        """Return the index of an output among all outputs."""
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
            raise TVMError(f"{where} uses '{name}', which is not a node of the graph")
        return found


class Library:
    """The functions of a file; each is parsed when it is first called."""

    def __init__(self, graph):
        self.functions = {f.signature.name: f for f in graph.library.function}
        self.bodies: dict[str, Body] = {}

    def body(self, name: str) -> Body:
        if name not in self.bodies:
            if name not in self.functions:
                raise TVMError(f"the model does not contain the function '{name}'")
            found = self.functions[name]
            returned = {pair.key: pair.value for pair in found.ret}
            missing = [a.name for a in found.signature.output_arg if a.name not in returned]
            if missing:
                raise TVMError(f"the function '{name}' does not define its output '{missing[0]}'")
            results = [ref_of(returned[a.name]) for a in found.signature.output_arg]
            arguments = [a.name for a in found.signature.input_arg]
            self.bodies[name] = Body(name, found.node_def, arguments, results)
        return self.bodies[name]


__all__ = ["MOST_NODES", "OUTPUTS", "Body", "Called", "Library", "Node", "Ref", "ref_of"]
