"""Compile a model to a program, on the device of its target or on several devices if the model has device
annotations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.transform import PassContext, run_pipeline
from ...runtime.devices import Device
from ...target import Target, make_compilation_config
from ..expr import Constant, Function
from ..infer import infer_module
from ..transform.dynamic_to_static import DynamicToStatic
from ..transform.fold_constant import FoldConstant
from ..transform.plan_devices import Planned, flat_fields, is_placed, plan_function
from ..transform.straight_graph import StraightGraph
from .from_relay import ProgramBuilder
from .program import Program, Ref
from .regions import split_by_device
from .te_compiler import KernelCompiler, flatten_type

# Converts a module to calls of kernels for a target.
ToKernels = Callable[[IRModule, Target], IRModule]


def compile_program(
    mod: IRModule, targets: list[Target], prefix: str, to_kernels: ToKernels
) -> tuple[Program, IRModule, list[Target]]:
    """Return the program of ``main`` without memory plan, the graph that it was compiled from, and the targets that it
    uses."""
    planned, mod, used = _placed(mod, targets)
    if planned is None:
        return *_on_one_device(to_kernels(mod, used[0]), used[0], prefix), used
    return _on_many_devices(planned, used, prefix, to_kernels), infer_module(mod), used


def models_by_target(mod: IRModule, targets: list[Target]) -> list[tuple[IRModule, Target]]:
    """Return the parts of ``main`` that each target computes, as separate models; a target may have several."""
    planned, mod, used = _placed(mod, targets)
    if planned is None:
        return [(mod, used[0])]
    by_device = {t.get_target_device_type(): t for t in used}
    regions = [found for stage in split_by_device(planned) for found in stage.regions.items()]
    return [(IRModule.from_expr(region.function()), by_device[kind]) for kind, region in regions]


def _placed(mod: IRModule, targets: list[Target]) -> tuple[Planned | None, IRModule, list[Target]]:
    """Return the planned ``main``, or None if all its calls use one device; the module; and the targets of the
    devices."""
    by_device = {t.get_target_device_type(): t for t in targets}
    default = default_device(targets)
    placed = any(is_placed(f) for f in mod.functions.values() if isinstance(f, Function))
    if not placed:
        return None, mod, [by_device[default]]
    mod = run_pipeline(infer_module(mod), (StraightGraph(), DynamicToStatic(), FoldConstant()), PassContext.current())
    planned = plan_function(mod["main"], default)
    used = [target_of(kind, by_device) for kind in planned.used() or [default]]
    mod = mod.clone()
    mod["main"] = planned.function
    return (planned if len(used) > 1 else None), mod, used


def default_device(targets: list[Target]) -> int:
    """Return the device type of expressions that no annotation constrains."""
    return make_compilation_config(PassContext.current(), targets).default_primitive_virtual_device.device_type_int


def target_of(kind: int, by_device: Mapping[int, Any]) -> Any:
    """Return the entry for a device type; raises an error if there is no target for it."""
    if kind not in by_device:
        name = str(Device(kind, 0)).partition("(")[0]
        raise TVMError(f"relay.build: an on_device annotation of the model requires {name}, but there is no target for "
                       "it; give one target for each device type, as in target=['llvm', 'cuda']")  # fmt: skip
    return by_device[kind]


def _on_one_device(fused: IRModule, target: Target, prefix: str) -> tuple[Program, IRModule]:
    compiler = KernelCompiler(target, prefix)
    builder, main = ProgramBuilder(), fused["main"]
    with target:
        inputs = [builder.input(p, target.get_target_device_type()) for p in main.params]
        builder.program.outputs = builder.function(main, inputs, compiler)
    builder.program.kernels = list(compiler.kernels.values())
    return builder.program, fused


def _on_many_devices(planned: Planned, targets: list[Target], prefix: str, to_kernels: ToKernels) -> Program:
    """Compile the kernels of each region for the target of its device, and add the copies between regions."""
    compilers = kernel_compilers(targets, prefix)
    builder = ProgramBuilder()
    inputs = [builder.input(p, planned.devices[id(p)]) for p in planned.function.params]
    builder.program.outputs = over_devices(builder, planned, inputs, compilers, to_kernels)
    builder.program.kernels = [k for compiler in compilers.values() for k in compiler.kernels.values()]
    return builder.program


def kernel_compilers(targets: list[Target], prefix: str) -> dict[int, KernelCompiler]:
    """Return the kernel compiler of each device type; kernel names are unique over all compilers."""
    names: dict[str, int] = {}
    return {t.get_target_device_type(): KernelCompiler(t, prefix, names) for t in targets}


def over_devices(
    builder: ProgramBuilder, planned: Planned, inputs: list[Ref], compilers: dict[int, KernelCompiler],
    to_kernels: ToKernels,
) -> list[Ref]:  # fmt: skip
    """Add a planned function with these inputs to a program, and return its outputs. Each input is on the device that
    reads it."""
    values = {id(p): [ref] for p, ref in zip(planned.function.params, inputs)}
    outputs: list[Ref] = []
    for stage in split_by_device(planned):
        for copy in stage.copies:
            values[id(copy)] = [builder.copy(values[id(copy.args[0])][0], planned.devices[id(copy)])]
        for kind, region in stage.regions.items():
            compiler = compilers[kind]
            main = to_kernels(IRModule.from_expr(region.function()), compiler.target)["main"]
            with compiler.target:
                refs = iter(builder.function(main, [values[id(e)][i] for e, i in region.inputs], compiler))
            for value in region.outputs.values():
                values[id(value)] = [next(refs) for _ in flatten_type(value.checked_type_)]
    for value in flat_fields(planned.function.body):
        if isinstance(value, Constant):
            values[id(value)] = [builder.constant(value.data, Device.kDLCPU)]
        outputs += values[id(value)]
    return outputs


__all__ = ["compile_program", "default_device", "kernel_compilers", "models_by_target", "over_devices", "target_of"]
