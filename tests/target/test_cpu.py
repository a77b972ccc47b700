"""resolve_cpu and features: facts from vendors' documents, not from LLVM's tables."""

from __future__ import annotations

import os
from unittest import mock

import pytest

import tvm
from tests.machines import described_cpu
from tvm.error import TargetError
from tvm.runtime import host_cpu
from tvm.target import Target, boards, codegen, llvm_facts, resolve_cpu, x86
from tvm.target.arm_isa import IsaAnalyzer
from tvm.target.cpu import arch_of, full_triple, machine_of

X86 = "llvm -mtriple=x86_64-linux-gnu -mcpu="

# name: vector bits, registers, fma, avx512, vnni, amx
X86_FACTS = {
    "x86-64": (128, 16, False, False, False, False),
    "x86-64-v2": (128, 16, False, False, False, False),
    "x86-64-v3": (256, 16, True, False, False, False),
    "x86-64-v4": (512, 32, True, True, False, False),
    "sandybridge": (256, 16, False, False, False, False),
    "haswell": (256, 16, True, False, False, False),
    "broadwell": (256, 16, True, False, False, False),
    "skylake": (256, 16, True, False, False, False),
    "skylake-avx512": (512, 32, True, True, False, False),
    "cascadelake": (512, 32, True, True, True, False),
    "icelake-server": (512, 32, True, True, True, False),
    "sapphirerapids": (512, 32, True, True, True, True),
    "alderlake": (256, 16, True, False, True, False),
    "znver1": (256, 16, True, False, False, False),
    "znver3": (256, 16, True, False, False, False),
    "znver4": (512, 32, True, True, True, False),
}

# name: half arithmetic, dotprod, i8mm, sve
ARM_FACTS = {
    "generic": (False, False, False, False),
    "cortex-a53": (False, False, False, False),
    "cortex-a72": (False, False, False, False),
    "cortex-a76": (True, True, False, False),
    "neoverse-n1": (True, True, False, False),
    "neoverse-v1": (True, True, True, True),
    "apple-m1": (True, True, False, False),
}


@pytest.mark.parametrize("name", X86_FACTS)
def test_x86_processors(name):
    cpu = resolve_cpu(Target(X86 + name))
    found = (cpu.vector_bits, cpu.num_vector_registers, cpu.has_fma, cpu.has_avx512, cpu.has_vnni, cpu.has_amx_int8)
    assert found == X86_FACTS[name]
    assert cpu.cpu == name
    assert cpu.features == ()


@pytest.mark.parametrize("name", ARM_FACTS)
def test_aarch64_processors(name):
    target = Target(f"llvm -mtriple=aarch64-linux-gnu -mcpu={name}")
    cpu = resolve_cpu(target)
    assert (cpu.has_half, cpu.has_dotprod, cpu.has_matmul_i8, cpu.has_sve) == ARM_FACTS[name]
    assert (cpu.vector_bits, cpu.num_vector_registers, cpu.has_fma, cpu.has_asimd) == (128, 32, True, True)
    assert target.features.has_asimd and target.features.has_dotprod == cpu.has_dotprod


def test_mattr_adds_and_removes_with_what_it_implies():
    added = resolve_cpu(Target(X86 + "x86-64 -mattr=+avx512f"))
    assert added.has("avx2", "fma", "avx512f") and added.vector_bits == 512
    removed = resolve_cpu(Target(X86 + "skylake-avx512 -mattr=-avx512f"))
    assert removed.vector_bits == 256 and removed.num_vector_registers == 16
    assert removed.features_text == "-avx512f"
    assert resolve_cpu(Target(X86 + "x86-64 -mattr=avx2")).features == ("+avx2",)


@pytest.fixture
def this_machine():
    """No TVM_HOST_CPU describes another one."""
    with described_cpu(""):
        yield


def test_plain_llvm_is_this_machine(this_machine):
    cpu = resolve_cpu(Target("llvm"))
    machine = llvm_facts.host()
    assert cpu.is_host
    assert (cpu.triple, cpu.cpu, cpu.features) == machine
    assert 1 <= cpu.cores == host_cpu.usable_cores() <= len(os.sched_getaffinity(0))
    assert 8 << 10 <= cpu.l1_bytes <= cpu.l2_bytes
    assert resolve_cpu(Target("llvm -mcpu=native")).cpu == machine.name


