"""The project of a program on an emulated Cortex-M board."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from tvm.micro.project_api import server
from tvm.micro.project_api.c_project import CProject, emulated


class Board(NamedTuple):
    """A board of qemu: the frequency of its clock in MHz, the compiler's name of its CPU, its flags, and origins and
    lengths of its memory."""

    mhz: int
    cpu: str
    flags: tuple[str, ...]
    boot: int
    rom: tuple[int, int]
    ram: tuple[int, int]


_MB = 1 << 20
_SOFT, _HARD = ("-mfloat-abi=soft",), ("-mfloat-abi=hard",)
BOARDS = {
    "mps2-an385": Board(25, "cortex-m3", _SOFT, 0, (0x400, 4 * _MB - 0x400), (0x20000000, 4 * _MB)),
    "mps2-an386": Board(
        25, "cortex-m4", (*_HARD, "-mfpu=fpv4-sp-d16"), 0, (0x400, 4 * _MB - 0x400), (0x20000000, 4 * _MB)
    ),
    # The first CPU of this board has no DSP extension and no floating-point unit.
    "mps2-an521": Board(
        20, "cortex-m33+nodsp", _SOFT, 0x10000000, (0x10000400, 4 * _MB - 0x400), (0x38000000, 4 * _MB)
    ),
    "mps3-an547": Board(32, "cortex-m55", _HARD, 0x10000000, (0x70000000, 8 * _MB), (0x71000000, 8 * _MB)),
}


class CortexMProject(CProject):
    """A program for a board of qemu-system-arm, which reads and writes by semihosting."""

    platform = "qemu_cortex_m"
    boards = tuple(BOARDS)
    platform_sources = ("semihosting.c",)
    has_named_pipes = True

    def toolchain(self, options: dict[str, Any]) -> list[str]:
        return [self.tool("arm-none-eabi-gcc", "gcc-arm-none-eabi")]

    def program_flags(self, options: dict[str, Any]) -> list[str]:
        board = BOARDS[options["board"]]
        return [
            f"-mcpu={board.cpu}",
            "-mthumb",
            *board.flags,
            f"-DTVM_CLOCK_MHZ={board.mhz}",
            "-Os",
            "-ffunction-sections",
            "-fdata-sections",
        ]

    def link_flags(self, options: dict[str, Any]) -> list[str]:
        board = BOARDS[options["board"]]
        places = {"BOOT_ORIGIN": board.boot, "ROM_ORIGIN": board.rom[0], "ROM_LENGTH": board.rom[1],
                  "RAM_ORIGIN": board.ram[0], "RAM_LENGTH": board.ram[1]}  # fmt: skip
        symbols = [f"-Wl,--defsym={name}={value:#x}" for name, value in places.items()]
        return ["-nostartfiles", "--specs=nosys.specs", "-Wl,--gc-sections", *symbols, "-T", "src/program.ld"]

    def run_command(self, program: Path, options: dict[str, Any]) -> list[str]:
        # Each instruction takes one nanosecond of the emulated clock, so that times are reproducible.
        clock = ["-icount", "shift=0"]
        qemu = self.tool("qemu-system-arm", "qemu-system-arm")
        return [qemu, "-machine", options["board"], *clock, *emulated(program)]


if __name__ == "__main__":
    sys.exit(server.main(CortexMProject(Path(__file__).resolve().parent)))
