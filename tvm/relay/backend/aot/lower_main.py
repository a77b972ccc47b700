"""The individual steps of ahead-of-time compilation under their names in Apache TVM."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ....error import TVMError
from ....ir.memory_pools import ConstantPoolInfo
from ....ir.module import IRModule
from ....ir.op import Op
from ....ir.transform import ModulePass, Pass, PassInfo
from ....ir.visit import post_order
from ....runtime.name_transforms import sanitize_name
from ....tir.analysis import calculate_constant_bytes, calculate_workspace_bytes
from ....tir.function import PrimFunc
from ...expr import Call
from ...infer import infer_module
from ...transform.fuse_ops import constants_outside, fuse_function
from ...transform.normal_form import ToGraphNormalForm
from ..from_relay import ProgramBuilder
from ..function_info import MAIN, FunctionInfo
from ..memory_plan import plan_program
from ..options import Executor
from ..program import Program, byte_size
from ..te_compiler import KernelCompiler
from .compile import plain_kernels
from .main_function import main_function
from .metadata import ExecutorCodegenMetadata, metadata_of_function


class CallType(IntEnum):
    """The calling convention of the kernels that a main function calls.

    Parameters
    ----------
    value : int
        0: packed arguments through the runtime; 1: packed arguments in a direct call; 2: data pointers.
    """

    Packed = 0
    CPacked = 1
    Unpacked = 2


def AOTLowerMain(mod_name: str, config: Any, call_type: int | CallType) -> Pass:
    """Create the pass that lowers the Relay function ``main`` to TIR: kernels, and ``__tvm_main__``, which calls them.

    Parameters
    ----------
    mod_name : str
        The name of the model.
    config : CompilationConfig
        The targets of the build. All kernels must have the same target.
    call_type : CallType
        The calling convention of kernels; only ``CallType.Unpacked`` (data pointers) is supported.

    Returns
    -------
    Pass
        The pass.

    Raises
    ------
    TVMError
        The call type is not supported.
    """
    if CallType(call_type) is not CallType.Unpacked:
        raise TVMError(f"AOTLowerMain: call type {CallType(call_type).name} is not supported; use CallType.Unpacked "
                       "(data pointers)")  # fmt: skip

    def run(mod: IRModule, ctx: Any) -> IRModule:
        target = config.optional_homogeneous_target
        if target is None:
            raise TVMError("AOTLowerMain: all kernels must have the same target, got "
                           + ", ".join(str(t).strip() for t in config.primitive_targets))  # fmt: skip
        program = _program(mod, target, mod_name)
        kernels = plain_kernels(program, program.kernels)
        main = main_function(program, mod_name, kernels, link_constants=True).function.with_attr("target", target)
        functions = {raw.symbol: raw.function.with_attr("target", target) for raw in kernels.values()}
        return IRModule({**functions, MAIN: main})

    return ModulePass(run, PassInfo(0, "relay.aot.AOTLowerMain"))


def _program(mod: IRModule, target: Any, mod_name: str) -> Program:
    """Return the planned program of ``main``, without lets. Each operator that is not fused becomes a kernel."""
    typed = infer_module(ToGraphNormalForm()(infer_module(mod))).clone()
    if any(isinstance(node, Call) and isinstance(node.op, Op) for node in _outer_nodes(typed["main"].body)):
        typed["main"] = fuse_function(typed["main"], 0)
    typed["main"] = constants_outside(typed["main"])
    main = infer_module(typed)["main"]
    compiler, builder = KernelCompiler(target, f"tvmgen_{sanitize_name(mod_name)}"), ProgramBuilder()
    with target:
        inputs = [builder.input(p, target.get_target_device_type()) for p in main.params]
        builder.program.outputs = builder.function(main, inputs, compiler)
    builder.program.kernels = list(compiler.kernels.values())
    builder.program.plan = plan_program(builder.program)
    return builder.program


def _outer_nodes(body: Any) -> list[Any]:
    """Return the expressions of a function, without the bodies of the functions that it calls."""
    return list(post_order(body, operands=lambda e: e.args if isinstance(e, Call) else e.children()))


def CreateFunctionMetadata(
    mod: IRModule, workspace_byte_alignment: int, constant_byte_alignment: int
) -> dict[str, FunctionInfo]:
    """Compute the memory use of each function of a lowered module.

    Parameters
    ----------
    mod : IRModule
        The functions; the attribute ``target`` of each is its target. The attribute ``pool_args`` of the module or of
        the main function lists the memory pools, whose sizes are part of the main function's.
    workspace_byte_alignment : int
        The alignment of allocations.
    constant_byte_alignment : int
        The alignment of constants.

    Returns
    -------
    dict of str to FunctionInfo
        The memory use of each function, by its name in the module.

    Raises
    ------
    TVMError
        A function has no target.
    """
    found: dict[str, FunctionInfo] = {}
    for var, function in mod.functions.items():
        if not isinstance(function, PrimFunc):
            continue
        target = function.attrs.get("target")
        if target is None:
            raise TVMError(f"CreateFunctionMetadata: function {var.name_hint} has no attribute 'target'")
        io = sum(byte_size(buffer) for buffer in function.buffer_map.values())
        workspace = calculate_workspace_bytes(function, workspace_byte_alignment)
        constants = calculate_constant_bytes(function, constant_byte_alignment)
        for pool in _pools_of(mod, function) if var.name_hint == MAIN else ():
            if isinstance(pool.pool, ConstantPoolInfo):
                constants += pool.allocated_size
            else:
                workspace += pool.allocated_size
        found[var.name_hint] = FunctionInfo(
            {target: workspace}, {target: io}, {target: constants}, {target: function}, {}
        )  # fmt: skip
    return found


def _pools_of(mod: IRModule, main: PrimFunc) -> tuple[Any, ...]:
    return tuple(main.attrs.get("pool_args") or mod.attrs.get("pool_args") or ())


def CreateExecutorMetadata(
    mod: IRModule, mod_name: str, executor: Executor, workspace_byte_alignment: int, constant_byte_alignment: int
) -> ExecutorCodegenMetadata:
    """Describe the interface of ``__tvm_main__``.

    Parameters
    ----------
    mod : IRModule
        The lowered module. The attributes ``input_vars`` and ``output_vars`` of its main function list the parameters
        that are inputs and outputs, and ``pool_args`` the memory pools. The attribute ``io_tensor_pool_allocations`` of
        the function or of the module maps inputs and outputs to their pools.
    mod_name : str
        The name of the model.
    executor : Executor
        The options of the executor.
    workspace_byte_alignment : int
        The alignment of the workspace.
    constant_byte_alignment : int
        The alignment of constants.

    Returns
    -------
    ExecutorCodegenMetadata
        The interface.

    Raises
    ------
    TVMError
        The module has no main function.
    """
    if MAIN not in mod:
        raise TVMError(f"CreateExecutorMetadata: the module has no function {MAIN}")
    main = mod[MAIN]
    assert isinstance(main, PrimFunc)
    io = "io_tensor_pool_allocations"
    if io in mod.attrs and io not in main.attrs:
        main = main.with_attr(io, mod.attrs[io])
    return metadata_of_function(main, mod_name, executor, workspace_byte_alignment, constant_byte_alignment)


__all__ = ["AOTLowerMain", "CallType", "CreateExecutorMetadata", "CreateFunctionMetadata"]
