"""Emits the instructions of one function: registers, labels, and constants shared by the executable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ....runtime.ndarray import NDArray, array
from ....runtime.vm_code import Code, ConstantSlot, Function, Instruction, Param, instruction


class Label:
    """A position in a function, known when the instruction at this position is emitted."""

    __slots__ = ("index",)

    def __init__(self, index: int = -1) -> None:
        self.index = index


class Tables:
    """Tables shared by the functions of an executable: constants with their arrays, kernels, function indices."""

    def __init__(self, code: Code, default: int):
        self.code = code
        # The indices of the device types, and the index of the default device for tensors other than shapes.
        self.devices = {kind: number for number, kind in enumerate(code.devices)}
        self.device = self.devices[default]
        self.arrays: list[NDArray] = []
        self._constants: dict[tuple[int, int], int] = {}
        self._shapes: dict[tuple[int, ...], int] = {}
        self._kernels: dict[str, int] = {}
        self.functions: dict[str, int] = {}

    def constant(self, data: NDArray, device: int | None = None) -> int:
        """Return the index of a constant; repeated uses share one index."""
        device = self.device if device is None else device
        key = (id(data), device)
        if key not in self._constants:
            self._constants[key] = len(self.arrays)
            self.code.constants.append(ConstantSlot(f"const_{len(self.arrays)}", device))
            self.arrays.append(data)
        return self._constants[key]

    def shape(self, dims: tuple[int, ...]) -> int:
        """Return the index of a constant on the host that contains a shape."""
        if dims not in self._shapes:
            self._shapes[dims] = self.constant(array(np.asarray(dims, "int64")), 0)
        return self._shapes[dims]

    def kernel(self, name: str) -> int:
        if name not in self._kernels:
            self._kernels[name] = len(self.code.kernels)
            self.code.kernels.append(name)
        return self._kernels[name]


class Assembler:
    """Emits the instructions of a function. A free register is reused; its value is released before the next call, so
    that its memory is not kept during the call.

    ``loops``: whether the function jumps back to its start (``start_again``). Constants then have registers that are
    written before the first step, and instructions emitted in ``once`` write to separate registers in the first step
    only.
    """

    def __init__(
        self, tables: Tables, params: list[str], types: list[tuple[int, ...]] | None = None, loops: bool = False
    ):
        self.tables = tables
        self.types = types or [()] * len(params)
        self.params = params
        self.lines: list[tuple[str, tuple[Any, ...]]] = []
        self.count = len(params)
        self.loops = loops
        # Instructions before the first step, instructions that later steps skip, and whether such instructions are
        # being emitted.
        self._before: list[tuple[str, tuple[Any, ...]]] = []
        self._first: list[tuple[str, tuple[Any, ...]]] = []
        self._is_first = False
        # Registers that are never freed.
        self._kept: set[int] = set()
        self._loaded: dict[tuple[str, int], int] = {}
        self._free: list[int] = []
        self._dead: list[int] = []

    def write(self, name: str, *operands: Any) -> None:
        (self._first if self._is_first else self.lines).append((name, operands))

    # ---- registers ----

    def register(self) -> int:
        if self._free and not self._is_first:
            got = self._free.pop()
            if got in self._dead:
                self._dead.remove(got)
            return got
        self.count += 1
        if self._is_first:
            self._kept.add(self.count - 1)
        return self.count - 1

    def release(self, register: int) -> None:
        if register not in self._kept:
            self._free.append(register)
            self._dead.append(register)

    def drop_dead(self) -> None:
        """Release the values of registers that are no longer used."""
        if self._dead:
            self.write("kill_register", sorted(self._dead))
            self._dead = []

    def dead(self) -> list[int]:
        """Return the registers that still contain unused values."""
        return list(self._dead)

    def begin_branch(self, dead: list[int]) -> None:
        """Start a branch: its dead registers are those before the branch, not those that died in the previous
        branch."""
        self._dead = [register for register in dead if register in self._free]

    # ---- places ----

    def place(self, label: Label) -> None:
        label.index = len(self.lines)

    # ---- values ----

    def load(self, value: int, name: str = "load_consti") -> int:
        """Return a register with an integer, or with ``load_const`` a register with the constant of this index."""
        if not self.loops:
            register = self.register()
            self.write(name, register, value)
            return register
        if (name, value) not in self._loaded:
            self._loaded[name, value] = self._set_before(name, value)
        return self._loaded[name, value]

    def load_constant(self, number: int) -> int:
        return self.load(number, "load_const")

    def _set_before(self, name: str, value: int) -> int:
        """Return a register that is written before the first step."""
        self.count += 1
        self._kept.add(self.count - 1)
        self._before.append((name, (self.count - 1, value)))
        return self.count - 1

    # ---- loops ----

    @contextmanager
    def once(self, is_fixed: bool) -> Iterator[None]:
        """Emit the enclosed instructions so that they run only in the first step if ``is_fixed``."""
        before, self._is_first = self._is_first, self._is_first or self.loops and is_fixed
        yield
        self._is_first = before

    def place_once(self, at: int) -> None:
        """Insert the instructions emitted in ``once`` before line ``at``; steps after the first one skip them."""
        if self._first:
            done, others = self._set_before("load_consti", 0), Label(at + len(self._first) + 2)
            test = ("if", (done, self.load(1), others, Label(at + 1)))
            self.lines[at:at] = [test, *self._first, ("load_consti", (done, 1))]
            self._first = []

    def start_again(self, arguments: list[int]) -> None:
        """Jump to the start with new values of the parameters. All other values are released."""
        moves = {to: register for to, register in enumerate(arguments) if to != register}
        while moves:
            to = next((to for to in moves if to not in moves.values()), None)
            if to is None:
                # The remaining moves form cycles; a spare register breaks one of them.
                to, spare = next(iter(moves)), self.count
                self.count += 1
                self.write("move", spare, to)
                moves = {t: spare if register == to else register for t, register in moves.items()}
            self.write("move", to, moves.pop(to))
        others = set(range(len(self.params), self.count)) - self._kept
        self._dead = [r for r in sorted(others) if r in self._dead or r not in self._free]
        self.drop_dead()
        self.write("goto", Label(0))

    def finish(self, name: str) -> Function:
        """Return the function, with labels resolved to jump offsets in words."""
        lines, first = [*self._before, *self.lines], len(self._before)
        plain = [instruction(op, *[0 if isinstance(o, Label) else o for o in operands]) for op, operands in lines]
        starts = [0]
        for one in plain:
            starts.append(starts[-1] + one.length)
        code: list[Instruction] = []
        for at, (op, operands) in enumerate(lines):
            resolved = [starts[first + o.index] - starts[at] if isinstance(o, Label) else o for o in operands]
            code.append(instruction(op, *resolved))
        params = [Param(p, self.tables.device, t) for p, t in zip(self.params, self.types)]
        return Function(name, params, self.count, code)


__all__ = ["Assembler", "Label", "Tables"]
