"""Back ends: one record for each kind of target that code is made for, read by the pipelines and the tuner.

A package outside this one adds a back end by ``register_backend(Backend(...))``. What a record refers to lies in higher
layers or in that package: it is a function, or "module:function" of one that is imported at its first use.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm.error import TVMError
from tvm.registry import Registry
from tvm.target.cpu import ResolvedCPU, resolve_cpu

if TYPE_CHECKING:
    from tvm.target.record import Target

Reference = Callable[..., Any] | str


@dataclass(frozen=True)
class Backend:
    """How code for one kind of target is made."""

    kind: str
    # (IRModule, Target) -> runtime module, of functions in the form code generation takes.
    build: Reference
    # Modules that making code needs.
    needs: tuple[str, ...] = ()
    # Formats of files with its code, and (path, format) -> runtime module: the runtime loads them by it.
    formats: tuple[str, ...] = ()
    load_file: Reference | None = None
    # True where its code runs on the host, as the packed entries of functions do.
    is_host: bool = False
    # True where it emits machine code for the CPU that the target names; C text is compiled by another program.
    makes_cpu_code: bool = False
    # The family of schedules and templates (topi.schedule) that are made for it.
    templates: str = ""
    # Candidates of a tuner travel to its workers as text. Of a device: (IRModule, Target) -> (text, kernels by name),
    # and (text, architecture) -> the device_module.Image a worker makes of it. Host code is LLVM text. Global functions
    # of these names are a user's own compilers: where one is there, kernels are compiled by it, in the user's process.
    emit_text: Reference | None = None
    compile_text: Reference | None = None
    user_compilers: tuple[str, ...] = ()
    # The module that processes import before they run its code, where devices or functions it needs come from outside.
    package: str = ""
    # Target -> relay.transform.backend_passes.GraphPasses, the passes that only graphs for this back end need.
    graph_passes: Reference | None = None
    # Target -> relay.transform.fuse_ops.FusionRules, how operators become kernels.
    fusion_rules: Reference | None = None
    # () -> the tensor intrinsics that searches may use, auto_scheduler.intrinsics.SearchIntrinsic by name.
    search_intrinsics: Reference | None = None
    # Target -> a context manager that takes modules for ``build`` as they come, by add(mod), and makes one of all by
    # finish(); left without it, it gives up.
    compilation: Reference | None = None


BACKENDS: Registry[Backend] = Registry("back end")


def register_backend(backend: Backend, override: bool = False) -> Backend:
    return BACKENDS.register(backend.kind, backend, override)


def find_backend(target: Target) -> Backend | None:
    """The record of a target; None where no code can be made for its kind."""
    return BACKENDS.get(target.kind.name)


def backend_of(target: Target) -> Backend:
    """The record of a target; a TVMError where no code can be made for its kind."""
    found = find_backend(target)
    if found is None:
        known = ", ".join(BACKENDS.names())
        raise TVMError(f"no back end generates code for target kind '{target.kind.name}'; there are: {known}")
    return found


def is_host(target: Target) -> bool:
    """Whether code for the target runs where the packed entries run."""
    found = find_backend(target)
    return found is not None and found.is_host


def host_of(target: Target) -> Target:
    """The target of the code that calls the kernels of a target: its host, or itself where it is one."""
    from tvm.target.record import Target

    return target.host or (target if is_host(target) else Target("llvm"))


def compiled_cpu(target: Target) -> ResolvedCPU | None:
    """The CPU that machine code is made for; None where a target is none, or its code is not machine code."""
    found = find_backend(target)
    return resolve_cpu(target) if found is not None and found.makes_cpu_code else None


def templates_of(target: Target) -> str:
    """The family of schedules for a target, "" where there is none. Schedules need no back end: those of a kind without
    one are of its machine."""
    found = find_backend(target)
    if found is not None and found.templates:
        return found.templates
    features = target.features
    return "cpu" if features.is_cpu else "gpu" if features.is_gpu else ""


def can_compile(kind: str) -> bool:
    """Whether what is needed for code of a kind of target is installed."""
    found = BACKENDS.get(kind)
    return found is not None and all(importlib.util.find_spec(name) is not None for name in found.needs)


def file_loaders() -> dict[str, Callable[[str, str], Any]]:
    """The loaders of files by format."""
    records = [BACKENDS[kind] for kind in BACKENDS]
    return {fmt: functools.partial(_load_file, r.load_file) for r in records for fmt in r.formats}


def _load_file(loader: Reference, path: str, fmt: str) -> Any:
    return load(loader)(path, fmt)


def load(reference: Reference) -> Callable[..., Any]:
    """The function a record refers to."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def as_text(reference: Reference) -> str:
    """ "module:function" of a function, by which another process finds it."""
    return reference if isinstance(reference, str) else f"{reference.__module__}:{reference.__qualname__}"


_CPU = {
    "is_host": True,
    "templates": "cpu",
    "graph_passes": "tvm.relay.transform.cpu:graph_passes",
}
_GPU = {
    "templates": "gpu",
    "graph_passes": "tvm.relay.transform.gpu:graph_passes",
    "fusion_rules": "tvm.relay.transform.gpu:fusion_rules",
}

register_backend(
    Backend(
        "llvm",
        "tvm.codegen.llvm.build:build",
        compilation="tvm.codegen.llvm.build:Compilation",
        needs=("llvmlite",),
        formats=("ll", "bc"),
        load_file="tvm.codegen.llvm.file:load_file",
        makes_cpu_code=True,
        emit_text="tvm.codegen.llvm.build:module_text",
        search_intrinsics="tvm.topi.cpu.search_intrinsics:search_intrinsics",
        **_CPU,
    )
)
register_backend(Backend("c", "tvm.codegen.c.build:build", **_CPU))
register_backend(
    Backend(
        "cuda",
        "tvm.codegen.cuda.build:build",
        emit_text="tvm.codegen.cuda.build:emit",
        compile_text="tvm.codegen.cuda.build:compile_for_device",
        user_compilers=("tvm_callback_cuda_compile", "tvm_callback_cuda_postproc"),
        search_intrinsics="tvm.topi.gpu.search_intrinsics:search_intrinsics",
        **_GPU,
    )
)
register_backend(
    Backend(
        "opencl",
        "tvm.codegen.opencl:build",
        emit_text="tvm.codegen.opencl:emit",
        compile_text="tvm.codegen.opencl:compile_for_device",
        **_GPU,
    )
)
register_backend(Backend("nvptx", "tvm.codegen.llvm.nvptx:build", needs=("llvmlite",), **_GPU))
register_backend(Backend("rocm", "tvm.codegen.llvm.rocm:build", needs=("llvmlite",), **_GPU))
