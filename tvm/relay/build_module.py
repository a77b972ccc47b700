"""From a graph to a deployable module: ``relay.build``."""

from __future__ import annotations

import contextlib
import importlib
import math
import warnings
from collections.abc import Mapping
from typing import Any

from ..autotvm import tophub
from ..autotvm.task.dispatcher import DispatchContext, FallbackContext
from ..driver.build_module import build_parts
from ..error import TVMError
from ..ir.module import IRModule
from ..ir.transform import PassContext, run_pipeline
from ..runtime import ndarray
from ..runtime.module import release_free_memory
from ..target import Target
from ..target.backend import host_of
from . import pipeline
from .backend import library_cache, writers
from .backend.from_relay import ProgramBuilder
from .backend.memory_plan import plan_program
from .backend.program import Program
from .backend.te_compiler import KernelCompiler
from .expr import Constant, Function
from .infer import infer_module
from .substitute import bind
from .transform.fuse_ops import constants_outside, fuse_function


def bind_params_by_name(func: Function, params: Mapping[str, Any]) -> Function:
    """Parameters of the function replaced by constants, by their names; names it does not have are ignored."""
    names = {p.name_hint for p in func.params}
    twice = [n for n in names if sum(p.name_hint == n for p in func.params) > 1 and n in params]
    if twice:
        raise ValueError(f"several parameters of the function are named '{twice[0]}'")
    table = {n: _constant(v) for n, v in params.items() if n in names}
    return bind(func, table) if table else func


def _constant(value) -> Constant:
    return (
        value
        if isinstance(value, Constant)
        else Constant(value if isinstance(value, ndarray.NDArray) else ndarray.array(value))
    )


def _as_module(ir_mod) -> IRModule:
    if isinstance(ir_mod, Function):
        warnings.warn(
            "pass an IRModule to relay.build; a plain function is deprecated", DeprecationWarning, stacklevel=3
        )
        return IRModule.from_expr(ir_mod)
    if not isinstance(ir_mod, IRModule):
        raise ValueError(f"relay.build: an IRModule is wanted, got {type(ir_mod).__name__}")
    return ir_mod


def _targets(target, target_host) -> tuple[Target, Target]:
    if isinstance(target, Mapping):
        kinds = list(target.values())
        if len(kinds) != 1:
            raise TVMError("relay.build: several targets in one model are not supported; give one")
        target = kinds[0]
    target = target if target is not None else Target.current(allow_none=True) or "llvm"
    target = Target(target) if target_host is None else Target(target, target_host)
    return target, host_of(target)


def optimize(mod, target=None, params=None) -> tuple[IRModule, dict]:
    """The module after the graph passes."""
    mod = _as_module(mod)
    if params:
        mod = mod.clone()
        mod["main"] = bind_params_by_name(mod["main"], params)
    target, _ = _targets(target, None)
    with target:
        mod = run_pipeline(infer_module(mod), pipeline.optimize(target), PassContext.current())
    return infer_module(mod), dict(params or {})


def _say_nothing(stage: str, done: int, total: int) -> None:
    """The progress nobody asked for."""


def _fuse(mod: IRModule, target: Target, ctx: PassContext) -> IRModule:
    """The module as calls of kernels; without FuseOps each operator is a kernel of its own."""
    if "FuseOps" in (ctx.disabled_pass or ()):
        fused = mod.clone()
        fused["main"] = fuse_function(mod["main"], 0)
    else:
        fused = run_pipeline(mod, pipeline.fusion(target), ctx).clone()
    fused["main"] = constants_outside(fused["main"])
    return infer_module(fused)


def build(
    ir_mod, target=None, target_host=None, executor=None, runtime=None, workspace_memory_pools=None,
    constant_memory_pools=None, params=None, mod_name="default", *, progress=_say_nothing,
) -> Any:
    """Compile the function ``main``; the result makes executors: ``lib["default"](device)``.

    ``executor`` and ``runtime`` choose what the compiled program is written as. ``progress(stage, done, total)`` is
    told how far it is.
    """
    writer, executor, runtime = writers.choose(executor, runtime, workspace_memory_pools, constant_memory_pools)
    target, host = _targets(target, target_host)
    if target.libs:
        warnings.warn(f"target '{str(target).strip()}': {', '.join(target.libs)} is not available yet; every operator "
                      "is compiled", stacklevel=2)
    with _records(target):
        program, fused = _compile_graph(ir_mod, target, params, mod_name, progress)
        library = _library(program, target, host, progress)
    if sum(math.prod(value.shape) for value in program.constants.values()) >= _MANY_WEIGHTS:
        release_free_memory()
    return writer.write(writers.CompiledModel(program, library, fused, target, mod_name, executor, runtime))


# Elements of weights from which on the temporary arrays of compiling are worth giving back.
_MANY_WEIGHTS = 1 << 22


def _records(target: Target) -> Any:
    """Records at hand for the target, where the user has given none."""
    untouched = type(DispatchContext.current) is FallbackContext
    return tophub.context(target) if untouched and tophub.record_files(target) else contextlib.nullcontext()


def _compile_graph(ir_mod, target: Target, params, mod_name: str, progress) -> tuple[Program, IRModule]:
    """The planned program of a model, and the graph of kernels it was made from."""
    progress("improving the graph", 0, 0)
    mod, _ = optimize(ir_mod, target, params)
    fused = _fuse(mod, target, PassContext.current())
    compiler = KernelCompiler(target, f"tvmgen_{mod_name}")
    builder, main = ProgramBuilder(), fused["main"]
    with target:
        inputs = [builder.input(p, target.get_target_device_type()) for p in main.params]
        builder.program.outputs = builder.function(main, inputs, compiler)
    program = builder.program
    program.kernels = list(compiler.kernels.values())
    program.plan = plan_program(program)
    return program, fused


def _library(program: Program, target: Target, host: Target, progress) -> Any:
    """The code of all kernels as one module."""

    def compile_all():
        parts: dict[Target, IRModule] = {}
        for done, kernel in enumerate(program.kernels):
            progress("scheduling kernels", done, len(program.kernels))
            parts.setdefault(kernel.target, IRModule()).update(kernel.module)
        progress("generating code", 0, 0)
        return build_parts(parts or {target: _empty()}, host)

    return library_cache.library(program.kernels, target, host, PassContext.current(), compile_all)


def _empty() -> IRModule:
    """A model may be nothing but reshapes; its library still needs a function."""
    from ..tir.function import PrimFunc
    from ..tir.stmt import no_op

    return IRModule({"tvmgen_nothing": PrimFunc([], no_op(), None, {}, {"global_symbol": "tvmgen_nothing"})})


def __getattr__(name: str) -> Any:
    # The executors stand on this module; under TVM's path they are names of it.
    if name in ("DebugExecutor", "GraphExecutor", "create_executor"):
        return getattr(importlib.import_module(".interpreter", __package__), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
