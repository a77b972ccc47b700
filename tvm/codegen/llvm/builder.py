"""The builder of an LLVM function: its instructions and basic blocks, and the values that are available at each point.

Pure instructions are value-numbered by their text: a second request for an instruction that dominates the current
position returns the first value. ``push`` and ``pop`` enclose code that does not dominate the code after it (loop
bodies, branches).
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
    """The state of the current function. ``out`` contains its lines; ``entry`` those of the first block."""

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
        # id(node) -> operand; the journal lists the keys in the order of insertion, for pop.
        self.memo: dict[int, str] = {}
        self._memo_log: list[int] = []
        self.numbered: dict[str, str] = {}
        self._number_log: list[str] = []
        self._marks: list[tuple[int, int]] = []
        # Known contents of buffers in the current block: instruction text -> operand.
        self.loads: dict[Var, dict[str, str]] = {}
        # Unrolled loop variables have a constant value; others have a value in the index type and the depth of their
        # loop.
        self.constants: dict[PrimExpr, int] = {}
        self.wide: dict[Var, str] = {}
        self.level: dict[PrimExpr, int] = {}
        self.loop_depth = 0
        # Divisions to execute as soon as a loop variable has a value (llvm.quotients).
        self.quotients: dict[Var, list[PrimExpr]] = {}
        # The variable of the innermost loop, and whether an access along it is strided.
        self.inner: Var | None = None
        self.strided = False
        # The bounds of variables, which determine whether a division may be unsigned.
        self.ranges = Ranges(trust_indices=True)
        # For each pointer: its guaranteed alignment in bytes, and whether it has no aliases.
        self.alignment: dict[Var, int] = {}
        self.private: set[Var] = set()
        # Additions and multiplications of a reduction that may be contracted and reassociated.
        self.relaxed: set[int] = set()
        # The current parallel region (llvm_parallel.Region), and the value of a pragma for the next one.
        self.parallel: Any = None
        self.strided_next = False
        # The number of tasks of the next parallel loop; 0 lets the runtime choose.
        self.tasks_next = "0"
        self.counts: str | None = None
        # Workspace to free on an early return: pointer variable -> arguments of the call that frees it.
        self.held: dict[Var, list[tuple[str, str]]] = {}
        self.result = "i32"
        self.result_place: tuple[str, str] | None = None
        # The helper for threads and their memory in kernels (llvm_device.KernelBuilder).
        self.device: Any = None
        # The tile registers of fragment buffers (llvm.tiles.Registers).
        self.tiles: dict[Any, Any] = {}
        # The tile configuration that the function has set, and whether the system permits tile registers.
        self.tile_sizes: str | None = None
        self.has_bfloat_products = False
        # Emits broadcasts of memory elements as operands of FMA instructions (`memory_operands`).
        self.memory_operands: Any = None
        # The metadata of streaming stores.
        self.store_hint, self.fence = "", ""
        self.tile_status = "0"

    def fresh(self, hint: str = "v") -> str:
        self.count += 1
        return f"%{hint}{self.count}"

    def label(self, hint: str) -> str:
        self.count += 1
        return f"{hint}{self.count}"

    def op(self, text: str) -> str:
        """Return the value of a pure instruction, which is emitted unless its value is already available."""
        got = self.numbered.get(text)
        if got is None:
            self.count += 1
            got = f"%v{self.count}"
            self.out.append(f"  {got} = {text}")
            self.note(text, got)
        return got

    def note(self, text: str, operand: str) -> None:
        """Record the value of an instruction text."""
        self.numbered[text] = operand
        self._number_log.append(text)

    def effect(self, text: str) -> str:
        """Emit an instruction with side effects and return its value."""
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
        """Begin a copy of an unrolled body: nodes get new values, instructions stay available."""
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
        """Begin a block; the contents of memory are unknown there."""
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
        """End the function; the rest of the block is unreachable."""
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
    """Return a name that LLVM accepts without quotes and that does not end in a digit, because a counter may follow."""
    return _UNSAFE.sub("_", name) or "v"
