"""The project of a program on an emulated RISC-V machine without an operating system."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tvm.micro.project_api import server
from tvm.micro.project_api.c_project import CProject, emulated

# The instruction set and the calling convention of each machine.
BOARDS = {"rv32": ("rv32imafdc", "ilp32d"), "rv64": ("rv64imafdc", "lp64d")}


class RiscvProject(CProject):
    """A program for the machine "virt" of qemu-system-riscv32 or -riscv64, which reads and writes by semihosting."""

    platform = "qemu_riscv"
    boards = tuple(BOARDS)
    platform_sources = ("semihosting.c",)
    has_named_pipes = True

    def toolchain(self, options: dict[str, Any]) -> list[str]:
        return [self.tool("riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf")]

    def program_flags(self, options: dict[str, Any]) -> list[str]:
        isa, abi = BOARDS[options["board"]]
        return [f"-march={isa}", f"-mabi={abi}", "-mcmodel=medany", "--specs=picolibc.specs", "-Os",
                "-ffunction-sections", "-fdata-sections"]  # fmt: skip

    def link_flags(self, options: dict[str, Any]) -> list[str]:
        return ["-nostartfiles", "-Wl,--gc-sections", "-T", "src/program.ld"]

    def run_command(self, program: Path, options: dict[str, Any]) -> list[str]:
        name = f"qemu-system-riscv{options['board'][2:]}"
        return [self.tool(name, "qemu-system-misc"), "-machine", "virt", "-m", "64M", "-bios", "none",
                *emulated(program)]  # fmt: skip


if __name__ == "__main__":
    sys.exit(server.main(RiscvProject(Path(__file__).resolve().parent)))
