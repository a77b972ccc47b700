"""Properties of CPUs: one table entry per instruction set, used if the machine itself cannot be queried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

# Pairs of a feature and the value that it implies, largest first.
Rows = tuple[tuple[str, int], ...]
# Sizes of the L1, L2 and L3 caches in bytes.
Caches = tuple[int, int, int]


class Family(NamedTuple):
    """The processors of an instruction set."""

    # LLVM features that affect code generation.
    features: tuple[str, ...] = ()
    # Vector width in bits by the feature that provides it, and without any; likewise the number of vector registers.
    vectors: Rows = ()
    scalar_bits: int = 128
    more_registers: Rows = ()
    registers: int = 32
    # Data cache sizes in bytes (L1 to L3) of a typical core, and of cores with known sizes.
    caches: Caches = (32 << 10, 256 << 10, 0)
    core_caches: Mapping[str, Caches] = {}
    # Features whose instructions are slower on some cores than the float32 multiplications that they replace.
    slow_features: Mapping[str, tuple[str, ...]] = {}
    # CPU names that LLVM is known to accept, so that common names need no query. Other names are looked up.
    cpus: tuple[str, ...] = ("generic",)
    # Features that every machine of the family that runs Linux has, beyond LLVM's generic CPU.
    linux_features: tuple[str, ...] = ()
    # Whether LLVM can be queried in this process about any combination of CPU names and features; for other families an
    # invalid combination terminates the process.
    can_be_asked: bool = False
    # Whether LLVM lists all features of a host of this family; otherwise the CPU name provides more features.
    host_list_is_whole: bool = False

    def vector_bits(self, enabled: frozenset[str]) -> int:
        return next((bits for name, bits in self.vectors if name in enabled), self.scalar_bits)

    def vector_registers(self, enabled: frozenset[str]) -> int:
        return next((count for name, count in self.more_registers if name in enabled), self.registers)


def _sizes(table: str) -> dict[str, Caches]:
    """Parse a table of cores and their data cache sizes in KiB; if vendors choose the sizes, those of common boards."""
    rows = (line.split() for line in table.strip().splitlines())
    return {name: (int(l1) << 10, int(l2) << 10, int(l3) << 10) for name, l1, l2, l3 in rows}


_X86 = """
    generic x86-64 x86-64-v2 x86-64-v3 x86-64-v4 core2 penryn nehalem westmere sandybridge ivybridge haswell broadwell
    skylake skylake-avx512 skx cascadelake cooperlake cannonlake icelake-client icelake-server rocketlake tigerlake
    alderlake raptorlake sapphirerapids emeraldrapids graniterapids core-avx2 core-avx-i corei7 corei7-avx knl knm atom
    silvermont znver1 znver2 znver3 znver4 znver5 bdver4 btver2
"""
_AARCH64 = """
    generic cortex-a35 cortex-a53 cortex-a55 cortex-a57 cortex-a72 cortex-a73 cortex-a75 cortex-a76 cortex-a77
    cortex-a78 cortex-a510 cortex-a710 cortex-x1 cortex-x2 neoverse-n1 neoverse-n2 neoverse-v1 neoverse-v2 apple-m1
    apple-m2 apple-m3 apple-m4 apple-a13 apple-a14 carmel a64fx thunderxt88 thunderx2t99 tsv110 kryo grace cortex-a78ae
"""
_AARCH64_CACHES = """
    cortex-a35    32  512     0
    cortex-a53    32  512     0
    cortex-a55    32  128  1024
    cortex-a57    32 2048     0
    cortex-a72    32 1024     0
    cortex-a73    64 1024     0
    cortex-a75    64  256  2048
    cortex-a76    64  512  2048
    cortex-a77    64  256  4096
    cortex-a78    64  512  4096
    cortex-a78ae  64  256  2048
    cortex-a510   32  256  4096
    cortex-a710   64  512  8192
    cortex-x1     64 1024  8192
    cortex-x2     64 1024  8192
    neoverse-n1   64 1024 32768
    neoverse-n2   64 1024 32768
    neoverse-v1   64 1024 32768
    neoverse-v2   64 1024 32768
    carmel        64 2048  4096
    thunderxt88   32 16384    0
    thunderx2t99  32  256 32768
    a64fx         64 8192     0
