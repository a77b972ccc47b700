"""Assign devices to the operators of a graph: device annotations become copies between devices.

An ``on_device`` annotation applies to an expression and its operands, down to other annotations: an operator without
annotation runs on the device that reads its output. If its readers use different devices, or no annotation constrains
it, it runs on the default device. A parameter is stored on the device that reads it; a constant is stored on every
device that reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...error import TVMError
from ...ir.type import TupleType
from ...ir.visit import post_order
from ...runtime.devices import Device
from ..checked_type import with_type, with_type_of
from ..expr import Call, Constant, Function, RelayExpr, Tuple, TupleGetItem, Var
from ..op.tensor import device_copy
from .device_domains import named_device
from .function_pass import is_call, type_of
from .fuse_ops import own_nodes

# The attribute of a planned function with the device types of its outputs, tuples flattened.
RESULT_DEVICES = "result_devices"
CPU = Device.kDLCPU


def kind_of(place: Any) -> int | None:
    """Return the device type of a device or virtual device; None if it is unconstrained."""
    kind = getattr(place, "device_type_int", getattr(place, "device_type", None))
    return None if kind is None or kind < 0 else int(kind)


def is_placed(func: Function) -> bool:
    """Return whether a function contains any device annotation or copy."""
    if RESULT_DEVICES in func.attrs or any(kind_of(e.virtual_device_) is not None for e in (func, *func.params)):
        return True
    return any(is_call(n, "on_device", "device_copy") for n in post_order(func))


def device_type_of(text: str) -> int:
    """Return the device type of an ``on_device`` annotation."""
    return named_device(text).device_type_int


@dataclass
class Planned:
    """A function without ``on_device`` annotations, in which values change devices only by ``device_copy``. ``devices``
    maps the id of each call, tuple access and parameter to its device type."""

    function: Function
    devices: dict[int, int]

    def used(self) -> list[int]:
        """Return the device types that the function uses, in ascending order."""
        return sorted(set(self.devices.values()))


def _unmarked(e: RelayExpr) -> RelayExpr:
    while is_call(e, "on_device"):
        e = e.args[0]
    return e


def _holder(e: RelayExpr) -> RelayExpr:
    """Return the expression that determines the device of a value; for a field, the tuple that contains it."""
    e = _unmarked(e)
    while isinstance(e, TupleGetItem) and not isinstance(_unmarked(e.tuple_value), Tuple):
        e = _unmarked(e.tuple_value)
    return e


def flat_fields(e: RelayExpr) -> Iterator[RelayExpr]:
    """Yield the values of an expression: the fields of explicit tuples, else the expression itself, without
    annotations."""
    e = _unmarked(e)
    if isinstance(e, TupleGetItem) and isinstance(_unmarked(e.tuple_value), Tuple):
        yield from flat_fields(_unmarked(e.tuple_value).fields[e.index])
    elif isinstance(e, Tuple):
        for field in e.fields:
            yield from flat_fields(field)
    else:
        yield e


class _Devices:
    """The device of every call and parameter of a function."""

    def __init__(self, func: Function, default: int):
        self.func = func
        self.default = default
        self.order = own_nodes(func.body)
        self.marked: dict[int, int] = {}
        # The device that an operand with a copy or result annotation suggests for the operator that reads it.
        self.suggested: dict[int, int] = {}
        self.readers: dict[int, set[int]] = {}
        self._collect_marks()
        self.devices = self._decide()

    def _collect_marks(self) -> None:
        for node in self.order:
            if not isinstance(node, (Call, Tuple, TupleGetItem, Var, Constant, Function)):
                raise TVMError(
                    f"PlanDevices: unsupported expression {type(node).__name__} in the graph; graph "
                    "executors support only graphs without control flow; use the virtual machine"
                )
            if is_call(node, "on_device") and node.attrs.constrain_body:
                self._mark(node.args[0], device_type_of(node.attrs.device))
            elif is_call(node, "device_copy"):
                self._mark(node.args[0], device_type_of(node.attrs.src_device))
                self.marked[id(node)] = device_type_of(node.attrs.dst_device)
            elif isinstance(node, Call):
                self._suggest(node)
        if RESULT_DEVICES in self.func.attrs:
            for value, kind in zip(flat_fields(self.func.body), self.func.attrs[RESULT_DEVICES]):
                self._mark(value, int(kind))
        for e, placed in ((self.func.body, self.func), *((p, p) for p in self.func.params)):
            kind = kind_of(placed.virtual_device_)
            if kind is not None:
                self._mark(e, kind)

    def _mark(self, e: RelayExpr, kind: int) -> None:
        for value in flat_fields(e):
            holder = _holder(value)
            if not isinstance(holder, Constant):
                # The inner one of nested annotations is visited first and takes precedence.
                self.marked.setdefault(id(holder), kind)

    def _suggest(self, node: Call) -> None:
        for arg in node.args:
            fixed = is_call(arg, "on_device") and arg.attrs.constrain_result
            kind = arg.attrs.device if fixed else arg.attrs.dst_device if is_call(arg, "device_copy") else None
            if kind is not None:
                self.suggested.setdefault(id(node), device_type_of(kind))

    def _decide(self) -> dict[int, int]:
        devices: dict[int, int] = {}
        for node in reversed(self.order):
            if not isinstance(node, Call) or is_call(node, "on_device"):
                continue
            devices[id(node)] = self._device(node)
            copy = is_call(node, "device_copy")
            reads = device_type_of(node.attrs.src_device) if copy else devices[id(node)]
            for arg in node.args:
                for value in flat_fields(arg):
                    self.readers.setdefault(id(_holder(value)), set()).add(reads)
        devices.update({id(p): self._device(p) for p in self.func.params})
        return devices

    def _device(self, node: RelayExpr) -> int:
        decided = self.marked.get(id(node), self.suggested.get(id(node)))
        readers = self.readers.get(id(node), set())
        if decided is not None:
            return decided
        return next(iter(readers)) if len(readers) == 1 else self.default


class _Copies:
    """Rebuilds a function without annotations, and copies each value that is read on another device."""

    def __init__(self, func: Function, devices: dict[int, int]):
        self.func = func
        self.old = devices
        self.devices: dict[int, int] = {id(p): devices[id(p)] for p in func.params}
        self.memo: dict[int, RelayExpr] = {id(p): p for p in func.params}
        self.copied: dict[tuple[int, int, int], RelayExpr] = {}

    def run(self) -> Planned:
        for node in own_nodes(self.func.body):
            if id(node) not in self.memo:
                self.memo[id(node)] = self._rebuilt(node)
        body = self.memo[id(self.func.body)]
        kinds = [self.place(value) for value in flat_fields(body)]
        results = [CPU if kind is None else kind for kind in kinds]
        attrs = {**self.func.attrs, RESULT_DEVICES: results}
        f = self.func
        return Planned(Function(f.params, body, f.ret_type, f.type_params, attrs, f.span), self.devices)

    def place(self, value: RelayExpr) -> int | None:
        """Return the device type of a rebuilt value; None for a constant, which is available on every device."""
        return self.devices.get(id(_holder(value)))

    def _rebuilt(self, node: RelayExpr) -> RelayExpr:
        if is_call(node, "on_device"):
            return self.memo[id(node.args[0])]
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, TupleGetItem) and isinstance(self.memo[id(node.tuple_value)], Tuple):
            return self.memo[id(node.tuple_value)].fields[node.index]
        new = node.map_children(lambda c: self.memo.get(id(c), c))
        return with_type_of(new, node)

    def _call(self, node: Call) -> RelayExpr:
        here = self.old[id(node)]
        if is_call(node, "device_copy"):
            value = self.memo[id(node.args[0])]
            return value if isinstance(value, Constant) else self._on(value, here)
        args = tuple(self._on(self.memo[id(a)], here) for a in node.args)
        same = all(a is b for a, b in zip(args, node.args))
        new = with_type_of(node if same else Call(node.op, args, node.attrs, node.type_args, node.span), node)
        self.devices[id(new)] = here
        return new

    def _on(self, value: RelayExpr, kind: int) -> RelayExpr:
        """Return a rebuilt value on the device of its reader, copied if necessary."""
        if isinstance(value, Tuple):
            fields = [self._on(f, kind) for f in value.fields]
            return value if all(a is b for a, b in zip(fields, value.fields)) else with_type_of(Tuple(fields), value)
        place = self.place(value)
        if place is None or place == kind:
            return value
        # Several tuple accesses of the same field share one copy.
        chosen = isinstance(value, TupleGetItem)
        key = (id(value.tuple_value), value.index, kind) if chosen else (id(value), -1, kind)
        if key not in self.copied:
            self.copied[key] = self._copy(value, place, kind)
        return self.copied[key]

    def _copy(self, value: RelayExpr, place: int, kind: int) -> RelayExpr:
        t = type_of(value)
        if isinstance(t, TupleType):
            fields = [self._on(self._field(value, i), kind) for i in range(len(t.fields))]
            return with_type_of(Tuple(fields), value)
        made = with_type(device_copy(value, Device(place, 0), Device(kind, 0)), t)
        self.devices[id(made)] = kind
        return made

    def _field(self, value: RelayExpr, index: int) -> RelayExpr:
        field = TupleGetItem(value, index)
        type_of(field)
        return field


def plan_function(func: Function, default: int) -> Planned:
    """Plan the devices of a function and insert copies; unconstrained expressions run on the ``default`` device
    type."""
    return _Copies(func, _Devices(func, default).devices).run()


__all__ = ["Planned", "flat_fields", "is_placed", "plan_function"]
