"""The simulated device: its configuration, its statistics, and programs that run on it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from . import _lib, checker, isa
from .config import Config
from .program import Program

NO_LIMIT = 1 << 62


def load() -> None:
    """Load the simulator library, which registers the device ``tvm.ext_dev(0)``."""
    _lib.library()


def configure(config: Config) -> None:
    """Set the configuration of the device; scratchpads are cleared.

    Parameters
    ----------
    config : Config
        The configuration.
    """
    _lib.configure(config)


def current_config() -> Config:
    """Return the configuration of the device.

    Returns
    -------
    Config
        The configuration.
    """
    return _lib.current_config()


def run(program: Program, target: str = "", limit: int = NO_LIMIT) -> dict[str, int]:
    """Run a program on the simulator, with empty scratchpads. Its image then contains what DRAM contains.

    Parameters
    ----------
    program : Program
        The program.
    target : str
        ``"sim"`` or ``"tsim"``; the target of the program's configuration if empty.
    limit : int
        The largest number of cycles (``"sim"``: steps).

    Returns
    -------
    dict[str, int]
        The statistics of this run.
    """
    before = _lib.current_config()
    wanted = replace(program.config, target=target or program.config.target, log_dram_size=before.log_dram_size)
    _lib.configure(wanted)  # also clears the scratchpads
    counted = _lib.stats()
    buffer = _lib.Buffer(max(len(program.image), 1))
    try:
        buffer.write(bytes(program.image))
        _lib.run(program.code(buffer.address), limit)
        program.image[:] = buffer.read()[: len(program.image)]
    finally:
        buffer.close()
        _lib.configure(before)
    return {name: value - counted[name] for name, value in _lib.stats().items()}


@contextlib.contextmanager
def observe() -> Iterator[list[checker.Finding]]:
    """Check each program that runs on the device, also those of compiled functions.

    Yields
    ------
    list[checker.Finding]
        The defects of the programs that have run so far.
    """
    config = _lib.current_config()
    findings: list[checker.Finding] = []

    def check(code: bytes) -> None:
        instructions = [isa.decode(config, code[k : k + isa.BYTES]) for k in range(0, len(code), isa.BYTES)]
        findings.extend(checker.check_instructions(config, instructions, _lib.read_dram))

    with _lib.observed(check):
        yield findings
