"""Which machine a package was compiled for, and whether this one can run it."""

from __future__ import annotations

import re
from typing import Any

from ...runtime import host_cpu, link
from .errors import TVMCException

# Features of x86 whose instructions appear in compiled code: those LLVM uses unasked, and those of our kernels.
_USED = re.compile(
    r"s?sse.*|avx(?!512vp2intersect).*|amx-(tile|int8|bf16)|fma4?|f16c|bmi2?|lzcnt|popcnt|movbe|cmov|cx16|sahf|xop|tbm|gfni|vaes|vpclmulqdq|"
    r"egpr|ndd|ccmp|cf|nf|ppx|push2pop2|zu"
)


def machine(target) -> dict[str, Any]:
    """Triple, CPU and the features that compiled code may use."""
    from ...target import llvm_facts
    from ...target.backend import compiled_cpu

    cpu = compiled_cpu(target)
    if cpu is None:
        return {}
    names = tuple(f[1:] for f in llvm_facts.host().features if _USED.fullmatch(f[1:])) if cpu.is_host else ()
    if not names:
        needs = cpu.enabled
    elif cpu.features == llvm_facts.host().features:
        needs = [n for n in names if f"+{n}" in cpu.features]
    else:
        needs = llvm_facts.enabled_features_in_child(cpu.triple, cpu.cpu, cpu.features_text, names)
    return {"triple": cpu.triple, "cpu": cpu.cpu, "features": sorted(needs)}


def check_linker(target, cross: str | None, output_format: str) -> None:
    """Refuse code for another machine that nothing here can link, before it is compiled."""
    from ...target.backend import compiled_cpu

    cpu = compiled_cpu(target)
    if cpu is not None and not cross and output_format == "so":
        link.find_cross_compiler(cpu.triple)


def check_machine(wanted: Any) -> None:
    """Refuse a package whose code this machine cannot run: it would end the process."""
    if not isinstance(wanted, dict) or not wanted.get("triple"):
        return
    features = wanted.get("features", [])
    if not isinstance(features, list):
        raise TVMCException("the package is damaged: its manifest gives no list of features")
    if not host_cpu.runs(str(wanted["triple"])):
        raise TVMCException(f"the package was compiled for {wanted['triple']}, this machine is {host_cpu.triple()}; "
                            "compile the model for this machine, or run the package on the other one")
    lacking = host_cpu.lacking(map(str, features))
    if lacking:
        raise TVMCException(f"the package was compiled for cpu {wanted.get('cpu')}; this machine lacks "
                            f"{', '.join(lacking)}. Compile it here, or elsewhere with an -mcpu that has none of them")
