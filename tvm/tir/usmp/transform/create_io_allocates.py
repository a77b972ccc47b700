"""CreateAllocatesForIO: replace the inputs and outputs of the main function by allocations, which the planner places.

The pass removes the input and output parameters. The annotations ``input_tensor`` and ``output_tensor`` of the
allocations contain their names. After planning, the attribute ``io_tensor_pool_allocations`` maps these names to pools
and offsets. The attributes ``input_vars`` and ``output_vars`` of the main function list its inputs and outputs. In a
function without them, every tensor parameter is an input or an output: an output if a called function stores to it, or
if it is the last tensor argument of a call whose stores are not visible.
"""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ....ir.module import IRModule
from ....ir.prim import Call, IntImm, Var, const
from ....ir.transform import ModulePass, Pass, PassInfo
from ....ir.visit import post_order
from ...function import PrimFunc
from ...stmt import Allocate, BufferStore, LetStmt
from ...transform.statement import op_name
from ..calls import Callees, arguments, bind_arguments, has_resource_handle, is_pointer, pointers_in
from ..utils import INPUT_TENSOR_ATTR, MAIN_FUNCTION, OUTPUT_TENSOR_ATTR

_WRITES = 2


class _Outputs:
    """The pointer parameters to which functions store; the result for each function is cached."""

    def __init__(self, callees: Callees):
        self.callees = callees
        self.known: dict[str, frozenset[int]] = {}

    def of_function(self, name: str, function: PrimFunc) -> frozenset[int]:
        """Return the indices of the parameters to which a function stores, directly or in a function that it calls."""
        if name not in self.known:
            self.known[name] = frozenset()
            data = [function.buffer_map[p].data if p in function.buffer_map else p for p in function.params]
            written = self.written(function)
            self.known[name] = frozenset(n for n, var in enumerate(data) if var in written)
        return self.known[name]

    def written(self, function: PrimFunc) -> set[Var]:
        """Return the pointers to which the body of a function stores. A store through an alias counts for the original
        pointer."""
        found: set[Var] = set()
        aliases: dict[Var, list[Var]] = {}
        for node in post_order(function.body):
            if isinstance(node, BufferStore):
                found.add(node.buffer.data)
            elif isinstance(node, LetStmt) and node.value.dtype == "handle":
                aliases[node.var] = list(pointers_in(node.value))
            elif type(node) is Call:
                found.update(self.stored_by(node))
        pending = list(found)
        while pending:
            for var in aliases.get(pending.pop(), ()):
                if var not in found:
                    found.add(var)
                    pending.append(var)
        return found

    def stored_by(self, node: Call) -> set[Var]:
        """Return the pointers to which a call stores. If the stores are not visible, the call is assumed to write to
        its last tensor argument."""
        if op_name(node) == "tir.tvm_access_ptr":
            mask = node.args[4]
            return set(pointers_in(node.args[1])) if type(mask) is IntImm and mask.value & _WRITES else set()
        called = self.callees.called(node)
        if called is not None:
            var, function = called
            positions = self.of_function(var.name_hint, function)
            bound = [(p, a) for p, a in bind_arguments(node, var, function) if is_pointer(a)]
            stored = {p for n, p in enumerate(function.params) if n in positions}
            if not stored:
                stored = {p for p, _ in bound[-1 - has_resource_handle(function) :][:1]}
            return {v for p, a in bound if p in stored for v in pointers_in(a)}
        if op_name(node) in ("tir.call_extern", "tir.tvm_call_packed", "tir.tvm_call_cpacked"):
            pointers = [a for a in arguments(node) if is_pointer(a)]
            return set(pointers_in(pointers[-1])) if pointers else set()
        return set()


def _io_parameters(callees: Callees, function: PrimFunc) -> dict[Var, str]:
    """Return the parameters that become allocations, each with the annotation of its allocation."""
    if "output_vars" in function.attrs:
        kinds = {INPUT_TENSOR_ATTR: "input_vars", OUTPUT_TENSOR_ATTR: "output_vars"}
        of_buffers = {buffer: param for param, buffer in function.buffer_map.items()}
        listed = ((kind, found) for kind, key in kinds.items() for found in function.attrs.get(key) or ())
        return {of_buffers.get(found, found): kind for kind, found in listed}
    written = _Outputs(callees).written(function)
    buffers = function.buffer_map
    return {p: OUTPUT_TENSOR_ATTR if buffers[p].data in written else INPUT_TENSOR_ATTR
            for p in function.params if p in buffers}  # fmt: skip


def create_io_allocates(mod: IRModule, main: str = MAIN_FUNCTION) -> IRModule:
    """Return the module with the inputs and outputs of the main function replaced by allocations.

    Raises
    ------
    TVMError
        The module has no function with this name, or a shape is not constant.
    """
    callees = Callees(mod)
    if main not in callees.functions:
        raise TVMError(f"cannot allocate inputs and outputs in pools: the module has no PrimFunc '{main}'")
    name, function = callees.functions[main]
    moved, body = _io_parameters(callees, function), function.body
    kept = [p for p in function.params if p not in moved]
    for param in reversed([p for p in function.params if p in moved]):
        buffer = function.buffer_map[param]
        if not all(type(extent) is IntImm for extent in buffer.shape):
            raise TVMError(f"{main}: '{param.name}' has shape {buffer.shape}; memory planning needs constant shapes")
        annotations = {moved[param]: param.name}
        body = Allocate(buffer.data, buffer.dtype, buffer.shape, const(True, "bool"), body, annotations)
    buffers = {p: buffer for p, buffer in function.buffer_map.items() if p not in moved}
    new = PrimFunc(kept, body, function.ret_type, buffers, function.attrs, function.span)
    return mod.map_functions(lambda var, f: new if var.name_hint == name.name_hint else f)


def create_allocates_for_io() -> Pass:
    """Create the pass that replaces the inputs and outputs of ``__tvm_main__`` by allocations.

    Returns
    -------
    Pass
        The pass.
    """

    def run(mod: IRModule, ctx: Any) -> IRModule:
        return create_io_allocates(mod)

    return ModulePass(run, PassInfo(0, "tir.usmp.CreateAllocatesForIO"))
