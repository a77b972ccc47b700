"""Load models of both formats into the same records: variables, and operators with the names and attributes of CNTK 2.

Shapes have the fastest axis first, as in CNTK.
"""

from __future__ import annotations

import math
import os
from typing import Any, NamedTuple

import numpy as np

from ....error import TVMError
from .binary import SIGNATURE, BinaryNetwork, BinaryNode, read
from .dictionary import root_of
from .older import NO_SEQUENCE, converted
from .schema import CONSTANT, DTYPES, INPUT, OPERATORS, PARAMETER, PLACEHOLDER, RENAMED, REORDERED

# Operators of the binary format that imply a sequence axis of their input. The format does not store it.
_SEQUENTIAL = ("PastValue", "FutureValue", "UnpackSequence", "Where")
# Special sizes: an inferred dimension, and a dimension known only at run time.
INFERRED, FREE = (1 << 64) - 1, (1 << 64) - 3


class Variable(NamedTuple):
    """An input, or a weight with its value. ``dynamic`` is the number of dynamic axes: batch and sequence."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    dynamic: int
    value: np.ndarray | None


class Node(NamedTuple):
    """An operator. ``inputs`` are keys of variables or of operator outputs (``<operator key>_Output_<index>``)."""

    key: str
    op: str
    name: str
    inputs: list[str]
    attrs: dict[str, Any]

    @property
    def where(self) -> str:
        """The operator as error messages name it: type and name."""
        return f"{self.op} '{self.name or self.key}'"


class Model(NamedTuple):
    """A model: variables and operators by key, the outputs, and the aliases of placeholders."""

    variables: dict[str, Variable]
    nodes: dict[str, Node]
    # Maps the key of each operator output to the operator and the index of the output.
    results: dict[str, tuple[str, int]]
    outputs: list[str]
    # Maps the placeholders of blocks to the keys of their arguments.
    aliases: dict[str, str]


def load(model) -> Model:
    """Load a model from a path or bytes."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        try:
            with open(path, "rb") as file:
                model = file.read()
        except OSError as problem:
            raise TVMError(f"cannot read {os.path.basename(path)}: {problem.strerror}") from problem
    if not isinstance(model, (bytes, bytearray, memoryview)):
        raise TypeError(f"from_cntk: expected a path or bytes, got {type(model).__name__}")
    data = bytes(model)
    if data.startswith(SIGNATURE):
        return _of_network(read(data))
    return _of_dictionary(root_of(data))


def is_cntk(head: bytes) -> bool:
    """Return whether a file starts like a CNTK model: with the first section mark of the binary format, or with a
    dictionary whose first key belongs to a function."""
    if head.startswith(SIGNATURE):
        return True
    if len(head) < 8 or head[0] != 8 or head[1] > 15 or head[2] != 18:
        return False
    # The length of the first pair is a varint of one or more bytes.
    at = 3 + next((i for i, byte in enumerate(head[3:9], 1) if byte < 128), 6)
    key = head[at + 2 : at + 2 + head[at + 1]] if len(head) > at + 1 else b""
    return head[at : at + 1] == b"\n" and key in (
        b"version",
        b"type",
        b"uid",
        b"root",
        b"inputs",
        b"name",
        b"state",
        b"primitive_functions",
    )


def array_of(shape: tuple[int, ...], flat: np.ndarray) -> np.ndarray:
    """Reshape flat elements to the reversed shape, so that CNTK's fastest axis becomes the last axis."""
    return np.ascontiguousarray(flat).reshape(shape[::-1])


# -- the CNTK 2 format ------------------------------------------------------------------------------------------------


def _of_dictionary(root: dict[str, Any]) -> Model:
    model = Model({}, {}, {}, [], {})
    blocks = _add_composite(model, root)
    for key, inner in blocks.items():
        # The outputs of a block are the outputs of its root function.
        model.aliases.update((f"{key}_Output_{i}", result) for i, result in enumerate(_results(model, blocks, inner)))
    model.outputs.extend(_results(model, blocks, _text(root, "root")))
    return model


def _results(model: Model, blocks: dict[str, str], key: str) -> list[str]:
    """Return the outputs of a function: the inputs of a ``Combine``, the outputs of a block's root, else its own
    outputs."""
    name, seen = key, 0
    while key in blocks:
        key, seen = blocks[key], seen + 1
        if seen > len(blocks):
            raise TVMError(f"the block '{name}' contains itself")
    if key not in model.nodes:
        raise TVMError(f"the model has no function '{key}', which is the root of '{name}'")
    node = model.nodes[key]
    return list(node.inputs) if node.op == "Combine" else [f"{key}_Output_{i}" for i in range(_count(node))]


def _count(node: Node) -> int:
    return {"TopK": 2, "UnpackSequence": 1 if node.attrs.get("sequenceUnpackSuppressMaskOutput") else 2}.get(node.op, 1)


def _add_composite(model: Model, composite: dict[str, Any]) -> dict[str, str]:
    """Add the variables and functions of a composite and of the blocks in it. Return the root of each block."""
    blocks: dict[str, str] = {}
    work = [composite]
    while work:
        at = work.pop()
        for each in _list(at, "inputs"):
            _add_variable(model, each)
        for each in _list(at, "primitive_functions"):
            inner = _add_function(model, each)
            if inner is not None:
                blocks[_text(each, "uid")] = _text(inner, "root")
                work.append(inner)
    return blocks


