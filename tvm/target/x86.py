"""Queries about x86 processors, by CPU name or for the current target."""

from __future__ import annotations

from tvm.target.cpu import ResolvedCPU, resolve_cpu
from tvm.target.record import Target


def _resolved(mcpu: str | None) -> ResolvedCPU:
    if mcpu:
        return resolve_cpu(Target({"kind": "llvm", "mcpu": mcpu, "mtriple": "x86_64-linux-gnu"}))
    current = Target.current()
    return resolve_cpu(current if current is not None and current.kind.family == "cpu" else Target("llvm"))


def target_has_sse41(mcpu: str | None = None) -> bool:
    return _resolved(mcpu).has("sse4.1")


def target_has_sse42(mcpu: str | None = None) -> bool:
    return _resolved(mcpu).has("sse4.2")


def target_has_avx(mcpu: str | None = None) -> bool:
    return _resolved(mcpu).has("avx")


def target_has_avx2(mcpu: str | None = None) -> bool:
    return _resolved(mcpu).has_avx2


def target_has_avx512(mcpu: str | None = None) -> bool:
    return _resolved(mcpu).has_avx512


def target_has_vnni(mcpu: str | None = None) -> bool:
    return _resolved(mcpu).has_vnni


def target_has_amx(mcpu: str | None = None) -> bool:
    return _resolved(mcpu).has_amx_int8


def get_simd_32bit_lanes(mcpu: str | None = None) -> int:
    """Return the number of 32-bit values in a vector register."""
    return _resolved(mcpu).vector_bits // 32
