"""Queries about LLVM, under the names of Apache TVM. Code generation itself is in ``tvm.codegen``."""

from __future__ import annotations

import re
import zlib

from tvm.error import TargetError, TVMError
from tvm.target import cpu, llvm_facts
from tvm.target.record import Target

_TRIPLES = (
    "aarch64", "aarch64_be", "amdgcn", "arm", "avr", "bpf", "hexagon", "i386", "loongarch64", "mips", "mips64",
    "msp430", "nvptx", "nvptx64", "powerpc", "powerpc64", "powerpc64le", "r600", "riscv32", "riscv64", "sparc",
    "spirv", "spirv64", "systemz", "thumb", "wasm32", "wasm64", "x86_64", "xcore",
)  # fmt: skip

# Names that a serialized module may refer to by number.
_INTRINSICS = (
    "abs bitreverse bswap ceil copysign cos ctlz ctpop cttz exp exp2 fabs floor fma fmuladd fshl fshr log log10 log2 "
    "maximum maxnum memcpy memmove memset minimum minnum nearbyint pow powi prefetch rint round sadd.sat sin smax smin "
    "sqrt ssub.sat trunc uadd.sat umax umin usub.sat vector.reduce.add vector.reduce.fadd "
    "aarch64.neon.sdot aarch64.neon.udot aarch64.neon.smmla aarch64.neon.ummla aarch64.neon.smull aarch64.neon.addp "
    "arm.neon.vpadals arm.neon.vpadalu arm.neon.vpaddls arm.neon.vpaddlu arm.neon.vqrdmulh "
    "x86.avx512.vpdpbusd.128 x86.avx512.vpdpbusd.256 x86.avx512.vpdpbusd.512 x86.avx512.pmaddubs.w.512 "
    "x86.avx512.pmaddw.d.512 x86.avx2.pmadd.ub.sw x86.avx2.pmadd.wd x86.sse2.pmadd.wd x86.ssse3.pmadd.ub.sw.128 "
    "x86.tileloadd64 x86.tilestored64 x86.tilezero x86.tdpbusd x86.tdpbssd x86.tdpbf16ps x86.ldtilecfg x86.tilerelease"
)
_NAME_OF_ID: dict[int, str] = {}

# LLVM lists tuning hints for its scheduler among the features; they are not capabilities of a processor.
_TUNING = re.compile(
    "slow-|fast-|faster-|false-deps|prefer-|tuning-|use-|no-bypass|idiv|lea-|pad-short|allow-light|branchfusion|"
    "macrofusion|sse-unaligned|vzeroupper|.*bit-mode"
)


def llvm_lookup_intrinsic_id(name: str) -> int:
    """Return a number for an LLVM intrinsic (``"llvm.fma"``), the same in every process; 0 if the intrinsic is
    unknown."""
    number = _number(name)
    known = _NAME_OF_ID.get(number)
    if known is None:
        if not llvm_facts.is_intrinsic(name):
            return 0
        _NAME_OF_ID[number] = name
    elif known != name:
        raise TVMError(f"the intrinsics {name} and {known} share the number {number}; call one of them as an extern")
    return number


def _number(name: str) -> int:
    return zlib.crc32(name.encode()) & 0x7FFFFFFF or 1


def llvm_get_intrinsic_name(intrin_id: int) -> str:
    """Return the intrinsic of a number that ``llvm_lookup_intrinsic_id`` returned."""
    name = _NAME_OF_ID.get(int(intrin_id))
    if name is None:
        raise TVMError(f"unknown LLVM intrinsic number {intrin_id}; call llvm_lookup_intrinsic_id with its name first")
    return name


_NAME_OF_ID.update((_number(f"llvm.{name}"), f"llvm.{name}") for name in _INTRINSICS.split())


def llvm_version_major(allow_none: bool = False) -> int | None:
    llvm = llvm_facts.binding()
    if llvm is not None:
        return llvm.llvm_version_info[0]
    if allow_none:
        return None
    raise TVMError("LLVM is not available: llvmlite is not installed; pip install llvmlite")


def llvm_get_targets() -> list[str]:
    """Return the architectures (first parts of triples) for which this LLVM has a back end."""
    return [triple for triple in _TRIPLES if llvm_facts.has_triple(triple)] if llvm_facts.binding() else []


def llvm_get_system_triple() -> str:
    return llvm_facts.host().triple


def llvm_get_system_cpu() -> str:
    return llvm_facts.host().name


def llvm_get_system_x86_vendor() -> str:
    """Return ``"GenuineIntel"``, ``"AuthenticAMD"``, or ``""`` if the system does not report the vendor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.split(":")[1].strip() for line in lines if line.startswith("vendor_id")), "")
    except OSError:
        return ""


def _resolved(target: str | Target | None) -> cpu.ResolvedCPU:
    if target is None:
        target = Target.current() or "llvm"
    return cpu.resolve_cpu(Target.canon_target(target))


def llvm_get_cpu_archlist(target: str | Target | None = None) -> list[str]:
    """Return the CPU names that ``-mcpu`` accepts for the target's architecture."""
    return list(llvm_facts.known_cpus(_resolved(target).triple))


def llvm_get_cpu_features(target: str | Target | None = None) -> list[str]:
    """Return the features of the target's processor, among all that LLVM defines for its architecture."""
    resolved = _resolved(target)
    names = llvm_facts.known_features(resolved.triple)
    names = tuple(name for name in names if not _TUNING.match(name))
    have = llvm_facts.enabled_features_in_child(resolved.triple, resolved.cpu, resolved.features_text, names)
    return sorted(have)


def llvm_cpu_has_features(cpu_features: str | list[str], target: str | Target | None = None) -> bool:
    """Whether the target's processor has all of these LLVM features."""
    wanted = [cpu_features] if isinstance(cpu_features, str) else list(cpu_features)
    resolved = _resolved(target)
    if not resolved.has(*wanted):
        unknown = tuple(name for name in wanted if name not in resolved.enabled)
        listed = llvm_facts.known_features(resolved.triple)
        for name in unknown:
            if listed and name not in listed:
                raise TargetError(f"unknown LLVM CPU feature '{name}' for {resolved.triple}")
        ask = llvm_facts.enabled_features_in_child
        return ask(resolved.triple, resolved.cpu, resolved.features_text, unknown).issuperset(unknown)
    return True


def target_has_features(cpu_features: str | list[str], target: str | Target | None = None) -> bool:
    return llvm_cpu_has_features(cpu_features, target)


def llvm_get_vector_width(target: str | Target | None = None) -> int:
    """Return the width of a vector register of the target's processor in bits."""
    return _resolved(target).vector_bits
