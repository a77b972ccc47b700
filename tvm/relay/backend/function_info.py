"""Memory, loops and graph of each function of a compiled model, under the names of Apache TVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...ir.module import IRModule
from ...runtime.object import Object
from ...target import Target
from ...tir.analysis import calculate_constant_bytes, calculate_workspace_bytes
from ...tir.function import PrimFunc
from ..symbolic import flatten_type, has_dynamic_dims
from .program import Kind, Program, byte_size
from .te_compiler import Kernel

# The entry of the whole model, with the name that Apache TVM uses.
MAIN = "__tvm_main__"
# The alignment of allocations in the executors, in bytes.
_ALIGNMENT = 64


class FunctionInfo(Object):
    """Memory usage of a function of a compiled model, with its TIR and Relay functions, by target.

    Parameters
    ----------
    workspace_sizes : dict of Target to int
        Bytes of intermediate results.
    io_sizes : dict of Target to int
        Bytes of inputs and outputs, without weights.
    constant_sizes : dict of Target to int
        Bytes of weights and tables.
    tir_primfuncs : dict of Target to PrimFunc
        The lowered functions; empty for the whole model.
    relay_primfuncs : dict of Target to Function
        The Relay functions.
    """

    def __init__(self, workspace_sizes: Mapping, io_sizes: Mapping, constant_sizes: Mapping, tir_primfuncs: Mapping,
                 relay_primfuncs: Mapping):  # fmt: skip
        self.workspace_sizes = dict(workspace_sizes)
        self.io_sizes = dict(io_sizes)
        self.constant_sizes = dict(constant_sizes)
        self.tir_primfuncs = dict(tir_primfuncs)
        self.relay_primfuncs = dict(relay_primfuncs)

    def __repr__(self) -> str:
        sizes = f"workspace_sizes={self.workspace_sizes}, io_sizes={self.io_sizes}"
        return f"FunctionInfo({sizes}, constant_sizes={self.constant_sizes})"


def function_metadata(program: Program, mod: IRModule, targets: Iterable[Target]) -> dict[str, FunctionInfo]:
    """Return the entries of the whole model and of each kernel, by name. Kernels from the library cache are lowered
    here."""
    main = _main_info(program, mod, list(targets))
    return {MAIN: main, **{kernel.name: _kernel_info(kernel) for kernel in program.kernels}}


def _main_info(program: Program, mod: IRModule, targets: list[Target]) -> FunctionInfo:
    plan = program.plan
    assert plan is not None
    outputs, shared = set(program.outputs), plan.shared()
    io, constants, workspace = (dict.fromkeys(targets, 0) for _ in range(3))
    by_device = {t.get_target_device_type(): t for t in targets}
    for number, node in enumerate(program.nodes):
        target = by_device.get(node.device, targets[0])
        for index, of_type in enumerate(node.types):
            if node.kind is Kind.CONSTANT:
                constants[target] += byte_size(of_type)
            elif node.kind is Kind.INPUT or (number, index) in outputs:
                io[target] += byte_size(of_type)
    for storage in shared:
        workspace[by_device.get(plan.devices[storage], targets[0])] += plan.sizes[storage]
    return FunctionInfo(workspace, io, constants, {}, dict.fromkeys(targets, mod["main"]))


def _kernel_info(kernel: Kernel) -> FunctionInfo:
    target, function, loops = kernel.target, kernel.function, kernel.module[kernel.name]
    assert isinstance(loops, PrimFunc)
    types = [p.checked_type_ or p.type_annotation for p in function.params] + [function.body.checked_type_]
    tensors = [t for type_ in types for t in flatten_type(type_)]
    # The size in bytes is unknown for dynamic shapes.
    io: dict[Target, Any] = {} if any(map(has_dynamic_dims, tensors)) else {target: sum(map(byte_size, tensors))}
    return FunctionInfo(
        {target: calculate_workspace_bytes(loops, _ALIGNMENT)}, io,
        {target: calculate_constant_bytes(loops, _ALIGNMENT)}, {target: loops}, {target: function},
    )  # fmt: skip


__all__ = ["MAIN", "FunctionInfo", "function_metadata"]
