"""Straight pieces of a function: operators that are compiled together, as a model of their own, and their kernels as
instructions over planned storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.module import IRModule
from ....ir.tensor_type import TensorType
from ....ir.visit import post_order
from ....runtime.vm_code import dtype_word
from ....target import Target
from ...expr import Function, RelayExpr, Tuple, Var
from ...symbolic import has_unknown_sizes, is_symbolic, primitive_form
from ..from_relay import ALIGNMENT, ProgramBuilder
from ..memory_plan import Plan, plan_program
from ..program import Kind, Node, Program, Ref
from ..te_compiler import KernelCompiler
from .assembler import Assembler
from .sizes import Entry, ShapeFunctions, Shapes


class RegionCompiler:
    """Straight functions as programs: they go through the same passes, fusion and memory planning as a model for the
    graph executor. Sizes that are unknown are variables of the region's own."""

    def __init__(self, target: Target, host: Target, prefix: str, to_kernels: Callable[[IRModule, Target], IRModule]):
        self.target = target
        self.compiler = KernelCompiler(target, prefix)
        self.shapes = ShapeFunctions(host, prefix)
        self.to_kernels = to_kernels

    def program(self, params: list[Var], outputs: list[RelayExpr]) -> tuple[Program, Entry | None]:
        """The planned program of expressions over variables, and what runs before it where sizes are unknown."""
        body = outputs[0] if len(outputs) == 1 else Tuple(outputs)
        region = Function(params, body)
        symbolic = primitive_form(region) if is_symbolic(region) else None
        region = region if symbolic is None else symbolic.function
        main = self.to_kernels(IRModule.from_expr(region), self.target)["main"]
        builder = ProgramBuilder(any_size=True)
        with self.target:
            inputs = [builder.input(p, self.target.get_target_device_type()) for p in main.params]
            builder.program.outputs = builder.function(main, inputs, self.compiler)
        builder.program.plan = plan_program(builder.program)
        return builder.program, None if symbolic is None else self.shapes.entry(symbolic, builder.program)

    def kernels(self) -> list[Any]:
        """What the library is made of."""
        return [*self.compiler.kernels.values(), *self.shapes.kernels()]


