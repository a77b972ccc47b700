"""The processor a CPU target means: triple, CPU name, features, vector width, cores and caches."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tvm.error import TargetError
from tvm.runtime.host_cpu import arch_of, described, machine_of, usable_cores
from tvm.target import arm, boards, llvm_facts
from tvm.target.cpu_families import FAMILIES, X86_32_REGISTERS, family_of
from tvm.target.parse import near

if TYPE_CHECKING:
    from tvm.target.record import Target

# x86 features whose instructions occur in compiled code: those that LLVM selects automatically, and those of our
# kernels.
_USED = re.compile(
    r"s?sse.*|avx(?!512vp2intersect).*|amx-(tile|int8|bf16)|fma4?|f16c|bmi2?|lzcnt|popcnt|movbe|cmov|cx16|sahf|xop|tbm|"
    r"gfni|vaes|vpclmulqdq|egpr|ndd|ccmp|cf|nf|ppx|push2pop2|zu"
)
_NO_CACHES = (0, 0, 0)
_USUAL_CORES = 4


@dataclass(frozen=True)
class ResolvedCPU:
    """The CPU of a target. ``features`` is passed to LLVM with the name; ``enabled`` contains all features that result.

    Parameters
    ----------
    triple : str
        The triple of LLVM.
    arch : str
        The architecture.
    cpu : str
        The CPU name in LLVM.
    features : tuple[str, ...]
        Features passed to LLVM in addition to the name.
    enabled : frozenset[str]
        All features of the processor.
    is_host : bool
        Whether it is this machine.
    vector_bits : int
        The width of a vector register.
    num_vector_registers : int
        The number of vector registers.
    cores : int
        The number of cores.
    l1_bytes : int
        The size of the L1 data cache of a core.
    l2_bytes : int
        The size of the L2 cache of a core.
    l3_bytes : int
        The size of the last-level cache, which cores share.
    abi : str, optional
        The requested calling convention; by default the usual one of the triple and the features.
    """

    triple: str
    arch: str
    cpu: str
    features: tuple[str, ...]
    enabled: frozenset[str]
    is_host: bool
    vector_bits: int
    num_vector_registers: int
    cores: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    abi: str = ""

    @property
    def features_text(self) -> str:
        return ",".join(self.features)

    def has(self, *names: str) -> bool:
        """Whether all of these features are present.

        Parameters
        ----------
        *names : str
            Features by LLVM's names, such as "avx2".

        Returns
        -------
        bool
        """
        return self.enabled.issuperset(names)

    @property
    def has_fma(self) -> bool:
        return self.arch == "aarch64" or bool(self.enabled & {"fma", "vfp4", "f", "vsx"})

    @property
    def has_avx2(self) -> bool:
        return self.has("avx2")

    @property
    def has_avx512(self) -> bool:
        """Whether it has the AVX-512 subset that every AVX-512 processor since Skylake has."""
        return self.has("avx512f", "avx512bw", "avx512dq", "avx512vl")

    @property
    def has_vnni(self) -> bool:
        return bool(self.enabled & {"avx512vnni", "avxvnni"})

    @property
    def has_amx(self) -> bool:
        return self.has("amx-tile")

    @property
    def has_amx_int8(self) -> bool:
        return self.has("amx-tile", "amx-int8")

    @property
    def has_amx_bf16(self) -> bool:
        return self.has("amx-tile", "amx-bf16")

    @property
    def has_half(self) -> bool:
        """Whether it has float16 arithmetic, not only conversion."""
        return bool(self.enabled & {"avx512fp16", "fullfp16", "zvfh"})

    @property
    def has_bfloat(self) -> bool:
        return bool(self.enabled & {"avx512bf16", "bf16"})

    def is_slow(self, feature: str) -> bool:
        """Whether the instructions of a feature are slower than equivalent float32 multiplications.

        Parameters
        ----------
        feature : str
            The feature, as LLVM names it.

        Returns
        -------
        bool
        """
        return feature in family_of(self.arch).slow_features.get(self.cpu, ())

    @property
    def has_asimd(self) -> bool:
        return self.arch in ("aarch64", "arm") and self.has("neon")

    @property
    def has_fp16_simd(self) -> bool:
        return self.has_asimd and self.has("fullfp16")

    @property
    def has_dotprod(self) -> bool:
        return self.has("dotprod")

    @property
    def has_matmul_i8(self) -> bool:
        return self.has("i8mm")

    @property
    def has_sve(self) -> bool:
        return self.has("sve")


def resolve_cpu(target: Target) -> ResolvedCPU:
    """The processor that ``target`` describes.

    ``llvm`` without ``-mcpu`` and without a foreign ``-mtriple`` is the host; a given ``-mcpu`` is used without
    checking the host.

    Parameters
    ----------
    target : str, dict or Target
        The target.

    Returns
    -------
    ResolvedCPU

    Raises
    ------
    TargetError
        The target is not a CPU, or has less than one core.
    """
    if target.kind.family != "cpu":
        raise TargetError(f"target '{target}' is not a CPU; use its host instead")
    attrs = target.attrs
    triple = _triple(target)
    arch = arch_of(triple)
    machine = llvm_facts.host()
    is_host = machine_of(triple) == machine_of(machine.triple)
    board = _board(attrs.get("model"), arch)
    given = str(attrs.get("mcpu") or attrs.get("march") or (board.cpu if board else "")).split("+")[0]
    # For `c`, the CPU is not passed to the C compiler, so only llvm may use the host's features.
    use_host = is_host and (given == "native" or (not given and target.kind.name == "llvm"))
    cpu = machine.name if use_host else (given or _baseline(triple))
    family = family_of(arch)
    usual_features = family.linux_features if not given and "linux" in triple else ()
    extra = tuple(_feature(item) for item in attrs.get("mattr", ()))
    features = (machine.features if use_host else usual_features) + extra
    core = arm.microcontroller(attrs)
    if core is not None:
        enabled = frozenset(["mve"] if core.has_mve else [])
    else:
        enabled = _enabled(triple, arch, cpu, features, use_host and not extra and family.host_list_is_whole)
    bits = attrs.get("vector-width") or family.vector_bits(enabled)
    _check_width(target, bits)
    named = family.core_caches.get(cpu)
    if core is not None:
        l1, l2, l3 = _NO_CACHES
    elif is_host and (named is None or cpu == machine.name):
        l1, l2, l3 = host_caches()
    else:
        l1, l2, l3 = named or family.caches
    usual_cores = board.cores if board else usable_cores() if is_host else 1 if core is not None else _USUAL_CORES
    cores = attrs.get("num-cores") or usual_cores
    if cores < 1:
        raise TargetError(f"target '{target}': -num-cores must be at least 1, got {cores}")
    is_x86_32 = arch == "x86" and not triple.startswith(("x86_64", "amd64"))
    registers = X86_32_REGISTERS if is_x86_32 else family.vector_registers(enabled)
    abi = _abi(target, arch, triple, enabled)
    return ResolvedCPU(triple, arch, cpu, features, enabled, is_host, bits, registers, cores, l1, l2, l3, abi)


def _board(model: object, arch: str) -> boards.Board | None:
    """Return the board that ``-model`` names, if its processor runs code of this instruction set."""
    board = boards.BOARDS.get(str(model or ""))
    return board if board is not None and (board.arch, arch) in ((arch, arch), ("aarch64", "arm")) else None


def _abi(target: Target, arch: str, triple: str, enabled: frozenset[str]) -> str:
    """Return ``-mabi``, a calling convention of RISC-V: the register width, and the floats passed in registers."""
    abi = str(target.attrs.get("mabi") or "")
    if not abi:
        return ""
    if arch != "riscv":
        raise TargetError(f"target '{target}': -mabi is only supported for RISC-V, but the triple is {triple}")
    base = "lp64" if triple.startswith("riscv64") else "ilp32"
    known = [base, *(base + kind for kind in "fd" if kind in enabled)]
    if abi not in known:
        raise TargetError(
            f"target '{target}': with these features, {triple} supports -mabi={' or '.join(known)}, got {abi}"
        )
    return abi


def _float_abi(target: Target, triple: str) -> str:
    """Return the triple with ``-mfloat-abi``, which is part of the triple on Arm: ``hf`` means that floating-point
    registers pass arguments."""
    asked = str(target.attrs.get("mfloat-abi") or "")
    if not asked:
        return triple
    if asked not in ("hard", "soft", "softfp"):
        raise TargetError(f"target '{target}': -mfloat-abi must be hard, soft or softfp, got {asked}")
    if arch_of(triple) != "arm" or not re.search(r"eabi(hf)?$", triple):
        what = "-mfloat-abi is an option of Arm machines of 32 bits"
        raise TargetError(f"target '{target}': {what}; the machine is {triple}")
    return triple.removesuffix("hf") + ("hf" if asked == "hard" else "")


def full_triple(triple: str) -> str:
    """Return a triple with the vendor, which short triples omit.

    LLVM parses triples by position: without the vendor it does not recognize the operating system or, on Arm, the
    floating-point calling convention."""
    first, *rest = triple.split("-")
    has_no_vendor = len(rest) == 2 and re.fullmatch(r"linux|none|freebsd|windows|wasi", rest[0])
    return "-".join([first, "unknown", *rest]) if has_no_vendor else triple


def _triple(target: Target) -> str:
    return _float_abi(target, full_triple(_given_triple(target)))


def _given_triple(target: Target) -> str:
    triple = str(target.attrs.get("mtriple") or "")
    if not triple:
        core = arm.microcontroller(target.attrs)
        if core is not None:
            return f"{core.arch}-none-eabi"
        return llvm_facts.host().triple
    if re.search(r"[^\w.+-]", triple) or not llvm_facts.has_triple(triple):
        raise TargetError(
            f"target '{target}': LLVM has no back end for -mtriple={triple}; a triple looks like x86_64-linux-gnu, "
            "aarch64-linux-gnu, armv7l-linux-gnueabihf, riscv64-linux-gnu or wasm32"
        )
    return triple


def _baseline(triple: str) -> str:
    first = triple.split("-")[0]
    return {"x86_64": "x86-64", "amd64": "x86-64", "riscv64": "generic-rv64", "riscv32": "generic-rv32"}.get(
        first, "generic"
    )


def _feature(item: str) -> str:
    item = item.strip()
    return item if item.startswith(("+", "-")) else f"+{item}"


def _enabled(triple: str, arch: str, cpu: str, features: tuple[str, ...], exact: bool) -> frozenset[str]:
    """Return the features that a CPU has. ``exact``: ``features`` is the complete list of the host's features."""
    family = family_of(arch)
    # Querying LLVM about an invalid combination of Hexagon features terminates the process.
    if exact or arch == "hexagon":
        return frozenset(name for name in family.features if f"+{name}" in features)
    check_cpu(triple, cpu)
    for item in features:
        if re.search(r"[^\w.+:-]", item):
            raise TargetError(f"-mattr: '{item}' is not an LLVM feature; use +name or -name")
    tried = family.can_be_asked and cpu in family.cpus
    ask = llvm_facts.enabled_features if tried else llvm_facts.enabled_features_in_child
    return ask(triple, cpu, ",".join(features), family.features)


