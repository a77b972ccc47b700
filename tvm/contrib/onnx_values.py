"""Conversion of ONNX sequences and optionals between Python (lists, a value or None) and the virtual machine."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.tensor_type import TensorType
from ..ir.type import TAG_BITS, TupleType, Type
from ..relay.frontend.onnx.small_types import Texts, to_carrier
from ..relay.frontend.onnx.values import is_type
from ..runtime import ndarray
from ..runtime.container import ADT

# Indices of the constructors of List and Option.
CONS = SOME = 0
NIL = NONE = 1


def given(value: Any, t: Type) -> Any:
    """A Python value converted to an input of this type.

    Parameters
    ----------
    value : numpy.ndarray, list or None
        The value.
    t : Type
        The type of the input.

    Returns
    -------
    NDArray or ADT
        The argument for the virtual machine.

    Raises
    ------
    TypeError
        The type is a sequence, but the value is not a list.
    """
    if is_type(t, "Option"):
        return ADT(NONE) if value is None else ADT(SOME, [given(value, t.args[0])])
    if not is_type(t, "List"):
        return ndarray.array(to_carrier(np.array(value, order="C")))
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"a sequence of tensors must be a list, got {type(value).__name__}")
    made = ADT(NIL)
    for item in reversed(value):
        made = ADT(CONS, [given(item, t.args[0]), made])
    return made


def taken(value: Any, t: Type) -> Any:
    """An output of this type converted to a Python value.

    Parameters
    ----------
    value : NDArray or ADT
        The output of the virtual machine.
    t : Type
        Its type.

    Returns
    -------
    numpy.ndarray, list or None
        The value; tuples are also converted to lists.
    """
    if isinstance(t, TensorType):
        return value.numpy()
    if isinstance(t, TupleType):
        return [taken(v, f) for v, f in zip(value, t.fields)]
    if is_type(t, "Option"):
        return taken(value[0], t.args[0]) if _number(value) == SOME else None
    items = []
    while _number(value) == CONS:
        item, value = value
        items.append(taken(item, t.args[0]))
    return items


def _number(value: ADT) -> int:
    """Return the index of a value's constructor in its type; the upper bits of the tag identify the type."""
    return value.tag & ((1 << TAG_BITS) - 1)


def open_shapes(model, inputs: dict[str, Any]) -> dict[str, list]:
    """The shapes of the inputs whose rank the model does not specify, with the ranks of the given values.

    Parameters
    ----------
    model : ModelProto
        The model.
    inputs : dict
        Values by name; {} raises an error that names the inputs that need values.

    Returns
    -------
    dict of str to list
        Shapes by input, with only dynamic dimensions.
    """
    from ..relay import Any as Unknown

    weights = {w.name for w in model.graph.initializer}
    found: dict[str, list] = {}
    for value in model.graph.input:
        kind = value.type
        while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
            kind = getattr(kind, kind.WhichOneof("value")).elem_type
        if value.name in weights or kind.tensor_type.HasField("shape"):
            continue
        tensor = inputs.get(value.name, ())
        while isinstance(tensor, (list, tuple)):
            tensor = tensor[0] if tensor else np.zeros(())
        found[value.name] = [Unknown() for _ in np.shape(tensor)]
    return found


def texts_of(model, inputs: dict[str, Any]) -> Texts:
    """The strings that a model can output: its own strings and those of its inputs.

    Parameters
    ----------
    model : ModelProto
        The model.
    inputs : dict
        Values by name.

    Returns
    -------
    Texts
        The strings by number.

    Raises
    ------
    TVMError
        Two strings have the same number.
    """
    from onnx import TensorProto, numpy_helper

    found = Texts()
    stack = [model.graph, *model.functions]
    while stack:
        body = stack.pop()
        tensors = list(getattr(body, "initializer", ()))
        for attribute in (a for node in body.node for a in node.attribute):
            stack += [*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs]
            tensors.append(attribute.t)
            found.numbers(np.array([attribute.s, *attribute.strings], object))
        for tensor in tensors:
            if tensor.data_type == TensorProto.STRING:
                found.numbers(numpy_helper.to_array(tensor))
    # The value that a table without a default returns.
    found.numbers(np.array(["_Unused"], object))
    for value in inputs.values():
        if np.asarray(value).dtype.kind in "OUS":
            found.numbers(value)
    return found


__all__ = ["given", "open_shapes", "taken", "texts_of"]
