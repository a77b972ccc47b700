"""An interpreter of programs in NumPy, written from ``docs/vta_isa.md`` independently of the C simulators.

It executes the instructions in their order in the program, one micro-op after the other, and does not model tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from . import isa
from .isa import Instruction
from .program import Program

Values = np.ndarray


def _wrap(values: Values) -> Values:
    """Reduce 64-bit integers to 32 bits in two's complement."""
    return values.astype(np.uint64).astype(np.uint32).view(np.int32)


def _shift(x: Values, y: Values) -> Values:
    wide, amount = x.astype(np.int64), y.astype(np.int64)
    right = wide >> np.clip(amount, 0, 31)
    left = np.where(amount < -31, 0, wide << np.clip(-amount, 0, 31))
    return _wrap(np.where(amount >= 0, right, left))


ALU: dict[str, Callable[[Values, Values], Values]] = {
    "min": np.minimum,
    "max": np.maximum,
    "add": lambda x, y: _wrap(x.astype(np.int64) + y),
    "mul": lambda x, y: _wrap(x.astype(np.int64) * y),
    "shr": _shift,
}


class Interpreter:
    """The state of the accelerator: scratchpads as arrays, and the image of DRAM of a program.

    Parameters
    ----------
    program : Program
        The program. ``run`` changes its image.
    """

    def __init__(self, program: Program) -> None:
        config = program.config
        self.program = program
        self.config = config
        depth, rows, columns = config.depth, config.batch, config.block
        self.uop = np.zeros(depth["uop"], np.uint32)
        self.inp = np.zeros((depth["inp"], rows, columns), np.int8)
        self.wgt = np.zeros((depth["wgt"], columns, columns), np.int8)
        self.acc = np.zeros((depth["acc"], rows, columns), np.int32)

    def run(self) -> None:
        """Execute all instructions."""
        execute = {"LOAD": self._load, "STORE": self._store, "GEMM": self._arithmetic, "ALU": self._arithmetic}
        for instruction in self.program.instructions:
            if instruction.opcode != "FINISH":
                execute[instruction.opcode](instruction)

    def _rows(self, i: Instruction, memory: str) -> Iterator[slice]:
        """The bytes of the image that each row of a transfer covers."""
        element = self.config.element_bytes[memory]
        for y in range(i.y_size):
            first = (i.dram_base + y * i.x_stride) * element
            yield slice(first, first + i.x_size * element)

    def _load(self, i: Instruction) -> None:
        if not i.x_size:
            return
        memory = "acc" if i.memory_type == "acc_8bit" else i.memory_type
        target: Values = getattr(self, memory)
        stored = np.int8 if i.memory_type == "acc_8bit" else target.dtype
        height = i.y_size + i.y_pad_0 + i.y_pad_1
        tile = np.zeros((height, i.width, *target.shape[1:]), target.dtype)
        for y, row in enumerate(self._rows(i, i.memory_type)):
            values = np.frombuffer(bytes(self.program.image[row]), stored).reshape(i.x_size, *target.shape[1:])
            tile[i.y_pad_0 + y, i.x_pad_0 : i.x_pad_0 + i.x_size] = values
        target[i.sram_base : i.sram_base + i.elements] = tile.reshape(i.elements, *target.shape[1:])

    def _store(self, i: Instruction) -> None:
        narrow = self.acc.astype(np.int8).reshape(len(self.acc), -1)
        for y, row in enumerate(self._rows(i, "out") if i.x_size else ()):
            first = i.sram_base + y * i.x_size
            self.program.image[row] = narrow[first : first + i.x_size].tobytes()

    def _arithmetic(self, i: Instruction) -> None:
        for outer in range(i.iter_out):
            for inner in range(i.iter_in):
                for word in self.uop[i.uop_bgn : i.uop_end].tolist():
                    dst, src, wgt = isa.decode_uop(self.config, word)
                    dst += outer * i.dst_factor_out + inner * i.dst_factor_in
                    src += outer * i.src_factor_out + inner * i.src_factor_in
                    wgt += outer * i.wgt_factor_out + inner * i.wgt_factor_in
                    self.acc[dst] = self._value(i, dst, src, wgt)

    def _value(self, i: Instruction, dst: int, src: int, wgt: int) -> Values:
        """The new value of an accumulator element."""
        old = self.acc[dst]
        if i.reset_reg:
            return np.zeros_like(old)
        if i.opcode == "GEMM":
            return _wrap(old + self.inp[src].astype(np.int64) @ self.wgt[wgt].astype(np.int64).T)
        return ALU[i.alu_opcode](old, np.full_like(old, i.imm) if i.use_imm else self.acc[src])


def run(program: Program) -> None:
    """Execute a program; its image then contains the stored results.

    Parameters
    ----------
    program : Program
        The program.
    """
    Interpreter(program).run()