"""
_ARM_CACHES = """
    cortex-a7     32  256     0
    cortex-a8     32  256     0
    cortex-a9     32  512     0
    cortex-a15    32 2048     0
    cortex-a17    32 1024     0
"""
_RISCV_CACHES = """
    sifive-u54    32 2048     0
    sifive-u74    32 2048     0
    sifive-x280   32  512  2048
    spacemit-x60  32  512     0
    xiangshan-nanhu 64 1024 6144
"""
_ARM = """
    generic cortex-a7 cortex-a8 cortex-a9 cortex-a15 cortex-a17 cortex-a53 cortex-a57 cortex-a72 cortex-a73 cortex-a75
    cortex-a76 cortex-m0 cortex-m0plus cortex-m3 cortex-m4 cortex-m7 cortex-m23 cortex-m33 cortex-m35p cortex-m55
    cortex-m85
"""

FAMILIES = {
    "x86": Family(
        features=(
            "sse4.1", "sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl",
            "avx512vnni", "avxvnni", "avx512bf16", "avx512fp16", "amx-tile", "amx-int8", "amx-bf16",
        ),
        vectors=(("avx512f", 512), ("avx", 256)),
        more_registers=(("avx512f", 32),),
        registers=16,
        caches=(32 << 10, 1 << 20, 8 << 20),
        # They compute one vector product per two cycles; their bfloat16 support is that of tiles.
        slow_features=dict.fromkeys(("sapphirerapids", "emeraldrapids", "graniterapids"), ("avx512bf16",)),
        cpus=tuple(_X86.split()),
        can_be_asked=True,
        host_list_is_whole=True,
    ),
    "aarch64": Family(
        features=("neon", "fullfp16", "dotprod", "i8mm", "bf16", "sve", "sve2", "sme"),
        vectors=(("neon", 128),),
        caches=(32 << 10, 512 << 10, 2 << 20),
        core_caches=_sizes(_AARCH64_CACHES),
        cpus=tuple(_AARCH64.split()),
        can_be_asked=True,
    ),
    "arm": Family(
        features=("neon", "vfp4", "dotprod", "fullfp16", "i8mm", "bf16"),
        vectors=(("neon", 128), ("mve", 128)),
        scalar_bits=32,
        registers=16,
        # Many 64-bit cores also run 32-bit programs.
        core_caches=_sizes(_ARM_CACHES) | _sizes(_AARCH64_CACHES),
        cpus=tuple(_ARM.split()),
        can_be_asked=True,
    ),
    "riscv": Family(
        features=("f", "d", "v", "zvfh"),
        # The minimum vector length with this feature: such code also runs on processors with longer vectors.
        vectors=(("v", 128),),
        scalar_bits=64,
        core_caches=_sizes(_RISCV_CACHES),
        linux_features=("+m", "+a", "+f", "+d", "+c"),
        cpus=("generic", "generic-rv32", "generic-rv64", "sifive-u74", "sifive-x280", "rocket-rv64", "spacemit-x60"),
    ),
    "wasm": Family(
        features=("simd128", "relaxed-simd"), vectors=(("simd128", 128),), scalar_bits=64, registers=16
    ),
    "ppc": Family(features=("altivec", "vsx"), vectors=(("altivec", 128),), scalar_bits=64),
    "hexagon": Family(
        features=("hvx", "hvx-length64b", "hvx-length128b"), vectors=(("hvx-length64b", 512),), scalar_bits=1024
    ),
}  # fmt: skip
OTHER = Family()
# 32-bit x86 has the features of its family and half as many registers.
X86_32_REGISTERS = 8


def family_of(arch: str) -> Family:
    return FAMILIES.get(arch, OTHER)
