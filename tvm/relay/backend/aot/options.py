"""Options of the ahead-of-time executor: checks of their combinations and of the target."""

from __future__ import annotations

from ....error import TVMError
from ....target import Target
from ....tir.usmp.utils import use_workspace_io_is_enabled
from ..options import Executor, Runtime
from ..writers import CompiledModel


def interface_of(executor: Executor) -> tuple[str, bool]:
    """Return the interface of the entry function ("packed" or "c") and whether the main function takes data
    pointers."""
    interface, unpacked = executor.options.get("interface-api", "packed"), executor.options.get("unpacked-api", False)
    if interface not in ("packed", "c"):
        raise TVMError(f'option interface-api of aot must be "packed" or "c", got "{interface}"')
    return interface, bool(unpacked)


def alignment_of(executor: Executor, option: str) -> int:
    """Return the value of an alignment option in bytes."""
    return executor.options.get(option, 16)


def _check_alignments(executor: Executor) -> None:
    for option in ("workspace-byte-alignment", "constant-byte-alignment"):
        value = alignment_of(executor, option)
        if value < 1 or value & (value - 1):
            raise TVMError(f"option {option} of aot must be a power of two, got {value}")


def runtime_options(executor: Executor) -> Executor:
    """Return the executor with options for runtime cpp, which aligns arrays to 64 bytes."""
    return Executor(executor.name, {"workspace-byte-alignment": 64, **executor.options})


def _check_workspace_io(interface: str) -> None:
    """Raise an error if inputs and outputs are stored in pools and the entry function takes packed arguments, which
    contain the addresses of inputs and outputs."""
    if interface != "c" and use_workspace_io_is_enabled():
        raise TVMError(
            "tir.usmp.use_workspace_io option is only compatible with interface_api c.\n"
            "Please use interface_api c to be able to enable tir.usmp.use_workspace_io\n"
        )


def check_cpp(executor: Executor, runtime: Runtime) -> None:
    """Check the interface of a model for the C++ runtime, which calls the main function with packed arguments."""
    _check_alignments(executor)
    interface, unpacked = interface_of(executor)
    if interface != "packed" or unpacked:
        raise TVMError(
            f'Need unpacked-api == false (got: {int(unpacked)}) and interface-api == "packed" (got: {interface}) when '
            "targeting c++ runtime"
        )
    _check_workspace_io(interface)


def check_crt(executor: Executor, runtime: Runtime) -> None:
    """Check the interface of a model for programs without the runtime. An entry function that takes structs of pointers
    requires a main function that takes data pointers."""
    _check_alignments(executor)
    interface, unpacked = interface_of(executor)
    if interface == "c" and not unpacked:
        raise TVMError(
            f'Either need interface_api == "packed" (got: {interface}) or unpacked-api == true (got: {int(unpacked)}) '
            "when targeting c runtime"
        )
    _check_workspace_io(interface)
    if not executor.options.get("link-params", True):
        raise TVMError(
            "runtime crt does not support link-params=false of executor aot: the code contains the weights; "
            "use runtime cpp for weights in a separate file"
        )


def one_target(model: CompiledModel) -> Target:
    """Return the only target of a model; raise an error unless the model is compiled for one CPU."""
    target = model.target
    if isinstance(target, tuple) or not target.features.is_cpu:
        names = ", ".join(str(t).strip() for t in (target if isinstance(target, tuple) else (target,)))
        raise TVMError(f"executor aot runs on one CPU (targets llvm and c), not on {names}; use executor graph")
    return target
