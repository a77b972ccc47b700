"""Writes the text of one LLVM function: instructions, blocks, and which values are known where.

Every pure instruction is numbered by its own text, so asking for the same one twice in a place it dominates gives the
first result. ``push``/``pop`` bracket code that does not dominate what follows (loop bodies, branches).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ...arith.ranges import Ranges
from ...error import InternalError
from ...ir.prim import PrimExpr, Var

if TYPE_CHECKING:
    from .module import ModuleText

_UNSAFE = re.compile(r"[^A-Za-z0-9_.]")


class Builder:
    """State of the function being written. ``out`` holds its lines; ``entry`` those of the first block."""

    def __init__(self, module: ModuleText, name: str):
        self.module = module
        self.types = module.types
        self.name = name
        self.index = module.index_type
        self.entry: list[str] = []
        self.out: list[str] = []
        self.block = "entry"
        self.terminated = False
        self.count = 0
        self.depth = 0
        # id(node) -> operand; the journal lists keys in the order they were added, for pop.
        self.memo: dict[int, str] = {}
        self._memo_log: list[int] = []
        self.numbered: dict[str, str] = {}
        self._number_log: list[str] = []
        self._marks: list[tuple[int, int]] = []
        # Known contents of each buffer's memory, in the current block only: instruction text -> operand.
        self.loads: dict[Var, dict[str, str]] = {}
        # Unrolled loop variables have a number; the others a value in the index type, and the depth of their loop.
        self.constants: dict[PrimExpr, int] = {}
        self.wide: dict[Var, str] = {}
        self.level: dict[PrimExpr, int] = {}
        self.loop_depth = 0
        # Divisions to do as soon as a loop variable is known (llvm.quotients).
        self.quotients: dict[Var, list[PrimExpr]] = {}
        # The variable of the innermost loop, and whether something is accessed in strides along it.
        self.inner: Var | None = None
        self.strided = False
        # The bounds of variables, which say where a division may be unsigned.
        self.ranges = Ranges(trust_indices=True)
        # Pointers: promised alignment in bytes, and whether no other pointer reaches their memory.
        self.alignment: dict[Var, int] = {}
        self.private: set[Var] = set()
        # Additions and products that belong to a reduction and may be contracted and reassociated.
        self.relaxed: set[int] = set()
        # Where in a parallel region the code is (llvm_parallel.Region), and what a pragma said about the next one.
        self.parallel: Any = None
        self.strided_next = False
        # How many tasks the next parallel loop is for; 0 leaves it to the runtime.
        self.tasks_next = "0"
        self.counts: str | None = None
        # Workspace to give back when the function is left early: the pointer's variable, arguments of the call.
        self.held: dict[Var, list[tuple[str, str]]] = {}
        self.result = "i32"
        self.result_place: tuple[str, str] | None = None
        # The helper for threads and their memory, in kernels (llvm_device.KernelBuilder).
        self.device: Any = None
        # The tile registers of buffers of fragments (llvm.tiles.Registers).
        self.tiles: dict[Any, Any] = {}
        # The sizes of tile registers that the function has set, and whether it may use them.
        self.tile_sizes: str | None = None
        self.has_bfloat_products = False
        # What makes broadcast elements operands of products (`memory_operands`).
        self.memory_operands: Any = None
        # The metadata of stores that go past the caches.
        self.store_hint, self.fence = "", ""
        self.tile_status = "0"

    def fresh(self, hint: str = "v") -> str:
        self.count += 1
        return f"%{hint}{self.count}"

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def op(self, text: str) -> str:
        """The result of a pure instruction, written unless it is known already."""
        got = self.numbered.get(text)
        if got is None:
            self.count += 1
            got = f"%v{self.count}"
            self.out.append(f"  {got} = {text}")
            self.note(text, got)
        return got

    def note(self, text: str, operand: str) -> None:
        """Have what a text stands for known from here on."""
        self.numbered[text] = operand
        self._number_log.append(text)

    def effect(self, text: str) -> str:
        """The result of an instruction that must be written each time."""
        self.count += 1
        got = f"%v{self.count}"
        self.out.append(f"  {got} = {text}")
        return got

    def line(self, text: str) -> None:
        self.out.append("  " + text)

    def push(self) -> None:
        self._marks.append((len(self._memo_log), len(self._number_log)))

    def pop(self) -> None:
        memo, number = self._marks.pop()
        log = self._memo_log
        while len(log) > memo:
            self.memo.pop(log.pop(), None)
        names = self._number_log
        while len(names) > number:
            self.numbered.pop(names.pop(), None)

    def push_iteration(self) -> None:
        """Begin one copy of an unrolled body: nodes get new values, instructions stay known."""
        self._marks.append((len(self._memo_log), -1))

    def pop_iteration(self) -> None:
        memo, number = self._marks.pop()
        if number != -1:
            raise InternalError("unbalanced scopes in the llvm builder")
        log = self._memo_log
        while len(log) > memo:
            self.memo.pop(log.pop(), None)

    def remember(self, node: PrimExpr, operand: str) -> None:
        self.memo[id(node)] = operand
        self._memo_log.append(id(node))

    def start(self, label: str) -> None:
        """Begin a block; what memory holds is not known there."""
        self.out.append(f"{label}:")
        self.block = label
        self.terminated = False
        self.loads.clear()

    def branch(self, label: str) -> None:
        if not self.terminated:
            self.out.append(f"  br label %{label}")
            self.terminated = True

    def branch_if(self, condition: str, yes: str, no: str, tail: str = "") -> None:
        self.out.append(f"  br i1 {condition}, label %{yes}, label %{no}{tail}")
        self.terminated = True

    def finish(self, text: str) -> None:
        """Leave the function; what follows in the same block is unreachable."""
        if self.fence:
            self.line(self.fence)
        if self.tile_sizes is not None:
            self.line("call void @llvm.x86.tilerelease()")
        self.line(text)
        self.terminated = True

    def revive(self) -> None:
        """Open a block for code after a return."""
        if self.terminated:
            self.start(self.label("after"))

    def alloca(self, type_text: str, align: int = 64, hint: str = "buffer") -> str:
        name = self.fresh(clean(hint) + ".")
        self.entry.append(f"  {name} = alloca {type_text}, align {align}")
        return name

    def forget_memory(self) -> None:
        self.loads.clear()


def clean(name: str) -> str:
    """A name LLVM takes without quotes, not ending in a digit that a counter would run into."""
    return _UNSAFE.sub("_", name) or "v"
