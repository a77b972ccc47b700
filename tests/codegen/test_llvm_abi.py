"""Calls between generated code and C follow the calling convention of the machine, also where this is another one."""

from __future__ import annotations

import re

import pytest

import tvm
from tvm import te

ARMV7 = "llvm -mtriple=armv7l-linux-gnueabi{} -mattr=+neon"


def code_for(target: str, folder) -> tuple[bytes, str, str]:
    """Object, LLVM text and assembly of a function that calls the C library with a float."""
    x = te.placeholder((4,), "float32", name="x")
    y = te.compute((4,), lambda i: tvm.tir.call_pure_extern("float32", "erff", x[i]), name="y")
    module = tvm.build(te.create_schedule(y.op), [x, y], target)
    module.save(path := str(folder / "code.o"))
    with open(path, "rb") as file:
        return file.read(), module.get_source("ll"), module.get_source("asm")


@pytest.mark.parametrize("suffix, in_float_register", [("hf", True), ("", False)])
def test_floats_are_passed_in_float_registers_where_the_triple_says_hf(suffix, in_float_register, tmp_path):
    assembly = code_for(ARMV7.format(suffix), tmp_path)[2]
    # Tag_ABI_VFP_args: linkers refuse to mix objects that differ in it.
    assert bool(re.search(r"\.eabi_attribute\s+28, 1", assembly)) == in_float_register
    call = assembly[: assembly.index("erff")].splitlines()[-8:]
    moved = any(re.search(r"\b(vmov(\.f32)?\s+r0, s\d+|ldr\w*\s+r0, \[)", line) for line in call)
    assert moved != in_float_register


@pytest.mark.parametrize("target, flags", [
    # Version 5 of Arm's convention, which objects do not mark further.
    (ARMV7.format("hf"), 0x5000000),
    # Compressed instructions and double floats in registers; the second asks for floats in other registers.
    ("llvm -mtriple=riscv64-linux-gnu", 0x5),
    ("llvm -mtriple=riscv64-linux-gnu -mattr=+v", 0x5),
    ("llvm -mtriple=riscv64-linux-gnu -mabi=lp64", 0x1),
    ("llvm -mtriple=aarch64-linux-gnu", 0),
    ("llvm -mtriple=x86_64-linux-gnu", 0),
])  # fmt: skip
def test_objects_carry_the_flags_of_their_calling_convention(target, flags, tmp_path):
    code = code_for(target, tmp_path)[0]
    # e_flags of the ELF header stands behind the addresses, whose size its class says.
    at = 48 if code[4] == 2 else 36
    assert int.from_bytes(code[at : at + 4], "little") == flags


def test_a_handle_travels_in_eight_bytes_where_a_pointer_has_four(tmp_path):
    """check_tensor takes a TVMValue by value: a union of eight bytes on every machine."""
    for target, kind in ((ARMV7.format("hf"), "i64"), ("llvm -mtriple=aarch64-linux-gnu", "ptr")):
        call = re.search(r"call i32 %\w+\(ptr [^,]+, i32 [^,]+, (\w+) ", code_for(target, tmp_path)[1])
        assert call and call[1] == kind
