"""Dynamic shapes in the virtual machine: shape functions of kernels, and registers for their outputs."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from ....ir.module import IRModule
from ....ir.prim import Any_, IntImm, PrimExpr
from ....ir.prim import Var as PrimVar
from ....ir.structural import structural_key
from ....ir.subst import substitute, variables
from ....ir.tensor_type import TensorType
from ....ir.type import Type
from ....runtime.vm_code import dtype_word
from ....target import Target
from ....topi.utils import simplify
from ...symbolic import Symbolic, has_dynamic_dims, primitive_form
from ..program import Kind, Node, Program, Ref
from ..shape_func import NOTHING, SHAPE, ShapeFunction, entry_function, shape_function
from ..te_compiler import Settings
from .assembler import Assembler

# The alignment of shape vectors in bytes, which equals the tensor alignment of kernels.
VECTOR = 64


class ShapeKernel(NamedTuple):
    """A shape function as a kernel of the library."""

    function: ShapeFunction
    key: str
    target: Target
    settings: Settings

    @property
    def name(self) -> str:
        return self.function.name

    @property
    def module(self) -> IRModule:
        """The lowered function, computed on access."""
        with self.settings.in_force(), self.target:
            return self.function.module


class Entry(NamedTuple):
    """The shape function that runs before a region, and the keys of the shapes that it computes."""

    function: ShapeFunction
    shapes: list[tuple[str, ...]]


class ShapeFunctions:
    """The shape functions of an executable; kernels that are equal except for names share one."""

    def __init__(self, host: Target, prefix: str):
        self.host, self.prefix = host, prefix
        self.settings = Settings.current()
        self.made: dict[str, ShapeFunction] = {}
        self.called: set[str] = set()

    def of(self, node: Node) -> ShapeFunction:
        assert node.function is not None
        # A node's kernel may be shared with other functions, so its function is used.
        form = primitive_form(node.function).function if node.kernel is None else node.kernel.function
        key = structural_key(form) if node.kernel is None else node.kernel.key
        if key not in self.made:
            with self.host:
                self.made[key] = shape_function(form, f"{self.prefix}_shape_func_{len(self.made)}")
        return self.made[key]

    def entry(self, symbolic: Symbolic, program: Program) -> Entry:
        """Return the shape function that checks the shapes of a region's inputs and computes all shapes that depend on
        them."""
        given = {_key(node.types[0]) for node in program.nodes if node.kind is Kind.INPUT}
        sizes = {v for p in symbolic.function.params for d in p.checked_type_.shape for v in variables(d)}
        found: dict[tuple[str, ...], list[PrimExpr]] = {}
        for _, t in program.entries():
            key = _key(t)
            if key is not None and key not in given and has_dynamic_dims(t):
                if all(v in sizes for d in t.shape for v in variables(d)):
                    found[key] = list(t.shape)
        # The key contains all inputs of the shape function; operators and weights of the region do not influence it.
        types = [str(p.checked_type_) for p in symbolic.function.params]
        conditions = [(str(a.condition), a.what, a.is_message) for a in symbolic.assumptions]
        key = f"entry {types} {conditions} {sorted(symbolic.reasons.items())} {list(found)}"
        if key not in self.made:
            name = f"{self.prefix}_shape_func_{len(self.made)}"
            with self.host:
                self.made[key] = entry_function(symbolic, list(found.values()), name)
        return Entry(self.made[key], list(found))

    def kernels(self) -> list[ShapeKernel]:
        """Return the shape functions that are called, as kernels of the library."""
        called = [(key, f) for key, f in self.made.items() if f.name in self.called]
        return [ShapeKernel(f, f"shape {key}", self.host, self.settings) for key, f in called]


class Shapes:
    """The shapes of a program's values as vectors on the host.

    Shapes that depend only on the inputs of the program are computed before its first kernel, and only once if they are
    equal in all steps of a loop. ``fixed`` are the registers of tensors whose shape is equal in all steps.
    """

    def __init__(
        self, out: Assembler, program: Program, functions: ShapeFunctions, registers: dict[Ref, int], fixed: set[int]
    ):
        self.out = out
        self.program = program
        self.functions = functions
        # The registers of the program's values.
        self.registers = registers
        self.fixed = fixed
        self.of_value: dict[Ref, int] = {}
        # The register of a shape, or an input of the program that has this shape.
        self.known: dict[tuple[str, ...], int | Ref] = {}
        # The conditions on dimensions that are checked before the first kernel, as text.
        self.holds: set[str] = set()
        # Registers that are released after the program.
        self.held: list[int] = []

    def enter(self, entry: Entry) -> None:
        """Emit the check of the program inputs; afterwards each input has the shape of its type."""
        self.holds = {str(simplify(condition)) for condition in entry.function.assumes}
        if entry.function.checks or entry.shapes:
            inputs = [(n, 0) for n in range(len(entry.function.inputs))]
            looked_at = {self.registers[ref] for ref, mode in zip(inputs, entry.function.inputs) if mode == SHAPE}
            with self.out.once(looked_at <= self.fixed):
                outs = self._invoke(entry.function, inputs)
            self.known.update(zip(entry.shapes, outs))

    def given(self, ref: Ref, t: TensorType) -> None:
        """Record the shape of a program input, so that values of the same shape reuse it."""
        key = _key(t)
        if has_dynamic_dims(t) and key is not None:
            self.known.setdefault(key, ref)

    def results(self, node: Node) -> list[int]:
        """Return the registers of the output shapes of a node; -1 for a static shape. The assumptions of its operators
        are checked first."""
        function = self.functions.of(node)
        keys = [_key(t) for t in node.types]
        unknown = [has_dynamic_dims(t) for t in node.types]
        # Types describe the complete shape unless a dimension is data-dependent.
        decided = any(_key(self.program.nodes[n].types[i]) is None for n, i in node.inputs)
        looks = function.checks and decided or not self._is_checked(function, node)
        if not looks and all(key in self.known for key, u in zip(keys, unknown) if u):
            return [self._known(key) if u else -1 for key, u in zip(keys, unknown)]
        outs = self._invoke(function, node.inputs)
        for key, out, u in zip(keys, outs, unknown):
            if key is not None and u:
                self.known.setdefault(key, out)
        return [out if u else -1 for out, u in zip(outs, unknown)]

    def _is_checked(self, function: ShapeFunction, node: Node) -> bool:
        """Return whether all assumptions of a kernel on dimensions have been checked.

        The kernel has its own size variables; the types of the node's inputs relate them to the dimensions of the
        program.
        """
        sizes: dict[PrimVar, PrimExpr] = {}
        for (number, i), t in zip(node.inputs, function.types):
            given = self.program.nodes[number].types[i]
            sizes.update((own, d) for own, d in zip(t.shape, given.shape) if isinstance(own, PrimVar))
        for condition in function.assumes:
            here = simplify(substitute(condition, sizes))
            proven = isinstance(here, IntImm) and bool(here.value)
            if not proven and (any(v not in sizes for v in variables(condition)) or str(here) not in self.holds):
                return False
        return True

    def _invoke(self, function: ShapeFunction, inputs: list[Ref]) -> list[int]:
        arguments: list[int] = []
        copies: list[int] = []
        for ref, mode in zip(inputs, function.inputs, strict=True):
            if mode == SHAPE:
                arguments.append(self._shape_of(ref))
            elif mode != NOTHING:
                arguments.append(self._on_host(ref, copies))
        outs = self._vectors(function.ranks)
        self.functions.called.add(function.name)
        self.out.write("invoke_packed", self.out.tables.kernel(function.name), len(outs), [*arguments, *outs])
        for register in copies:
            self.out.release(register)
        return outs

    def _known(self, key: tuple[str, ...] | None) -> int:
        found = self.known[key]
        return found if isinstance(found, int) else self._shape_of(found)

    def _shape_of(self, ref: Ref) -> int:
        if ref not in self.of_value:
            with self.out.once(self.registers[ref] in self.fixed):
                register = self.of_value[ref] = self._new()
                self.out.write("shape_of", register, self.registers[ref])
        return self.of_value[ref]

    def _on_host(self, ref: Ref, copies: list[int]) -> int:
        """Return the register of a value that determines a shape, copied to the host if necessary."""
        device = self.out.tables.devices[self.program.nodes[ref[0]].device]
        if not device:
            return self.registers[ref]
        copies.append(self.out.register())
        self.out.write("device_copy", copies[-1], self.registers[ref], device, 0)
        return copies[-1]

    def _new(self) -> int:
        self.held.append(self.out.register())
        return self.held[-1]

    def _vectors(self, ranks: tuple[int, ...]) -> list[int]:
        """Return registers for the outputs of a shape function, allocated in one storage."""
        *starts, nbytes = accumulate((max(-(-8 * rank // VECTOR), 1) * VECTOR for rank in ranks), initial=0)
        if not ranks:
            return []
        size, block = self.out.load(nbytes), self._new()
        self.out.write("alloc_storage", block, size, VECTOR, dtype_word("uint8"), 0)
        self.out.release(size)
        registers = [self._new() for _ in ranks]
        for register, start, rank in zip(registers, starts, ranks):
            self.out.write("alloc_tensor", register, block, start, dtype_word("int64"), (rank,))
        return registers

    def finish(self) -> None:
        """Free the registers of the shapes."""
        for register in self.held:
            self.out.release(register)


def type_words(types: list[Type]) -> list[tuple[int, ...]]:
    """Return the parameter types in the encoding of executables.

    A tensor is encoded as its data type and its dimensions. A dynamic dimension is -1, or a negative number for all
    occurrences of one variable.
    """
    numbers: dict[PrimExpr, int] = {}

    def size(d: PrimExpr) -> int:
        if isinstance(d, IntImm):
            return d.value
        return numbers.setdefault(d, -2 - len(numbers)) if isinstance(d, PrimVar) else -1

    return [(dtype_word(t.dtype), *map(size, t.shape)) if isinstance(t, TensorType) else () for t in types]


def _key(t: TensorType) -> tuple[str, ...] | None:
    """Return a key that identifies a shape; None if a dimension is data-dependent. The variables of a program have
    unique names."""
    if any(isinstance(d, Any_) for d in t.shape):
        return None
    return tuple(map(_text, t.shape))


def _text(d: PrimExpr) -> str:
    return str(d.value) if isinstance(d, IntImm) else d.name if isinstance(d, PrimVar) else str(d)


__all__ = ["Entry", "ShapeFunctions", "ShapeKernel", "Shapes", "type_words"]
