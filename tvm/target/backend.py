"""Back ends: one record per target kind, which the compilation pipelines and the tuner read.

A third-party package adds a back end with ``register_backend(Backend(...))``. A record refers to functions of higher
layers or of that package: either directly, or as "module:function", which is imported at its first use.
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
    """The code generator and compilation rules of a target kind."""

    kind: str
    # (IRModule, Target) -> runtime module; the functions have been lowered for code generation.
    build: Reference
    # Modules that code generation needs.
    needs: tuple[str, ...] = ()
    # File formats of the generated code, and (path, format) -> runtime module: the loader of such files.
    formats: tuple[str, ...] = ()
    load_file: Reference | None = None
    # Whether the code runs on the host, like the packed functions that call it.
    is_host: bool = False
    # Whether it generates machine code for the target's CPU; C source, for example, is compiled by another program.
    makes_cpu_code: bool = False
    # The family of schedules and templates (topi.schedule) for this back end.
    templates: str = ""
    # Tuning candidates are sent to workers as text. For device code: (IRModule, Target) -> (text, kernels by name), and
    # (text, architecture) -> the device_module.Image that a worker creates from it. Host code is LLVM text. If a global
    # function with one of these names exists, it is a user's compiler, and kernels are compiled with it in the user's
    # process.
    emit_text: Reference | None = None
    compile_text: Reference | None = None
    user_compilers: tuple[str, ...] = ()
    # The module that processes import before they run the code, for devices or functions that a package provides.
    package: str = ""
    # Target -> relay.transform.backend_passes.GraphPasses: additional graph passes for this back end.
    graph_passes: Reference | None = None
    # Target -> relay.transform.fuse_ops.FusionRules: how operators are fused to kernels.
    fusion_rules: Reference | None = None
    # Whether the back end computes convolutions of a model in their blocked layouts (NCHW1n16c) without changing them.
    keeps_blocks: bool = False
    # () -> the tensor intrinsics available to searches, auto_scheduler.intrinsics.SearchIntrinsic by name.
    search_intrinsics: Reference | None = None
    # Target -> a context manager that collects modules for ``build`` with add(mod) and compiles them together with
    # finish(); exiting without finish() discards them.
    compilation: Reference | None = None


BACKENDS: Registry[Backend] = Registry("back end")


def register_backend(backend: Backend, override: bool = False) -> Backend:
    return BACKENDS.register(backend.kind, backend, override)


def find_backend(target: Target) -> Backend | None:
    """Return the record of a target, or None if its kind has no back end."""
    return BACKENDS.get(target.kind.name)


def backend_of(target: Target) -> Backend:
    """Return the record of a target; raise a TVMError if its kind has no back end."""
    found = find_backend(target)
    if found is None:
        known = ", ".join(BACKENDS.names())
        raise TVMError(
            f"no back end generates code for target kind '{target.kind.name}'; target kinds with a back end: {known}"
        )
    return found


def is_host(target: Target) -> bool:
    """Whether code for the target runs on the host."""
    found = find_backend(target)
    return found is not None and found.is_host


def host_of(target: Target) -> Target:
    """Return the target of the code that calls the kernels of a target: its host, or the target itself if it is a
    host."""
    from tvm.target.record import Target

    return target.host or (target if is_host(target) else Target("llvm"))


def compiled_cpu(target: Target) -> ResolvedCPU | None:
    """Return the CPU for which machine code is generated; None if the target is not a CPU or its code is not machine
    code."""
    found = find_backend(target)
    return resolve_cpu(target) if found is not None and found.makes_cpu_code else None


def templates_of(target: Target) -> str:
    """Return the schedule family of a target, or "" if there is none. A target kind without a back end uses the family
    of its device."""
    found = find_backend(target)
    if found is not None and found.templates:
        return found.templates
    features = target.features
    return "cpu" if features.is_cpu else "gpu" if features.is_gpu else ""


def can_compile(kind: str) -> bool:
    """Whether everything that code generation for a target kind needs is installed."""
    found = BACKENDS.get(kind)
    return found is not None and all(importlib.util.find_spec(name) is not None for name in found.needs)


def file_loaders() -> dict[str, Callable[[str, str], Any]]:
    """Return the file loaders by format."""
    records = [BACKENDS[kind] for kind in BACKENDS]
    return {fmt: functools.partial(_load_file, r.load_file) for r in records for fmt in r.formats}


def _load_file(loader: Reference, path: str, fmt: str) -> Any:
    return load(loader)(path, fmt)


def load(reference: Reference) -> Callable[..., Any]:
    """Return the function that a record refers to."""
    if not isinstance(reference, str):
        return reference
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def as_text(reference: Reference) -> str:
    """Return "module:function" of a function, by which another process can import it."""
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
