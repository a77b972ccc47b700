"""Rebuild functions on the devices of their domains, with ``device_copy`` between devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...error import TVMError
from ...ir.adt import Constructor
from ...ir.module import GlobalVar, IRModule
from ...ir.op import Op
from ...ir.tensor_type import TensorType
from ...ir.transform import ModulePass, PassContext, PassInfo
from ...ir.type import TupleType
from ...ir.visit import post_order, rewrite
from ...runtime.devices import Device
from ...runtime.registry import register_func
from ...target import VirtualDevice
from ..adt import Clause, Match
from ..checked_type import with_type, with_type_of
from ..expr import Call, Constant, Function, Let, RelayExpr, Tuple, TupleGetItem, Var
from ..op.annotation import on_device
from ..op.tensor import device_copy
from .device_domains import Constraints
from .function_pass import is_call, type_of, typed_module


def fields_inside_marks(func: Function) -> Function:
    """Move accesses to fields of ``on_device`` tuples inside the annotation, so that only the field is copied."""

    def post(node: Any) -> Any:
        if not isinstance(node, TupleGetItem) or not is_call(node.tuple_value, "on_device"):
            return None
        mark = node.tuple_value
        if not mark.attrs.constrain_body or mark.attrs.constrain_result:
            return None
        field = TupleGetItem(mark.args[0], node.index)
        type_of(field)
        made = Call(mark.op, (field,), mark.attrs, mark.type_args, mark.span)
        return with_type(made, field.checked_type_)

    return rewrite(func, post)


def _device(place: VirtualDevice) -> Device:
    return Device(place.device_type_int, max(place.virtual_device_id, 0))


def _fixed(e: RelayExpr, place: VirtualDevice) -> RelayExpr:
    """Annotate an expression with its device, unless its variable or function already stores the device."""
    if isinstance(e, (Var, Function)) or is_call(e, "on_device"):
        return e
    return with_type(on_device(e, _device(place), constrain_result=True), e.checked_type_)


def _check_copied(e: RelayExpr, have: VirtualDevice, wanted: VirtualDevice) -> None:
    t = e.checked_type_
    if not isinstance(t, (TensorType, TupleType)):
        raise TVMError(f"PlanDevices: a value of type {t} on {_device(have)} is used on {_device(wanted)}; only "
                       "tensors can be copied between devices")  # fmt: skip


class Placed:
    """Rebuilds the functions of a module with the domains of their expressions."""

    def __init__(self, constraints: Constraints):
        self.of = constraints
        self.memo: dict[int, Any] = {}
        for node in constraints.order:
            if isinstance(node, Function) and not node.attrs.get("Primitive"):
                self.memo.update({id(p): self._param(p) for p in node.params})
        for node in constraints.order:
            if id(node) not in self.memo:
                self.memo[id(node)] = self._rebuilt(node)

    def _param(self, param: Var) -> Var:
        made = Var(param.name_hint, param.type_annotation, param.span)
        made.virtual_device_ = self.of.device(param)
        return with_type(made, param.checked_type_)

    def _child(self, child: Any, around: VirtualDevice, wanted: VirtualDevice | None = None) -> Any:
        """Return the rebuilt child of a parent on device ``around``, copied to the device ``wanted`` if necessary."""
        made = self.memo[id(child)]
        if isinstance(child, (Op, Constructor, GlobalVar)):
            return made
        wanted = around if wanted is None else wanted
        have = wanted if isinstance(child, Constant) else self.of.device(child)
        if have != wanted:
            _check_copied(child, have, wanted)
            made = self._copied(made, around, have, wanted)
        return made if wanted == around else _fixed(made, wanted)

    def _copied(self, made: Any, around: VirtualDevice, have: VirtualDevice, wanted: VirtualDevice) -> Any:
        """Return a copy of a rebuilt value on another device; a tuple is copied field by field."""
        t = type_of(made)
        if isinstance(t, TupleType):
            fields = [TupleGetItem(made, index) for index in range(len(t.fields))]
            return with_type(Tuple([self._copied(field, around, have, wanted) for field in fields]), t)
        made = made if have == around else _fixed(made, have)
        return with_type(device_copy(made, _device(have), _device(wanted)), t)

    def _rebuilt(self, node: Any) -> Any:
        if isinstance(node, Clause):
            return Clause(node.lhs, self.memo[id(node.rhs)])
        if not isinstance(node, RelayExpr) or isinstance(node, (Op, Constructor, GlobalVar)):
            return node
        if isinstance(node, Function):
            return node if node.attrs.get("Primitive") else self._function(node)
        here = self.of.device(node)
        if isinstance(node, Call):
            return self._call(node, here)
        if isinstance(node, Let):
            return self._let(node, here)

        def part(child: Any) -> Any:
            # A match reads its data on the device where the data is.
            stays = not isinstance(child, RelayExpr) or isinstance(node, Match)
            return self.memo[id(child)] if stays else self._child(child, here)

        return with_type_of(node.map_children(part), node)

    def _function(self, node: Function) -> Function:
        here = self.of.of(node).value().device
        params = [self.memo[id(p)] for p in node.params]
        body = self._child(node.body, here)
        made = Function(params, body, node.ret_type, node.type_params, node.attrs, node.span)
        made.virtual_device_ = here
        return made

    def _let(self, node: Let, here: VirtualDevice) -> Let:
        place = self.of.device(node.var)
        value = _fixed(self._child(node.value, here, place), place)
        return with_type_of(Let(node.var, value, self._child(node.body, here), node.span), node)

    def _call(self, node: Call, here: VirtualDevice) -> RelayExpr:
        wanted = [domain.value().device for domain in self.of.arguments[id(node)]]
        if is_call(node, "on_device"):
            return self._child(node.args[0], here)
        args = tuple([self._child(a, here, w) for a, w in zip(node.args, wanted)])
        if is_call(node, "device_copy"):
            return self._copy(node, args[0], wanted[0], here)
        same = self.memo[id(node.op)] is node.op and all(a is b for a, b in zip(args, node.args))
        made = node if same else Call(self.memo[id(node.op)], args, node.attrs, node.type_args, node.span)
        return with_type_of(made, node)

    def _copy(self, node: Call, value: RelayExpr, source: VirtualDevice, here: VirtualDevice) -> RelayExpr:
        if source == here:
            return self.memo[id(node.args[0])] if is_call(value, "on_device") else value
        return with_type_of(Call(node.op, (value,), node.attrs, node.type_args, node.span), node)


CPU = VirtualDevice(Device(Device.kDLCPU, 0))


def _without_host(target: Any) -> dict[str, Any]:
    return {key: value for key, value in target.export().items() if key != "host"}


def _canonical(config: Any) -> Callable[[VirtualDevice], VirtualDevice]:
    """Return a function that completes a device with the build target of its device type."""

    def complete(place: VirtualDevice) -> VirtualDevice:
        if config is None or place.device_type_int < 0:
            return place
        target = config.find_primitive_target_for_device_type(place.device_type_int)
        if place.target is not None and _without_host(place.target) != _without_host(target):
            return place
        made = VirtualDevice(None, target, place.memory_scope)
        made.virtual_device_id = max(place.virtual_device_id, 0)
        return made

    return complete


def _settled(mod: IRModule, config: Any, default: VirtualDevice) -> Constraints:
    complete = _canonical(config)
    host = CPU if config is None else config.host_virtual_device
    runs_kernels = config is None or any(
        t.get_target_device_type() == host.device_type_int for t in config.primitive_targets
    )
    found = Constraints(mod, complete(host) if runs_kernels else host, complete)
    found.settle(complete(default))
    return found


@register_func("relay.transform.RecoverVirtualDeviceMap")
def recover_virtual_devices(mod: IRModule, function: Function) -> dict[RelayExpr, VirtualDevice]:
    """Return the devices of the expressions of a planned function.

    Parameters
    ----------
    mod : IRModule
        The module of the function.
    function : Function
        The function, after PlanDevices.

    Returns
    -------
    dict of RelayExpr to VirtualDevice
        The devices of the parameters, of all expressions in the function, and of its result.
    """
    place = function.virtual_device_
    whole = mod if any(f is function for f in mod.functions.values()) else IRModule.from_expr(function)
    constraints = _settled(whole, None, CPU if place is None else place)
    found = {}
    for node in post_order(function.body):
        if is_call(node, "on_device"):
            found[node] = constraints.device(node.args[0])
        elif isinstance(node, RelayExpr) and not isinstance(node, (Op, Constructor, GlobalVar, Constant)):
            found[node] = constraints.device(node)
    return {**{p: constraints.device(p) for p in function.params}, **found, function: constraints.device(function)}


def PlanDevices(config: Any) -> ModulePass:
    """Assign a device to every expression, and insert copies where values change devices.

    Functions and their parameters get a ``virtual_device_``. Expressions that no annotation constrains run on the
    default device of the configuration (``tvm.target.make_compilation_config``), or on a CPU if there is none.

    Devices propagate through variables, function calls, fields of data types and references. All fields of a tuple or
    data type are on one device. An argument on another device than the function requires is copied.

    Parameters
    ----------
    config : CompilationConfig
        The configuration with the targets of the build.

    Returns
    -------
    ModulePass
    """
    usual = getattr(config, "default_primitive_virtual_device", None)

    def plan(mod: IRModule, ctx: PassContext) -> IRModule:
        mod = typed_module(mod)
        moved = mod.clone()
        for var, function in mod.functions.items():
            if isinstance(function, Function):
                moved[var] = fields_inside_marks(function)
        moved = typed_module(moved)
        placed = Placed(_settled(moved, config, CPU if usual is None else usual)).memo
        made = moved.clone()
        for var, function in moved.functions.items():
            if isinstance(function, Function) and id(function) in placed:
                made[var] = placed[id(function)]
        return typed_module(made)

    return ModulePass(plan, PassInfo(0, "PlanDevices", ["InferType"]))


__all__ = ["Placed", "PlanDevices", "fields_inside_marks"]
