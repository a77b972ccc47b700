"""The innermost loops of convolutions and matmuls for Arm boards, read in the assembly: accumulators stay in registers,
and fused multiply-adds are most of what is issued."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import NamedTuple

import numpy as np
import pytest

import tvm
from tvm import relay

# Multiply-adds of vectors, loads and instructions that a core does in a cycle, as LLVM's models and Arm's guides say.
CORES = {"cortex-a72": (1, 1, 3), "neoverse-n1": (2, 2, 4)}
FUSED = re.compile(r"(fmla|vfma\.f32|vmla\.f32|vfmacc\.\w+|[su]dot|v[su]dot\.\w+)\s")
MEMORY = re.compile(r"(ld\w+|st\w+|vld\w*|vst\w*|vle\w+\.v|vse\w+\.v|fl[wd]|prfm)\s")
STACK = re.compile(r"\[sp\b|\(sp\)")


def convolution(size: int, channels: int, filters: int, window: int) -> tvm.IRModule:
    x = relay.var("x", shape=(1, channels, size, size))
    weight = relay.const(np.zeros((filters, channels, window, window), "float32"))
    padding = (window // 2, window // 2)
    return tvm.IRModule.from_expr(
        relay.Function([x], relay.nn.conv2d(x, weight, padding=padding, channels=filters, kernel_size=(window, window)))
    )


def matmul(m: int, k: int, n: int) -> tvm.IRModule:
    x = relay.var("x", shape=(m, k))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, relay.const(np.zeros((n, k), "float32")))))


def byte_convolution(size: int, channels: int, filters: int, window: int) -> tvm.IRModule:
    x = relay.var("x", shape=(1, channels, size, size), dtype="int8")
    weight = relay.const(np.zeros((filters, channels, window, window), "int8"))
    options = {"padding": (window // 2,) * 2, "channels": filters, "kernel_size": (window, window)}
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.conv2d(x, weight, out_dtype="int32", **options)))


def byte_matmul(m: int, k: int, n: int) -> tvm.IRModule:
    x = relay.var("x", shape=(m, k), dtype="int8")
    weight = relay.const(np.zeros((n, k), "int8"))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.dense(x, weight, out_dtype="int32")))


PROGRAMS = {
    "convolution 3x3": convolution(28, 64, 64, 3),
    "convolution 1x1": convolution(14, 128, 128, 1),
    "matmul": matmul(64, 256, 128),
}
BYTE_PROGRAMS = {
    "convolution": byte_convolution(28, 64, 64, 3),
    "matmul": byte_matmul(64, 256, 128),
}


class Loop(NamedTuple):
    """The instructions between the label that a loop jumps back to and the jump."""

    lines: list[str]

    def count(self, pattern: re.Pattern) -> int:
        return sum(bool(pattern.match(line)) for line in self.lines)


def innermost(assembly: str) -> Loop:
    """The loop with the largest share of multiply-adds; of equals, the shortest."""
    lines = [re.split(r"\s//|\s@ |;", line)[0].strip() for line in assembly.splitlines()]
    at = {line[:-1]: number for number, line in enumerate(lines) if line.endswith(":")}
    loops = []
    for number, line in enumerate(lines):
        jump = re.match(r"(?:b\w*(?:\.\w+)?|[ct]bn?z)\s(?:.*,\s*)?(\.L\w+)$", line)
        if jump and at.get(jump[1], number) < number:
            body = lines[at[jump[1]] + 1 : number + 1]
            loops.append(Loop([text for text in body if text and text[0] != "." and text[-1] != ":"]))
    return max(loops, key=lambda loop: (loop.count(FUSED) / len(loop.lines), -len(loop.lines)))


def loop_of(program: str, target: str, programs: dict[str, tvm.IRModule] = PROGRAMS) -> Loop:
    with tvm.transform.PassContext(opt_level=3):
        return innermost(relay.build(programs[program], target=target).lib.get_source("asm"))


def check_registers(loop: Loop) -> None:
    assert not [line for line in loop.lines if STACK.search(line)], "spilled registers"
    assert not [line for line in loop.lines if line.startswith(("st", "vst"))], "accumulators go to memory"


def check_pipes(loop: Loop, core: str) -> None:
    """The pipes of products are busy for 85 of 100 cycles, loads and the issue of instructions counted."""
    fused, memory = loop.count(FUSED), loop.count(MEMORY)
    of_fused, of_memory, of_all = CORES[core]
    cycles = max(fused / of_fused, memory / of_memory, len(loop.lines) / of_all)
    assert fused >= 16 and fused / of_fused / cycles >= 0.85, "the pipes of multiply-adds wait"


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_register_tiles_of_neon_neither_spill_nor_wait_for_loads(program, core):
    loop = loop_of(program, f"llvm -mtriple=aarch64-linux-gnu -mcpu={core} -num-cores=4")
    check_registers(loop)
    check_pipes(loop, core)


@pytest.mark.parametrize("size, channels, filters", [(56, 64, 64), (14, 512, 512), (28, 24, 144)])
def test_channels_of_a_pixel_are_loaded_together_and_multiplied_by_their_lanes(size, channels, filters):
    programs = {"": convolution(size, channels, filters, 1)}
    loop = loop_of("", "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=2", programs)
    check_registers(loop)
    fused = loop.count(FUSED)
    # Four channels of 14 pixels: as many loads as pixels, and four of weights, some of them in pairs.
    assert fused % 56 == 0 and loop.count(MEMORY) <= fused // 56 * 18
    assert all(loop.count(re.compile(rf"fmla\s.*\.s\[{lane}\]$")) == fused // 4 for lane in range(4))


@pytest.mark.parametrize("m, k, n", [(128, 3072, 768), (197, 768, 768), (384, 768, 768)])
def test_rows_of_matmuls_are_loaded_as_vectors_and_multiplied_by_their_lanes(m, k, n):
    target = "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=2"
    loop = loop_of("", target, {"": matmul(m, k, n)})
    check_registers(loop)
    fused = loop.count(FUSED)
    # For 8 of k, a panel of four vectors takes 32 loads, and each of four rows two.
    assert fused % 128 == 0 and loop.count(MEMORY) <= fused // 128 * (8 * 4 + 4 * 2)
    assert all(loop.count(re.compile(rf"fmla\s.*\.s\[{lane}\]$")) == fused // 4 for lane in range(4))


@pytest.mark.skipif(not shutil.which("llvm-mca"), reason="no llvm-mca; apt-get install llvm")
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_pipes_of_multiply_adds_are_busy_by_the_count_of_llvm_mca(program, core):
    loop = loop_of(program, f"llvm -mtriple=aarch64-linux-gnu -mcpu={core} -num-cores=4")
    text = "\n".join(re.sub(r"\.L\w+$", "0", line) for line in loop.lines)
    words = ["llvm-mca", "-mtriple=aarch64-linux-gnu", f"-mcpu={core}", "-iterations=100", "--instruction-info=0"]
    told = subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout
    cycles = int(re.search(r"Total Cycles:\s+(\d+)", told)[1]) / 100
    pressure = told.partition("Resource pressure per iteration:")[2].split("\n")[2]
    # The other instructions that these pipes take are few, so what keeps them busy are multiply-adds.
    busiest = max(float(cell) for cell in pressure.split() if cell != "-")
    assert loop.count(FUSED) / 2 <= busiest <= 2 * loop.count(FUSED) and busiest / cycles >= 0.85


@pytest.mark.parametrize("program", ["convolution 3x3", "matmul"])
def test_register_tiles_fit_the_16_registers_of_32_bit_arm(program):
    loop = loop_of(program, "llvm -mtriple=armv7l-linux-gnueabihf -mcpu=cortex-a53 -mattr=+neon -num-cores=4")
    check_registers(loop)
    assert loop.count(FUSED) >= 6


@pytest.mark.parametrize("program", BYTE_PROGRAMS)
def test_dot_products_of_bytes_fill_the_innermost_loop(program):
    loop = loop_of(program, "llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -num-cores=4", BYTE_PROGRAMS)
    check_registers(loop)
    check_pipes(loop, "neoverse-n1")
    assert loop.count(re.compile(r"sdot\s")) == loop.count(FUSED)
    assert not loop.count(re.compile(r"(ld1r|dup)\s")), "elements are repeated by instructions of their own"


def test_dot_products_of_bytes_fit_the_16_registers_of_32_bit_arm():
    loop = loop_of("matmul", "llvm -mtriple=armv8l-linux-gnueabihf -mattr=+neon,+dotprod", BYTE_PROGRAMS)
    check_registers(loop)
    assert loop.count(re.compile(r"vsdot\.s8\s")) >= 8


def test_cores_with_scalable_vectors_have_the_tiles_of_neon():
    targets = {core: tvm.target.Target(f"llvm -mtriple=aarch64-linux-gnu -mcpu={core} -num-cores=4")
               for core in ("neoverse-v1", "neoverse-v2", "neoverse-n2", "a64fx")}  # fmt: skip
    assert all(t.features.has_sve and t.features.vector_bits == 128 for t in targets.values())
    loop = loop_of("matmul", str(targets["neoverse-v1"]))
    check_registers(loop)
    check_pipes(loop, "neoverse-n1")


def test_risc_v_accumulates_in_vector_registers():
    loop = loop_of("matmul", "llvm -mtriple=riscv64-linux-gnu -mattr=+v")
    assert loop.count(FUSED) >= 8 and not [line for line in loop.lines if STACK.search(line)]
