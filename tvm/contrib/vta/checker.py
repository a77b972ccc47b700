"""A checker of token programs: finds deadlocks and missing dependences, and names the instructions.

1. Tokens are simulated without times. The order of the instructions of one module and the tokens are the only
   dependences, so whether a program ends does not depend on the speed of its modules.
2. Each instruction gets a vector clock: how many instructions of each module have certainly ended when it starts.
3. Two instructions of different modules that access the same element of a scratchpad, at least one of them writing,
   must be ordered by their clocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from . import isa
from .config import Config
from .isa import MODULES, Instruction
from .program import Program

Clock = tuple[int, int, int]
# The module that writes and the module that reads each memory that two modules share.
SHARED = {"inp": (0, 1), "wgt": (0, 1), "acc": (1, 2)}


class Finding(NamedTuple):
    """One defect of a program.

    ``kind`` is ``"invalid"``, ``"deadlock"``, ``"missing dependence"`` or ``"unused token"``; ``instructions`` are the
    positions of the instructions in the program.
    """

    kind: str
    instructions: tuple[int, ...]
    text: str


def check(program: Program) -> list[Finding]:
    """Check a program.

    Parameters
    ----------
    program : Program
        The program. Micro-ops are read from its image as it is.

    Returns
    -------
    list[Finding]
        The defects; empty if there are none.
    """
    return check_instructions(
        program.config, program.instructions, lambda address, size: bytes(program.image[address : address + size])
    )


def check_instructions(
    config: Config, instructions: Sequence[Instruction], read_dram: Callable[[int, int], bytes]
) -> list[Finding]:
    """Check a sequence of instructions.

    Parameters
    ----------
    config : Config
        The sizes of the accelerator.
    instructions : Sequence[Instruction]
        The instructions, the last of which is FINISH.
    read_dram : Callable[[int, int], bytes]
        A function of an address and a size that returns bytes of DRAM, which contain the micro-ops.

    Returns
    -------
    list[Finding]
        The defects; empty if there are none.
    """
    if found := _invalid(instructions):
        return found
    schedule = _Schedule(config, instructions)
    if deadlock := schedule.run():
        return [deadlock]
    return [
        *_Memories(config, instructions, schedule, read_dram).check(),
        *schedule.unordered_ends(),
        *schedule.unused(),
    ]


def _invalid(instructions: Sequence[Instruction]) -> list[Finding]:
    found = [
        Finding(
            "invalid", (k,), f"instruction {k} ({i.opcode}): FINISH must be the last instruction, and only the last"
        )
        for k, i in enumerate(instructions)
        if (i.opcode == "FINISH") != (k + 1 == len(instructions))
    ]
    for k, i in enumerate(instructions):
        if (i.module == 0 and (i.pop_prev_dep or i.push_prev_dep)) or (
            i.module == 2 and (i.pop_next_dep or i.push_next_dep)
        ):
            side = "previous" if i.module == 0 else "next"
            text = f"instruction {k} ({i.opcode}): the {MODULES[i.module]} module has no {side} module"
            found.append(Finding("invalid", (k,), text))
    return (
        found if instructions else [Finding("invalid", (), "the program has no instruction; it must end with FINISH")]
    )


def _pops(i: Instruction) -> list[tuple[int, int]]:
    """The token queues, as (from, to), from which an instruction takes a token."""
    m = i.module
    return [(m - 1, m)] * i.pop_prev_dep + [(m + 1, m)] * i.pop_next_dep


def _pushes(i: Instruction) -> list[tuple[int, int]]:
    m = i.module
    return [(m, m - 1)] * i.push_prev_dep + [(m, m + 1)] * i.push_next_dep


@dataclass
class _Schedule:
    """The simulation of the tokens, and the clock of each instruction."""

    config: Config
    instructions: Sequence[Instruction]
    order: list[int] = field(default_factory=list)  # positions in an order that the tokens permit
    clocks: dict[int, Clock] = field(default_factory=dict)
    index: dict[int, int] = field(default_factory=dict)  # the number of an instruction within its module

    def __post_init__(self) -> None:
        self.queues: list[list[int]] = [[], [], []]
        self.heads = [0, 0, 0]
        self.fetched = 0
        pairs = ((0, 1), (1, 0), (1, 2), (2, 1))
        # The clocks that the tokens of a queue carry, with the positions of their instructions; how many were taken.
        self.tokens: dict[tuple[int, int], list[tuple[Clock, int]]] = {pair: [] for pair in pairs}
        self.taken = dict.fromkeys(pairs, 0)

    def _fetch(self) -> None:
        while self.fetched < len(self.instructions):
            m = self.instructions[self.fetched].module
            if len(self.queues[m]) - self.heads[m] >= self.config.queue_depth:
                break
            self.index[self.fetched] = len(self.queues[m])
            self.queues[m].append(self.fetched)
            self.fetched += 1

    def _missing(self, position: int) -> tuple[int, int] | None:
        """The first token queue that is empty for an instruction."""
        wanted = _pops(self.instructions[position])
        return next((pair for pair in wanted if self.taken[pair] >= len(self.tokens[pair])), None)

    def _head(self, module: int) -> int | None:
        queue = self.queues[module]
        return queue[self.heads[module]] if self.heads[module] < len(queue) else None

    def _execute(self, position: int) -> None:
        i = self.instructions[position]
        m, own = i.module, self.index[position]
        clock = list(self.clocks[self.queues[m][own - 1]]) if own else [0, 0, 0]
        clock[m] = own
        for pair in _pops(i):
            carried, _ = self.tokens[pair][self.taken[pair]]
            self.taken[pair] += 1
            clock = [max(a, b) for a, b in zip(clock, carried, strict=True)]
        self.clocks[position] = (clock[0], clock[1], clock[2])
        clock[m] = own + 1
        for pair in _pushes(i):
            self.tokens[pair].append(((clock[0], clock[1], clock[2]), position))
        self.heads[m] += 1
        self.order.append(position)

    def run(self) -> Finding | None:
        while True:
            self._fetch()
            ready = [head for head in map(self._head, range(3)) if head is not None and self._missing(head) is None]
            if not ready:
                break
            self._execute(min(ready))
        return self._deadlock() if len(self.order) < len(self.instructions) else None

    def ordered(self, first: int, second: int) -> bool:
        """Whether an instruction has certainly ended when another starts."""
        return self.clocks[second][self.instructions[first].module] > self.index[first]

    # ---- explanations ----

    def name(self, position: int) -> str:
        return f"instruction {position} ({isa.disassemble(self.config, self.instructions[position])})"

    def _deadlock(self) -> Finding:
        """Follow the first blocked instruction to the giver of its token, until there is none or a cycle is found."""
        position = next(head for head in map(self._head, range(3)) if head is not None)
        chain, words = [], []
        while position not in chain:
            chain.append(position)
            pair = self._missing(position)
            assert pair is not None
            giver = self._next_giver(pair)
            text = f"{self.name(position)} waits for a token of the {MODULES[pair[0]]} module"
            if giver is None:
                words.append(f"{text}, which no instruction gives")
                break
            words.append(f"{text}, which {self.name(giver)} would give")
            blocked = self._head(pair[0])
            if giver >= self.fetched:
                full = self.instructions[self.fetched].module
                words.append(f"the queue of the {MODULES[full]} module is full, and instruction {giver} is not fetched")
                blocked = self._head(full)
            elif blocked != giver:
                words.append(f"instruction {giver} is behind instruction {blocked}")
            assert blocked is not None
            position = blocked
        return Finding("deadlock", tuple(chain), "; ".join(words))

    def _next_giver(self, pair: tuple[int, int]) -> int | None:
        ended = set(self.order)
        return next((k for k, i in enumerate(self.instructions) if k not in ended and pair in _pushes(i)), None)

    def unordered_ends(self) -> list[Finding]:
        """The last store must have ended when FINISH starts."""
        if not self.queues[2]:
            return []
        last, finish = self.queues[2][-1], len(self.instructions) - 1
        if not self.instructions[last].elements or self.ordered(last, finish):
            return []
        text = f"FINISH (instruction {finish}) does not wait for {self.name(last)}"
        return [Finding("missing dependence", (last, finish), text)]

    def unused(self) -> list[Finding]:
        return [
            Finding(
                "unused token",
                (position,),
                f"no instruction takes the token that {self.name(position)} gives to the {MODULES[pair[1]]} module",
            )  # fmt: skip
            for pair, tokens in self.tokens.items()
            for _, position in tokens[self.taken[pair] :]
        ]


class _Memories:
    """The last instructions that wrote and read each element of the scratchpads."""

    def __init__(
        self,
        config: Config,
        instructions: Sequence[Instruction],
        schedule: _Schedule,
        read_dram: Callable[[int, int], bytes],
    ) -> None:
        self.config = config
        self.instructions = instructions
        self.schedule = schedule
        self.read_dram = read_dram
        self.uops = np.zeros(config.depth["uop"], np.uint32)
        # Numbers of instructions within their module; -1 for none.
        self.written = {name: np.full(config.depth[name], -1) for name in SHARED}
        self.read = {name: np.full(config.depth[name], -1) for name in SHARED}
        self.found: list[Finding] = []

    def check(self) -> list[Finding]:
        for position in self.schedule.order:
            i = self.instructions[position]
            if i.opcode == "LOAD" and i.elements:
                if i.memory_type == "uop":
                    self._load_uops(i)
                else:
                    memory = "acc" if i.memory_type == "acc_8bit" else i.memory_type
                    self._access(position, memory, np.arange(i.sram_base, i.sram_base + i.elements), writes=True)
            elif i.opcode == "STORE" and i.elements:
                self._access(position, "acc", np.arange(i.sram_base, i.sram_base + i.elements), writes=False)
            elif i.opcode in ("GEMM", "ALU") and i.steps:
                self._arithmetic(position, i)
        return self.found

    def _load_uops(self, i: Instruction) -> None:
        tile = np.zeros((i.y_size + i.y_pad_0 + i.y_pad_1, i.width), np.uint32)
        for y in range(i.y_size):
            row = self.read_dram(4 * (i.dram_base + y * i.x_stride), 4 * i.x_size)
            tile[i.y_pad_0 + y, i.x_pad_0 : i.x_pad_0 + i.x_size] = np.frombuffer(row, "<u4")
        self.uops[i.sram_base : i.sram_base + i.elements] = tile.ravel()

    def _arithmetic(self, position: int, i: Instruction) -> None:
        words = self.uops[i.uop_bgn : i.uop_end].astype(np.int64)
        outer, inner = np.arange(i.iter_out)[:, None, None], np.arange(i.iter_in)[:, None]
        fields = {name: words >> first & ((1 << width) - 1) for name, first, width in isa.uop_fields(self.config)}
        dst = np.unique(fields["dst_idx"] + outer * i.dst_factor_out + inner * i.dst_factor_in)
        src = np.unique(fields["src_idx"] + outer * i.src_factor_out + inner * i.src_factor_in)
        wgt = np.unique(fields["wgt_idx"] + outer * i.wgt_factor_out + inner * i.wgt_factor_in)
        if i.opcode == "GEMM" and not i.reset_reg:
            self._access(position, "inp", src, writes=False)
            self._access(position, "wgt", wgt, writes=False)
        self._access(position, "acc", dst, writes=True)

    def _access(self, position: int, memory: str, elements: np.ndarray, writes: bool) -> None:
        if elements[-1] >= self.config.depth[memory]:
            text = f"{self.schedule.name(position)}: element {elements[-1]} is outside the {memory} memory"
            self.found.append(Finding("invalid", (position,), text))
            return
        writer, reader = SHARED[memory]
        own, other, module = (self.written, self.read, reader) if writes else (self.read, self.written, writer)
        last = other[memory][elements]
        wrong = np.flatnonzero(last >= self.schedule.clocks[position][module])
        if len(wrong):
            earlier = self.schedule.queues[module][int(last[wrong[0]])]
            what = "write after read" if writes else "read after write"
            text = (
                f"{what} of {memory} element {elements[wrong[0]]}: no token orders {self.schedule.name(earlier)} and "
                f"{self.schedule.name(position)}"
            )
            self.found.append(Finding("missing dependence", (earlier, position), text))
        own[memory][elements] = self.schedule.index[position]
