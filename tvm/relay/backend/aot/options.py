"""Options of the ahead-of-time executor: combinations that are rejected, and the targets it supports."""

from __future__ import annotations

from ....error import TVMError
from ....ir.transform import PassContext
from ....target import Target
from ..options import Executor, Runtime
from ..writers import CompiledModel


def interface_of(executor: Executor) -> tuple[str, bool]:
    """The interface of the entry, and whether the main function takes data pointers."""
    interface, unpacked = executor.options.get("interface-api", "packed"), executor.options.get("unpacked-api", False)
    if interface not in ("packed", "c"):
        raise TVMError(f'option interface-api of aot: there are "packed" and "c", got "{interface}"')
    return interface, bool(unpacked)


def alignment_of(executor: Executor, option: str) -> int:
    """The value of an option that is an alignment in bytes."""
    return executor.options.get(option, 16)


def _check_alignments(executor: Executor) -> None:
    for option in ("workspace-byte-alignment", "constant-byte-alignment"):
        value = alignment_of(executor, option)
        if value < 1 or value & (value - 1):
            raise TVMError(f"option {option} of aot must be a power of two, got {value}")


def runtime_options(executor: Executor) -> Executor:
    """The options on the runtime, which aligns arrays to 64 bytes."""
    return Executor(executor.name, {"workspace-byte-alignment": 64, **executor.options})


def _refuse_workspace_io() -> None:
    """Raise an error where inputs and outputs are to be placed in pools: callers pass their addresses."""
    if PassContext.current().get_config("tir.usmp.use_workspace_io"):
        raise TVMError("option tir.usmp.use_workspace_io is not supported by executor aot yet: inputs and outputs are "
                       "memory of the caller")  # fmt: skip


def check_cpp(executor: Executor, runtime: Runtime) -> None:
    """Check the interface of a model for the C++ runtime, which calls the main function with packed arguments."""
    _check_alignments(executor)
    _refuse_workspace_io()
    interface, unpacked = interface_of(executor)
    if interface != "packed" or unpacked:
        raise TVMError(
            f'Need unpacked-api == false (got: {int(unpacked)}) and interface-api == "packed" (got: {interface}) when '
            "targeting c++ runtime"
        )


def check_crt(executor: Executor, runtime: Runtime) -> None:
    """Check the interface of a model for programs without the runtime. Structs of pointers need a main function of
    pointers."""
    _check_alignments(executor)
    _refuse_workspace_io()
    interface, unpacked = interface_of(executor)
    if interface == "c" and not unpacked:
        raise TVMError(
            f'Either need interface_api == "packed" (got: {interface}) or unpacked-api == true (got: {int(unpacked)}) '
            "when targeting c runtime"
        )
    if not executor.options.get("link-params", True):
        raise TVMError(
            "option link-params of aot cannot be switched off with runtime crt: the code contains the "
            "weights; use runtime cpp for weights beside the code"
        )


def one_target(model: CompiledModel) -> Target:
    """The target of a model whose code runs on one CPU."""
    target = model.target
    if isinstance(target, tuple) or not target.features.is_cpu:
        names = ", ".join(str(t).strip() for t in (target if isinstance(target, tuple) else (target,)))
        raise TVMError(f"executor aot runs on one CPU (targets llvm and c), not on {names}; use executor graph")
    return target
