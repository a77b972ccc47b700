"""Regions: sequences of operators that are compiled together as a separate model, and their kernels as VM instructions
over planned storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....ir.module import IRModule
from ....ir.tensor_type import TensorType
from ....ir.visit import post_order
from ....runtime.devices import Device
from ....runtime.vm_code import dtype_word
from ....target import Target
from ...expr import Function, RelayExpr, Tuple, Var
from ...infer import infer_module
from ...symbolic import has_dynamic_dims, is_symbolic, primitive_form
from ...transform.plan_devices import is_placed, plan_function
from ..compile_program import default_device, kernel_compilers, over_devices, target_of
from ..from_relay import ALIGNMENT, ProgramBuilder
from ..memory_plan import Plan, plan_program
from ..program import Kind, Node, Program, Ref
from ..te_compiler import KernelCompiler
from .assembler import Assembler
from .sizes import Entry, ShapeFunctions, Shapes

# The alignment in bytes that device drivers require of tensors inside a storage.
DEVICE_ALIGNMENT = 512
# Outputs up to this size in bytes share storage; they are loop counters and conditions.
NUMBER = 16


class RegionCompiler:
    """Compiles regions to programs with the passes, fusion and memory planning of the graph executor.

    Dynamic dimensions become variables of the region. Inputs and outputs of a region are on the default device;
    ``on_device`` annotations inside it determine where operators run.
    """

    def __init__(
        self, targets: list[Target], host: Target, prefix: str, to_kernels: Callable[[IRModule, Target], IRModule]
    ):
        self.default = default_device(targets)
        self.compilers = kernel_compilers(targets, prefix)
        self.compiler: KernelCompiler = target_of(self.default, self.compilers)
        self.target = self.compiler.target
        self.shapes = ShapeFunctions(host, prefix)
        self.to_kernels = to_kernels

    def program(self, params: list[Var], outputs: list[RelayExpr]) -> tuple[Program, Entry | None]:
        """Return the planned program of expressions over variables, and its entry shape function if there are dynamic
        shapes."""
        body = outputs[0] if len(outputs) == 1 else Tuple(outputs)
        region = Function(params, body)
        symbolic = primitive_form(region) if is_symbolic(region) else None
        region = region if symbolic is None else symbolic.function
        builder = ProgramBuilder(any_size=True)
        if is_placed(region):
            self._over_devices(builder, infer_module(IRModule.from_expr(region))["main"])
        else:
            main = self.to_kernels(IRModule.from_expr(region), self.target)["main"]
            with self.target:
                inputs = [builder.input(p, self.default) for p in main.params]
                builder.program.outputs = builder.function(main, inputs, self.compiler)
        builder.program.plan = plan_program(builder.program)
        return builder.program, None if symbolic is None else self.shapes.entry(symbolic, builder.program)

    def _over_devices(self, builder: ProgramBuilder, region: Function) -> None:
        planned = plan_function(region, self.default)
        for kind in planned.used():
            target_of(kind, self.compilers)

        def on(ref: Ref, kind: int) -> Ref:
            return ref if builder.program.nodes[ref[0]].device == kind else builder.copy(ref, kind)

        params = planned.function.params
        given = [builder.input(p, self.default) for p in params]
        inputs = [on(ref, planned.devices[id(p)]) for p, ref in zip(params, given)]
        results = over_devices(builder, planned, inputs, self.compilers, self.to_kernels)
        builder.program.outputs = [on(ref, self.default) for ref in results]

    def kernels(self) -> list[Any]:
        """Return the kernels of the library, including shape functions."""
        made = [k for compiler in self.compilers.values() for k in compiler.kernels.values()]
        return [*made, *self.shapes.kernels()]


class ProgramWriter:
    """Emits a program into a function.

    Intermediate values share one storage, which is released after the program, and so do scalar outputs. Each other
    output, and each value with a dynamic shape, has its own storage.
    """

    def __init__(
        self, out: Assembler, program: Program, inputs: list[int], functions: ShapeFunctions,
        entry: Entry | None = None, fixed: set[int] | None = None,
    ):  # fmt: skip
        self.out = out
        self.program = program
        assert program.plan is not None
        self.plan: Plan = program.plan
        self.rows = program.first_entries()
        # The first nodes are the inputs.
        self.registers: dict[Ref, int] = {(n, 0): register for n, register in enumerate(inputs)}
        self.shapes = Shapes(out, program, functions, self.registers, fixed or set())
        self.entry = entry
        # For each storage: the register of the block that contains it, and its byte offset there.
        self.places: dict[int, tuple[int, int]] = {}
        # Registers that are released after the program.
        self.temporary: set[int] = set()
        self.ending = self._last_uses()

    def write(self) -> list[int]:
        """Emit the program and return the registers of its outputs, which are all different."""
        start = len(self.out.lines)
        self._lay_out()
        if self.entry is not None:
            self.shapes.enter(self.entry)
        for number, node in enumerate(self.program.nodes):
            self._node(number, node)
            ending = self.ending.get(number, [])
            for ref in ending:
                self._end(ref)
            if any(has_dynamic_dims(self._type(ref)) for ref in ending):
                # Its storage is released, so that the next value can reuse it.
                self.out.drop_dead()
        self.shapes.finish()
        self.out.place_once(start)
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
        """Return for each node the values of which it is the last reader; outputs of the program are excluded."""
        last = {ref: number for number, node in enumerate(self.program.nodes) for ref in node.inputs}
        ending: dict[int, list[Ref]] = {}
        for ref, number in last.items():
            if ref not in self.program.outputs:
                ending.setdefault(number, []).append(ref)
        return ending

    def _end(self, ref: Ref) -> None:
        """Free the register of a value; its storage is kept."""
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
        """Allocate one block for intermediate storages, one for scalar outputs, and one for each of the other
        outputs."""
        nodes = self.program.nodes
        refs = [(n, i) for n, node in enumerate(nodes) for i in range(len(node.types))]
        # A copy allocates its own memory.
        computed = {self._entry(ref).storage for ref in refs if not nodes[ref[0]].is_given and not self._is_copied(ref)}
        computed -= {self._entry(ref).storage for ref in refs if nodes[ref[0]].is_given or self._is_sized(ref)}
        results = {self._entry(ref).storage for ref in self.program.outputs}
        numbers = {s for s in computed & results if self.plan.sizes[s] <= NUMBER}
        for shared in (computed - results, numbers):
            for kind in sorted({self.plan.devices[s] for s in shared}):
                self._share(sorted(s for s in shared if self.plan.devices[s] == kind), kind)
        for storage in sorted(computed & results - numbers):
            self.places[storage] = (self._storage(self.plan.sizes[storage], self.plan.devices[storage]), 0)

    def _share(self, storages: list[int], kind: int) -> None:
        """Allocate storages of a device next to each other in one block."""
        offset, first, step = 0, {}, ALIGNMENT if kind == Device.kDLCPU else DEVICE_ALIGNMENT
        for storage in storages:
            first[storage] = offset
            offset += -(-self.plan.sizes[storage] // step) * step
        block = self._storage(offset, kind)
        self.places.update({s: (block, at) for s, at in first.items()})

    def _is_copied(self, ref: Ref) -> bool:
        """Return whether a value is in memory that a copy allocated."""
        node = self.program.nodes[ref[0]]
        while node.kind is Kind.VIEW:
            node = self.program.nodes[node.inputs[0][0]]
        return node.kind is Kind.COPY

    def _is_sized(self, ref: Ref) -> bool:
        """Return whether the storage of a value has a size that is computed at run time."""
        return self.program.nodes[ref[0]].kind is not Kind.VIEW and has_dynamic_dims(self._type(ref))

    def _storage(self, nbytes: int, kind: int) -> int:
        size, register = self.out.load(nbytes), self._new()
        device = self.out.tables.devices[kind]
        self.out.write("alloc_storage", register, size, ALIGNMENT, dtype_word("uint8"), device)
        self.out.release(size)
        return register

    def _node(self, number: int, node: Node) -> None:
        if node.kind is Kind.INPUT:
            self.shapes.given((number, 0), node.types[0])
        elif node.kind is Kind.CONSTANT:
            data = self.program.constants[node.name]
            register = self.out.load_constant(self.out.tables.constant(data, self.out.tables.devices[node.device]))
            self.temporary.add(register)
            self.registers[number, 0] = register
        elif node.kind is Kind.COPY:
            self._copy(number, node)
        elif node.kind is Kind.VIEW and self._is_reshaped(number, node):
            self._view(number, node)
        else:
            self._computed(number, node)

    def _is_reshaped(self, number: int, node: Node) -> bool:
        """Return whether a view is created from its input tensor, because it has no planned storage."""
        planned = node.function is None and self._entry((number, 0)).storage in self.places
        return not planned or self._is_copied((number, 0))

    def _copy(self, number: int, node: Node) -> None:
        (source,), devices = node.inputs, self.out.tables.devices
        register = self.registers[number, 0] = self._new()
        start = devices[self.program.nodes[source[0]].device]
        self.out.write("device_copy", register, self.registers[source], start, devices[node.device])

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
                self._sized(register, t, shape, self.out.tables.devices[node.device])
        if node.kernel is not None:
            outs = [self.registers[number, i] for i in range(len(node.types))]
            arguments = [*(self.registers[ref] for ref in node.inputs), *outs]
            self.out.write("invoke_packed", self.out.tables.kernel(node.kernel.name), len(outs), arguments)

    def _sized(self, register: int, t: TensorType, shape: int, device: int) -> None:
        """Allocate a tensor with its own storage, which is released with it."""
        storage, dtype = self.out.register(), dtype_word(t.dtype)
        self.out.write("alloc_storage", storage, shape, ALIGNMENT, dtype, device)
        self.out.write("alloc_tensor_reg", register, storage, 0, shape, dtype)
        self.out.release(storage)


def dims(t: TensorType) -> tuple[int, ...]:
    return tuple(int(d) for d in t.shape)


class Region:
    """Operators that are compiled together; ``params`` maps registers to the variables that represent values from
    outside."""

    def __init__(self) -> None:
        self.params: dict[int, Var] = {}

    def param(self, register: int, t: TensorType) -> Var:
        if register not in self.params:
            self.params[register] = Var(f"p{len(self.params)}", t)
        return self.params[register]

    def read(self, outputs: list[RelayExpr]) -> tuple[list[int], list[Var]]:
        """Return the registers and variables that the outputs depend on."""
        seen = {id(e) for e in post_order(Tuple(outputs)) if isinstance(e, Var)}
        pairs = [(register, var) for register, var in self.params.items() if id(var) in seen]
        return [register for register, _ in pairs], [var for _, var in pairs]


__all__ = ["ProgramWriter", "Region", "RegionCompiler"]