def _add_variable(model: Model, each) -> None:
    if not isinstance(each, dict):
        raise TVMError("a variable of the model is not a dictionary")
    key, kind = _text(each, "uid"), each.get("kind")
    if kind == PLACEHOLDER or kind not in (INPUT, PARAMETER, CONSTANT):
        return
    shape, dtype = each.get("shape"), DTYPES.get(each.get("data_type"))
    if not isinstance(shape, tuple) or dtype is None:
        raise TVMError(f"the variable '{key}' has no shape or an unknown element type")
    axes = each.get("dynamic_axis") or []
    value = each.get("value")
    if kind != INPUT and not isinstance(value, np.ndarray):
        raise TVMError(f"the weight '{key}' has no value")
    if kind != INPUT:
        if math.prod(shape) != value.size:
            raise TVMError(f"the weight '{key}' of shape {shape} has {value.size} elements in the file")
        value = array_of(shape, value.reshape(-1))
    if kind == INPUT and each.get("is_sparse"):
        dtype = "float32" if dtype == "float16" else dtype
    model.variables[key] = Variable(each.get("name") or key, shape, dtype, len(axes), None if kind == INPUT else value)


def _add_function(model: Model, each) -> dict[str, Any] | None:
    """Add a function. Return the composite inside a block, which remains to be read, else None."""
    if not isinstance(each, dict):
        raise TVMError("a function of the model is not a dictionary")
    key = _text(each, "uid")
    if key in model.nodes:
        return None
    number = each.get("op")
    if number is None:
        raise TVMError(f"the function '{key}' is user-defined; the file does not contain its implementation")
    op = OPERATORS.get(number, f"operator {number}")
    inputs = [str(i) for i in _list(each, "inputs")]
    attrs = each.get("attributes") or {}
    node = model.nodes[key] = Node(key, op, each.get("name") or "", inputs, attrs)
    for i in range(_count(node)):
        model.results[f"{key}_Output_{i}"] = (key, i)
    if op != "Block":
        return None
    inner = each.get("block_function_composite")
    if not isinstance(inner, dict):
        raise TVMError(f"the block '{key}' is empty")
    keys, values = (_list(each, f"block_function_composite_arguments_map_{k}") for k in ("keys", "values"))
    if len(keys) != len(values):
        raise TVMError(f"the block '{key}' has {len(keys)} arguments but {len(values)} values")
    model.aliases.update(zip(map(str, keys), map(str, values)))
    return inner


def _text(each: dict[str, Any], name: str) -> str:
    found = each.get(name)
    if not isinstance(found, str) or not found:
        raise TVMError(f"the model is corrupt: an entry has no '{name}'")
    return found


def _list(each: dict[str, Any], name: str) -> list:
    found = each.get(name, [])
    if not isinstance(found, list):
        raise TVMError(f"the model is corrupt: '{name}' is not a list")
    return found


# -- the binary format ------------------------------------------------------------------------------------------------


def _of_network(network: BinaryNetwork) -> Model:
    model = Model({}, {}, {}, [], {})
    follows = any(n.type in _SEQUENTIAL for n in network.nodes.values())
    for name, node in network.nodes.items():
        inputs = network.inputs.get(name, [])
        for each in inputs:
            if each not in network.nodes:
                raise TVMError(f"node '{each}', an input of {node.type} '{name}', does not exist in the file")
        variable = _variable(node, 2 if follows else 1)
        if variable is not None:
            model.variables[name] = variable
            continue
        attrs = converted(network, node, inputs)
        if node.type in REORDERED and len(inputs) == len(REORDERED[node.type]):
            inputs = [inputs[i] for i in REORDERED[node.type]]
        model.nodes[name] = Node(name, RENAMED.get(node.type, node.type), _plain_name(name), list(inputs), attrs)
        model.results[name] = (name, 0)
    model.outputs.extend(_outputs(network))
    return model


def _plain_name(name: str) -> str:
    """Split a name that CNTK 2 composed of an identifier and a name. Return the name, or the identifier without one."""
    rest, found, own = name.partition("__v2libname__")
    return (own or rest.removeprefix("__v2libuid__")) if found else name


def _variable(node: BinaryNode, dynamic: int) -> Variable | None:
    fields = node.fields
    if node.type in ("InputValue", "SparseInputValue"):
        axes = 1 if fields["axis"] == NO_SEQUENCE else dynamic
        return Variable(_plain_name(node.name), fields["shape"], node.dtype, axes, None)
    if node.type == "LearnableParameter":
        return Variable(node.name, fields["shape"], node.dtype, 0, array_of(fields["shape"], fields["value"]))
    if node.type in ("Mean", "InvStdDev"):
        if not fields["hasComputed"]:
            raise TVMError(f"{node.type} '{node.name}' has no computed value; train the model first")
        return Variable(node.name, (fields["value"].size,), node.dtype, 0, fields["value"])
    return None


def _outputs(network: BinaryNetwork) -> list[str]:
    """Return the outputs of the file. A file without output groups has the nodes that no other node reads."""
    for group in ("Output", "Eval", "Criterion", "Criteria"):
        names = list(dict.fromkeys(network.groups.get(group, [])))
        if names:
            unknown = [n for n in names if n not in network.nodes]
            if unknown:
                raise TVMError(f"the output '{unknown[0]}' is not a node of the file")
            return names
    used = {i for inputs in network.inputs.values() for i in inputs}
    last = [n for n, inputs in network.inputs.items() if inputs and n not in used and n in network.nodes]
    if not last:
        raise TVMError("the file has no outputs")
    return last


__all__ = ["FREE", "INFERRED", "Model", "Node", "Variable", "array_of", "is_cntk", "load"]