def test_features_of_the_host_agree_with_the_kernel(this_machine):
    """/proc/cpuinfo is the independent witness on x86 Linux."""
    if arch_of(llvm_facts.host().triple) != "x86":
        pytest.skip("reads the flags line of an x86 machine")
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        flags = next(line for line in lines if line.startswith("flags")).split()
    cpu = resolve_cpu(Target("llvm"))
    spelled = {"fma": "fma", "avx2": "avx2", "avx512f": "avx512f", "avx512vnni": "avx512_vnni", "f16c": "f16c"}
    assert {ours for ours in spelled if cpu.has(ours)} == {ours for ours, theirs in spelled.items() if theirs in flags}


def test_foreign_triple_means_a_baseline_cpu():
    arm = resolve_cpu(Target("llvm -mtriple=aarch64-apple-macos"))
    assert not arm.is_host and arm.cpu == "generic"
    windows = resolve_cpu(Target("llvm -mtriple=x86_64-pc-windows-msvc"))
    assert not windows.is_host and windows.cpu == "x86-64" and windows.vector_bits == 128
    riscv = resolve_cpu(Target("llvm -mtriple=riscv64-linux-gnu -mattr=+v"))
    assert (riscv.cpu, riscv.vector_bits) == ("generic-rv64", 128)


def test_machines_that_run_linux_on_risc_v_have_floats_in_registers():
    linux = resolve_cpu(Target("llvm -mtriple=riscv64-linux-gnu"))
    assert linux.has("f", "d") and linux.has_fma and not linux.has("v") and linux.vector_bits == 64
    assert not resolve_cpu(Target("llvm -mtriple=riscv64-none-elf")).enabled
    board = resolve_cpu(tvm.target.riscv_cpu("spacemit-k1"))
    assert (board.abi, board.vector_bits, board.cores) == ("lp64d", 128, 8)


@pytest.mark.parametrize("given, full", [
    ("aarch64-linux-gnu", "aarch64-unknown-linux-gnu"),
    ("armv7l-linux-gnueabihf", "armv7l-unknown-linux-gnueabihf"),
    ("arm64-linux-android", "arm64-unknown-linux-android"),
    ("thumbv7em-none-eabi", "thumbv7em-unknown-none-eabi"),
    ("x86_64-pc-linux-gnu", "x86_64-pc-linux-gnu"),
    ("aarch64-apple-macos", "aarch64-apple-macos"),
    ("riscv64", "riscv64"),
])  # fmt: skip
def test_a_triple_without_a_vendor_gets_one(given, full):
    assert full_triple(given) == full


@pytest.mark.parametrize("triple, float_abi, result", [
    ("armv7l-linux-gnueabihf", "", "gnueabihf"), ("armv7l-linux-gnueabi", "", "gnueabi"),
    ("armv7l-linux-gnueabi", "-mfloat-abi=hard", "gnueabihf"), ("armv7l-linux-gnueabi", "-mfloat-abi=soft", "gnueabi"),
    ("armv7l-linux-gnueabihf", "-mfloat-abi=hard", "gnueabihf"),
    ("armv7l-linux-gnueabihf", "-mfloat-abi=softfp", "gnueabi"),
])  # fmt: skip
def test_the_float_abi_is_a_part_of_the_triple(triple, float_abi, result):
    assert resolve_cpu(Target(f"llvm -mtriple={triple} {float_abi}")).triple == f"armv7l-unknown-linux-{result}"


# Cores, and KiB of the first and second data cache, from the data sheets of the boards.
BOARD_FACTS = {
    "rasp3b": ("cortex-a53", 4, 32, 512),
    "rasp4b": ("cortex-a72", 4, 32, 1024),
    "rasp4b64": ("cortex-a72", 4, 32, 1024),
    "rasp5": ("cortex-a76", 4, 64, 512),
    "rk3399": ("cortex-a72", 6, 32, 1024),
    "ultra96": ("cortex-a53", 4, 32, 512),
    "pynq": ("cortex-a9", 2, 32, 512),
    "jetson-nano": ("cortex-a57", 4, 32, 2048),
    "jetson-orin-nano": ("cortex-a78ae", 6, 64, 256),
}


@pytest.mark.parametrize("name", BOARD_FACTS)
def test_a_board_is_its_cores_and_caches_wherever_one_compiles(name):
    cpu = resolve_cpu(tvm.target.arm_cpu(name))
    assert (cpu.cpu, cpu.cores, cpu.l1_bytes >> 10, cpu.l2_bytes >> 10) == BOARD_FACTS[name]
    assert cpu.has_asimd and cpu.num_vector_registers == (32 if cpu.arch == "aarch64" else 16)


