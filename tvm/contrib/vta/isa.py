"""Instruction and micro-op formats: encoding, decoding and text.

The tables of this module are the definition of the formats. ``csrc/vta/isa.c`` contains the same fields, and
``docs/vta_isa.md`` shows them; tests compare both with this module.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from .config import MEMORIES, Config

OPCODES = ("LOAD", "STORE", "GEMM", "FINISH", "ALU")
ALU_OPCODES = ("min", "max", "add", "shr", "mul")
MODULES = ("load", "compute", "store")
BYTES = 16
# Fields whose values have names in the text of an instruction.
NAMED = {"memory_type": MEMORIES, "alu_opcode": ALU_OPCODES}
TOKENS = ("pop_prev_dep", "pop_next_dep", "push_prev_dep", "push_next_dep")


class Field(NamedTuple):
    """A bit field of an instruction or a micro-op: its name, its lowest bit and its width."""

    name: str
    first: int
    width: int


def _placed(first: int, widths: Iterable[tuple[str, int]]) -> list[Field]:
    placed = []
    for name, width in widths:
        placed.append(Field(name, first, width))
        first += width
    return placed


@functools.cache
def fields_of(config: Config, opcode: str) -> tuple[Field, ...]:
    """Return the bit fields of an instruction.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.
    opcode : str
        The name of the instruction.

    Returns
    -------
    tuple[Field, ...]
        The fields in the order of their bits.
    """
    head = [("opcode", 3), *((name, 1) for name in TOKENS)]
    bits = config.index_bits
    if opcode == "FINISH":
        return tuple(_placed(0, head))
    if opcode in ("LOAD", "STORE"):
        low = [("memory_type", 3), ("sram_base", 16), ("dram_base", 32)]
        high = [("y_size", 16), ("x_size", 16), ("x_stride", 16)]
        high += [("y_pad_0", 4), ("y_pad_1", 4), ("x_pad_0", 4), ("x_pad_1", 4)]
        return (*_placed(0, head + low), *_placed(64, high))
    low = [("reset_reg", 1), ("uop_bgn", bits["uop"]), ("uop_end", bits["uop"] + 1), ("iter_out", 14), ("iter_in", 14)]
    source = bits["inp"] if opcode == "GEMM" else bits["acc"]
    high = [("dst_factor_out", bits["acc"]), ("dst_factor_in", bits["acc"])]
    high += [("src_factor_out", source), ("src_factor_in", source)]
    if opcode == "GEMM":
        high += [("wgt_factor_out", bits["wgt"]), ("wgt_factor_in", bits["wgt"])]
    else:
        high += [("alu_opcode", 3), ("use_imm", 1), ("imm", 16)]
    return (*_placed(0, head + low), *_placed(64, high))


@functools.cache
def uop_fields(config: Config) -> tuple[Field, ...]:
    """Return the bit fields of a micro-op.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.

    Returns
    -------
    tuple[Field, ...]
        The fields in the order of their bits.
    """
    bits = config.index_bits
    source = max(bits["acc"], bits["inp"])
    return tuple(_placed(0, [("dst_idx", bits["acc"]), ("src_idx", source), ("wgt_idx", bits["wgt"])]))


@dataclass(frozen=True)
class Instruction:
    """One instruction. A field that an instruction does not have is 0.

    ``imm`` is the signed immediate; all other fields are not negative. The four token flags say which tokens the
    instruction takes from its neighbours before it starts and gives to them when it has ended.
    """

    opcode: str
    pop_prev_dep: int = 0
    pop_next_dep: int = 0
    push_prev_dep: int = 0
    push_next_dep: int = 0
    memory_type: str = "uop"
    sram_base: int = 0
    dram_base: int = 0
    y_size: int = 0
    x_size: int = 0
    x_stride: int = 0
    y_pad_0: int = 0
    y_pad_1: int = 0
    x_pad_0: int = 0
    x_pad_1: int = 0
    reset_reg: int = 0
    uop_bgn: int = 0
    uop_end: int = 0
    iter_out: int = 0
    iter_in: int = 0
    dst_factor_out: int = 0
    dst_factor_in: int = 0
    src_factor_out: int = 0
    src_factor_in: int = 0
    wgt_factor_out: int = 0
    wgt_factor_in: int = 0
    alu_opcode: str = "min"
    use_imm: int = 0
    imm: int = 0

    @property
    def module(self) -> int:
        """The module that executes the instruction: an index into ``MODULES``."""
        if self.opcode == "STORE":
            return 2
        return 0 if self.opcode == "LOAD" and self.memory_type in ("inp", "wgt") else 1

    @property
    def width(self) -> int:
        """Elements of one row of a load, with padding."""
        return self.x_size + self.x_pad_0 + self.x_pad_1

    @property
    def elements(self) -> int:
        """Elements that a load or store transfers or fills; 0 if ``x_size`` is 0."""
        return self.width * (self.y_size + self.y_pad_0 + self.y_pad_1) if self.x_size else 0

    @property
    def steps(self) -> int:
        """Micro-ops that a GEMM or ALU instruction executes."""
        return self.iter_out * self.iter_in * max(self.uop_end - self.uop_bgn, 0)

    def with_tokens(self, *names: str) -> Instruction:
        """Return the instruction with these token flags set, for example ``with_tokens("pop_next_dep")``.

        Parameters
        ----------
        names : str
            Token flags.

        Returns
        -------
        Instruction
            The new instruction.
        """
        return replace(self, **dict.fromkeys(names, 1))


def encode(config: Config, instruction: Instruction) -> bytes:
    """Encode an instruction.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.
    instruction : Instruction
        The instruction.

    Returns
    -------
    bytes
        The 16 bytes of the instruction, in little-endian order.

    Raises
    ------
    ValueError
        The opcode is unknown, or a value does not fit its field.
    """
    if instruction.opcode not in OPCODES:
        raise ValueError(f"unknown opcode {instruction.opcode!r}; known: {', '.join(OPCODES)}")
    word = 0
    for name, first, width in fields_of(config, instruction.opcode):
        value = getattr(instruction, name)
        if name == "opcode":
            value = OPCODES.index(value)
        elif name in NAMED:
            value = NAMED[name].index(value)
        elif name == "imm" and -(1 << (width - 1)) <= value < 0:
            value += 1 << width
        if not 0 <= value < 1 << width or (name == "imm" and instruction.imm >= 1 << (width - 1)):
            raise ValueError(f"{instruction.opcode}: {name} is {value}; it does not fit its field of {width} bits")
        word |= value << first
    return word.to_bytes(BYTES, "little")


def decode(config: Config, code: bytes) -> Instruction:
    """Decode an instruction.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.
    code : bytes
        The 16 bytes of the instruction.

    Returns
    -------
    Instruction
        The instruction.

    Raises
    ------
    ValueError
        The opcode, the memory type or the ALU operation is unknown.
    """
    word = int.from_bytes(code, "little")
    if (number := word & 7) >= len(OPCODES):
        raise ValueError(f"unknown opcode {number}")
    opcode = OPCODES[number]
    values: dict[str, int | str] = {}
    for name, first, width in fields_of(config, opcode)[1:]:
        value = word >> first & ((1 << width) - 1)
        if name in NAMED:
            if value >= len(NAMED[name]):
                raise ValueError(f"{opcode}: unknown {name} {value}")
            values[name] = NAMED[name][value]
        else:
            values[name] = value - (1 << width) if name == "imm" and value >> (width - 1) else value
    return Instruction(opcode, **values)  # type: ignore[arg-type]


def disassemble(config: Config, instruction: Instruction) -> str:
    """Return the text of an instruction: its opcode, and its fields except those that are 0.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.
    instruction : Instruction
        The instruction.

    Returns
    -------
    str
        The text.
    """
    words = [instruction.opcode]
    for name, _, width in fields_of(config, instruction.opcode)[1:]:
        value = getattr(instruction, name)
        if name == "imm":
            value %= 1 << width
        if value:
            words.append(f"{name}={value}")
    return " ".join(words)


def encode_uop(config: Config, dst: int, src: int = 0, wgt: int = 0) -> int:
    """Encode a micro-op.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.
    dst : int
        Index of the accumulator element.
    src : int
        Index of the input element (GEMM) or of the second accumulator element (ALU).
    wgt : int
        Index of the weight element.

    Returns
    -------
    int
        The word of 32 bits.

    Raises
    ------
    ValueError
        An index does not fit its field.
    """
    word = 0
    for (name, first, width), value in zip(uop_fields(config), (dst, src, wgt), strict=True):
        if not 0 <= value < 1 << width:
            raise ValueError(f"micro-op: {name} is {value}; it does not fit its field of {width} bits")
        word |= value << first
    return word


def decode_uop(config: Config, word: int) -> tuple[int, int, int]:
    """Decode a micro-op.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.
    word : int
        The word of 32 bits.

    Returns
    -------
    tuple[int, int, int]
        The indices ``dst``, ``src`` and ``wgt``.
    """
    dst, src, wgt = (word >> first & ((1 << width) - 1) for _, first, width in uop_fields(config))
    return dst, src, wgt
