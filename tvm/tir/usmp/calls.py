"""Calls between the functions of a module, their pointer arguments, and the sizes and alignments of allocations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...dtype import info
from ...error import TVMError
from ...ir.module import GlobalVar, IRModule
from ...ir.prim import BufferLoad, Call, IntImm, PrimExpr, StringImm, Var
from ...ir.visit import post_order
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import Allocate, AllocateConst, AttrStmt
from ..transform.statement import op_name, statements_in

# The operators of calls whose first argument is the name of the called function.
_BY_NAME = ("tir.call_extern", "tir.call_pure_extern", "tir.tvm_call_packed", "tir.tvm_call_cpacked")
_LOWERED = ("tir.tvm_call_packed_lowered", "tir.tvm_call_cpacked_lowered")

# The last parameter of a function of the C interface, for the state of an accelerator's driver.
RESOURCE_HANDLE = "resource_handle"

# The alignment of buffers if the executor of the module does not set one.
DEFAULT_ALIGNMENT = 16


class Callees:
    """A lookup table from the names in calls to the PrimFuncs of a module.

    Parameters
    ----------
    mod : IRModule
        The module.
    """

    def __init__(self, mod: IRModule):
        self.functions: dict[str, tuple[GlobalVar, PrimFunc]] = {}
        for var, function in mod.functions.items():
            if isinstance(function, PrimFunc):
                self.functions[var.name_hint] = var, function
        for var, function in mod.functions.items():
            if isinstance(function, PrimFunc) and "global_symbol" in function.attrs:
                self.functions.setdefault(str(function.attrs["global_symbol"]), (var, function))

    def called(self, node: Any) -> tuple[GlobalVar, PrimFunc] | None:
        """Return the function of the module that a call executes; None for any other node."""
        if type(node) is not Call:
            return None
        if isinstance(node.op, GlobalVar):
            return self.functions.get(node.op.name_hint)
        name = op_name(node)
        if name in _LOWERED:
            raise TVMError(f"plan memory before LowerTVMBuiltin: the call {node} no longer contains its arguments")
        if name in _BY_NAME and node.args and isinstance(node.args[0], StringImm):
            return self.functions.get(node.args[0].value)
        return None


def arguments(node: Call) -> tuple[PrimExpr, ...]:
    """Return the arguments of a call, without the name of the called function."""
    return node.args if isinstance(node.op, GlobalVar) else node.args[1:]


def bind_arguments(node: Call, var: GlobalVar, function: PrimFunc) -> Iterator[tuple[Var, PrimExpr]]:
    """Yield each parameter of a function with its argument in a call. The call may have one more argument, the resource
    handle."""
    given = arguments(node)
    extra = len(given) - len(function.params)
    if extra < 0 or extra > (op_name(node) in ("tir.tvm_call_cpacked", "tir.tvm_call_packed")):
        raise TVMError(f"{var.name_hint} takes {len(function.params)} arguments, but {len(given)} are given: {node}")
    return zip(function.params, given)


def has_resource_handle(function: PrimFunc) -> bool:
    """Return whether the last parameter is the resource handle of a driver. Pool parameters precede it."""
    last = function.params[-1] if function.params else None
    return last is not None and last not in function.buffer_map and last.name == RESOURCE_HANDLE


def is_pointer(node: Any) -> bool:
    """Return whether an argument passes memory: a pointer expression, or a buffer that is not lowered yet."""
    return isinstance(node, Buffer) or node.dtype == "handle"


def pointer_of(node: Any) -> Var | None:
    """Return the node itself if it is a variable, or the data pointer if the node is a buffer or loads from one; else
    None."""
    if isinstance(node, Var):
        return node
    if type(node) is BufferLoad:
        return node.buffer.data
    return node.data if isinstance(node, Buffer) else None


def pointers_in(node: Any) -> Iterator[Var]:
    """Yield the variables that an expression uses, including the data pointers of buffers."""
    for part in post_order(node):
        var = pointer_of(part)
        if var is not None:
            yield var


def roots_of(node: PrimExpr, environment: Mapping[Var, frozenset[Any]]) -> frozenset[Any]:
    """Return the allocations to which a pointer expression may point, according to ``environment``."""
    found: frozenset[Any] = frozenset()
    for var in pointers_in(node):
        found |= environment.get(var, frozenset())
    return found


def allocated_bytes(stmt: Allocate | AllocateConst) -> int | None:
    """Return the size of an allocation in bytes; None if it is known only at run time."""
    kind = info(stmt.dtype)
    size = kind.bytes * kind.lanes
    for extent in stmt.extents:
        if type(extent) is not IntImm:
            return None
        size *= extent.value
    if isinstance(stmt, Allocate) and not (type(stmt.condition) is IntImm and stmt.condition.value):
        return None
    return size


def storage_scope(var: Var) -> str:
    """Return the storage scope of an allocated pointer."""
    return getattr(var.type_annotation, "storage_scope", "") or "global"


def is_pooled_scope(var: Var) -> bool:
    """Return whether the memory of a pointer may be in a pool. Registers and device memory are never in a pool."""
    return storage_scope(var) in ("global", "global.workspace")


class Alignments:
    """The alignments of the allocations of a module.

    Parameters
    ----------
    mod : IRModule
        The module. The options of its executor set the alignments; attributes of its functions may increase them.
    """

    def __init__(self, mod: IRModule):
        self.executor = mod.attrs.get("executor")
        # The alignments that attributes guarantee to code generation.
        self.promised: dict[Var, int] = {}
        for function in mod.functions.values():
            for node in statements_in(function.body) if isinstance(function, PrimFunc) else ():
                if isinstance(node, AttrStmt) and node.attr_key == "storage_alignment":
                    self.promised[node.node] = max(node.value.value, self.promised.get(node.node, 1))

    def of(self, stmt: Allocate | AllocateConst) -> int:
        """Return the alignment of an allocation, which is at least that of its elements."""
        option = "constant-byte-alignment" if isinstance(stmt, AllocateConst) else "workspace-byte-alignment"
        given = self.executor is not None and option in self.executor
        chosen = self.executor[option] if given else DEFAULT_ALIGNMENT
        kind = info(stmt.dtype)
        element = kind.bytes * kind.lanes
        # A vector of three elements has the alignment of a vector of four.
        return max(chosen, 1 << (element - 1).bit_length(), self.promised.get(stmt.buffer_var, 1))
