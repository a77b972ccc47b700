"""The ahead-of-time executor: a model becomes one main function that calls its kernels with a fixed memory plan."""

from __future__ import annotations

from typing import Any

from ....error import TVMError
from ....ir.transform import PassContext
from ....target import Target
from ....target.backend import backend_of
from ..executor_factory import AOTExecutorFactoryModule
from ..function_info import MAIN, FunctionInfo, function_metadata
from ..writers import CompiledModel, register_writer
from .compile import Compiled, compile_for_runtime, compile_objects, compile_plain
from .kernel_library import write_kernels
from .lower_main import AOTLowerMain, CallType, CreateExecutorMetadata, CreateFunctionMetadata
from .main_function import local_main_symbol, main_symbol
from .metadata import executor_metadata, main_graph
from .options import check_cpp, check_crt, interface_of, one_target, runtime_options
from .plain_module import PlainModel, plain_model, plain_module


def write_for_runtime(model: CompiledModel) -> AOTExecutorFactoryModule:
    """Compile a model for the runtime. The result is a library and a graph with a single node, by which the graph
    executor calls the main function."""
    made = compile_for_runtime(model, one_target(model))
    graph = main_graph(model.program, made.main, model.name, made.planned.workspace_bytes)
    return _factory(model, made, made.code, model.program.constants, graph)


def _memory(model: CompiledModel, made: Compiled, target: Target) -> dict[str, FunctionInfo]:
    """Return the memory use of each function of a model. The workspace of the main function includes those of its
    kernels."""
    found = function_metadata(model.program, model.ir_mod, [target])
    found[MAIN].workspace_sizes[target] = made.planned.workspace_bytes
    return found


def write_plain(model: CompiledModel) -> AOTExecutorFactoryModule:
    """Compile a model for programs without the runtime. The C file contains the constants and the main function. The
    kernels are in the same file or, for back ends that generate machine code, in object files."""
    target, is_unpacked = one_target(model), interface_of(model.executor)[1]
    if not _makes_machine_code(target):
        made = compile_plain(model, target, is_unpacked)
        plain = plain_model(made, model)
        return _factory(model, made, plain_module(plain), {}, "", plain)
    if model.runtime["parallel-for"]:
        raise TVMError("option parallel-for of crt requires target c: the machine code of kernels has serial loops")
    made = compile_objects(model, target, (main_symbol if is_unpacked else local_main_symbol)(model.name))
    plain = plain_model(made, model)
    return _factory(model, made, plain_module(plain), {}, "", plain)


def _makes_machine_code(target: Target) -> bool:
    return backend_of(target).makes_cpu_code


def _factory(
    model: CompiledModel, made: Compiled, library: Any, params: dict[str, Any], graph: str,
    plain: PlainModel | None = None,
) -> AOTExecutorFactoryModule:  # fmt: skip
    target = one_target(model)
    executor = runtime_options(model.executor) if graph else model.executor
    metadata = executor_metadata(made.main, made.planned, model.name, executor)
    return AOTExecutorFactoryModule(
        model.ir_mod, {target: made.lowered}, target, model.executor, model.runtime, library, model.name, params,
        lambda: _memory(model, made, target), metadata, metadata.devices, graph, plain, model.program.kernels,
    )  # fmt: skip


def plain_context(ctx: PassContext, target: Target) -> PassContext:
    """Return a pass context without vectorization, because plain C has no vector types."""
    if _makes_machine_code(target):
        return ctx
    config = {**ctx.config, "tir.disable_vectorize": True}
    return PassContext(ctx.opt_level, ctx.required_pass, ctx.disabled_pass, ctx.instruments, config)


def plain_target(target: Target) -> Target:
    """Return the target with one thread, because code without the runtime has no thread pool."""
    if "num-cores" in target.attrs:
        return target
    return Target({**target.export(), "num-cores": 1})


register_writer("aot", "cpp", write_for_runtime, {
    "system-lib": "a library is loaded from a file or from memory",
}, check=check_cpp)  # fmt: skip
register_writer(
    "aot",
    "crt",
    write_plain,
    check=check_crt,
    has_pools=True,
    links_constants=True,
    context=plain_context,
    target=plain_target,
)
register_writer("graph", "crt", write_kernels, context=plain_context, target=plain_target)

__all__ = ["AOTLowerMain", "CallType", "CreateExecutorMetadata", "CreateFunctionMetadata"]
