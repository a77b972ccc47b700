"""Properties of Arm processors that Apache TVM derives from ``-mcpu`` and ``-mtriple``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tvm.target.kinds import TargetKind


class Microcontroller(NamedTuple):
    """A Cortex-M core: its architecture, and its features beyond the base instructions."""

    arch: str
    has_dsp: bool = False
    has_mve: bool = False


CORTEX_M: dict[str, Microcontroller] = {
    "cortex-m0": Microcontroller("thumbv6m"),
    "cortex-m0plus": Microcontroller("thumbv6m"),
    "cortex-m3": Microcontroller("thumbv7m"),
    "cortex-m4": Microcontroller("thumbv7em", has_dsp=True),
    "cortex-m7": Microcontroller("thumbv7em", has_dsp=True),
    "cortex-m23": Microcontroller("thumbv8m.base"),
    "cortex-m33": Microcontroller("thumbv8m.main", has_dsp=True),
    "cortex-m35p": Microcontroller("thumbv8m.main", has_dsp=True),
    "cortex-m55": Microcontroller("thumbv8.1m.main", has_dsp=True, has_mve=True),
    "cortex-m85": Microcontroller("thumbv8.1m.main", has_dsp=True, has_mve=True),
}


def microcontroller(attrs: Mapping[str, object]) -> Microcontroller | None:
    """Return the Cortex-M core that ``-mcpu`` names (without ``+nodsp`` and ``+nomve``), or None."""
    name, *suffixes = str(attrs.get("mcpu", "")).split("+")
    core = CORTEX_M.get(name)
    if core is None:
        return None
    switched_off = {item.lstrip("+") for item in (*suffixes, *attrs.get("mattr", ()))}
    return core._replace(
        has_dsp=core.has_dsp and "nodsp" not in switched_off,
        has_mve=core.has_mve and not switched_off & {"nomve", "nodsp"},
    )


def is_arm(kind: TargetKind, attrs: Mapping[str, object]) -> bool:
    """Whether a CPU target compiles for an Arm machine, according to its options."""
    if kind.family != "cpu" or "mtriple" not in kind.schema:
        return False
    triple = str(attrs.get("mtriple", ""))
    return triple.startswith(("aarch64", "arm", "thumb")) or microcontroller(attrs) is not None
