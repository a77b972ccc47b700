"""Calls of LLVM intrinsics by name: mangled names, and the processors that support them."""

from __future__ import annotations

from ...error import TVMError
from ...target.cpu import ResolvedCPU

# Intrinsics with the suffix of their return type, or of the type of their last operand.
_BY_RESULT = frozenset(
    "abs bitreverse bswap ceil copysign cos ctlz ctpop cttz exp exp2 exp10 fabs floor fma fmuladd fshl fshr log log10 "
    "log2 maximum maxnum minimum minnum nearbyint pow rint round roundeven sadd.sat sin smax smin sqrt ssub.sat trunc "
    "uadd.sat umax umin usub.sat canonicalize aarch64.neon.smull aarch64.neon.umull aarch64.neon.addp "
    "aarch64.neon.sqrdmulh aarch64.neon.srshl aarch64.neon.urshl".split()
)
_BY_ARGUMENT = frozenset(
    "vector.reduce.add vector.reduce.mul vector.reduce.and vector.reduce.or vector.reduce.xor vector.reduce.smax "
    "vector.reduce.smin vector.reduce.umax vector.reduce.umin vector.reduce.fmax vector.reduce.fmin vector.reduce.fadd "
    "vector.reduce.fmul".split()
)
# Intrinsics with the suffixes of their return type and the type of their last operand, in that order.
_BY_BOTH = frozenset(
    "aarch64.neon.sdot aarch64.neon.udot aarch64.neon.usdot aarch64.neon.smmla aarch64.neon.ummla aarch64.neon.usmmla "
    "aarch64.neon.bfdot arm.neon.bfdot "
    "aarch64.neon.saddlp aarch64.neon.uaddlp arm.neon.sdot arm.neon.udot arm.neon.vpaddls arm.neon.vpaddlu "
    "arm.neon.vpadals arm.neon.vpadalu".split()
)

# Name prefix -> architecture and required features (all, or one of several). LLVM terminates the process for an
# instruction that the target lacks.
_NEEDS = (
    *((f"x86.avx512.vpdp{types}{end}.512", "x86", ("avx512vnni",)) for types in ("bus", "wss") for end in ("d", "ds")),
    ("x86.avx512.vpdp", "x86", ("avx512vnni|avxvnni",)),
    ("x86.avx512bf16.", "x86", ("avx512bf16",)),
    ("x86.avx512fp16.", "x86", ("avx512fp16",)),
    ("x86.avx512.pmaddubs.w.512", "x86", ("avx512bw",)),
    ("x86.avx512.pmaddw.d.512", "x86", ("avx512bw",)),
    ("x86.avx512", "x86", ("avx512f",)),
    ("x86.avx2.", "x86", ("avx2",)),
    ("x86.avx.", "x86", ("avx",)),
    ("x86.fma.", "x86", ("fma",)),
    ("x86.sse41.", "x86", ("sse4.1",)),
    ("x86.sse42.", "x86", ("sse4.2",)),
    ("x86.ssse3.", "x86", ("sse4.1",)),
    ("x86.tdpbf16ps", "x86", ("amx-tile", "amx-bf16")),
    ("x86.tdp", "x86", ("amx-tile", "amx-int8")),
    ("x86.tile", "x86", ("amx-tile",)),
    ("x86.ldtilecfg", "x86", ("amx-tile",)),
    ("x86.sttilecfg", "x86", ("amx-tile",)),
    ("x86.", "x86", ()),
    ("aarch64.neon.sdot", "aarch64", ("dotprod",)),
    ("aarch64.neon.udot", "aarch64", ("dotprod",)),
    ("aarch64.neon.usdot", "aarch64", ("i8mm",)),
    ("aarch64.neon.smmla", "aarch64", ("i8mm",)),
    ("aarch64.neon.ummla", "aarch64", ("i8mm",)),
    ("aarch64.neon.usmmla", "aarch64", ("i8mm",)),
    ("aarch64.neon.bf", "aarch64", ("bf16",)),
    ("aarch64.sve.", "aarch64", ("sve",)),
    ("aarch64.", "aarch64", ()),
    ("arm.neon.sdot", "arm", ("dotprod",)),
    ("arm.neon.udot", "arm", ("dotprod",)),
    ("arm.neon.bf", "arm", ("bf16",)),
    ("arm.neon.", "arm", ("neon",)),
    ("arm.", "arm", ()),
    ("riscv.", "riscv", ()),
    ("wasm.", "wasm", ()),
    ("nvvm.", "nvptx", ()),
    ("amdgcn.", "amdgcn", ()),
    ("hexagon.", "hexagon", ()),
)


def check_available(name: str, cpu: ResolvedCPU) -> None:
    """Report an error for an intrinsic that the processor does not support."""
    base = name.removeprefix("llvm.")
    for start, arch, features in _NEEDS:
        if base.startswith(start):
            missing = [f.replace("|", " or ") for f in features if not any(map(cpu.has, f.split("|")))]
            if arch != cpu.arch or missing:
                lacks = f"lacks {', '.join(missing)}" if arch == cpu.arch else f"is {cpu.arch}"
                raise TVMError(f"{name} is an instruction of {arch}; the target (-mcpu={cpu.cpu}) {lacks}")
            return


def full_name(name: str, result: str, arguments: list[str]) -> str:
    """Return the name of an intrinsic with its type suffixes; a name that has suffixes is returned unchanged."""
    base = name.removeprefix("llvm.")
    if base in _BY_RESULT:
        return f"{name}.{mangled(result)}"
    if base in _BY_ARGUMENT and arguments:
        return f"{name}.{mangled(arguments[-1])}"
    if base in _BY_BOTH and arguments:
        return f"{name}.{mangled(result)}.{mangled(arguments[-1])}"
    return name


def mangled(type_text: str) -> str:
    """Return the suffix of overloaded LLVM intrinsics for a type: v16f32, i32, p0."""
    if type_text[0] == "<":
        lanes, _, inner = type_text[1:-1].partition(" x ")
        return f"v{lanes}{mangled(inner)}"
    return {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}.get(type_text, type_text)