class ProgramWriter:
    """Writes a program into a function. Values between its kernels share one storage, which ends with the program; each
    result has its own, and so has each value whose size is known only when running."""

    def __init__(
        self, out: Assembler, program: Program, inputs: list[int], functions: ShapeFunctions,
        entry: Entry | None = None,
    ):  # fmt: skip
        self.out = out
        self.program = program
        assert program.plan is not None
        self.plan: Plan = program.plan
        self.rows = program.first_entries()
        # Inputs are the first nodes.
        self.registers: dict[Ref, int] = {(n, 0): register for n, register in enumerate(inputs)}
        self.shapes = Shapes(out, program, functions, self.registers)
        self.entry = entry
        # Of each storage: the register that holds it, and its first byte there.
        self.places: dict[int, tuple[int, int]] = {}
        # Registers that end with the program.
        self.temporary: set[int] = set()
        self.ending = self._last_uses()

    def write(self) -> list[int]:
        """The registers of the results, each of them a register of its own."""
        self._lay_out()
        if self.entry is not None:
            self.shapes.enter(self.entry)
        for number, node in enumerate(self.program.nodes):
            self._node(number, node)
            ending = self.ending.get(number, [])
            for ref in ending:
                self._end(ref)
            if any(has_unknown_sizes(self._type(ref)) for ref in ending):
                # Its storage is there for the next one.
                self.out.drop_dead()
        self.shapes.finish()
        results: list[int] = []
        for ref in self.program.outputs:
            register = self.registers[ref]
            if register not in self.temporary or register in results:
                copy = self._new()
                self.out.write("move", copy, register)
                register = copy
            results.append(register)
        for register in sorted(self.temporary - set(results)):
            self.out.release(register)
        return results

    def _last_uses(self) -> dict[int, list[Ref]]:
        """The values that each node is the last to read; results are read by others, too."""
        last = {ref: number for number, node in enumerate(self.program.nodes) for ref in node.inputs}
        ending: dict[int, list[Ref]] = {}
        for ref, number in last.items():
            if ref not in self.program.outputs:
                ending.setdefault(number, []).append(ref)
        return ending

    def _end(self, ref: Ref) -> None:
        """The register of a value is free; the storage stays."""
        register = self.registers[ref]
        if register in self.temporary:
            self.temporary.remove(register)
            self.out.release(register)

    def _new(self) -> int:
        register = self.out.register()
        self.temporary.add(register)
        return register

    def _type(self, ref: Ref) -> TensorType:
        return self.program.nodes[ref[0]].types[ref[1]]

    def _entry(self, ref: Ref):
        return self.plan.entries[self.rows[ref[0]] + ref[1]]

    def _lay_out(self) -> None:
        """One block for the storages that end with the program, and one for each of the others."""
        nodes = self.program.nodes
        refs = [(n, i) for n, node in enumerate(nodes) for i in range(len(node.types))]
        computed = {self._entry(ref).storage for ref in refs if not nodes[ref[0]].is_given}
        computed -= {self._entry(ref).storage for ref in refs if nodes[ref[0]].is_given or self._is_sized(ref)}
        results = {self._entry(ref).storage for ref in self.program.outputs}
        offset = 0
        inside = [s for s in sorted(computed) if s not in results]
        for storage in inside:
            self.places[storage] = (-1, offset)
            offset += -(-self.plan.sizes[storage] // ALIGNMENT) * ALIGNMENT
        if inside:
            block = self._storage(offset)
            self.places.update({s: (block, self.places[s][1]) for s in inside})
        for storage in sorted(computed & results):
            self.places[storage] = (self._storage(self.plan.sizes[storage]), 0)

    def _is_sized(self, ref: Ref) -> bool:
        """Whether a value has storage that is as large as its shape says when running."""
        return self.program.nodes[ref[0]].kind is not Kind.VIEW and has_unknown_sizes(self._type(ref))

    def _storage(self, nbytes: int) -> int:
        size, register = self.out.register(), self._new()
        self.out.write("load_consti", size, nbytes)
        self.out.write("alloc_storage", register, size, ALIGNMENT, dtype_word("uint8"), self.out.tables.device)
        self.out.release(size)
        return register

    def _node(self, number: int, node: Node) -> None:
        if node.kind is Kind.INPUT:
            self.shapes.given((number, 0), node.types[0])
        elif node.kind is Kind.CONSTANT:
            data = self.program.constants[node.name]
            register = self.out.load_constant(self.out.tables.constant(data))
            self.temporary.add(register)
            self.registers[number, 0] = register
        elif node.kind is Kind.VIEW and (node.function or self._entry((number, 0)).storage not in self.places):
            self._view(number, node)
        else:
            self._computed(number, node)

    def _shapes(self, node: Node) -> list[int]:
        return [-1] * len(node.types) if node.function is None else self.shapes.results(node)

    def _view(self, number: int, node: Node) -> None:
        (shape,) = self._shapes(node)
        known = shape < 0
        if known:
            shape = self.out.load_constant(self.out.tables.shape(dims(node.types[0])))
        register = self.registers[number, 0] = self._new()
        self.out.write("reshape_tensor", register, self.registers[node.inputs[0]], shape)
        if known:
            self.out.release(shape)

    def _computed(self, number: int, node: Node) -> None:
        for i, (t, shape) in enumerate(zip(node.types, self._shapes(node))):
            register = self.registers[number, i] = self._new()
            if shape < 0:
                entry = self._entry((number, i))
                block, first = self.places[entry.storage]
                self.out.write("alloc_tensor", register, block, first + entry.offset, dtype_word(t.dtype), dims(t))
            else:
                self._sized(register, t, shape)
        if node.kernel is not None:
            outs = [self.registers[number, i] for i in range(len(node.types))]
            arguments = [*(self.registers[ref] for ref in node.inputs), *outs]
            self.out.write("invoke_packed", self.out.tables.kernel(node.kernel.name), len(outs), arguments)

    def _sized(self, register: int, t: TensorType, shape: int) -> None:
        """A tensor in storage of its own, which ends with it."""
        storage, dtype = self.out.register(), dtype_word(t.dtype)
        self.out.write("alloc_storage", storage, shape, ALIGNMENT, dtype, self.out.tables.device)
        self.out.write("alloc_tensor_reg", register, storage, 0, shape, dtype)
        self.out.release(storage)


def dims(t: TensorType) -> tuple[int, ...]:
    return tuple(int(d) for d in t.shape)


class Region:
    """Operators that wait to be compiled together: the variables that stand for values from outside, by the register
    they lie in."""

    def __init__(self) -> None:
        self.params: dict[int, Var] = {}

    def param(self, register: int, t: TensorType) -> Var:
        if register not in self.params:
            self.params[register] = var = Var(f"p{len(self.params)}", t)
            var.checked_type_ = t
        return self.params[register]

    def read(self, outputs: list[RelayExpr]) -> tuple[list[int], list[Var]]:
        """The registers and variables that the outputs are computed from."""
        seen = {id(e) for e in post_order(Tuple(outputs)) if isinstance(e, Var)}
        pairs = [(register, var) for register, var in self.params.items() if id(var) in seen]
        return [register for register, _ in pairs], [var for _, var in pairs]


__all__ = ["ProgramWriter", "Region", "RegionCompiler"]
