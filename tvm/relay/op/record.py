"""One record per operator: everything that is true of it is written in one place.

    @op("nn.relu", 1, pattern=ELEMWISE, type_rule=same_as_first,
        compute=lambda attrs, inputs, out: topi.nn.relu(inputs[0]))
    def relu(data):
        \"\"\"max(x, 0), element by element.\"\"\"
        return call("nn.relu", data)

``type_rule(attrs, types)`` gives the type of the result from the types of the inputs, or raises TypeError in words;
without one, the computation is asked.
``infer_inputs(attrs, types)`` fills in input types that are not known yet (weights of a convolution).
``compute(attrs, inputs, out_type)`` gives the tensor, or a list of tensors.
``reshape_only`` says that the result is the input's memory under another shape; ``moves_only`` that each element of the
result is one of the input's, at a place known when compiling.
``contraction`` says that the result is sums of products of its two inputs: a "matmul" or a "convolution".
``macs(attrs, types, out_type)`` counts the multiplications followed by an addition that the direct computation does.
``dynamic_shape`` says how a shape follows from values that are known when running (``DynamicShape``).
``expand(attrs, args, types)`` gives the operator in terms of simpler ones, for operators without a computation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from ...docstring import words
from ...ir.attrs import DictAttrs
from ...ir.op import OPS, Op
from ...runtime.devices import Device
from ...runtime.devices import device as named_device
from ...target import VirtualDevice
from ..expr import Call, Constant, RelayExpr, Tuple, TupleWrapper, const

# How an operator may be fused with its neighbours; the numbers are TVM's.
ELEMWISE = 0
BROADCAST = 1
INJECTIVE = 2
COMM_REDUCE = 3
OUT_ELEMWISE_FUSABLE = 4
# Along each row (the last dimension) of its first input, row by row: softmax, layer normalization. TVM has no such one.
ROWS = 5
TUPLE = 7
OPAQUE = 8


class OpPattern:
    """The fusion patterns under TVM's names."""

    ELEMWISE = ELEMWISE
    BROADCAST = BROADCAST
    INJECTIVE = INJECTIVE
    COMM_REDUCE = COMM_REDUCE
    OUT_ELEMWISE_FUSABLE = OUT_ELEMWISE_FUSABLE
    ROWS = ROWS
    TUPLE = TUPLE
    OPAQUE = OPAQUE


class DynamicShape(NamedTuple):
    """How the shapes of an operator's results follow from data: ``values`` are the inputs whose values they depend on,
    ``rule(attrs, types, values)`` gives the sizes of each result as expressions. ``values[i](*indices)`` is an element
    of input ``i``; what the data must be is noted with ``topi.assumptions.assume``."""

    values: tuple[int, ...]
    rule: Callable[..., list[list[Any]]]


class CallAttrs(DictAttrs, key="relay.CallAttrs"):
    """The attributes of one call, read as ``attrs.name``."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        entries = object.__getattribute__(self, "entries")
        if name in entries:
            return entries[name]
        # Marks and copies store the texts of their devices.
        if name.endswith("virtual_device") and name.replace("virtual_", "") in entries:
            return VirtualDevice(as_device(entries[name.replace("virtual_", "")]))
        raise AttributeError(f"no attribute '{name}'; there are {', '.join(entries) or 'none'}")

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
    """Register the operator ``name``; the decorated function builds calls of it. ``facts`` are further attributes of
    the record (layout rules, legalization, gradients ...)."""

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
    """The text of a device: of its name, of its type as a number, or of a virtual device."""
    if hasattr(device, "device_type_int"):
        return str(Device(device.device_type_int, max(device.virtual_device_id, 0)))
    if isinstance(device, str):
        as_device(device)
    return str(Device(device, 0)) if isinstance(device, int) else str(device)


def as_device(text: str) -> Device:
    """The device of a text: "cuda", "cuda(0)" or "cuda:0"; a type may be a number."""
    found = re.fullmatch(r"\s*(\w+)\s*(?:[(:]\s*(\d+)\s*\)?)?\s*", str(text))
    if found is None:
        raise ValueError(f"on_device: '{text}' is no device; write it as tvm.cuda(0) or 'cuda'")
    kind = int(found[1]) if found[1].isdigit() else named_device(found[1]).device_type
    return Device(kind, int(found[2] or 0))


def as_expr(value: Any) -> RelayExpr:
    """Numbers and arrays as constants, lists as tuples.

    Parameters
    ----------
    value
        The number, array or list.

    Returns
    -------
    RelayExpr
    """
    if isinstance(value, RelayExpr):
        return value
    if isinstance(value, TupleWrapper):
        return value.astuple()
    if isinstance(value, (list, tuple)) and value and all(isinstance(v, (RelayExpr, TupleWrapper)) for v in value):
        return Tuple([as_expr(v) for v in value])
    return const(value)


def call(name: str, *inputs: Any, **attrs: Any) -> Call:
    """The call of an operator; attributes are kept in the order given.

    Parameters
    ----------
    name : str
        The name.
    *inputs
        The inputs.
    **attrs : dict
        The attributes.

    Returns
    -------
    Call
    """
    return Call(Op.get(name), tuple([as_expr(i) for i in inputs]), CallAttrs(attrs) if attrs else None)


def pattern_of(record: Op) -> int:
    return record.attrs.get("TOpPattern", OPAQUE)


def call_pattern(call: Call) -> int:
    """How a call may be fused: where its shape follows from data it is a kernel of its own."""
    own = dynamic_shape(call) is not None or "FShapeFunc" in call.op.attrs
    return OPAQUE if own else pattern_of(call.op)


def dynamic_shape(call: Call) -> DynamicShape | None:
    """How the shape of a call's result follows from data; None where types say it."""
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