def test_every_board_names_a_processor_that_llvm_knows():
    first = {"aarch64": "aarch64", "arm": "armv7a", "riscv": "riscv64"}
    for board in {*boards.BOARDS.values()}:
        assert board.cpu in llvm_facts.known_cpus(f"{first[board.arch]}-unknown-linux"), board


def test_dot_products_and_half_numbers_are_added_by_name():
    board = "llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mcpu=cortex-a53"
    cpu = resolve_cpu(Target(f"{board} -mattr=+dotprod,+fullfp16"))
    assert cpu.has_dotprod and cpu.has_half and cpu.has_fp16_simd
    assert Target("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu").keys == ["arm_cpu", "cpu"]


def test_c_counts_on_the_baseline_only():
    cpu = resolve_cpu(Target("c -mtriple=x86_64-linux-gnu"))
    assert cpu.vector_bits == 128 and cpu.cpu == "x86-64"


def test_options_override_width_and_cores():
    cpu = resolve_cpu(Target(X86 + "skylake-avx512 -vector-width=256 -num-cores=7"))
    assert (cpu.vector_bits, cpu.cores, cpu.num_vector_registers) == (256, 7, 32)


@pytest.mark.parametrize(
    "text, message",
    [
        (X86 + "haswel", r"unknown LLVM CPU 'haswel' for x86_64-unknown-linux-gnu \(did you mean 'haswell'"),
        (X86 + "cortex-a72", "it is a CPU of aarch64: give an -mtriple"),
        (X86 + "pentium4", "LLVM cannot compile for .*-mcpu=pentium4.*64-bit"),
        ("llvm -mtriple=nowhere-linux", "LLVM has no back end for -mtriple=nowhere-linux"),
        (X86 + "haswell -mattr='+a b'", "is not an LLVM feature"),
        (X86 + "haswell -vector-width=100", "-vector-width must be a power of two"),
        (X86 + "haswell -num-cores=-1", "-num-cores must be at least 1, got -1"),
        ("cuda", "is not a CPU; use its host"),
        (X86 + "haswell -mabi=lp64d", "-mabi is only supported for RISC-V, but the triple is x86_64"),
        ("llvm -mtriple=riscv64-none-elf -mabi=lp64d", "riscv64-unknown-none-elf supports -mabi=lp64, got lp64d"),
        ("llvm -mtriple=riscv64-linux-gnu -mabi=ilp32", "supports -mabi=lp64 or lp64f or lp64d, got ilp32"),
        ("llvm -mtriple=aarch64-linux-gnu -mfloat-abi=hard", "-mfloat-abi is an option of Arm machines of 32 bits"),
        ("llvm -mtriple=armv7l-linux-gnueabi -mfloat-abi=firm", "-mfloat-abi must be hard, soft or softfp, got firm"),
    ],
)
def test_impossible_processors_are_refused(text, message):
    with pytest.raises(TargetError, match=message):
        resolve_cpu(Target(text))


def test_triples_of_one_machine_compare_equal():
    assert machine_of("x86_64-linux-gnu") == machine_of("x86_64-unknown-linux-gnu") == machine_of("amd64-linux")
    assert machine_of("arm64-apple-darwin") == machine_of("aarch64-apple-macos")
    assert machine_of("i686-linux-gnu") != machine_of("x86_64-linux-gnu")
    assert machine_of("x86_64-linux-gnu") != machine_of("x86_64-pc-windows-msvc")
    assert [arch_of(t) for t in ("armv7l-linux-gnueabihf", "thumbv7m", "riscv32", "wasm32", "powerpc64le")] == [
        "arm",
        "arm",
        "riscv",
        "wasm",
        "ppc",
    ]


def test_microcontrollers():
    assert resolve_cpu(Target("c -mcpu=cortex-m4")).triple == "thumbv7em-unknown-none-eabi"
    assert resolve_cpu(Target("c -mcpu=cortex-m33")).cores == 1
    m55 = Target("c -mcpu=cortex-m55").features
    assert m55.has_mve and m55.has_dsp and m55.vector_bits == 128
    assert not Target("c -mcpu=cortex-m55+nomve").features.has_mve
    assert not Target("c -mcpu=cortex-m4+nodsp").features.has_dsp
    assert Target("c -mcpu=cortex-m7").features.has_dsp
    assert not Target("c -mcpu=cortex-m0").features.has_dsp
    assert "SMLAD" in IsaAnalyzer("c -mcpu=cortex-m4")
    assert "SMLAD" not in IsaAnalyzer("c -mcpu=cortex-m3")


