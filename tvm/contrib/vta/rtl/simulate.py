"""Programs on the RTL: Verilator compiles the core with a testbench in C++."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ....error import TVMError
from ..config import Config
from ..program import Program

_TESTBENCH = Path(__file__).with_name("testbench.cpp")
_NOT_ENDED = (1 << 64) - 1
# Widths differ where Amaranth's semantics extends or truncates; the top module has no timescale.
_WARNINGS = ("-Wno-fatal", "-Wno-WIDTH", "-Wno-UNOPTFLAT", "-Wno-CASEINCOMPLETE")


def build(config: Config, folder: str | Path) -> Path:
    """Compile the core to a program.

    Parameters
    ----------
    config : Config
        The sizes.
    folder : str | Path
        The folder for the Verilog text and the compiled program.

    Returns
    -------
    Path
        The program.

    Raises
    ------
    TVMError
        Verilator is not installed, or fails.
    """
    from .core import verilog

    verilator = shutil.which("verilator")
    if verilator is None:
        raise TVMError("Verilator was not found; install it (Debian: apt install verilator)")
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "core.v"
    source.write_text(verilog(config), encoding="utf-8")
    command = [verilator, "--cc", "--exe", "--build", "-O3", "-CFLAGS", "-O1", "--top-module", "core", *_WARNINGS,
               "-Mdir", str(folder / "build"), str(source), str(_TESTBENCH)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise TVMError(f"Verilator failed: {(done.stderr or done.stdout)[-2000:]}")
    return folder / "build" / "Vcore"


def run(binary: str | Path, programs: Sequence[Program], limit: int = 10_000_000) -> list[int]:
    """Run programs one after the other, each on a core with empty memories. Their images then contain DRAM.

    Parameters
    ----------
    binary : str | Path
        The program that ``build`` returned for the configuration of the programs.
    programs : Sequence[Program]
        The programs.
    limit : int
        The largest number of cycles of each program.

    Returns
    -------
    list[int]
        The cycles of each program.

    Raises
    ------
    TVMError
        A program does not end within the limit, or accesses an address outside its image.
    """
    request = bytearray()
    for program in programs:
        beat = (1 << program.config.log_bus_width) // 8
        code = program.code()
        request += struct.pack("<6Q", len(code) // 16, len(program.image), program.config.dram_latency, limit, beat, 0)
        request += code + program.image
    done = subprocess.run([str(binary)], input=bytes(request), capture_output=True)
    if done.returncode:
        raise TVMError(f"the simulation of the RTL failed: {done.stderr.decode(errors='replace')[-2000:]}")
    cycles, at = [], 0
    for number, program in enumerate(programs):
        (count,) = struct.unpack_from("<Q", done.stdout, at)
        if count == _NOT_ENDED:
            raise TVMError(f"program {number} accesses an address outside its image, or takes more than {limit} cycles")
        cycles.append(count)
        program.image[:] = done.stdout[at + 8 : at + 8 + len(program.image)]
        at += 8 + len(program.image)
    return cycles
