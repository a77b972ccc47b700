"""Instructions of one function as they are written: registers, labels, constants of the whole executable."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ndarray import NDArray, array
from ....runtime.vm_code import Code, ConstantSlot, Function, Instruction, Param, instruction


class Label:
    """A place in a function, known once the instruction there is written."""

    __slots__ = ("index",)

    def __init__(self) -> None:
        self.index = -1


class Tables:
    """What the functions of an executable share: constants with their arrays, kernels, numbers of functions."""

    def __init__(self, code: Code, default: int):
        self.code = code
        # Numbers of device types, and that of the device of all tensors that are no shapes and that nothing is said of.
        self.devices = {kind: number for number, kind in enumerate(code.devices)}
        self.device = self.devices[default]
        self.arrays: list[NDArray] = []
        self._constants: dict[tuple[int, int], int] = {}
        self._shapes: dict[tuple[int, ...], int] = {}
        self._kernels: dict[str, int] = {}
        self.functions: dict[str, int] = {}

    def constant(self, data: NDArray, device: int | None = None) -> int:
        """The number of a constant; one that is used again has one number."""
        device = self.device if device is None else device
        key = (id(data), device)
        if key not in self._constants:
            self._constants[key] = len(self.arrays)
            self.code.constants.append(ConstantSlot(f"const_{len(self.arrays)}", device))
            self.arrays.append(data)
        return self._constants[key]

    def shape(self, dims: tuple[int, ...]) -> int:
        """The number of a shape as a constant on the host."""
        if dims not in self._shapes:
            self._shapes[dims] = self.constant(array(np.asarray(dims, "int64")), 0)
        return self._shapes[dims]

    def kernel(self, name: str) -> int:
        if name not in self._kernels:
            self._kernels[name] = len(self.code.kernels)
            self.code.kernels.append(name)
        return self._kernels[name]


class Assembler:
    """Writes the instructions of a function. A register that is free is taken again; what it held is dropped before the
    next call, so that memory is not kept while others run."""

    def __init__(self, tables: Tables, params: list[str], types: list[tuple[int, ...]] | None = None):
        self.tables = tables
        self.types = types or [()] * len(params)
        self.params = params
        self.lines: list[tuple[str, tuple[Any, ...]]] = []
        self.count = len(params)
        self._free: list[int] = []
        self._dead: list[int] = []

    def write(self, name: str, *operands: Any) -> None:
        self.lines.append((name, operands))

    # ---- registers ----

    def register(self) -> int:
        if self._free:
            got = self._free.pop()
            if got in self._dead:
                self._dead.remove(got)
            return got
        self.count += 1
        return self.count - 1

    def release(self, register: int) -> None:
        self._free.append(register)
        self._dead.append(register)

    def drop_dead(self) -> None:
        """Registers whose values nobody uses any more hold nothing from here on."""
        if self._dead:
            self.write("kill_register", sorted(self._dead))
            self._dead = []

    def dead(self) -> list[int]:
        """Registers that still hold what nobody uses any more."""
        return list(self._dead)

    def begin_branch(self, dead: list[int]) -> None:
        """A branch starts with what was dead before it; what died in the branch before never was on this way."""
        self._dead = [register for register in dead if register in self._free]

    # ---- places ----

    def place(self, label: Label) -> None:
        label.index = len(self.lines)

    # ---- values ----

    def load_constant(self, number: int) -> int:
        register = self.register()
        self.write("load_const", register, number)
        return register

    def finish(self, name: str) -> Function:
        """The function, with jumps in words."""
        plain = [instruction(op, *[0 if isinstance(o, Label) else o for o in operands]) for op, operands in self.lines]
        starts = [0]
        for one in plain:
            starts.append(starts[-1] + one.length)
        code: list[Instruction] = []
        for at, (op, operands) in enumerate(self.lines):
            resolved = [starts[o.index] - starts[at] if isinstance(o, Label) else o for o in operands]
            code.append(instruction(op, *resolved))
        params = [Param(p, self.tables.device, t) for p, t in zip(self.params, self.types)]
        return Function(name, params, self.count, code)


__all__ = ["Assembler", "Label", "Tables"]