def test_features_of_other_targets():
    gpu = Target("cuda -arch=sm_80").features
    assert gpu.is_gpu and not gpu.is_cpu
    assert (gpu.warp_size, gpu.max_threads, gpu.shared_bytes, gpu.has_bfloat) == (32, 1024, 49152, True)
    assert Target("opencl").features.warp_size == 1
    assert Target("test").features.is_test and not Target("cuda").features.is_test
    assert not Target("test").features.is_missing
    with pytest.raises(AttributeError, match="unknown target feature 'warp'"):
        _ = gpu.warp
    cpu = Target(X86 + "haswell").features
    assert (cpu.lanes(32), cpu.lanes(8), cpu.lanes(512)) == (8, 32, 1)


def test_x86_questions_by_name_and_by_current_target():
    assert x86.target_has_avx512("skylake-avx512") and not x86.target_has_avx512("haswell")
    assert x86.target_has_vnni("cascadelake") and not x86.target_has_vnni("skylake-avx512")
    assert x86.target_has_amx("sapphirerapids") and x86.target_has_sse42("x86-64-v2")
    assert x86.get_simd_32bit_lanes("haswell") == 8
    with Target(X86 + "x86-64"):
        assert x86.get_simd_32bit_lanes() == 4
        assert not x86.target_has_avx2() and not x86.target_has_avx() and not x86.target_has_sse41()


def test_feature_queries():
    assert codegen.target_has_features(["avx2", "bmi2"], X86 + "haswell")
    assert not codegen.target_has_features("gfni", X86 + "haswell")
    with pytest.raises(TargetError, match="unknown LLVM CPU feature 'nonsense'"):
        codegen.target_has_features("nonsense", X86 + "haswell")
    features = codegen.llvm_get_cpu_features(X86 + "haswell")
    assert {"avx2", "fma", "sse2"} <= set(features)
    assert not {"avx512f", "slow-shld", "prefer-256-bit"} & set(features)
    assert "znver5" in codegen.llvm_get_cpu_archlist(X86 + "haswell")
    assert "neoverse-n1" in codegen.llvm_get_cpu_archlist("llvm -mtriple=aarch64-linux-gnu")
    assert codegen.llvm_get_vector_width(X86 + "haswell") == 256


def test_llvm_itself():
    assert codegen.llvm_version_major() >= 20
    assert {"x86_64", "aarch64", "riscv64", "nvptx64"} <= set(codegen.llvm_get_targets())
    assert codegen.llvm_get_system_triple() == llvm_facts.host().triple
    assert codegen.llvm_get_system_cpu()


def test_intrinsics_have_numbers_and_names():
    for name in ("llvm.fma", "llvm.x86.avx2.psad.bw", "llvm.prefetch", "llvm.sqrt.f32"):
        number = codegen.llvm_lookup_intrinsic_id(name)
        assert number > 0
        assert codegen.llvm_get_intrinsic_name(number) == name
    assert codegen.llvm_lookup_intrinsic_id("llvm.no.such.thing") == 0
    assert codegen.llvm_lookup_intrinsic_id("sqrt") == 0
    with pytest.raises(Exception, match="unknown LLVM intrinsic number 3"):
        codegen.llvm_get_intrinsic_name(3)


def test_this_machine_has_the_features_that_its_kernel_shows(this_machine):
    cpu = resolve_cpu(Target("llvm"))
    assert not host_cpu.lacking(cpu.enabled)
    if cpu.arch == "aarch64" and not host_cpu.lacking(["dotprod"]) and cpu.cpu.startswith(("neoverse", "cortex-a7")):
        assert cpu.has_dotprod == resolve_cpu(Target(f"llvm -mtriple={cpu.triple} -mcpu={cpu.cpu}")).has_dotprod


@pytest.mark.parametrize("refuses", [True, False])
def test_tile_registers_that_the_system_keeps_from_a_process_are_no_features(refuses, this_machine, monkeypatch):
    llvm = mock.Mock()
    llvm.get_host_cpu_features.return_value = {"amx-tile": True, "amx-int8": True, "avx512vnni": True}
    llvm.get_process_triple.return_value = "x86_64-unknown-linux-gnu"
    monkeypatch.setattr(llvm_facts, "binding", lambda: llvm)
    monkeypatch.setattr(llvm_facts, "lib", mock.Mock(TVMBackendUseTiles=lambda sizes: int(refuses)))
    found = llvm_facts.host.__wrapped__().features
    assert "+avx512vnni" in found
    assert [f for f in found if "amx" in f] == (["-amx-int8", "-amx-tile"] if refuses else ["+amx-int8", "+amx-tile"])
