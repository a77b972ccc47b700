"""Writers that convert programs to the output of ``relay.build``, by executor and runtime.

``relay.build(executor=..., runtime=...)`` uses the writer of this combination. A package adds one with
``register_writer``, after ``Executor.register`` or ``Runtime.register`` for a new name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...error import TVMError
from ...ir.module import IRModule
from ...target import Target
from .executor_factory import GraphExecutorFactoryModule
from .function_info import function_metadata
from .graph_json import graph_json
from .options import Executor, Runtime
from .program import Program


@dataclass(frozen=True)
class CompiledModel:
    """The input of a writer: the planned program, the library of its kernels, and their sources."""

    program: Program
    library: Any
    ir_mod: IRModule
    target: Target | tuple[Target, ...]
    name: str
    executor: Executor
    runtime: Runtime


@dataclass(frozen=True)
class Writer:
    """``write`` creates the return value of ``relay.build``. ``refused`` maps options of the executor or runtime that
    cannot be enabled to the reason."""

    write: Callable[[CompiledModel], Any]
    refused: Mapping[str, str] = field(default_factory=dict)


_WRITERS: dict[tuple[str, str], Writer] = {}


def register_writer(
    executor: str, runtime: str, write: Callable[[CompiledModel], Any], refused: Mapping[str, str] | None = None
) -> None:
    """Register the writer for an executor and a runtime."""
    if (executor, runtime) in _WRITERS:
        raise ValueError(f"a writer for executor {executor} and runtime {runtime} is already registered")
    _WRITERS[executor, runtime] = Writer(write, dict(refused or {}))


def choose(
    executor: Any, runtime: Any, workspace_pools: Any = None, constant_pools: Any = None
) -> tuple[Writer, Executor, Runtime]:
    """Return the writer, executor and runtime.

    Executor and runtime are given as objects, by name, or as None for the default. Unsupported combinations and options
    raise an error.
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
        raise TVMError(
            f"executor {executor.name} requires the runtime {' or '.join(runtimes)}, got {runtime.name}; "
            "microcontrollers are not supported"
        )
    for choice in (executor, runtime):
        for option, value in choice.options.items():
            if value and option in writer.refused:
                raise TVMError(f"option {option} of {choice.name} is not supported yet: {writer.refused[option]}")
    if workspace_pools or constant_pools:
        raise TVMError("workspace_pools and constant_pools are for microcontrollers, which are not supported")
    return writer, executor, runtime


def _as_choice(value: Any, kind: type, usual: str) -> Any:
    if value is None or isinstance(value, str):
        return kind(usual if value is None else value)
    if not isinstance(value, kind):
        raise TVMError(f"{kind.__name__.lower()}: expected a {kind.__name__} or its name, got {value!r}")
    return value


def write_graph(model: CompiledModel) -> GraphExecutorFactoryModule:
    """Return the model for the graph executor: JSON, library and parameters."""
    program = model.program
    targets = model.target if isinstance(model.target, tuple) else (model.target,)
    return GraphExecutorFactoryModule(
        model.ir_mod, model.target, model.executor, graph_json(program), model.library, model.name, program.constants,
        lambda: function_metadata(program, model.ir_mod, targets), program.plan, program.kernels,
    )  # fmt: skip


register_writer("graph", "cpp", write_graph, {
    "system-lib": "libraries are loaded from a file or from memory",
})  # fmt: skip

__all__ = ["CompiledModel", "Writer", "choose", "register_writer", "write_graph"]
