"""Operator records: one record contains all properties of an operator.

    @op("nn.relu", 1, pattern=ELEMWISE, type_rule=same_as_first,
        compute=lambda attrs, inputs, out: topi.nn.relu(inputs[0]))
    def relu(data):
        \"\"\"Compute max(x, 0) element-wise.\"\"\"
        return call("nn.relu", data)

``type_rule(attrs, types)`` returns the output type for the input types, or raises a TypeError with a message. Without
it, the computation determines the type.
``infer_inputs(attrs, types)`` infers input types that are still unknown (weights of a convolution).
``compute(attrs, inputs, out_type)`` returns the output tensor, or a list of tensors.
``reshape_only`` is set if the output is the input's memory with another shape. ``moves_only`` is set if each output
element is an input element at an index known at compile time.
``is_annotation`` is set if the output is the input, for passes that read the attributes of the call.
``contraction`` is set if the output sums products of its two inputs: a "matmul" or a "convolution".
``macs(attrs, types, out_type)`` returns the number of multiply-adds of the direct computation.
``dynamic_shape`` defines how a shape depends on run-time values (``DynamicShape``).
``expand(attrs, args, types)`` returns simpler operators that are equivalent, for operators without a computation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NamedTuple

from ...docstring import words
from ...ir.attrs import DictAttrs
from ...ir.op import OPS, Op
from ...runtime.devices import Device
from ...runtime.devices import device as named_device
from ...target import VirtualDevice
from ..expr import Call, Constant, RelayExpr, Tuple, TupleWrapper, const

# The fusion patterns, with the numbers of Apache TVM.
ELEMWISE = 0
BROADCAST = 1
INJECTIVE = 2
COMM_REDUCE = 3
OUT_ELEMWISE_FUSABLE = 4
# Operates independently on each row (last dimension) of the first input: softmax, layer normalization. Not in Apache
# TVM.
ROWS = 5
TUPLE = 7
OPAQUE = 8


class OpPattern:
    """The fusion patterns under the names of Apache TVM."""

    ELEMWISE = ELEMWISE
    BROADCAST = BROADCAST
    INJECTIVE = INJECTIVE
    COMM_REDUCE = COMM_REDUCE
    OUT_ELEMWISE_FUSABLE = OUT_ELEMWISE_FUSABLE
    ROWS = ROWS
    TUPLE = TUPLE
    OPAQUE = OPAQUE


class DynamicShape(NamedTuple):
    """How the output shapes of an operator depend on data.

    ``values`` are the inputs whose values determine the shapes. ``rule(attrs, types, values)`` returns the dimensions
    of each output as expressions, where ``values[i](*indices)`` is an element of input ``i``. Requirements on the data
    are recorded with ``topi.assumptions.assume``.
    """

    values: tuple[int, ...]
    rule: Callable[..., list[list[Any]]]


class CallAttrs(DictAttrs, key="relay.CallAttrs"):
    """The attributes of a call, accessible as ``attrs.name``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        entries = object.__getattribute__(self, "entries")
        if name in entries:
            return entries[name]
        # Annotations and copies store their devices as text.
        if name.endswith("virtual_device") and name.replace("virtual_", "") in entries:
            return VirtualDevice(as_device(entries[name.replace("virtual_", "")]))
        raise AttributeError(f"no attribute '{name}'; available: {', '.join(entries) or 'none'}")

    def get_int(self, key: str) -> int:
        return int(self.entries[key])

    def get_str(self, key: str) -> str:
        return str(self.entries[key])

    def get_int_tuple(self, key: str) -> tuple[int, ...]:
        return tuple(int(x) for x in self.entries[key])