@functools.cache
def check_cpu(triple: str, cpu: str) -> None:
    """Raise an error for a CPU name that LLVM does not know for ``triple``; LLVM would exit or silently use a
    default."""
    arch = arch_of(triple)
    if cpu in family_of(arch).cpus:
        return
    known = llvm_facts.known_cpus(triple)
    if not known or cpu in known:
        return
    owner = next((other for other, family in FAMILIES.items() if other != arch and cpu in family.cpus), None)
    hint = f" (it is a CPU of {owner}: give an -mtriple of that machine)" if owner else near(cpu, known)
    raise TargetError(f"unknown LLVM CPU '{cpu}' for {triple}{hint}; known: {', '.join(known)}")


def _check_width(target: Target, bits: int) -> None:
    if bits < 8 or bits & (bits - 1):
        raise TargetError(f"target '{target}': -vector-width must be a power of two of at least 8 bits, got {bits}")


@functools.cache
def host_caches() -> tuple[int, int, int]:
    """Return the sizes of the first core's data caches in bytes, by level; typical sizes if the system does not report
    them."""
    usual = family_of(arch_of(llvm_facts.host().triple)).caches
    machine = described()
    if machine is not None:
        return tuple(size or usual[level] for level, size in enumerate(machine.caches))
    found: dict[int, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() != "Instruction":
                found[int((index / "level").read_text())] = _size((index / "size").read_text())
        except (OSError, ValueError):
            continue
    return tuple(found.get(level + 1, usual[level]) for level in range(3))


def _size(text: str) -> int:
    text = text.strip()
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * unit


def used_features(cpu: ResolvedCPU) -> list[str]:
    """Return the features of a processor that compiled code may use, by LLVM name."""
    host = llvm_facts.host()
    names = tuple(f[1:] for f in host.features if _USED.fullmatch(f[1:])) if cpu.is_host else ()
    if not names:
        return sorted(cpu.enabled)
    if cpu.features == host.features:
        return sorted(n for n in names if f"+{n}" in cpu.features)
    return sorted(llvm_facts.enabled_features_in_child(cpu.triple, cpu.cpu, cpu.features_text, names))


def needs_of(cpu: ResolvedCPU) -> dict[str, object]:
    """Return the CPU requirements stored with compiled code: the CPU name and the features that the code may use."""
    return {"cpu": cpu.cpu, "features": used_features(cpu)}
