"""Information about the host CPU from the operating system, so that the runtime can check code without LLVM."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from ..error import TVMError

# CPU features by LLVM name, with the Linux name if it differs. Features that only recent Linux versions report are left
# out, because they may be present without being reported; so are features that compiled code does not use.
_X86 = dict.fromkeys("""
    avx avx2 avx512bw avx512cd avx512dq avx512er avx512f avx512ifma avx512pf avx512vl bmi2 cmov cx16 f16c fma fma4
    gfni movbe popcnt sse sse2 sse4a ssse3 tbm vaes vpclmulqdq xop
""".split()) | {
    "amx-bf16": "amx_bf16", "amx-int8": "amx_int8", "amx-tile": "amx_tile", "avx512bf16": "avx512_bf16",
    "avx512bitalg": "avx512_bitalg", "avx512vbmi": "avx512vbmi", "avx512vbmi2": "avx512_vbmi2",
    "avx512vnni": "avx512_vnni", "avx512vpopcntdq": "avx512_vpopcntdq", "bmi": "bmi1", "lzcnt": "abm",
    "sahf": "lahf_lm", "sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2",
}  # fmt: skip
_AARCH64 = dict.fromkeys(["aes", "bf16", "i8mm", "sha2", "sve", "sve2"]) | {
    "crc": "crc32", "dotprod": "asimddp", "fp-armv8": "fp", "fullfp16": "asimdhp", "lse": "atomics", "neon": "asimd",
    "rdm": "asimdrdm",
}  # fmt: skip
_ARM = {
    "bf16": "asimdbf16", "dotprod": "asimddp", "fullfp16": "asimdhp", "i8mm": "i8mm", "neon": "neon", "vfp4": "vfpv4",
}  # fmt: skip
_RISCV = dict.fromkeys(["f", "d", "v"])
_KNOWN = {"x86_64": _X86, "aarch64": _AARCH64, "arm32": _ARM, "riscv64": _RISCV}


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
    known = _KNOWN.get(machine_of(triple())[0], {})
    shown = _flags()
    return [name for name in features if shown and name in known and (known[name] or name) not in shown]


@cache
def _flags() -> frozenset[str]:
    """Return the entries of the kernel's list of CPU features; empty if the kernel provides no list."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = (line.partition(":") for line in file)
            rows = {key.strip(): text.strip() for key, _, text in lines}
    except OSError:
        return frozenset()
    if "isa" in rows:
        # On RISC-V one entry such as rv64imafdcv_zicsr_zifencei lists one-letter extensions, followed by longer names.
        letters, *words = rows["isa"].lower().split("_")
        return frozenset([*letters[4:], *words])
    return frozenset(rows.get("flags", rows.get("Features", "")).split())
