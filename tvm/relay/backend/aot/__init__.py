"""The ahead-of-time executor: a model as one function that calls its kernels, with a fixed memory plan."""

from __future__ import annotations

from ..executor_factory import AOTExecutorFactoryModule
from ..function_info import function_metadata
from ..writers import CompiledModel, register_writer
from .compile import compile_for_runtime
from .metadata import executor_metadata, main_graph
from .options import check_cpp, one_target


def write_for_runtime(model: CompiledModel) -> AOTExecutorFactoryModule:
    """The model for the runtime: a library whose main function the graph executor calls as its only node."""
    target = one_target(model)
    made = compile_for_runtime(model.program, model.name, target, model.host, model.progress)
    graph = main_graph(model.program, made.main, model.name, made.planned.nbytes)
    metadata = executor_metadata(made.main, model.name, model.executor)
    return AOTExecutorFactoryModule(
        model.ir_mod, {target: made.lowered}, target, model.executor, model.runtime, made.library, model.name,
        model.program.constants, lambda: function_metadata(model.program, model.ir_mod, [target]), metadata,
        metadata.devices, graph,
    )  # fmt: skip


register_writer("aot", "cpp", write_for_runtime, {
    "system-lib": "a library is loaded from a file or from memory",
}, check=check_cpp)  # fmt: skip
