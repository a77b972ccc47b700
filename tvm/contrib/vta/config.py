"""The configuration of the accelerator: all sizes, and what follows from them."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

DEFAULT_PATH = Path(__file__).with_name("vta_config.json")
TARGETS = ("sim", "tsim")
# Memories in the order of their numbers in instructions.
MEMORIES = ("uop", "wgt", "inp", "acc", "out", "acc_8bit")


@dataclass(frozen=True)
class Config:
    """All sizes of the accelerator. ``log_`` values are logarithms to base 2: of widths in bits, of memory sizes in
    bytes.

    The C library checks the values when they are used (``device.configure``).

    Parameters
    ----------
    target : str
        ``"sim"``, the functional simulator, or ``"tsim"``, the cycle-level simulator.
    log_inp_width, log_wgt_width, log_acc_width : int
        Widths of inputs, weights and accumulators.
    log_batch, log_block : int
        The GEMM core multiplies a (batch, block) matrix by a (block, block) matrix.
    log_uop_buff_size, log_inp_buff_size, log_wgt_buff_size, log_acc_buff_size : int
        Sizes of the scratchpads.
    log_bus_width : int
        Bits that DRAM transfers in one cycle.
    dram_latency : int
        Cycles from the request of a read to its first data.
    queue_depth : int
        Instructions that fit the queue of one module.
    log_dram_size : int
        Size of DRAM.
    """

    target: str
    log_inp_width: int
    log_wgt_width: int
    log_acc_width: int
    log_batch: int
    log_block: int
    log_uop_buff_size: int
    log_inp_buff_size: int
    log_wgt_buff_size: int
    log_acc_buff_size: int
    log_bus_width: int
    dram_latency: int
    queue_depth: int
    log_dram_size: int

    @staticmethod
    def from_dict(values: Mapping[str, Any] | None = None) -> Config:
        """The configuration with these values, by their names in ``vta_config.json``; the default for other keys.

        Parameters
        ----------
        values : Mapping[str, Any] | None
            Values such as ``{"LOG_BLOCK": 5}``. Keys that do not concern the accelerator itself are ignored.

        Returns
        -------
        Config
            The configuration.

        Raises
        ------
        ValueError
            The target is unknown, or a size is not an integer.
        """
        known = {field.name.upper() for field in fields(Config)}
        merged = {**_defaults(), **{key: value for key, value in (values or {}).items() if key in known}}
        if merged["TARGET"] not in TARGETS:
            raise ValueError(f"configuration: unknown TARGET {merged['TARGET']!r}; known: {', '.join(TARGETS)}")
        for key, value in merged.items():
            if key != "TARGET" and (type(value) is not int or value < 0):
                raise ValueError(f"configuration: {key} is {value!r}; it must be an integer that is not negative")
        return Config(**{key.lower(): value for key, value in merged.items()})

    @staticmethod
    def from_file(path: str | Path = DEFAULT_PATH) -> Config:
        """Read a configuration file.

        Parameters
        ----------
        path : str | Path
            The JSON file.

        Returns
        -------
        Config
            The configuration.
        """
        return Config.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))

    @property
    def batch(self) -> int:
        """Rows of an input or accumulator element."""
        return 1 << self.log_batch

    @property
    def block(self) -> int:
        """Columns of an input or accumulator element, rows and columns of a weight element."""
        return 1 << self.log_block

    @property
    def element_bytes(self) -> dict[str, int]:
        """The bytes in DRAM of one element of each memory."""
        row, square = self.batch * self.block, self.block * self.block
        return {"uop": 4, "wgt": square, "inp": row, "acc": 4 * row, "out": row, "acc_8bit": row}

    @property
    def index_bits(self) -> dict[str, int]:
        """The width of an element index of each memory."""
        sizes = {"uop": self.log_uop_buff_size, "wgt": self.log_wgt_buff_size, "inp": self.log_inp_buff_size}
        bits = {name: size - (self.element_bytes[name].bit_length() - 1) for name, size in sizes.items()}
        acc = self.log_acc_buff_size - (self.element_bytes["acc"].bit_length() - 1)
        return {**bits, "acc": acc, "out": acc, "acc_8bit": acc}

    @property
    def depth(self) -> dict[str, int]:
        """The number of elements of each memory."""
        return {name: 1 << bits for name, bits in self.index_bits.items()}


@functools.cache
def _defaults() -> dict[str, Any]:
    return json.loads(DEFAULT_PATH.read_text(encoding="utf-8"))
