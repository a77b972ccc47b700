"""The machine that a package was compiled for, and the check that this machine can run it."""

from __future__ import annotations

from typing import Any

from ...runtime import host_cpu, link
from .errors import TVMCException


def machine(target) -> dict[str, Any]:
    """Return the triple, the CPU and the CPU features that compiled code may use."""
    from ...target.backend import compiled_cpu
    from ...target.cpu import needs_of

    cpu = compiled_cpu(target)
    return {} if cpu is None else {"triple": cpu.triple, **needs_of(cpu)}


def check_linker(target, cross: str | None, output_format: str) -> None:
    """Raise an error, before compiling, if no linker for the target machine is installed."""
    from ...target.backend import compiled_cpu

    cpu = compiled_cpu(target)
    if cpu is not None and not cross and output_format in ("so", "bundle"):
        link.find_cross_compiler(cpu.triple)


def check_machine(wanted: Any) -> None:
    """Raise an error for a package whose code would crash on this machine."""
    if not isinstance(wanted, dict) or not wanted.get("triple"):
        return
    features = wanted.get("features", [])
    if not isinstance(features, list):
        raise TVMCException("the package is damaged: its manifest lacks the list of CPU features")
    if not host_cpu.runs(str(wanted["triple"])):
        raise TVMCException(
            f"the package was compiled for {wanted['triple']}, but this machine is "
            f"{host_cpu.triple()}; "
            "compile the model for this machine, or run the package on a machine of that type"
        )
    lacking = host_cpu.lacking(map(str, features))
    if lacking:
        raise TVMCException(
            f"the package was compiled for cpu {wanted.get('cpu')}, but this machine lacks "
            f"{', '.join(lacking)}; compile it here, or with an -mcpu without these features"
        )
