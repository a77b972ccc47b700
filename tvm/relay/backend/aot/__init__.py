"""The ahead-of-time executor: a model as one function that calls its kernels, with a fixed memory plan."""

from __future__ import annotations

from typing import Any

from ....ir.transform import PassContext
from ....target import Target
from ..executor_factory import AOTExecutorFactoryModule
from ..function_info import function_metadata
from ..writers import CompiledModel, register_writer
from .compile import Compiled, compile_for_runtime, compile_plain
from .metadata import executor_metadata, main_graph
from .options import check_cpp, check_crt, interface_of, one_target
from .plain_module import PlainModel, plain_model, plain_module


def write_for_runtime(model: CompiledModel) -> AOTExecutorFactoryModule:
    """The model for the runtime: a library whose main function the graph executor calls as its only node."""
    made = compile_for_runtime(model, one_target(model))
    graph = main_graph(model.program, made.main, model.name, made.planned.workspace_bytes)
    return _factory(model, made, made.code, model.program.constants, graph)


def write_plain(model: CompiledModel) -> AOTExecutorFactoryModule:
    """The model for programs without the runtime: C text with the constants inside."""
    is_unpacked = interface_of(model.executor)[1]
    made = compile_plain(model, one_target(model), is_unpacked)
    plain = plain_model(made, model)
    return _factory(model, made, plain_module(plain), {}, "", plain)


def _factory(
    model: CompiledModel, made: Compiled, library: Any, params: dict[str, Any], graph: str,
    plain: PlainModel | None = None,
) -> AOTExecutorFactoryModule:  # fmt: skip
    target = one_target(model)
    metadata = executor_metadata(made.main, made.planned, model.name, model.executor)
    return AOTExecutorFactoryModule(
        model.ir_mod, {target: made.lowered}, target, model.executor, model.runtime, library, model.name, params,
        lambda: function_metadata(model.program, model.ir_mod, [target]), metadata, metadata.devices, graph, plain,
    )  # fmt: skip


def plain_context(ctx: PassContext) -> PassContext:
    """Plain C has no vectors: loops over lanes are loops like any others."""
    config = {**ctx.config, "tir.disable_vectorize": True}
    return PassContext(ctx.opt_level, ctx.required_pass, ctx.disabled_pass, ctx.instruments, config)


def plain_target(target: Target) -> Target:
    """Plain C runs on one thread."""
    if "num-cores" in target.attrs:
        return target
    return Target({**target.export(), "num-cores": 1})


register_writer("aot", "cpp", write_for_runtime, {
    "system-lib": "a library is loaded from a file or from memory",
}, check=check_cpp)  # fmt: skip
register_writer("aot", "crt", write_plain, check=check_crt, has_pools=True, links_constants=True, context=plain_context,
                target=plain_target)
