"""Information about the host CPU without LLVM."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from ..error import TVMError
from . import _lib


def triple() -> str:
    """Return architecture and operating system of this machine in the form of a target triple."""
    system = {"win32": "windows"}.get(sys.platform, sys.platform)
    return f"{platform.machine().lower()}-{system}"


class Described(NamedTuple):
    """The CPU that ``TVM_HOST_CPU`` describes; numbers that are not given are 0."""

    name: str
    features: tuple[str, ...] = ()
    cores: int = 0
    caches: tuple[int, int, int] = (0, 0, 0)


_SIZE = re.compile(r"(\d+)([KMG]?)")


@cache
def described() -> Described | None:
    """Return the CPU that replaces the host CPU when compiling for ``llvm``; None if ``TVM_HOST_CPU`` is not set.

    ``TVM_HOST_CPU="znver3,+avx512f,cores=16,l1=32K,l2=512K,l3=32M"``: LLVM's name of the CPU, features to add or
    remove, the number of cores and the sizes of the data caches. All but the name are optional."""
    text = os.environ.get("TVM_HOST_CPU", "")
    if not text:
        return None
    name, *words = (word.strip() for word in text.split(","))
    features = tuple(word for word in words if word[:1] in ("+", "-"))
    numbers = {"cores": 0, "l1": 0, "l2": 0, "l3": 0}
    for key, _, value in (word.partition("=") for word in words if word not in features):
        found = _SIZE.fullmatch(value)
        if key not in numbers or found is None:
            raise TVMError(
                f"TVM_HOST_CPU='{text}': '{key}' is invalid; expected NAME,+feature,-feature,cores=N,l1=32K,l2=1M"
            )
        numbers[key] = int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[found[2]]
    cores, *caches = numbers.values()
    return Described(name, features, cores, (caches[0], caches[1], caches[2]))


@cache
def usable_cores() -> int:
    """Return the number of cores this process may use: the affinity mask, limited by the cgroup's CPU quota."""
    machine = described()
    if machine is not None and machine.cores:
        return machine.cores
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()[:2]
        return cores if quota == "max" else min(cores, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        return cores


def runs(code: str) -> bool:
    """Whether architecture and operating system of this triple are those of the host."""
    return machine_of(code) == machine_of(triple())


def arch_of(triple: str) -> str:
    """Return the architecture family of the first part of a triple."""
    first = triple.split("-")[0].lower()
    rows = (
        ("x86", r"x86_64.*|amd64|i[3-7]86|x86"),
        ("aarch64", r"aarch64.*|arm64.*"),
        ("arm", r"arm.*|thumb.*"),
        ("riscv", r"riscv.*"),
        ("hexagon", r"hexagon.*"),
        ("wasm", r"wasm.*"),
        ("ppc", r"powerpc.*|ppc.*"),
    )
    return next((name for name, pattern in rows if re.fullmatch(pattern, first)), first)


def machine_of(triple: str) -> tuple[str, str]:
    """(architecture, operating system): machines with equal values can run each other's code."""
    first = triple.split("-")[0].lower()
    canonical = {"amd64": "x86_64", "arm64": "aarch64", "x86": "i686"}.get(first, first)
    if canonical not in ("x86_64", "aarch64"):
        canonical = arch_of(triple) + ("64" if "64" in first else "32")
    # Triples treat Android as an environment of Linux, but it does not have Linux's libraries.
    found = re.search(r"android", triple) or re.search(r"linux|darwin|macos|windows|freebsd|ios", triple.lower())
    return canonical, {"macos": "darwin"}.get(found.group(), found.group()) if found else "none"


def lacking(features: Iterable[str]) -> list[str]:
    """Return the features (LLVM names) that the host CPU is known to lack."""
    return [name for name in features if _lib.cpu_lacks(name)]