def op(
    name: str,
    num_inputs: int = -1,
    *,
    pattern: int = OPAQUE,
    type_rule: Callable[..., Any] | None = None,
    compute: Callable[..., Any] | None = None,
    infer_inputs: Callable[..., Any] | None = None,
    **facts: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the operator ``name``; the decorated function builds its calls. ``facts`` are further attributes of the
    record (layout rules, legalization, gradients and so on)."""

    def decorate(build: Callable[..., Any]) -> Callable[..., Any]:
        record = OPS.get(name)
        if record is None:
            record = OPS.register(name, Op(name, words(build.__doc__ or ""), num_inputs, {}))
        record.attrs.update(facts)
        record.attrs["TOpPattern"] = pattern
        record.attrs["num_inputs"] = num_inputs
        record.attrs["build"] = build
        rule = type_rule
        if rule is None and compute is not None and "type_rule" not in record.attrs:
            from .rules import by_compute

            rule = by_compute(compute)
        for key, value in (("type_rule", rule), ("compute", compute), ("infer_inputs", infer_inputs)):
            if value is not None:
                record.attrs[key] = value
        build.op = record
        return build

    return decorate


def device_text(device) -> str:
    """Return the text of a device given by name, as a device type number, or as a virtual device."""
    if hasattr(device, "device_type_int"):
        return str(Device(device.device_type_int, max(device.virtual_device_id, 0)))
    if isinstance(device, str):
        as_device(device)
    return str(Device(device, 0)) if isinstance(device, int) else str(device)


def as_device(text: str) -> Device:
    """Return the device for a text such as "cuda", "cuda(0)" or "cuda:0"; the type may be a number."""
    found = re.fullmatch(r"\s*(\w+)\s*(?:[(:]\s*(\d+)\s*\)?)?\s*", str(text))
    if found is None:
        raise ValueError(f"on_device: '{text}' is not a device; write tvm.cuda(0) or 'cuda'")
    kind = int(found[1]) if found[1].isdigit() else named_device(found[1]).device_type
    return Device(kind, int(found[2] or 0))


def as_expr(value: Any) -> RelayExpr:
    """Convert numbers and arrays to constants, and lists to tuples.

    Parameters
    ----------
    value
        The number, array, list or expression.

    Returns
    -------
    RelayExpr
        The expression.
    """
    if isinstance(value, RelayExpr):
        return value
    if isinstance(value, TupleWrapper):
        return value.astuple()
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, (RelayExpr, TupleWrapper)) for v in value):
        return Tuple([as_expr(v) for v in value])
    return const(value)


def call(name: str, *inputs: Any, **attrs: Any) -> Call:
    """Return the call of an operator; attributes are kept in the given order.

    Parameters
    ----------
    name : str
        The operator name.
    *inputs
        The operands.
    **attrs : dict
        The attributes.

    Returns
    -------
    Call
        The call.
    """
    return Call(Op.get(name), tuple([as_expr(i) for i in inputs]), CallAttrs(attrs) if attrs else None)


def describe_outputs(functions: Iterable[Any], package: str) -> None:
    """Describe the outputs in the docstrings of the operators of a package that contain only their type."""
    for function in functions:
        if isinstance(function, FunctionType) and function.__module__.startswith(package):
            for kind, text in (("Expr", "The output."), ("TupleWrapper of Expr", "The outputs.")):
                title = f"Returns\n-------\n{kind}\n"
                sentence, found, rest = (function.__doc__ or "").partition(title)
                if found and not rest.startswith(" "):
                    function.__doc__ = f"{sentence}{title}    {text}\n{rest}"


def pattern_of(record: Op) -> int:
    return record.attrs.get("TOpPattern", OPAQUE)


def call_pattern(call: Call) -> int:
    """Return the fusion pattern of a call; a call with a data-dependent shape is a separate kernel."""
    own = dynamic_shape(call) is not None or "FShapeFunc" in call.op.attrs
    return OPAQUE if own else pattern_of(call.op)


def dynamic_shape(call: Call) -> DynamicShape | None:
    """Return how the output shape of a call depends on data; None if the types determine it."""
    found = call.op.attrs.get("dynamic_shape")
    return found if found is not None and len(call.args) > max(found.values, default=-1) else None


__all__ = [
    "BROADCAST",
    "COMM_REDUCE",
    "CallAttrs",
    "DynamicShape",
    "Constant",
    "ELEMWISE",
    "INJECTIVE",
    "OPAQUE",
    "OUT_ELEMWISE_FUSABLE",
    "OpPattern",
    "ROWS",
    "TUPLE",
    "as_expr",
    "call",
    "call_pattern",
    "dynamic_shape",
    "op",
    "pattern_of",
]
