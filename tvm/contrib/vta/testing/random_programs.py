"""Random programs without missing dependences, for comparisons of simulators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..config import Config
from ..isa import ALU_OPCODES
from ..program import Program

# A small accelerator: its memories are used up quickly, and it is fast to simulate as RTL.
SMALL = {
    "LOG_BLOCK": 2, "LOG_UOP_BUFF_SIZE": 8, "LOG_INP_BUFF_SIZE": 8, "LOG_WGT_BUFF_SIZE": 9, "LOG_ACC_BUFF_SIZE": 10,
    "LOG_BUS_WIDTH": 6, "DRAM_LATENCY": 16, "QUEUE_DEPTH": 16,
}  # fmt: skip


class _Part(NamedTuple):
    """A part of the scratchpads: the first element and the number of elements of each memory."""

    first: dict[str, int]
    size: dict[str, int]


def _parts(config: Config, count: int) -> list[_Part]:
    # Few elements at the end of each memory, so that instructions often use the results of others.
    size = {name: min(depth // count, 40) for name, depth in config.depth.items()}
    return [_Part({name: config.depth[name] - (k + 1) * n for name, n in size.items()}, size) for k in range(count)]


class _Writer:
    def __init__(self, config: Config, rng: np.random.Generator) -> None:
        self.rng = rng
        self.program = Program(config)

    def pick(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high``, both possible."""
        return int(self.rng.integers(low, max(low, high) + 1))

    def load(self, memory: str, part: _Part, *tokens: str) -> None:
        """Load a tile of random data with padding somewhere into a part."""
        room = part.size[memory]
        x_size = self.pick(1, min(room, 9))
        x_pads = (self.pick(0, 2), self.pick(0, 2)) if x_size + 4 <= room else (0, 0)
        width = x_size + sum(x_pads)
        y_size = self.pick(1, min(room // width, 4))
        y_pads = (self.pick(0, 1), self.pick(0, 1)) if (y_size + 2) * width <= room else (0, 0)
        elements = width * (y_size + sum(y_pads))
        stride = x_size + self.pick(0, 3)
        element = self.program.config.element_bytes[memory]
        data = self.rng.integers(-128, 128, (y_size * stride, element)).astype(np.int8)
        self.program.add(
            "LOAD", *tokens, memory_type=memory, dram_base=self.program.place(data, memory), x_size=x_size,
            y_size=y_size, x_stride=stride, sram_base=part.first[memory] + self.pick(0, room - elements),
            x_pad_0=x_pads[0], x_pad_1=x_pads[1], y_pad_0=y_pads[0], y_pad_1=y_pads[1],
        )  # fmt: skip

    def _index(self, part: _Part, memory: str, trips: Sequence[int]) -> tuple[int, ...]:
        """Return the lowest and highest first index, and two factors, for which all indices are in a part."""
        span = self.pick(0, part.size[memory] - 1)
        factors = [self.pick(0, span // (2 * max(n - 1, 1))) for n in trips]
        reach = sum(f * (n - 1) for f, n in zip(factors, trips, strict=True))
        return part.first[memory], part.first[memory] + part.size[memory] - 1 - reach, *factors

    def arithmetic(self, opcode: str, part: _Part, *tokens: str) -> None:
        """Load micro-ops and execute them on a part."""
        trips = (self.pick(1, 4), self.pick(1, 5))
        source = "inp" if opcode == "GEMM" else "acc"
        dst, src, wgt = (self._index(part, memory, trips) for memory in ("acc", source, "wgt"))
        count = self.pick(1, min(6, self.program.config.depth["uop"]))
        first = self.pick(0, self.program.config.depth["uop"] - count)
        uops = [[self.pick(low, high) for low, high, *_ in (dst, src, wgt)] for _ in range(count)]
        if opcode == "ALU":
            uops = [[d, s, 0] for d, s, _ in uops]
        base = self.program.place_uops(uops)
        before = [t for t in tokens if t.startswith("pop")]
        after = [t for t in tokens if t.startswith("push")]
        self.program.add("LOAD", *before, memory_type="uop", dram_base=base, sram_base=first, x_size=count, y_size=1,
                         x_stride=count)  # fmt: skip
        fields: dict[str, int | str] = {
            "reset_reg": int(self.pick(0, 5) == 0), "uop_bgn": first, "uop_end": first + count, "iter_out": trips[0],
            "iter_in": trips[1], "dst_factor_out": dst[2], "dst_factor_in": dst[3], "src_factor_out": src[2],
            "src_factor_in": src[3],
        }  # fmt: skip
        if opcode == "GEMM":
            fields |= {"wgt_factor_out": wgt[2], "wgt_factor_in": wgt[3]}
        else:
            name = ALU_OPCODES[self.pick(0, len(ALU_OPCODES) - 1)]
            imm = self.pick(-40, 40) if name == "shr" else self.pick(-(1 << 15), (1 << 15) - 1)
            fields |= {"reset_reg": 0, "alu_opcode": name, "use_imm": self.pick(0, 1), "imm": imm}
        self.program.add(opcode, *after, **fields)

    def store(self, part: _Part, *tokens: str) -> None:
        """Store a tile of a part to a region of its own."""
        room = part.size["acc"]
        x_size = self.pick(1, min(room, 8))
        y_size = self.pick(1, min(room // x_size, 4))
        stride = x_size + self.pick(0, 3)
        zeros = np.zeros((y_size * stride, self.program.config.element_bytes["out"]), np.int8)
        self.program.add(
            "STORE", *tokens, memory_type="out", dram_base=self.program.place(zeros, "out"), x_size=x_size,
            y_size=y_size, x_stride=stride, sram_base=part.first["acc"] + self.pick(0, room - x_size * y_size),
        )  # fmt: skip

    def round(self, part: _Part, waits: bool) -> None:
        """Load, compute and store on one part, after the round before on the same part if ``waits``."""
        turn = ["pop_next_dep"] if waits else []
        for k, memory in enumerate(("inp", "wgt") * self.pick(1, 2)):
            self.load(memory, part, *turn * (k == 0))
        self.program.instructions[-1] = self.program.instructions[-1].with_tokens("push_next_dep")
        self.load(("acc", "acc_8bit")[self.pick(0, 1)], part, "pop_prev_dep", *turn)
        for _ in range(self.pick(0, 3)):
            self.arithmetic(("GEMM", "ALU")[self.pick(0, 1)], part)
        self.arithmetic("GEMM", part, "push_prev_dep", "push_next_dep")
        stores = self.pick(1, 2)
        for k in range(stores):
            tokens = ["pop_prev_dep"] * (k == 0) + ["push_prev_dep"] * (k + 1 == stores)
            self.store(part, *tokens)


def random_program(config: Config, rng: np.random.Generator, rounds: int = 0) -> Program:
    """Return a random program in which every transfer and every micro-op is valid and ordered by tokens.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.
    rng : np.random.Generator
        The source of random numbers.
    rounds : int
        How often the program loads, computes and stores; drawn if 0.

    Returns
    -------
    Program
        The program.
    """
    writer = _Writer(config, rng)
    parts = _parts(config, writer.pick(1, 2))
    rounds = rounds or writer.pick(1, 6)
    for k in range(rounds):
        writer.round(parts[k % len(parts)], waits=k >= len(parts))
    program = writer.program
    # Take the tokens of the last rounds: those for the load module, and those of the store module.
    left = min(rounds, len(parts))
    for _ in range(left):
        program.add("LOAD", "pop_next_dep", memory_type="inp")
    for _ in range(left - 1):
        program.add("LOAD", "pop_next_dep", memory_type="uop")
    program.add("FINISH", "pop_next_dep")
    return program
