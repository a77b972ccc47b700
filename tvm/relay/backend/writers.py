"""Writers that convert a compiled program to the return value of ``relay.build``, by executor and runtime.

``relay.build(executor=..., runtime=...)`` uses the writer of this combination. Another package adds a writer with
``register_writer``, after it registers a new name with ``Executor.register`` or ``Runtime.register``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...ir.transform import PassContext
from ...target import Target
from .executor_factory import GraphExecutorFactoryModule
from .external.partitions import Partitions
from .function_info import function_metadata
from .graph_json import graph_json
from .options import Executor, Runtime
from .program import Program


@dataclass(frozen=True)
class CompiledModel:
    """The input of a writer: the program with its memory plan, and the model from which it was compiled. ``library``
    contains the packed functions of the kernels; ``compile_kernels`` compiles them on first access."""

    program: Program
    compile_kernels: Callable[[], Any]
    ir_mod: IRModule
    target: Target | tuple[Target, ...]
    host: Target
    name: str
    executor: Executor
    runtime: Runtime
    progress: Callable[[str, int, int], None]
    workspace_pools: Any = None
    constant_pools: Any = None
    partitions: Partitions = field(default_factory=Partitions)

    @cached_property
    def library(self) -> Any:
        return self.partitions.into(self.compile_kernels())


@dataclass(frozen=True)
class Writer:
    """The output format of one combination of executor and runtime. ``write`` creates the return value of
    ``relay.build``. ``refused`` maps each unsupported option to the reason for the error message. ``check`` raises an
    error for options that exclude each other. ``has_pools`` is whether memory pools are supported;
    ``links_constants`` is whether the generated code contains the constants."""

    write: Callable[[CompiledModel], Any]
    refused: Mapping[str, str] = field(default_factory=dict)
    check: Callable[[Executor, Runtime], None] | None = None
    has_pools: bool = False
    links_constants: bool = False
    context: Callable[[PassContext, Target], PassContext] | None = None
    target: Callable[[Target], Target] | None = None


_WRITERS: dict[tuple[str, str], Writer] = {}


def register_writer(
    executor: str,
    runtime: str,
    write: Callable[[CompiledModel], Any],
    refused: Mapping[str, str] | None = None,
    **traits: Any,
) -> None:
    """Register ``write`` as the writer for an executor and a runtime; ``traits`` are further fields of ``Writer``."""
    if (executor, runtime) in _WRITERS:
        raise ValueError(f"a writer for executor {executor} and runtime {runtime} is already registered")
    _WRITERS[executor, runtime] = Writer(write, dict(refused or {}), **traits)


def choose(
    executor: Any, runtime: Any, workspace_pools: Any = None, constant_pools: Any = None
) -> tuple[Writer, Executor, Runtime]:
    """Return the writer for an executor and a runtime, with both as objects.

    Each may be an object, a name, or None for the default. Unsupported combinations and options raise an error.
    """
    executor, runtime = _as_choice(executor, Executor, "graph"), _as_choice(runtime, Runtime, "cpp")
    writer = _WRITERS.get((executor.name, runtime.name))
    if writer is None:
        runtimes = [name for of, name in _WRITERS if of == executor.name]
        if not runtimes:
            executors = " or ".join(dict.fromkeys(of for of, _ in _WRITERS))
            raise TVMError(
                f"executor {executor.name} is not supported yet; use {executors} for static shapes, or vm "
                "(relay.vm.compile, tvmc --executor vm) for dynamic shapes and control flow"
            )
        raise TVMError(f"executor {executor.name} requires the runtime {' or '.join(runtimes)}, got {runtime.name}")
    for choice in (executor, runtime):
        for option, value in choice.options.items():
            if value and option in writer.refused:
                raise TVMError(f"option {option} of {choice.name} is not supported yet: {writer.refused[option]}")
    if (workspace_pools or constant_pools) and not writer.has_pools:
        raise TVMError(f"memory pools need executor aot and runtime crt, not {executor.name} and {runtime.name}")
    if writer.check is not None:
        writer.check(executor, runtime)
    return writer, executor, runtime


def _as_choice(value: Any, kind: type, usual: str) -> Any:
    if value is None or isinstance(value, str):
        return kind(usual if value is None else value)
    if not isinstance(value, kind):
        raise TVMError(f"{kind.__name__.lower()}: expected a {kind.__name__} or its name, got {value!r}")
    return value


def write_graph(model: CompiledModel, library: Any = None) -> GraphExecutorFactoryModule:
    """Return the model for the graph executor: JSON, library (by default the packed functions) and parameters."""
    program = model.program
    targets = model.target if isinstance(model.target, tuple) else (model.target,)
    return GraphExecutorFactoryModule(
        model.ir_mod, model.target, model.executor, graph_json(program), library or model.library, model.name,
        program.constants, lambda: function_metadata(program, model.ir_mod, targets), program.plan, program.kernels,
        model.runtime,
    )  # fmt: skip


register_writer("graph", "cpp", write_graph, {
    "system-lib": "libraries are loaded from a file or from memory",
})  # fmt: skip

__all__ = ["CompiledModel", "Writer", "choose", "register_writer", "write_graph"]
